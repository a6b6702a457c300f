// The explorer's page: one state (the URL), one view (the canvas), panels that show and change the state.
import { openApi } from "./api.js";
import { Ask } from "./ask.js";
import { Palette, toCss } from "./colors.js";
import { $, count, download, fill, later, make, percent, short } from "./dom.js";
import { Labels } from "./labels.js";
import { Panel } from "./panel.js";
import { asSvg } from "./picture.js";
import { SearchBox } from "./search.js";
import { Shape, unpackDepths } from "./shape.js";
import { DEFAULTS, State } from "./state.js";
import { Tables } from "./tables.js";
import { View } from "./view.js";

const LENGTH = "length"; // the column of branch lengths
const FEW = 100; // nodes of a tree that needs no small map
const GROUPS = 8; // branches that the legend names

class Explorer {
  constructor() {
    this.ready = false;
    this.other = -1;
    this.ids = new Map();
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
  }

  async start() {
    this.api = await openApi();
    this.summary = await this.api.json("tree");
    const { summary } = this;
    document.title = `${summary.title} · vpunn`;
    $("title").textContent = summary.title;
    $("counts").textContent = `${count(summary.nodes, "node")}, ${count(summary.leaves, "leaf")}, depth ${summary.depth}`;
    if (summary.note) { $("note").textContent = summary.note; $("note").hidden = false; }
    this.shape = new Shape(unpackDepths(await this.api.bytes("shape", { hash: summary.hash }), summary.bytes_per_depth));
    this.palette = new Palette(this.dark());
    this.labels = new Labels(this.api, summary.hash, () => this.view.draw());
    if (summary.color) DEFAULTS.color = summary.color; // a model of numbers opens with them
    this.state = new State((before, now) => this.follow(before, now));
    this.view = new View($("view"), $("map"), this.shape, this.labels, this.palette, this.told());
    this.panel = new Panel(this);
    this.search = new SearchBox(this);
    this.ask = new Ask(this);
    this.tables = new Tables(this);
    this.controls();
    await this.follow(null, this.state.now);
    this.ready = true;
    if (this.summary.model) this.ask.examples();
    if (this.summary.scored) this.tables.mistakes();
    document.body.dataset.ready = "yes";
  }

  get painted() { return this.view?.painted; }

  dark() { const theme = this.state?.now.theme; return theme ? theme === "dark" : this.scheme.matches; }

  say(error) {
    if (error.name === "AbortError") return;
    $("said").textContent = error.message;
    $("said").hidden = false;
    clearTimeout(this.hush);
    this.hush = setTimeout(() => { $("said").hidden = true; }, 8000);
  }

  async resolve(ref) {
    const id = /^@(\d+)$/.exec(ref);
    if (id && Number(id[1]) < this.shape.n) return Number(id[1]);
    if (!this.ids.has(ref)) this.ids.set(ref, (await this.api.json("node", { id: ref })).id);
    return this.ids.get(ref);
  }

  // ---- the URL leads -------------------------------------------------------------------------------------------------

  // A link may be older than what it names (a table uploaded before the server's restart): each part that fails is said, the rest holds.
  async follow(before, now) {
    const turn = (this.turns = (this.turns || 0) + 1), differs = (name) => !before || before[name] !== now[name];
    const attempt = async (work, instead) => { try { return await work(); } catch (error) { this.say(error); return instead?.(); } };
    try {
      if (differs("theme")) this.paintPage();
      if (differs("layout")) { await this.measure(now.layout); this.view.choose(now.layout); $("layout").value = this.view.kind; }
      if (differs("size")) await attempt(() => this.resize(now.size), () => this.resize(""));
      if (differs("color") || differs("stat")) await attempt(() => this.recolour(now.color, now.stat), () => this.recolour("", now.stat));
      this.showTab(now);
      if (differs("with")) { this.other = now.with ? await attempt(() => this.resolve(now.with), () => -1) : -1; this.view.other = this.other; if (!differs("focus")) this.panel.compare(); this.view.draw(); }
      const root = await attempt(() => this.resolve(now.root), () => this.root ?? 0);
      if (turn !== this.turns) return;
      this.root = root;
      if (!this.legend && root !== this.view.root) { this.byBranch(); this.showLegend(); }
      if (now.zoom && differs("zoom")) this.restore(now.zoom);
      else if (differs("root") || differs("layout") || (before?.zoom && !now.zoom && !differs("focus"))) this.view.goTo(this.view.layout.fit(root), { animate: !!before });
      if (differs("focus")) await attempt(() => this.refocus(now.focus, !now.zoom), () => this.refocus("", false));
      if (differs("text") || differs("stop") || (differs("risk") && now.text)) await this.ask.apply(now);
      if (!before && now.q) $("query").value = now.q;
    } catch (error) { this.say(error); }
  }

