// The canvas: what is in view, how it moves, and what a frame costs. How nodes are laid out is the business of the layouts
// (icicle.js, radial.js, disk.js, dendrogram.js, list.js), objects of one kind:
//
//   keys      names of the numbers that say what is in view (a window), as they stand in the URL
//   fit(i), around(...nodes), seek(share)      windows that show a subtree, some nodes, a place of the small map
//   shows(i, window), valid(window), between(from, to, s)      questions about windows
//   nodeAt(x, y), zoom(factor, x, y), pan(dx, dy)      pointers; zoom says whether levels should follow
//   draw(), svg(drawing)      pictures
import { toCss } from "./colors.js";
import { Columns } from "./columns.js";
import { Dendrogram } from "./dendrogram.js";
import { Disk } from "./disk.js";
import { percent } from "./dom.js";
import { listen } from "./gestures.js";
import { Icicle } from "./icicle.js";
import { List } from "./list.js";
import { Radial } from "./radial.js";

const FONT = "12px system-ui, sans-serif";
const LEAST = 8; // letters of a name that is cut
const QUICK = 12; // milliseconds a frame may take before it shows fewer labels
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class View {
  constructor(canvas, minimap, shape, labels, palette, told) {
    Object.assign(this, { canvas, minimap, shape, labels, palette, told });
    this.context = canvas.getContext("2d");
    this.small = new Columns();
    this.layouts = { icicle: new Icicle(this), radial: new Radial(this), disk: new Disk(this), dendrogram: new Dendrogram(this), list: new List(this) };
    this.colour = palette.ofBranch(shape);
    this.beliefs = null;
    this.root = 0; // the branch that is opened: its children have the hues
    this.focus = this.hover = this.other = this.stop = -1;
    this.answers = []; // nodes that a model of label sets gives
    this.many = 300; // labels a frame may draw; follows the cost of the last frame
    this.coarse = 2; // pixels below which the disk shows a dot instead of a subtree
    this.frames = [];
    this.widths = new Map();
    this.measure();
    this.choose("icicle");
    this.resize();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    listen(this);
  }

  // Another layout, showing the whole tree.
  choose(name) {
    this.kind = name in this.layouts ? name : "icicle";
    this.layout = this.layouts[this.kind];
    this.move = null;
    this.drift = false;
    this.window = this.layout.fit(0);
    this.changed();
  }

  // ---- sizes and time ----------------------------------------------------------------------------------------------

  measure() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = Math.max(Math.floor(box.width), 50);
    this.height = Math.max(Math.floor(box.height), 50);
  }

  resize() {
    this.measure();
    const { canvas, minimap, ratio } = this;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    minimap.width = Math.round(minimap.clientWidth * ratio) || 1;
    minimap.height = Math.round(minimap.clientHeight * ratio) || 1;
    this.changed();
  }

  changed() { this.mapped = false; this.draw(); }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame((now) => { this.asked = false; this.frame(now); });
  }

  frame(now) {
    const start = performance.now();
    this.advance(now);
    const { context: c, ratio } = this;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = toCss(this.palette.background);
    c.fillRect(0, 0, this.width, this.height);
    c.font = FONT;
    c.textBaseline = "middle";
    this.layout.draw();
    this.drawMap();
    const cost = performance.now() - start;
    this.painted ??= performance.now();
    this.frames.push(cost);
    if (this.frames.length > 5000) this.frames.shift();
    this.many = Math.min(Math.max(cost > QUICK ? this.many * 0.7 : this.many + 20, 40), this.move ? 250 : 600);
    this.coarse = Math.min(Math.max(this.coarse * (cost > QUICK ? 1.25 : 0.95), 2), 12);
    if (this.move || this.drift) this.draw();
  }

  advance(now) {
    if (this.move) {
      const { from, to, took } = this.move;
      this.move.began ??= now;
      const t = Math.min((now - this.move.began) / took, 1);
      Object.assign(this.window, t < 1 ? this.layout.between(from, to, t * t * (3 - 2 * t)) : to);
      if (t >= 1) { this.move = null; this.told.moved(); }
    } else if (this.drift) this.drift = this.layout.follow();
  }

  // ---- where ---------------------------------------------------------------------------------------------------------

  goTo(target, { animate = true } = {}) {
    this.drift = false;
    const to = { ...this.window, ...target };
    if (animate && !calm.matches) this.move = { from: { ...this.window }, to, took: 450 };
    else { this.move = null; Object.assign(this.window, to); }
    this.draw();
  }

  // The window as it will be when nothing moves any more.
  get settled() { return this.move ? this.move.to : this.window; }

  zoom(factor, x, y) {
    this.move = null;
    this.drift = this.layout.zoom(factor, x, y);
    this.draw();
    this.told.moved();
  }

  pan(dx, dy) {
    this.move = null;
    this.layout.pan(dx, dy);
    this.draw();
    this.told.moved();
  }

  // ---- what layouts draw with --------------------------------------------------------------------------------------

  style() {
    const lit = this.beliefs, base = this.palette.nothing;
    return { colour: lit ? () => base : this.colour, beliefs: lit && lit.list, gap: this.palette.background };
  }

  // Nodes to be outlined; the pen is ready for each when it comes.
  *marks() {
    const { context: c, palette } = this, answers = [this.stop, ...this.answers];
    const all = [[this.hover, palette.faint, 1, []], ...answers.map((i) => [i, palette.second, 3, [6, 3]]), [this.other, palette.second, 2.5, []], [this.focus, palette.accent, 2.5, []]];
    for (const [i, colour, line, dash] of all) {
      if (i < 0) continue;
      c.strokeStyle = colour;
      c.lineWidth = line;
      c.setLineDash(dash);
      yield i;
    }
    c.setLineDash([]);
  }

  // The name, with its probability where both fit.
  named(i, room) {
    const name = this.labels.get(i), p = this.beliefs && this.beliefs.map.get(i);
    if (name === null || p === undefined || p === null) return this.fitted(name, room);
    const both = `${name} ${percent(p)}`;
    return this.widthOf(both) <= room ? both : this.fitted(name, room);
  }

  widthOf(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 30000) this.widths.clear();
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // The text, or as much of it as fits; nothing if that says too little.
  fitted(text, room) {
    if (!text) return "";
    const whole = this.widthOf(text);
    if (whole <= room) return text;
    let keep = Math.min(Math.floor((text.length * room) / whole), text.length - 1);
    while (keep >= LEAST && this.widthOf(text.slice(0, keep) + "…") > room) keep--;
    return keep >= LEAST ? text.slice(0, keep) + "…" : "";
  }

  // The whole tree in a corner, painted when colours change, and a frame around what is in view.
  drawMap() {
    const { minimap, shape } = this, c = minimap.getContext("2d"), wide = minimap.width, tall = minimap.height;
    if (wide < 8) return;
    const count = Math.min(shape.maxDepth + 1, 60), framed = this.layout.framed();
    if (!this.mapped) {
      this.small.paint(shape, { a: 0, b: shape.total, first: 0, count, height: tall, minCell: Infinity, ...this.style(), gap: 0 });
      this.mapped = true;
    }
    c.imageSmoothingEnabled = false;
    c.clearRect(0, 0, wide, tall);
    c.drawImage(this.small.canvas, 0, 0, wide, tall);
    if (!framed) return;
    const { a, b, top, cols } = framed, x = (top / count) * wide, y = (a / shape.total) * tall;
    c.strokeStyle = this.palette.accent;
    c.lineWidth = 2;
    c.strokeRect(x + 1, y + 1, Math.max(Math.min((cols / count) * wide, wide - x) - 2, 3), Math.max(((b - a) / shape.total) * tall - 2, 3));
  }
}
