// A saved page answers from what it holds, as the server would.
import { Problem } from "./server.js";
import { Shape, unpackDepths } from "./shape.js";

const fold = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{Mn}/gu, "").split(/[^\p{L}\p{N}]+/u).filter(Boolean);

// Letters to insert, delete or replace to make b of a; more than `limit` is told as limit + 1.
function typingErrors(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] !== b[j - 1])));
      least = Math.min(least, next[j]);
    }
    if (least > limit) return limit + 1;
    row = next;
  }
  return Math.min(row[b.length], limit + 1);
}

// The columns that name a node, as the server's index reads them.
const NAMING = ["lemmas", "synonyms", "synonym", "common_name"];

// The shape is there for what the server would compute.
export class FileApi {
  constructor(summary, data) {
    this.kind = "file";
    this.summary = summary;
    this.data = data;
    this.labels = data.labels || data.names;
    const raw = Uint8Array.from(atob(data.shape), (c) => c.charCodeAt(0));
    this.shape = new Shape(unpackDepths(raw.buffer, summary.bytes_per_depth));
    this.leaves = new Int32Array(this.shape.n + 1);
    for (let i = 0; i < this.shape.n; i++) this.leaves[i + 1] = this.leaves[i] + (this.shape.size[i] === 1 ? 1 : 0);
  }

  async bytes(path, params) {
    if (path === "shape") return this.shape.depth.slice().buffer;
    const layer = this.layer(params.name);
    if (path === "layer.bin" && (params.as || "color") === "color") return Uint8Array.from(atob(layer.bytes), (c) => c.charCodeAt(0)).buffer;
    return Float32Array.from(this.data.columns[params.name] || [], (v) => (v > 0 ? v : 0)).buffer;
  }

  layer(name) {
    const found = this.data.layers[name];
    if (!found) throw new Problem(`this file has no layer ${name}.`);
    return found;
  }

  async json(path, params) {
    switch (path) {
      case "tree": return this.summary;
      case "labels": return params.ids.split(",").flatMap((part) => {
        const [a, b] = part.split("-").map(Number);
        return this.data.names.slice(a, (b ?? a) + 1);
      });
      case "node": return this.node(this.resolve(params.id));
      case "children": return this.page(this.resolve(params.id), params);
      case "search": return this.search(params.q || "");
      case "lca": return this.lca(this.resolve(params.a), this.resolve(params.b));
      case "layer": return this.layer(params.name).legend;
      default: throw new Problem("a saved page cannot answer this; start `vpunn explore`.");
    }
  }
  async post() { throw new Problem("a saved page has no model; start `vpunn explore`."); }

  resolve(text) {
    const id = /^@(\d+)$/.exec(text);
    const i = id ? Number(id[1]) : this.labels.indexOf(text);
    if (i < 0 || i >= this.shape.n) throw new Problem(`no node of this page is labelled ${text}.`);
    return i;
  }

  brief(i) {
    const s = this.shape, label = this.labels[i];
    const alone = !label.startsWith("@") && this.labels.indexOf(label) === i && this.labels.lastIndexOf(label) === i;
    return { id: i, ref: alone ? label : `@${i}`, label, name: this.data.names[i], also: this.data.also?.[i] ?? "", depth: s.depth[i], size: s.size[i], leaves: this.leaves[i + s.size[i]] - this.leaves[i] };
  }

  digits(i) { return this.shape.path(i).slice(1).map((j) => this.shape.digit(j)); }

  node(i) {
    const s = this.shape, p = BigInt(this.summary.p), digits = this.digits(i), chain = s.path(i);
    const code = digits.reduceRight((x, a) => x * p + BigInt(a), 0n);
    const power = (k) => (k === 0 ? "" : k === 1 ? `*${p}` : `*${p}^${k}`);
    const parentNode = s.parent[i], before = i ? s.sibling(i, -1) : -1, after = i ? s.sibling(i, 1) : -1;
    const columns = {};
    for (const [name, values] of Object.entries(this.data.columns)) columns[name] = values[i];
    return {
      ...this.brief(i), digit: s.digit(i), children: s.children(i).length, skipped: 0, path: chain.map((j) => this.brief(j)),
      siblings: { count: parentNode < 0 ? 0 : s.children(parentNode).length, previous: before < 0 ? null : this.brief(before), next: after < 0 ? null : this.brief(after) },
      codes: {
        int: String(code), digits: `[${digits.join(", ")}]`, bars: "…" + (digits.slice().reverse().join("|") || "0"),
        series: digits.map((a, k) => a + power(k)).join(" + ") || "0", path: chain.map((j) => this.labels[j]).join("/"),
      },
      radius: i ? `${p}^-${s.depth[i]}` : "1", columns, layer: null,
    };
  }