  // Lengths of branches are asked for when they are first drawn.
  async measure(layout) {
    const { dendrogram } = this.view.layouts;
    if (layout !== "dendrogram" || dendrogram.lengths || !this.summary.layers.some((layer) => layer.name === LENGTH && !layer.own)) return;
    dendrogram.setLengths(new Float32Array(await this.api.bytes("layer.bin", { name: LENGTH, as: "weight" })));
  }

  async refocus(ref, mayMove) {
    const i = ref ? await this.resolve(ref) : this.root;
    this.view.focus = ref ? i : -1;
    if (this.tables.answered) this.labels.need([i]).then(() => this.tables.list(), () => {});
    if (ref && mayMove) this.reveal(i);
    this.view.draw();
    const node = await this.panel.show(i);
    if (node && ref && node.ref !== ref && this.state.now.focus === ref) { this.ids.set(node.ref, i); this.state.set({ focus: node.ref }, { replace: true, silent: true }); }
  }

  // Bring a node into view, with what stands beside it.
  reveal(i) {
    const { view } = this;
    if (!view.layout.shows(i, view.settled)) view.goTo(view.layout.around(i), { animate: this.ready });
  }

  restore(zoom) {
    const given = zoom.split(",").map(Number), { layout } = this.view;
    if (given.length !== layout.keys.length || !given.every(Number.isFinite)) return;
    const to = Object.fromEntries(layout.keys.map((key, k) => [key, given[k]]));
    if (layout.valid(to)) this.view.goTo(to, { animate: this.ready });
  }

  // ---- the view tells ------------------------------------------------------------------------------------------------

  told() {
    const remember = later(250, () => {
      const { window: w, layout, move } = this.view;
      if (move) return;
      const fitted = layout.fit(this.root), at = layout.keys;
      const same = at.every((key) => Math.abs(w[key] - fitted[key]) < 1e-6 * (1 + Math.abs(fitted[key])));
      this.state.set({ zoom: same ? undefined : at.map((key) => +w[key].toPrecision(12)).join(",") }, { replace: true, silent: true });
    });
    return {
      moved: () => { if (!this.view.move) this.byHand = true; if (this.byHand) remember(); },
      picked: (i) => { this.byHand = false; if (i === this.view.focus) this.view.layout.toggle?.(i); else this.select(i); },
      opened: (i) => this.state.set({ root: `@${i}`, focus: `@${i}`, zoom: undefined }),
      branched: (i) => window.open(this.state.link({ focus: `@${i}` }), "_blank", "noopener"),
      hovered: (i, at) => this.tip(i, at),
    };
  }

  select(i) { this.state.set({ focus: `@${i}`, tab: this.state.now.text ? "node" : this.state.now.tab === "color" ? "color" : undefined }); }

  // What is in view was opened by an answer: path and the way up say so.
  opened(i) { this.root = i; this.panel.trail(i).catch((error) => this.say(error)); }

