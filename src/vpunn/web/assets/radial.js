// The radial layout: rings instead of columns, the leaves go once around.
import { isDark } from "./colors.js";
import { Columns, LINE, Levels } from "./columns.js";

const ROWS = 2880;
const RING = 88; // pixels of a ring whose names can be read
const TURN = (2 * Math.PI) / ROWS;

// Pixels of a disk looked up in the columns: the distance of each from the centre says which ring, its angle which row. Both
// depend on the size of the canvas alone, so a frame is one multiplication and one look a pixel.
class Rings {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
  }

  resize(width, height) {
    const key = [width, height].join();
    if (key === this.key) return;
    this.key = key;
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.far = new Float32Array(width * height);
    this.row = new Uint16Array(width * height);
    this.radius = Math.min(width, height) / 2 - 4;
    for (let y = 0, k = 0; y < height; y++) {
      const dy = y + 0.5 - height / 2;
      for (let x = 0; x < width; x++, k++) {
        const dx = x + 0.5 - width / 2, r = Math.sqrt(dx * dx + dy * dy);
        this.far[k] = r;
        if (r > this.radius) continue;
        const turn = Math.atan2(dx, -dy);
        this.row[k] = Math.min((turn < 0 ? turn + 2 * Math.PI : turn) / TURN, ROWS - 1);
      }
    }
  }

  paint(columns, rings) {
    const { pixels, far, row, radius } = this, source = columns.pixels, step = radius / rings, inverse = 1 / step;
    for (let k = 0; k < far.length; k++) {
      const r = far[k], ring = (r * inverse) | 0;
      pixels[k] = r >= radius || r - ring * step < 1 ? 0 : source[row[k] * rings + ring];
    }
    this.context.putImageData(this.image, 0, 0);
  }
}

export class Radial extends Levels {
  constructor(view) {
    super(view);
    this.rings = new Rings();
  }

  // Rings wide enough for names, as many as the tree has and the disk can hold.
  count() {
    const { window: w, width, height } = this.view;
    return Math.max(Math.min(Math.round(w.cols), Math.floor(Math.min(width, height) / 2 / RING)), 2);
  }

  step() { return (Math.min(this.view.width, this.view.height) / 2 - 4 / this.view.ratio) / this.count(); }

  turn(x, y) { return (Math.atan2(x - this.view.width / 2, this.view.height / 2 - y) / (2 * Math.PI) + 1) % 1; }

  nodeAt(x, y) {
    const { shape, width, height, window: w } = this.view, r = Math.hypot(x - width / 2, y - height / 2);
    return shape.at(Math.round(w.top) + Math.floor(r / this.step()), w.a + this.turn(x, y) * (w.b - w.a));
  }

  zoom(factor, x, y) { return this.zoomAt(this.turn(x, y), factor); }

  pan(dx, dy) {
    const { window: w, height } = this.view;
    this.slide(w.a - ((dy - dx) / (4 * height)) * (w.b - w.a));
  }

  paint(columns, minCell) {
    const { shape, window: w } = this.view;
    return columns.paint(shape, { a: w.a, b: w.b, first: Math.round(w.top), count: this.count(), height: ROWS, minCell, ...this.view.style() });
  }

  draw() {
    const { view } = this, { context: c, canvas } = view, step = this.step();
    this.rings.resize(canvas.width, canvas.height);
    const cells = this.paint(this.columns, 4);
    this.rings.paint(this.columns, this.count());
    c.drawImage(this.rings.canvas, 0, 0, view.width, view.height);
    c.save();
    c.translate(view.width / 2, view.height / 2);
    let drawn = 0;
    for (const cell of cells.sort((p, q) => (q.bottom - q.top) * (q.column + 1) - (p.bottom - p.top) * (p.column + 1))) {
      if (drawn >= view.many) break;
      c.fillStyle = isDark(cell.colour) ? "#ffffff" : "#16191d";
      if (this.write(cell, step)) drawn++;
    }
    c.textAlign = "left";
    for (const i of view.marks()) this.outline(i);
    c.restore();
  }

