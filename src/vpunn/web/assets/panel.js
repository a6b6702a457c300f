// The node panel: path, code, columns, children, and the comparison with a second node.
import { $, count, fill, later, make, short } from "./dom.js";

const PAGE = 40;
const MODES = { int: "integer", digits: "digits, root first", bars: "digits, as numbers are written", series: "p-adic series", path: "labels of the path" };

// How evenly a branch is spread over its children, by how many children would have the same entropy if they were equal.
function spreadOf(entropy, children) {
  const as = 2 ** entropy;
  if (children < 2) return "one child";
  if (as < 1.5) return "mostly one child";
  return as > 0.8 * children ? `spread evenly over its ${children.toLocaleString("en")} children` : `mostly ${Math.round(as).toLocaleString("en")} of its ${children.toLocaleString("en")} children`;
}

export class Panel {
  constructor(app) {
    this.app = app;
    this.turn = 0;
    this.describeLater = later(120, (i, turn) => this.describe(i, turn));
  }

  // A link that works with every button of the mouse: it is the URL of the view it leads to.
  link(node, patch, text) {
    return make("a", { href: this.app.state.link({ focus: node.ref, ...patch }) }, text ?? node.name);
  }

  async show(i) {
    const turn = ++this.turn, { app } = this;
    let node;
    try { node = await app.api.json("node", { id: `@${i}`, layer: app.layerName || undefined, stat: app.state.now.stat }); } catch (error) { app.say(error); return null; }
    if (turn !== this.turn) return null;
    this.node = node;
    for (const step of node.path) app.labels.learn(step.id, step.name);
    this.crumbs(node);
    fill($("node"), this.head(node), this.compared(), this.facts(node), make("section", { id: "about" }), node.id ? null : this.levels(), this.children(node), this.codes(node));
    this.page(i, 0, "order", turn);
    if (app.api.kind !== "file") this.describeLater(i, turn);
    this.speak(node);
    this.compare();
    return node;
  }

  speak(node) {
    const above = node.path.at(-2), where = above ? `, child ${node.digit} of ${node.siblings.count} of ${above.name}` : "";
    $("spoken").textContent = `${node.name}, depth ${node.depth}${where}, ${count(node.children, "child")}, ${count(node.leaves, "leaf")}`;
  }

  // The path to a node that is in view without being chosen.
  async trail(i) {
    const { app } = this, ids = app.shape.path(i);
    await app.labels.need(ids);
    this.crumbs({ path: ids.map((id) => ({ id, ref: `@${id}`, name: app.labels.get(id) })), skipped: 0 });
  }

  crumbs(node) {
    const steps = node.path.map((step) => this.link(step, { root: step.ref }));
    if (node.skipped) steps.splice(10, 0, make("span", {}, `… ${node.skipped} more …`));
    fill($("crumbs"), steps.flatMap((step, k) => (k ? [make("span", { "aria-hidden": "true" }, "›"), step] : [step])));
    $("crumbs").scrollLeft = $("crumbs").scrollWidth;
  }

  head(node) {
    const { state } = this.app, { siblings } = node;
    const others = [node.also, node.label].filter((text) => text && text !== node.name), label = others.length ? make("div", { class: "label" }, others.join(" · ")) : null;
    const step = (to, sign, word) => (to ? make("a", { href: state.link({ focus: to.ref }), title: `${word}: ${to.name}`, "aria-label": `${word}: ${to.name}` }, sign) : make("span", { class: "off" }, sign));
    return make("header", {}, make("h2", {}, node.name), label,
      make("nav", { class: "acts", "aria-label": "Node" },
        make("a", { href: state.link({ focus: node.ref, root: node.ref }), class: "act" }, "Open"),
        make("a", { href: state.link({ with: node.ref }), class: "act", id: "mark" }, "Compare with…"),
        step(siblings.previous, "↑", "previous sibling"), step(siblings.next, "↓", "next sibling")));
  }