  tip(i, at) {
    const tip = $("tip");
    tip.hidden = i < 0;
    if (i < 0) return;
    const name = this.labels.get(i) ?? "…", p = this.view.beliefs?.map.get(i);
    const below = this.shape.below(i), deep = below ? ` on ${count(below, "level")} below` : "";
    tip.textContent = `${name} · ${count(this.shape.size[i], "node")}${deep}${p === undefined ? "" : ` · ${percent(p)}`}`;
    tip.style.left = `${Math.min(at[0] + 14, this.view.width - 180)}px`;
    tip.style.top = `${Math.min(at[1] + 14, this.view.height - 30)}px`;
  }

  // ---- colours and sizes ---------------------------------------------------------------------------------------------

  paintPage() {
    document.documentElement.dataset.theme = this.dark() ? "dark" : "light";
    if (!this.view) return;
    this.palette = this.view.palette = new Palette(this.dark());
    if (this.ready) this.recolour(this.layerName, this.state.now.stat).catch((error) => this.say(error));
    if (this.view.beliefs && this.ask.last) this.ask.show(this.ask.last, false);
  }

  async recolour(name, stat) {
    $("color").value = name || "";
    $("stat").value = stat;
    this.layerName = name || null;
    this.view.byBranch = !name;
    if (!name) { this.legend = null; this.byBranch(); } else {
      const legend = await this.api.json("layer", { name, stat });
      const bytes = new Uint8Array(await this.api.bytes("layer.bin", { name, stat }));
      if (this.layerName !== name || $("stat").value !== stat) return; // another choice was made meanwhile
      this.legend = legend;
      this.view.colour = this.palette.ofLayer(bytes, legend.kind);
    }
    $("stat").hidden = !this.legend || this.legend.kind !== "number" || !this.legend.stat;
    this.showLegend();
    this.view.changed();
  }

  // The children of the opened branch in hues of their own.
  byBranch() {
    this.view.root = this.root ?? 0;
    this.view.colour = this.palette.ofBranch(this.shape, this.view.root);
    this.view.changed();
  }

  async resize(name) {
    $("size").value = name || "";
    const weights = name ? new Float32Array(await this.api.bytes("layer.bin", { name, as: "weight" })) : null;
    if (!this.shape.setWeights(weights)) { this.say(new Error("this column has no positive values, so it gives no sizes.")); this.shape.setWeights(null); }
    if (!this.legend) this.byBranch();
    this.view.goTo(this.view.layout.fit(this.root ?? 0), { animate: false });
    this.view.changed();
  }

  showLegend() {
    const { legend, palette } = this, place = $("legend");
    const swatch = (colour) => { const box = make("i"); box.style.background = colour; return box; };
    const scale = (colours) => { const box = make("i", { class: "scale" }); box.style.background = `linear-gradient(to right, ${colours.join(",")})`; return box; };
    const some = (set, n) => Array.from({ length: n }, (_, k) => toCss(set[Math.round((k / (n - 1)) * (set.length - 1))]));
    place.hidden = false;
    if (this.view.beliefs) fill(place, make("b", {}, "probability"), [0.01, 0.1, 0.3, 0.5, 0.9].map((p) => make("span", {}, swatch(toCss(palette.ofProbability(p))), percent(p))));
    else if (legend && legend.kind === "number") fill(place, make("b", {}, [legend.stat ? null : this.summary.model?.scale, legend.title, legend.stat].filter(Boolean).join(", ")), short(legend.low), scale(some(palette.numbers, 9)), short(legend.high), legend.log ? " (log)" : "", swatch(toCss(palette.nothing)), "none");
    else if (legend) fill(place, make("b", {}, legend.title), legend.names.map((name, k) => make("span", {}, swatch(toCss(palette.categories[k])), name)));
    else this.groups(swatch).catch((error) => this.say(error));
  }