  page(i, params) {
    let ids = this.shape.children(i);
    if (params.sort === "size") ids.sort((a, b) => this.shape.size[b] - this.shape.size[a]);
    if (params.sort === "name") ids = ids.sort((a, b) => (this.data.names[a].toLowerCase() < this.data.names[b].toLowerCase() ? -1 : 1));
    const start = Number(params.start || 0);
    return { total: ids.length, start, children: ids.slice(start, start + Number(params.count || 50)).map((j) => this.brief(j)) };
  }

  // Digits, integer, bars or path of labels, as the node panel prints them.
  byCode(text) {
    const p = BigInt(this.summary.p), s = this.shape;
    let digits = null;
    if (/^\[\s*(\d+\s*(,\s*\d+\s*)*)?\]$/.test(text)) digits = text.match(/\d+/g) || [];
    else if (/^…?\d+(\|\d+)+$/.test(text)) digits = text.match(/\d+/g).reverse();
    else if (/^\d{1,2000}$/.test(text)) for (digits = []; BigInt(text) > 0n; text = String(BigInt(text) / p)) digits.push(BigInt(text) % p);
    let i = 0;
    if (digits) for (const digit of digits) i = (i < 0 ? undefined : s.children(i)[Number(digit) - 1]) ?? -1;
    else {
      const [top, ...rest] = text.split("/");
      i = rest.length && top === this.labels[0] ? 0 : -1;
      for (const label of rest) i = (i < 0 ? undefined : s.children(i).find((j) => this.labels[j] === label)) ?? -1;
    }
    return i;
  }

  // The words of every node's names, and how many nodes have each word.
  get words() {
    if (this.folded) return this.folded;
    const more = NAMING.map((name) => this.data.columns[name]).filter(Boolean);
    this.uses = new Map();
    this.folded = this.data.names.map((name, i) => {
      const words = fold([name, this.data.also?.[i] ?? "", this.labels[i] === name ? "" : this.labels[i], ...more.map((column) => column[i])].join(" "));
      for (const word of new Set(words)) this.uses.set(word, (this.uses.get(word) || 0) + 1);
      return words;
    });
    return this.folded;
  }

  search(text) {
    const asked = fold(text), code = this.byCode(text.trim());
    if (!asked.length && code < 0) return { query: text, results: [], did_you_mean: [] };
    const results = this.find(asked, text).filter((i) => i !== code).slice(0, 30).map((i) => this.found(i, "name"));
    if (code >= 0) results.unshift(this.found(code, "code"));
    return { query: text, results, did_you_mean: results.length ? [] : this.suggest(asked) };
  }

  found(i, by) { return { ...this.brief(i), by, above: this.shape.path(i).slice(-4, -1).map((j) => this.data.names[j]) }; }

  find(asked, text) {
    const found = [];
    if (asked.length) this.words.forEach((words, i) => {
      if (!asked.every((a) => words.some((w) => w.startsWith(a)))) return;
      const whole = asked.every((a) => words.includes(a)), exact = text.toLowerCase() === this.data.names[i].toLowerCase();
      found.push([exact ? 0 : whole ? 1 : 2, this.shape.depth[i], -this.shape.size[i], i]);
    });
    found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3]);
    return found.map((entry) => entry[3]);
  }

  // Unknown words replaced by known ones at most two typing errors away, nearest and most used first.
  suggest(asked) {
    const known = [...(this.words && this.uses)], sorted = (word) => [...word].sort().join("");
    const choices = asked.slice(0, 8).map((word) => {
      if (known.some(([w]) => w.startsWith(word))) return [word];
      const limit = word.length > 3 ? 2 : 1, near = [];
      if (word.length < 2 || word.length > 64) return near;
      for (const [w, uses] of known) {
        const errors = typingErrors(word, w, limit);
        if (errors <= limit) near.push([sorted(w) === sorted(word) ? 0 : errors, -uses, w]); // swapped letters come first
      }
      return near.sort((a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : 1)).slice(0, 5).map((entry) => entry[2]);
    });
    if (!choices.length || choices.some((words) => !words.length)) return [];
    const count = Math.max(...choices.map((words) => words.length));
    const texts = Array.from({ length: count }, (_, k) => choices.map((words) => words[Math.min(k, words.length - 1)]).join(" "));
    return texts.filter((text) => this.find(fold(text), text).length);
  }

  lca(a, b) {
    const common = this.shape.lca(a, b), shared = this.shape.depth[common], p = this.summary.p;
    return {
      a: this.brief(a), b: this.brief(b), lca: this.brief(common), valuation: shared, digits: [this.digits(a), this.digits(b)],
      distance: a === b ? "0" : `${p}^-${shared}`, exact: a === b ? "0" : shared ? `1/${BigInt(p) ** BigInt(shared)}` : "1",
    };
  }
}