  facts(node) {
    const { shape } = this.app, below = shape.below(node.id), rows = [];
    if (node.size > 1) rows.push(["holds", `${count(node.leaves, "leaf")} on ${count(below, "level")} below, ${count(node.size, "node")} in all`]);
    if (node.siblings.count) rows.push(["stands", `${node.digit.toLocaleString("en")}. of ${count(node.siblings.count, "child")} of ${node.path.at(-2).name}, on level ${node.depth}`]);
    const told = this.app.legend?.title in node.columns && !this.app.legend.stat; // its column says it below
    if (node.layer !== null && node.layer !== undefined && !told) rows.push([`${this.app.legend?.title ?? "layer"} (${this.app.legend?.stat ?? "commonest"})`, node.layer]);
    for (const [name, value] of Object.entries(node.columns)) if (name !== "name" && value !== null && value !== "" && value !== node.name) rows.push([name.replaceAll("_", " "), value]);
    const listed = (nodes) => nodes.flatMap((other, k) => (k ? [", ", this.link(other, {})] : [this.link(other, {})]));
    const more = [["also below", node.also_below], ["also above", node.also_above]].filter(([, nodes]) => nodes?.length);
    return make("dl", {}, rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, short(value))]),
      more.flatMap(([name, nodes]) => [make("dt", {}, name), make("dd", { class: "also" }, listed(nodes))]));
  }

  // The code for those who want it: a chip a digit, each a link to the branch that it leads into.
  codes(node) {
    const { p } = this.app.summary, steps = node.path.slice(1);
    const light = (id) => () => { const { view } = this.app; view.hover = id; view.draw(); };
    const chips = steps.map((step, k) => make("a", { onpointerenter: light(step.id), onpointerleave: light(-1), onfocus: light(step.id), onblur: light(-1), class: `digit hue${k % 6}`, href: this.app.state.link({ focus: step.ref }), title: `digit ${k + 1}: into ${step.name}` }, String(this.app.shape.digit(step.id))));
    const list = Object.entries(node.codes).flatMap(([mode, text]) => [make("dt", {}, MODES[mode]), make("dd", { class: "code" }, text)]);
    const told = chips.length ? [make("p", { class: "digits" }, chips), make("p", {}, make("small", {}, "A digit a level: the how-manieth child the path turns into, counted from 1. Nodes that share their first digits share a branch: point at a digit to see it."))] : [make("p", {}, make("small", {}, "The root has no digits: no turn leads to it."))];
    return make("details", { id: "codes" }, make("summary", {}, `Code (p = ${p})`), told, make("dl", {}, list));
  }

  async describe(i, turn) {
    let said;
    try { said = await this.app.api.json("describe", { id: `@${i}` }); } catch { return; }
    const place = $("about");
    if (turn !== this.turn || !place) return;
    const words = said.speaks_for.slice(0, 10).map(([word]) => make("span", { class: "chip" }, word));
    const rows = said.rows === null ? null : make("span", {}, `${count(said.rows, "training row")}`);
    const spread = said.nodes > said.leaves ? make("span", { title: `entropy over its children ${said.entropy.toFixed(2)} bits` }, spreadOf(said.entropy, this.node.children)) : null;
    const lines = [rows, rows && spread ? ", " : null, spread].filter(Boolean);
    fill(place, lines.length ? make("p", {}, lines) : null, words.length ? make("p", { class: "chips" }, "words that speak for it: ", words) : null);
  }

  children(node) {
    if (!node.children) return make("section", {});
    const sort = make("select", { id: "sort", "aria-label": "Order of the children", onchange: () => this.page(node.id, 0, sort.value, this.turn) },
      ...["order", "name", "size"].map((how) => make("option", { value: how }, how === "order" ? "in tree order" : `by ${how}`)));
    return make("section", {}, make("h3", {}, count(node.children, "child"), " ", sort), make("ul", { id: "children" }), make("div", { id: "pages" }));
  }

  async page(i, start, sort, turn) {
    const list = $("children");
    if (!list) return;
    let found;
    try { found = await this.app.api.json("children", { id: `@${i}`, start, count: PAGE, sort }); } catch (error) { this.app.say(error); return; }
    if (turn !== this.turn) return;
    fill(list, found.children.map((child) => {
      const bar = make("i", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--p", child.leaves / Math.max(this.node.leaves, 1));
      return make("li", {}, this.link(child, {}), make("small", {}, child.size > 1 ? ` ${count(child.leaves, "leaf")}` : ""), child.size > 1 ? bar : null);
    }));
    for (const child of found.children) this.app.labels.learn(child.id, child.name);
    const button = (text, to, on) => make("button", { type: "button", disabled: !on, onclick: () => this.page(i, to, sort, turn) }, text);
    const last = Math.min(start + PAGE, found.total);
    fill($("pages"), found.total > PAGE ? [button("‹", Math.max(start - PAGE, 0), start > 0), ` ${(start + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${found.total.toLocaleString("en")} `, button("›", start + PAGE, last < found.total)] : []);
  }

  // The whole tree in a picture: how many nodes there are on each level.
  levels() {
    const { shape } = this.app, counts = Array.from({ length: Math.min(shape.maxDepth, 40) + 1 }, (_, d) => shape.start[d + 1] - shape.start[d]), most = Math.max(...counts);
    const bar = (n, d) => { const box = make("i", { title: `level ${d}: ${count(n, "node")}` }); box.style.height = `${Math.max((100 * n) / most, 2)}%`; return box; };
    return make("section", {}, make("h3", {}, "Nodes on each level"), make("div", { class: "levels", role: "img", "aria-label": `nodes on each level, at most ${most.toLocaleString("en")}` }, counts.map(bar)),
      make("div", { class: "axis" }, make("small", {}, "root"), make("small", {}, `level ${counts.length - 1}`)));
  }

  // ---- two nodes -----------------------------------------------------------------------------------------------------

  compared() { return make("section", { id: "compared", hidden: true }); }

  async compare() {
    const { app } = this, place = $("compared"), other = app.other, node = this.node;
    if (!place || !node) return;
    $("mark")?.toggleAttribute("hidden", other === node.id);
    place.hidden = other < 0;
    if (other < 0) return;
    if (other === node.id) { fill(place, make("p", {}, "Marked. Choose a second node to compare it with. "), this.unmark()); return; }
    const turn = this.turn;
    let found;
    try { found = await app.api.json("lca", { a: `@${other}`, b: `@${node.id}` }); } catch (error) { app.say(error); return; }
    if (turn !== this.turn) return;
    const row = (who, digits) => [make("dt", {}, this.link(who, {})), make("dd", { class: "digits" }, digits.map((a, k) => make("span", { class: k < found.valuation ? "same" : "own" }, String(a))))];
    fill(place, make("h3", {}, "Compared"),
      make("p", {}, "common ancestor ", this.link(found.lca, {}), `, depth ${found.valuation}`),
      make("p", { id: "distance" }, `distance ${found.distance}`, found.exact && found.exact.length < 60 ? ` = ${found.exact}` : ""),
      make("dl", {}, row(found.a, found.digits[0]), row(found.b, found.digits[1])),
      make("p", {}, `${found.valuation} shared digits, root digit first `, this.unmark()));
  }

  unmark() { return make("a", { href: this.app.state.link({ with: undefined }), class: "act" }, "stop comparing"); }
}