  // The legend of the hues: the largest branches below the opened one, a click away.
  async groups(swatch) {
    const { shape, palette, view } = this, { root } = view, { found, total } = shape.largest(root, GROUPS), hue = palette.ofDots(shape, root);
    await this.labels.need(found);
    if (this.legend || view.beliefs || root !== view.root) return;
    const rest = total - found.length;
    $("legend").hidden = !total;
    fill($("legend"), found.sort((a, b) => a - b).map((i) => make("a", { href: this.state.link({ root: `@${i}`, focus: `@${i}` }) }, swatch(toCss(hue(i))), this.labels.get(i))), rest ? make("small", {}, `and ${rest.toLocaleString("en")} more`) : null);
  }

  listLayers() {
    const { layers } = this.summary, option = (layer) => make("option", { value: layer.name }, layer.title);
    fill($("color"), make("option", { value: "" }, "branch"), layers.map(option));
    fill($("size"), make("option", { value: "" }, "number of leaves"), layers.filter((layer) => layer.kind === "number" && !layer.own).map(option));
  }

  async upload(file) {
    if (!file) return;
    try {
      const kind = file.name.endsWith(".tsv") ? "text/tab-separated-values" : "text/csv";
      const found = await this.api.post("table", await file.text(), kind, { name: file.name });
      this.summary.layers.push(...found.layers);
      this.listLayers();
      const lost = found.rows - found.matched;
      $("uploaded").textContent = `${found.matched.toLocaleString("en")} of ${found.rows.toLocaleString("en")} rows matched by ${found.label}${lost ? `; not found: ${found.unmatched.join(", ")}` : ""}`;
      this.state.set({ color: (found.layers[1] ?? found.layers[0]).name });
    } catch (error) { $("uploaded").textContent = error.message; }
  }

  // ---- controls ------------------------------------------------------------------------------------------------------

