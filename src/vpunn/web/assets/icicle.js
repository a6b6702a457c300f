// The icicle: a column a level, a cell a node, as tall as its share of the leaves.
import { isDark, toCss } from "./colors.js";
import { LINE, Levels } from "./columns.js";
import { count } from "./dom.js";

const STRIP = 28; // width of a level that shows one cell alone, its name written upwards

export class Icicle extends Levels {
  // The x of the left edges of the levels in view, from the first one on, and of the right edge of the last. Of the two leftmost
  // levels one that shows a single cell shrinks to a strip, the more the larger its share of the window.
  edges() {
    const { shape, width, window: { a, b, top, cols } } = this.view, first = Math.floor(top), count = Math.ceil(cols + (top - first));
    const strips = [];
    let taken = 0, wide = 0;
    for (let d = first; d < first + count; d++) {
      const i = shape.at(d, (a + b) / 2), share = i < 0 ? 0 : (Math.min(shape.to(i), b) - Math.max(shape.from(i), a)) / (b - a);
      const strip = Math.min(Math.max((share - 0.9) * 10, 0), 1) * Math.min(Math.max(2 - (d - top), 0), 1);
      const part = Math.min(d + 1, top + cols) - Math.max(d, top);
      strips.push(strip);
      taken += part * strip * STRIP;
      wide += part * (1 - strip);
    }
    const unit = wide > 0.01 ? (width - taken) / wide : width, of = (strip) => strip * STRIP + (1 - strip) * unit;
    const edges = [(first - top) * of(strips[0])];
    for (const strip of strips) edges.push(edges.at(-1) + of(strip));
    return { first, count, edges };
  }

  nodeAt(x, y) {
    const { shape, height, window: w } = this.view, { first, count, edges } = this.edges();
    let k = 0;
    while (k < count - 1 && edges[k + 1] <= x) k++;
    return shape.at(first + k, w.a + (y / height) * (w.b - w.a));
  }

  zoom(factor, x, y) { return this.zoomAt(y / this.view.height, factor); }

  pan(dx, dy) {
    const { window: w, shape, height, width } = this.view;
    this.slide(w.a - (dy / height) * (w.b - w.a));
    if (!dx) return;
    w.top = Math.min(Math.max(w.top - (dx / width) * w.cols, 0), Math.max(shape.maxDepth + 1 - w.cols, 0));
    this.view.drift = false;
  }

  paint(columns, rows, minCell, { first, count }) {
    const { shape, window: w } = this.view;
    return columns.paint(shape, { a: w.a, b: w.b, first, count, height: rows, minCell, ...this.view.style() });
  }

  draw() {
    const { view } = this, { context: c, height, width, ratio, palette } = view, run = this.edges(), { edges } = run;
    const cells = this.paint(this.columns, Math.round(height * ratio), LINE * ratio, run);
    c.imageSmoothingEnabled = false;
    for (let k = 0; k < run.count; k++) c.drawImage(this.columns.canvas, k, 0, 1, this.columns.canvas.height, edges[k], 0, edges[k + 1] - edges[k], height);
    c.fillStyle = toCss(palette.background);
    for (const x of edges) c.fillRect(Math.round(x) - 1, 0, 1, height);
    for (const cell of cells.sort((p, q) => q.bottom - q.top - p.bottom + p.top).slice(0, view.many)) {
      const top = Math.max(cell.top / ratio, 0), bottom = Math.min(cell.bottom / ratio, height);
      c.fillStyle = isDark(cell.colour) ? "#ffffff" : "#16191d";
      const hint = cell.column === run.count - 1 ? this.hint(cell.node, width, (top + bottom) / 2, width - edges[cell.column]) : 0;
      this.write(cell, Math.max(edges[cell.column], 0), Math.min(edges[cell.column + 1], width) - hint, top, bottom);
    }
    for (const i of view.marks()) this.outline(i, run);
  }

  // The name of a cell, upwards in a strip.
  write(cell, left, right, top, bottom) {
    const { view } = this, { context: c } = view, upwards = right - left < 2 * STRIP && bottom - top > right - left;
    const text = view.named(cell.node, (upwards ? bottom - top : right - left) - 10);
    if (!text || (!upwards && right - left < 14)) return;
    if (!upwards) { c.fillText(text, left + 5, (top + bottom) / 2); return; }
    c.save();
    c.translate((left + right) / 2, (top + bottom) / 2);
    c.rotate(-Math.PI / 2);
    c.textAlign = "center";
    c.fillText(text, 0, 0);
    c.restore();
  }

  // How many levels lie deeper, at the right edge; returns the room it takes.
  hint(i, right, y, room) {
    const { view } = this, levels = view.shape.below(i);
    if (!levels) return 0;
    const whole = `${count(levels, "level")} ›`, words = view.widthOf(whole) + view.widthOf(view.named(i, Infinity)) + 24 < room ? whole : "›", wide = view.widthOf(words);
    view.context.fillText(words, right - 6 - wide, y);
    return wide + 8;
  }

  outline(i, { first, count, edges }) {
    const { shape, context: c, window: w, height } = this.view, k = shape.depth[i] - first, y = (x) => ((x - w.a) / (w.b - w.a)) * height;
    if (k < 0 || k >= count) return;
    c.strokeRect(edges[k], y(shape.from(i)), edges[k + 1] - edges[k] - 1, Math.max(y(shape.to(i)) - y(shape.from(i)), 2));
  }

  svg(out) {
    const { view } = this, { height } = view, run = this.edges(), { edges } = run;
    for (const cell of this.paint(out.columns, height, 1, run)) {
      const top = Math.max(cell.top, 0), bottom = Math.min(cell.bottom, height), [x, right] = [edges[cell.column], edges[cell.column + 1]];
      out.rect(x, top, right - x - 1, Math.max(bottom - top - 0.5, 0.5), cell.colour);
      const upwards = right - x < 2 * STRIP, room = upwards ? bottom - top : right - x;
      const words = bottom - top >= LINE ? view.named(cell.node, room - 8) : "";
      if (words && upwards) out.text((x + right) / 2, (top + bottom) / 2, words, out.ink(cell.colour), { turn: -90, about: [(x + right) / 2, (top + bottom) / 2], middle: true });
      else if (words) out.text(x + 4, (top + bottom) / 2, words, out.ink(cell.colour));
    }
  }
}
