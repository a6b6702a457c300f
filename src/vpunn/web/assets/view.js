// The canvas: what is in view, how it moves, and what a pointer or a key does to it.
import { isDark, toCss } from "./colors.js";
import { clampDisk, layOut, moved, place } from "./disk.js";
import { percent } from "./dom.js";
import { Columns, Rings } from "./icicle.js";

const FONT = "12px system-ui, sans-serif";
const LINE = 13;
const NARROWEST = 46;
const COMPANY = 20; // leaves that are in view at least when the page moves to a node
const QUICK = 12; // milliseconds a frame may take before it shows fewer labels
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class View {
  constructor(canvas, minimap, shape, labels, palette, told) {
    Object.assign(this, { canvas, minimap, shape, labels, palette, told });
    this.context = canvas.getContext("2d");
    this.columns = new Columns();
    this.small = new Columns();
    this.rings = new Rings();
    this.layout = "icicle";
    this.window = { a: 0, b: shape.total, top: 0, cols: 8, fx: 0, fy: 0 };
    this.colour = palette.ofBranch(shape);
    this.beliefs = null;
    this.focus = this.hover = this.other = this.stop = -1;
    this.answers = []; // nodes that a model of label sets gives
    this.many = 300; // labels a frame may draw; follows the cost of the last frame
    this.coarse = 2; // pixels below which the disk shows a dot instead of a subtree
    this.frames = [];
    this.widths = new Map();
    this.resize();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.listen();
  }

  // ---- sizes and time ----------------------------------------------------------------------------------------------

  resize() {
    const box = this.canvas.parentElement.getBoundingClientRect(), ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = Math.max(Math.floor(box.width), 50);
    this.height = Math.max(Math.floor(box.height), 50);
    this.ratio = ratio;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.minimap.width = Math.round(this.minimap.clientWidth * ratio) || 1;
    this.minimap.height = Math.round(this.minimap.clientHeight * ratio) || 1;
    this.mapKey = null;
    this.draw();
  }

  changed() { this.mapKey = null; this.draw(); }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame((now) => { this.asked = false; this.frame(now); });
  }

  frame(now) {
    const start = performance.now();
    this.advance(now);
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = toCss(this.palette.background);
    context.fillRect(0, 0, this.width, this.height);
    if (this.layout === "disk") this.drawDisk();
    else if (this.layout === "radial") this.drawRadial();
    else this.drawIcicle();
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
    const w = this.window;
    if (this.move) {
      const { from, to, began, took } = this.move;
      if (began === undefined) this.move.began = now;
      const t = Math.min((now - this.move.began) / took, 1), s = t * t * (3 - 2 * t);
      // widths shrink by equal factors in equal times; the edges follow, so that a zoom has one fixed point
      const w0 = from.b - from.a, w1 = to.b - to.a, width = w0 * (w1 / w0) ** s;
      const share = Math.abs(w1 - w0) > 1e-12 * (w0 + w1) ? (width - w0) / (w1 - w0) : s;
      w.a = from.a + (to.a - from.a) * share;
      w.b = w.a + width;
      for (const key of ["top", "cols", "fx", "fy"]) w[key] = from[key] + (to[key] - from[key]) * s;
      if (t >= 1) { Object.assign(w, to); this.move = null; this.told.moved(); }
    } else if (this.drift) {
      const want = this.fit(this.covering());
      w.top += (want.top - w.top) * 0.25;
      w.cols += (want.cols - w.cols) * 0.25;
      if (Math.abs(want.top - w.top) + Math.abs(want.cols - w.cols) < 0.01) this.drift = false;
    }
  }

  // ---- where ---------------------------------------------------------------------------------------------------------

  // The deepest node that covers the whole window.
  covering() {
    const { a, b } = this.window, { shape } = this;
    let i = 0;
    for (let d = 1; d <= shape.maxDepth; d++) {
      const j = shape.at(d, (a + b) / 2);
      if (j < 0 || shape.from(j) > a + (b - a) * 0.02 || shape.to(j) < b - (b - a) * 0.02) break;
      i = j;
    }
    return i;
  }

  // Columns that have room for names.
  mostColumns() { return Math.max(Math.floor(this.width / (this.beliefs ? 2 * NARROWEST : this.width < 600 ? 1.5 * NARROWEST : NARROWEST)), 2); }

  // The window that shows nodes with what stands beside them: their siblings and some company, as long as they stay in view themselves.
  around(...nodes) {
    const { shape } = this, deepest = Math.max(...nodes.map((i) => shape.depth[i]));
    let i = nodes.reduce((a, b) => shape.lca(a, b));
    if (i && shape.size[i] === 1) i = shape.parent[i];
    if (this.layout === "disk") return this.fit(i); // which shows all that is around its centre
    while (i && shape.leaves(i, COMPANY) < COMPANY && deepest - shape.depth[i] + 3 <= this.mostColumns()) i = shape.parent[i];
    return this.fit(i);
  }

  // The window that shows a node's subtree, its parent beside it.
  fit(i) {
    const { shape } = this, above = shape.depth[i] ? 1 : 0, most = this.mostColumns();
    const cols = Math.min(Math.max(shape.levelsBelow(i) + above, 3), most, Math.max(shape.maxDepth + 1, 2));
    let [a, b] = [shape.from(i), shape.to(i)];
    if (!(b > a)) { const e = shape.total * 1e-9; a = Math.max(a - e, 0); b = a + 2 * e; }
    const [fx, fy] = place(shape, i);
    return { a, b, top: shape.depth[i] - above, cols, fx, fy };
  }

  goTo(target, { animate = true } = {}) {
    this.drift = false;
    const to = { ...this.window, ...target };
    if (!animate || calm.matches) { this.move = null; Object.assign(this.window, to); this.draw(); return; }
    this.move = { from: { ...this.window }, to, took: 450 };
    this.draw();
  }

  columnWidth() { return this.width / this.window.cols; }

  // Is the node's cell in view, and large enough to be seen?
  shows(i) {
    const { a, b, top, cols } = this.window, { shape } = this, d = shape.depth[i];
    if (this.layout === "disk") return true;
    const tall = ((shape.to(i) - shape.from(i)) / (b - a)) * this.height;
    return d >= top - 0.01 && d < top + cols - 0.5 && shape.to(i) > a && shape.from(i) < b && tall >= 4;
  }

  nodeAt(x, y) {
    const { shape, window: w } = this;
    if (this.layout === "icicle") return shape.at(Math.floor(w.top + x / this.columnWidth()), w.a + (y / this.height) * (w.b - w.a));
    const dx = x - this.width / 2, dy = y - this.height / 2;
    if (this.layout === "radial") {
      const r = Math.hypot(dx, dy), turn = (Math.atan2(dx, -dy) / (2 * Math.PI) + 1) % 1;
      return shape.at(Math.round(w.top) + Math.floor((r * this.ratio) / (this.rings.step || 1)), w.a + turn * (w.b - w.a));
    }
    let best = -1, least = 20 ** 2;
    for (const s of this.spots || []) {
      const q = (s.x * this.radius - dx) ** 2 + (s.y * this.radius - dy) ** 2;
      if (q < least) { least = q; best = s.node; }
    }
    return best;
  }

  zoom(factor, x, y) {
    const { window: w, shape } = this;
    this.move = null;
    if (this.layout === "disk") {
      const r = this.radius, target = [((x - this.width / 2) / r) * 0.5, ((y - this.height / 2) / r) * 0.5];
      const sign = factor < 1 ? 1 - factor : -(1 - 1 / factor);
      const step = sign > 0 ? [target[0] * sign, target[1] * sign] : [w.fx * sign, w.fy * sign];
      const next = sign > 0 ? moved(step, [-w.fx, -w.fy]) : [w.fx + step[0], w.fy + step[1]];
      [w.fx, w.fy] = clampDisk(next);
    } else {
      let share = y / this.height;
      if (this.layout === "radial") share = (Math.atan2(x - this.width / 2, this.height / 2 - y) / (2 * Math.PI) + 1) % 1;
      const least = shape.pos instanceof Int32Array ? 0.8 : shape.total * 1e-11;
      const at = w.a + share * (w.b - w.a), width = Math.min(Math.max((w.b - w.a) * factor, least), shape.total);
      w.a = Math.min(Math.max(at - share * width, 0), shape.total - width);
      w.b = w.a + width;
      this.drift = true;
    }
    this.draw();
    this.told.moved();
  }

  pan(dx, dy) {
    const { window: w, shape } = this;
    this.move = null;
    if (this.layout === "disk") {
      [w.fx, w.fy] = clampDisk(moved([-dx / this.radius, -dy / this.radius], [-w.fx, -w.fy]));
    } else {
      const width = w.b - w.a, far = this.layout === "icicle" ? (dy / this.height) * width : ((dy - dx) / (4 * this.height)) * width;
      w.a = Math.min(Math.max(w.a - far, 0), shape.total - width);
      w.b = w.a + width;
      if (this.layout === "icicle" && dx) {
        w.top = Math.min(Math.max(w.top - dx / this.columnWidth(), 0), Math.max(shape.maxDepth + 1 - w.cols, 0));
        this.drift = false;
      }
    }
    this.draw();
    this.told.moved();
  }

  // ---- pictures ------------------------------------------------------------------------------------------------------

  style() {
    const lit = this.beliefs, base = this.palette.nothing;
    return { colour: lit ? () => base : this.colour, beliefs: lit && lit.list, gap: this.palette.background };
  }

  drawIcicle() {
    const { shape, window: w, context: c, height, width } = this, wide = this.columnWidth();
    const first = Math.floor(w.top), count = Math.ceil(w.cols + (w.top - first)) + 1, shift = (first - w.top) * wide;
    const rows = Math.round(height * this.ratio);
    const cells = this.columns.paint(shape, { a: w.a, b: w.b, first, count, height: rows, minCell: LINE * this.ratio, ...this.style() });
    c.imageSmoothingEnabled = false;
    c.drawImage(this.columns.canvas, shift, 0, count * wide, height);
    c.fillStyle = toCss(this.palette.background);
    for (let k = 0; k <= count; k++) c.fillRect(Math.round(shift + k * wide) - 1, 0, 1, height);
    const box = (i) => {
      const x = (shape.depth[i] - w.top) * wide, y = ((shape.from(i) - w.a) / (w.b - w.a)) * height;
      return [x, y, wide - 1, Math.max(((shape.to(i) - shape.from(i)) / (w.b - w.a)) * height, 2)];
    };
    c.font = FONT;
    c.textBaseline = "middle";
    const best = cells.sort((p, q) => q.bottom - q.top - p.bottom + p.top).slice(0, this.many);
    for (const cell of best) {
      const x = shift + cell.column * wide + 4, room = Math.min(wide - 8, width - x);
      const y = (Math.max(cell.top / this.ratio, 0) + Math.min(cell.bottom / this.ratio, height)) / 2;
      if (x < -wide + 12 || room < 14) continue;
      const text = this.named(cell.node, room);
      if (!text) continue;
      c.fillStyle = isDark(cell.colour) ? "#ffffff" : "#16191d";
      c.fillText(text, Math.max(x, 3), y);
    }
    this.outline(box);
  }

  // The name, with its probability where both fit.
  named(i, room) {
    const name = this.labels.get(i), p = this.beliefs && this.beliefs.map.get(i);
    if (name === null || p === undefined || p === null) return this.fitted(name, room);
    const both = `${name} ${percent(p)}`;
    return this.width_of(both) <= room ? both : this.fitted(name, room);
  }

  outline(box) {
    const { context: c, palette } = this;
    const mark = (i, colour, line, dash = []) => {
      if (i < 0) return;
      c.strokeStyle = colour;
      c.lineWidth = line;
      c.setLineDash(dash);
      c.strokeRect(...box(i));
    };
    mark(this.hover, palette.faint, 1);
    for (const i of [this.stop, ...this.answers]) mark(i, palette.second, 3, [6, 3]);
    mark(this.other, palette.second, 2.5);
    mark(this.focus, palette.accent, 2.5);
    c.setLineDash([]);
  }

  width_of(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 30000) this.widths.clear();
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  // The text, or as much of it as fits; nothing if that says nothing.
  fitted(text, room) {
    if (!text) return "";
    const whole = this.width_of(text);
    if (whole <= room) return text;
    let keep = Math.min(Math.floor((text.length * room) / whole), text.length - 1);
    while (keep > 1 && this.width_of(text.slice(0, keep) + "…") > room) keep--;
    return keep > 1 ? text.slice(0, keep) + "…" : "";
  }

  drawRadial() {
    const { shape, window: w, context: c } = this, first = Math.round(w.top), rings = this.ringCount();
    const rows = 2880;
    const [dw, dh] = [this.canvas.width, this.canvas.height];
    this.rings.resize(dw, dh, rows);
    const cells = this.columns.paint(shape, { a: w.a, b: w.b, first, count: rings, height: rows, minCell: 4, ...this.style() });
    this.rings.paint(this.columns, rings);
    c.drawImage(this.rings.canvas, 0, 0, this.width, this.height);
    const step = this.rings.step / this.ratio, turn = (2 * Math.PI) / rows;
    c.save();
    c.translate(this.width / 2, this.height / 2);
    c.font = FONT;
    c.textBaseline = "middle";
    let drawn = 0;
    for (const cell of cells.sort((p, q) => (q.bottom - q.top) * (q.column + 1) - (p.bottom - p.top) * (p.column + 1))) {
      if (drawn >= this.many) break;
      const span = Math.min(cell.bottom, rows) - Math.max(cell.top, 0), inner = (cell.column + 0.15) * step;
      if (step < 30 || (cell.column && span * turn * inner < LINE)) continue;
      const text = this.named(cell.node, cell.column ? step - 8 : step * 1.6);
      if (!text) continue;
      drawn++;
      c.fillStyle = isDark(cell.colour) ? "#ffffff" : "#16191d";
      if (!cell.column && span >= rows - 1) { c.textAlign = "center"; c.fillText(text, 0, 0); continue; }
      const angle = ((Math.max(cell.top, 0) + Math.min(cell.bottom, rows)) / 2) * turn - Math.PI / 2;
      const left = Math.cos(angle) < 0;
      c.save();
      c.rotate(left ? angle + Math.PI : angle);
      c.textAlign = left ? "right" : "left";
      c.fillText(text, left ? -cell.column * step - 4 : cell.column * step + 4, 0);
      c.restore();
    }
    c.textAlign = "left";
    const arc = (i, colour, line) => {
      const ring = shape.depth[i] - first;
      if (i < 0 || ring < 0 || ring >= rings) return;
      const [t0, t1] = [shape.from(i), shape.to(i)].map((x) => (Math.min(Math.max((x - w.a) / (w.b - w.a), 0), 1) - 0.25) * 2 * Math.PI);
      if (t1 <= t0) return;
      c.strokeStyle = colour;
      c.lineWidth = line;
      c.beginPath();
      c.arc(0, 0, (ring + 1) * step - 1, t0, t1);
      c.arc(0, 0, ring * step + 1, t1, t0, true);
      c.closePath();
      c.stroke();
    };
    arc(this.hover, this.palette.faint, 1);
    c.setLineDash([6, 3]);
    for (const i of [this.stop, ...this.answers]) arc(i, this.palette.second, 3);
    c.setLineDash([]);
    arc(this.other, this.palette.second, 2.5);
    arc(this.focus, this.palette.accent, 2.5);
    c.restore();
  }

  // Rings wide enough for names, as many as the tree has and the disk can hold.
  ringCount() { return Math.max(Math.min(Math.round(this.window.cols), Math.floor(Math.min(this.width, this.height) / 2 / 46)), 2); }

  drawDisk() {
    const { shape, window: w, context: c, palette } = this, radius = Math.min(this.width, this.height) / 2 - 6;
    this.radius = radius;
    const spots = (this.spots = layOut(shape, [w.fx, w.fy], radius, this.coarse * (this.move ? 1.5 : 1)));
    c.save();
    c.translate(this.width / 2, this.height / 2);
    c.fillStyle = palette.dark ? "#1b1e23" : "#f6f6f4";
    c.beginPath();
    c.arc(0, 0, radius, 0, 2 * Math.PI);
    c.fill();
    const lit = this.beliefs && this.beliefs.map, dots = this.byBranch ? palette.ofDots(shape) : this.colour, paint = (i) => (lit ? (lit.has(i) ? palette.ofProbability(lit.get(i)) : palette.nothing) : dots(i));
    c.lineWidth = 0.7;
    c.strokeStyle = palette.dark ? "#565c66" : "#b9bcc2";
    c.beginPath();
    for (const s of spots) {
      if (!s.up) continue;
      c.moveTo(s.up.x * radius, s.up.y * radius);
      c.lineTo(s.x * radius, s.y * radius);
    }
    c.stroke();
    for (let k = spots.length - 1; k >= 0; k--) {
      const s = spots[k], r = Math.max(Math.min(s.near * 9, s.width / 2, 9), 0.8);
      s.r = Math.max(r, lit && lit.has(s.node) ? 2.5 : 0);
      c.fillStyle = toCss(paint(s.node));
      if (s.r < 1.2) { c.fillRect(s.x * radius - s.r, s.y * radius - s.r, 2 * s.r, 2 * s.r); continue; }
      c.beginPath();
      c.arc(s.x * radius, s.y * radius, s.r, 0, 2 * Math.PI);
      c.fill();
    }
    this.diskMarks(spots, radius);
    this.diskLabels(spots, radius);
    c.restore();
  }

  diskMarks(spots, radius) {
    const { context: c, palette } = this;
    for (const [i, colour, line] of [[this.hover, palette.faint, 1], ...[this.stop, ...this.answers].map((i) => [i, palette.second, 3]), [this.other, palette.second, 2.5], [this.focus, palette.accent, 2.5]]) {
      const s = i >= 0 && spots.find((spot) => spot.node === i);
      if (!s) continue;
      c.strokeStyle = colour;
      c.lineWidth = line;
      c.beginPath();
      c.arc(s.x * radius, s.y * radius, s.r + 3, 0, 2 * Math.PI);
      c.stroke();
    }
  }

  diskLabels(spots, radius) {
    const { context: c, palette } = this, taken = [], first = (s) => (s.node === this.focus ? 1e9 : 0) + s.near * Math.min(s.width, 60) * (s.near > 0.03);
    c.font = FONT;
    c.textBaseline = "middle";
    for (const s of spots.slice().sort((p, q) => first(q) - first(p)).slice(0, this.many)) {
      if (first(s) < 2 || taken.length > 90) break;
      const text = this.named(s.node, 150);
      if (!text) continue;
      const x = s.x * radius + s.r + 3, y = s.y * radius, box = [x - 1, y - 7, x + this.width_of(text) + 1, y + 7];
      if (taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) continue;
      taken.push(box);
      c.lineWidth = 3;
      c.strokeStyle = palette.dark ? "#1b1e23" : "#f6f6f4";
      c.strokeText(text, x, y);
      c.fillStyle = palette.text;
      c.fillText(text, x, y);
    }
  }

  // The whole tree in a corner, painted when colours change, and a frame around what is in view.
  drawMap() {
    const { minimap, shape, window: w } = this, c = minimap.getContext("2d"), wide = minimap.width, tall = minimap.height;
    if (wide < 8) return;
    const count = Math.min(shape.maxDepth + 1, 60);
    if (!this.mapKey) {
      this.small.paint(shape, { a: 0, b: shape.total, first: 0, count, height: tall, minCell: Infinity, ...this.style(), gap: 0 });
      this.mapKey = true;
    }
    c.imageSmoothingEnabled = false;
    c.clearRect(0, 0, wide, tall);
    c.drawImage(this.small.canvas, 0, 0, wide, tall);
    if (this.layout === "disk") return;
    c.strokeStyle = this.palette.accent;
    c.lineWidth = 2;
    const x = (w.top / count) * wide, y = (w.a / shape.total) * tall;
    c.strokeRect(x + 1, y + 1, Math.max(Math.min((w.cols / count) * wide, wide - x) - 2, 3), Math.max(((w.b - w.a) / shape.total) * tall - 2, 3));
  }

  // ---- pointers ------------------------------------------------------------------------------------------------------

  listen() {
    const { canvas, told } = this, held = new Map();
    let travelled = 0, apart = 0;
    const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const spread = () => { const [p, q] = [...held.values()]; return Math.hypot(p[0] - q[0], p[1] - q[1]); };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey) this.pan(-event.deltaY * lines, 0);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) * 2) this.pan(-event.deltaX * lines, 0);
      else this.zoom(Math.exp(Math.max(Math.min(event.deltaY * lines, 300), -300) * (event.ctrlKey ? 0.01 : 0.0022)), ...spot(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      held.set(event.pointerId, spot(event));
      travelled = 0;
      if (held.size === 2) apart = spread();
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = spot(event), last = held.get(event.pointerId);
      if (!last) {
        const i = this.nodeAt(...now);
        if (i !== this.hover) { this.hover = i; told.hovered(i, now); this.draw(); }
        return;
      }
      travelled += Math.hypot(now[0] - last[0], now[1] - last[1]);
      if (travelled > 4 && !canvas.hasPointerCapture(event.pointerId)) canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, now);
      if (held.size === 2) {
        const gap = spread(), [p, q] = [...held.values()];
        if (gap > 10 && apart > 10) this.zoom(apart / gap, (p[0] + q[0]) / 2, (p[1] + q[1]) / 2);
        apart = gap;
      } else if (travelled > 4) this.pan(now[0] - last[0], now[1] - last[1]);
    });
    const release = (event) => {
      const last = held.get(event.pointerId);
      held.delete(event.pointerId);
      if (last && event.type === "pointerup" && travelled <= 4) {
        const i = this.nodeAt(...last);
        if (i >= 0) told.picked(i, event);
      }
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { if (!held.size && this.hover >= 0) { this.hover = -1; told.hovered(-1); this.draw(); } });
    canvas.addEventListener("dblclick", (event) => { const i = this.nodeAt(...spot(event)); if (i >= 0) told.opened(i); });
    canvas.addEventListener("auxclick", (event) => { const i = this.nodeAt(...spot(event)); if (event.button === 1 && i >= 0) told.branched(i); });
    this.minimap.addEventListener("pointerdown", (event) => {
      const box = this.minimap.getBoundingClientRect(), w = this.window, width = w.b - w.a;
      const a = Math.min(Math.max(((event.clientY - box.top) / box.height) * this.shape.total - width / 2, 0), this.shape.total - width);
      this.goTo({ a, b: a + width });
    });
  }
}