  // A name along its ring where the arc is long enough, else outwards; whether there was room.
  write(cell, step) {
    const { view } = this, { context: c } = view, top = Math.max(cell.top, 0), bottom = Math.min(cell.bottom, ROWS);
    const turn = ((top + bottom) / 2) * TURN - Math.PI / 2, whole = bottom - top >= ROWS - 1, middle = (cell.column + 0.5) * step;
    const arc = (bottom - top) * TURN * middle, along = arc >= step || whole;
    if (step < 30 || (!along && (bottom - top) * TURN * (cell.column + 0.15) * step < LINE)) return false;
    const text = view.named(cell.node, !cell.column ? step * 1.6 : along ? arc - 12 : step - 8);
    if (!text) return false;
    c.textAlign = "center";
    if (!cell.column && whole) { c.fillText(text, 0, 0); return true; }
    if (along) { this.bend(text, turn, middle); return true; }
    const left = Math.cos(turn) < 0;
    c.save();
    c.rotate(left ? turn + Math.PI : turn);
    c.textAlign = left ? "right" : "left";
    c.fillText(text, left ? -cell.column * step - 4 : cell.column * step + 4, 0);
    c.restore();
    return true;
  }

  // Letters around an angle at a radius, the right way up on both halves.
  bend(text, turn, radius) {
    const { view } = this, { context: c } = view, below = Math.sin(turn) > 0, way = below ? -1 : 1;
    let at = turn - (way * view.widthOf(text)) / 2 / radius;
    for (const letter of text) {
      const half = (way * view.widthOf(letter)) / 2 / radius;
      at += half;
      c.save();
      c.rotate(at + Math.PI / 2 + (below ? Math.PI : 0));
      c.fillText(letter, 0, below ? radius : -radius);
      c.restore();
      at += half;
    }
  }

  outline(i) {
    const { shape, context: c, window: w } = this.view, ring = shape.depth[i] - Math.round(w.top), step = this.step();
    if (ring < 0 || ring >= this.count()) return;
    const [t0, t1] = [shape.from(i), shape.to(i)].map((x) => (Math.min(Math.max((x - w.a) / (w.b - w.a), 0), 1) - 0.25) * 2 * Math.PI);
    if (t1 <= t0) return;
    c.beginPath();
    c.arc(0, 0, (ring + 1) * step - 1, t0, t1);
    c.arc(0, 0, ring * step + 1, t1, t0, true);
    c.closePath();
    c.stroke();
  }

  svg(out) {
    const { view } = this, step = this.step(), [cx, cy] = [view.width / 2, view.height / 2];
    for (const cell of this.paint(new Columns(), 2)) {
      const t0 = Math.max(cell.top, 0) * TURN - Math.PI / 2, t1 = Math.min(Math.min(cell.bottom, ROWS) * TURN, 2 * Math.PI - 1e-4) - Math.PI / 2;
      const [r0, r1] = [cell.column * step, (cell.column + 1) * step - 1], big = t1 - t0 > Math.PI ? 1 : 0;
      const at = (r, t) => `${(cx + r * Math.cos(t)).toFixed(1)} ${(cy + r * Math.sin(t)).toFixed(1)}`;
      out.path(`M${at(r1, t0)}A${r1.toFixed(1)} ${r1.toFixed(1)} 0 ${big} 1 ${at(r1, t1)}L${at(r0, t1)}A${r0.toFixed(1)} ${r0.toFixed(1)} 0 ${big} 0 ${at(r0, t0)}Z`, cell.colour);
      if (!cell.column || (t1 - t0) * r0 < LINE) continue;
      const words = view.named(cell.node, step - 8), t = (t0 + t1) / 2, left = Math.cos(t) < 0;
      if (words) out.text(left ? cx - r0 - 4 : cx + r0 + 4, cy, words, out.ink(cell.colour), { turn: (t * 180) / Math.PI + (left ? 180 : 0), about: [cx, cy], end: left });
    }
  }
}