  controls() {
    this.listLayers();
    $("overview").hidden = this.shape.n <= FEW;
    const { state } = this, choose = (id, name) => $(id).addEventListener("change", () => state.set({ [name]: $(id).value, ...(name === "layout" || name === "size" ? { zoom: undefined } : {}) }));
    choose("layout", "layout");
    choose("color", "color");
    choose("stat", "stat");
    choose("size", "size");
    $("table").addEventListener("change", () => this.upload($("table").files[0]));
    for (const tab of document.querySelectorAll("[data-tab]")) tab.addEventListener("click", () => state.set({ tab: tab.dataset.tab }, { replace: true }));
    $("tab-ask").hidden = !this.summary.model;
    $("triage-part").hidden = this.summary.model?.answers !== "places";
    $("upload-part").hidden = this.api.kind === "file";
    $("theme").addEventListener("click", () => state.set({ theme: this.dark() ? "light" : "dark" }, { replace: true }));
    this.scheme.addEventListener("change", () => this.paintPage());
    $("help-button").addEventListener("click", () => $("help").showModal());
    this.bookmarks();
    $("home").addEventListener("click", () => state.set({ root: "@0", zoom: undefined }));
    $("up").addEventListener("click", () => this.up());
    $("save").addEventListener("change", () => { this.save($("save").value); $("save").value = ""; });
    if (this.api.kind === "file") for (const option of [...$("save").options]) if (!["", "svg", "png"].includes(option.value)) option.remove();
    if (this.api.kind === "frame") document.addEventListener("click", (event) => {
      const link = event.target.closest('a[href^="#"]');
      if (link) { event.preventDefault(); state.jump(link.getAttribute("href")); }
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  // The tab that is named; else what was asked, the node that was chosen, or what people come for.
  showTab({ tab: name, text, focus, root }) {
    const named = ["node", "ask", "color"].includes(name) ? name : text || (!focus && root === DEFAULTS.root) ? "ask" : "node", tab = named === "ask" && !this.summary.model ? "node" : named;
    for (const button of document.querySelectorAll("[data-tab]")) button.setAttribute("aria-selected", String(button.dataset.tab === tab));
    for (const part of ["node", "ask", "color"]) $(`panel-${part}`).hidden = part !== tab;
  }

  // Views kept in this browser, one list a tree; a view is its address.
  bookmarks() {
    const box = $("marks"), key = `vpunn ${this.summary.hash}`;
    const read = () => { try { return JSON.parse(localStorage.getItem(key)) ?? []; } catch { return []; } };
    const write = (list) => { try { localStorage.setItem(key, JSON.stringify(list.slice(-30))); } catch { this.say(new Error("this browser keeps no bookmarks for this page.")); } };
    const show = () => fill(box, make("option", { value: "" }, "☆"), make("option", { value: "keep" }, "Keep this view"), read().map((one, k) => make("option", { value: String(k) }, one.name)), read().length ? make("option", { value: "none" }, "Forget all") : null);
    box.addEventListener("change", () => {
      const list = read(), choice = box.value;
      if (choice === "keep") write([...list, { name: `${this.panel.node?.name ?? "view"}${this.state.now.text ? `: ${this.state.now.text.slice(0, 30)}` : ""}`, hash: this.state.link({ zoom: this.state.now.zoom }) }]);
      else if (choice === "none") write([]);
      else if (list[choice]) this.state.jump(list[choice].hash);
      show();
    });
    box.hidden = this.api.kind === "frame";
    show();
  }

  up() {
    const parentNode = this.shape.parent[this.root];
    if (parentNode >= 0) this.state.set({ root: `@${parentNode}`, zoom: undefined });
    else this.state.set({ zoom: undefined });
  }

  key(event) {
    const typing = event.target.closest("input, textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !typing) { event.preventDefault(); $("query").focus(); $("query").select(); return; }
    if (event.key === "?" && !typing) { $("help").showModal(); return; }
    if (typing || event.target.closest("dialog, a, button, summary")) return;
    const { shape, view } = this, i = view.focus >= 0 ? view.focus : this.root;
    const step = view.layout.step?.(i, event.key) ?? { ArrowRight: shape.size[i] > 1 ? i + 1 : -1, ArrowLeft: shape.parent[i], ArrowDown: i ? shape.sibling(i, 1) : -1, ArrowUp: i ? shape.sibling(i, -1) : -1, Home: 0 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      this.byHand = false;
      if (view.focus < 0 && event.key !== "ArrowRight") this.select(i);
      else if (step >= 0) this.walk(step);
    }
    if (event.key === "Enter") { event.preventDefault(); this.state.set({ root: `@${i}`, focus: `@${i}`, zoom: undefined }); }
    if (event.key === "Backspace" || event.key === "Escape") { event.preventDefault(); this.up(); }
    if (event.key === "+" || event.key === "=") view.zoom(0.7, view.width / 2, view.height / 2);
    if (event.key === "-") view.zoom(1 / 0.7, view.width / 2, view.height / 2);
    if (event.key === "c") this.state.set({ with: this.other === i ? undefined : this.panel.node?.id === i ? this.panel.node.ref : `@${i}` });
  }

  // Steps of a walk replace each other in the history: one press of Back leaves the walk.
  walk(i) {
    const now = Date.now(), going = now - (this.walked || 0) < 1500;
    this.walked = now;
    this.state.set({ focus: `@${i}`, zoom: undefined, ...(this.state.now.text && { tab: "node" }) }, { replace: going });
  }

  async save(form) {
    const name = (this.panel.node?.name ?? "tree").replace(/[^\w-]+/g, "_").slice(0, 40);
    try {
      if (form === "png") this.view.canvas.toBlob((blob) => download(blob, `${name}.png`));
      else if (form === "svg") download(new Blob([asSvg(this.view)], { type: "image/svg+xml" }), `${name}.svg`);
      else if (form) download(await this.api.blob("export", { id: `@${this.root}`, format: form }), `${name}.${{ newick: "nwk" }[form] ?? form}`);
    } catch (error) { this.say(error); }
  }
}

window.explorer = new Explorer();
window.explorer.start().catch((error) => { window.explorer.say(error); });
