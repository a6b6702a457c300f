// The icicle: a column a level, a cell a node, as tall as its share of the leaves.
import { isDark, toCss } from "./colors.js";
import { LINE, Levels } from "./columns.js";

export class Icicle extends Levels {
  wide() { return this.view.width / this.view.window.cols; }

  nodeAt(x, y) {
    const { shape, height, window: w } = this.view;
    return shape.at(Math.floor(w.top + x / this.wide()), w.a + (y / height) * (w.b - w.a));
  }

  zoom(factor, x, y) { return this.zoomAt(y / this.view.height, factor); }

  pan(dx, dy) {
    const { window: w, shape, height } = this.view;
    this.slide(w.a - (dy / height) * (w.b - w.a));
    if (!dx) return;
    w.top = Math.min(Math.max(w.top - dx / this.wide(), 0), Math.max(shape.maxDepth + 1 - w.cols, 0));
    this.view.drift = false;
  }

  // The levels in view: the first one, their number, and how far the first stands left of the edge.
  run() {
    const { top, cols } = this.view.window, first = Math.floor(top);
    return { first, count: Math.ceil(cols + (top - first)) + 1, shift: (first - top) * this.wide() };
  }

  paint(columns, rows, minCell) {
    const { shape, window: w } = this.view, { first, count } = this.run();
    return columns.paint(shape, { a: w.a, b: w.b, first, count, height: rows, minCell, ...this.view.style() });
  }

  draw() {
    const { view } = this, { context: c, height, width, ratio, palette } = view, wide = this.wide(), { count, shift } = this.run();
    const cells = this.paint(this.columns, Math.round(height * ratio), LINE * ratio);
    c.imageSmoothingEnabled = false;
    c.drawImage(this.columns.canvas, shift, 0, count * wide, height);
    c.fillStyle = toCss(palette.background);
    for (let k = 0; k <= count; k++) c.fillRect(Math.round(shift + k * wide) - 1, 0, 1, height);
    for (const cell of cells.sort((p, q) => q.bottom - q.top - p.bottom + p.top).slice(0, view.many)) {
      const x = shift + cell.column * wide + 4, room = Math.min(wide - 8, width - x);
      const y = (Math.max(cell.top / ratio, 0) + Math.min(cell.bottom / ratio, height)) / 2;
      if (x < -wide + 12 || room < 14) continue;
      const text = view.named(cell.node, room);
      if (!text) continue;
      c.fillStyle = isDark(cell.colour) ? "#ffffff" : "#16191d";
      c.fillText(text, Math.max(x, 3), y);
    }
    for (const i of view.marks()) this.outline(i);
  }

  outline(i) {
    const { shape, context: c, window: w, height } = this.view, wide = this.wide(), y = (x) => ((x - w.a) / (w.b - w.a)) * height;
    c.strokeRect((shape.depth[i] - w.top) * wide, y(shape.from(i)), wide - 1, Math.max(y(shape.to(i)) - y(shape.from(i)), 2));
  }

  svg(out) {
    const { view } = this, { height } = view, wide = this.wide(), { shift } = this.run();
    for (const cell of this.paint(out.columns, height, 1)) {
      const top = Math.max(cell.top, 0), bottom = Math.min(cell.bottom, height), x = shift + cell.column * wide;
      out.rect(x, top, wide - 1, Math.max(bottom - top - 0.5, 0.5), cell.colour);
      const words = bottom - top >= LINE ? view.named(cell.node, wide - 8) : "";
      if (words) out.text(x + 4, (top + bottom) / 2, words, out.ink(cell.colour));
    }
  }
}
