// The tree as an indented list: a row a node, children below their parent while it is open. Only the rows in view are drawn.
import { toCss } from "./colors.js";
import { count, percent } from "./dom.js";

const ROW = 24;
const INDENT = 16;
const MOST_ROWS = 20000; // children of a branch that are listed
const SPEED = 12; // rows that one turn of the wheel moves

export class List {
  keys = ["row"];

  constructor(view) {
    this.view = view;
    this.open = new Set([0]);
    this.asked = new Set(); // nodes that are listed however many siblings they have
    this.rows = null;
  }

  // Nodes from top to bottom, and the row of each: made again when a branch opens or closes.
  listed() {
    const { shape } = this.view;
    if (this.rows) return this.rows;
    const rows = [], stack = [0];
    while (stack.length) {
      const i = stack.pop();
      rows.push(i);
      if (this.open.has(i)) for (const child of this.children(i).reverse()) stack.push(child);
    }
    this.place = new Map(rows.map((i, k) => [i, k]));
    return (this.rows = rows);
  }

  // The children of a branch: the first ones of very many, and those that were asked for.
  children(i) {
    const { shape } = this.view, found = [];
    let j = i + 1;
    for (const end = i + shape.size[i]; j < end && found.length < MOST_ROWS; j += shape.size[j]) found.push(j);
    return [...found, ...[...this.asked].filter((k) => shape.parent[k] === i && k >= j).sort((a, b) => a - b)];
  }

  // Open everything above a node.
  unfold(i) {
    for (const j of this.view.shape.path(i)) if (!this.asked.has(j)) { this.asked.add(j); this.rows = null; }
    for (const j of this.view.shape.path(i)) if (j !== i && !this.open.has(j)) { this.open.add(j); this.rows = null; }
  }

  toggle(i) {
    if (this.view.shape.size[i] === 1) return;
    if (!this.open.delete(i)) this.open.add(i);
    this.rows = null;
    this.view.draw();
  }

  // The row that has a neighbour in the list, for the arrow keys.
  step(i, key) {
    const rows = this.listed(), at = this.place.get(i) ?? 0, { shape } = this.view;
    if (key === "ArrowDown") return rows[Math.min(at + 1, rows.length - 1)];
    if (key === "ArrowUp") return rows[Math.max(at - 1, 0)];
    if (key === "ArrowRight" && shape.size[i] > 1 && !this.open.has(i)) { this.toggle(i); return i; }
    if (key === "ArrowLeft" && this.open.has(i)) { this.toggle(i); return i; }
    return undefined;
  }

  get most() { return Math.max(this.listed().length - this.view.height / ROW + 1, 0); }

  at(row) { return { row: Math.min(Math.max(row, 0), this.most) }; }

  fit(i) {
    this.unfold(i);
    if (this.view.shape.size[i] > 1 && !this.open.has(i)) { this.open.add(i); this.rows = null; }
    this.listed();
    return this.at(this.place.get(i) - 2);
  }

  around(...nodes) {
    for (const i of nodes) this.unfold(i);
    this.listed();
    const rows = nodes.map((i) => this.place.get(i));
    return this.at(Math.min(...rows) - Math.floor(this.view.height / ROW / 3));
  }

  shows(i, { row } = this.view.window) {
    this.listed();
    const at = this.place.get(i);
    return at !== undefined && at >= row && at < row + this.view.height / ROW - 1;
  }

  valid({ row }) { return row >= 0; }

  between(from, to, s) { return { row: from.row + (to.row - from.row) * s }; }

  nodeAt(x, y) { return this.listed()[Math.floor(y / ROW + this.view.window.row)] ?? -1; }

  zoom(factor) { this.slide(Math.log(factor) * SPEED); return false; }

  pan(dx, dy) { this.slide(-dy / ROW); }

  slide(rows) { Object.assign(this.view.window, this.at(this.view.window.row + rows)); }

  seek(share) {
    const { shape } = this.view;
    let best = 0;
    for (const i of this.listed()) if (shape.from(i) <= share * shape.total) best = i;
    return this.at(this.place.get(best) - 4);
  }

  framed() { return null; }

  // Rows in view with where they stand.
  *inView() {
    const { window: { row }, height, shape } = this.view, rows = this.listed();
    for (let k = Math.floor(row); k < Math.min(Math.ceil(row + height / ROW), rows.length); k++) {
      const i = rows[k], x = 14 + INDENT * Math.min(shape.depth[i], 30);
      yield { i, x, y: (k - row + 0.5) * ROW, sign: shape.size[i] === 1 ? "" : this.open.has(i) ? "▾" : "▸" };
    }
  }

  draw() {
    const { view } = this, { context: c, palette, shape, width } = view, { colour } = view.style(), lit = view.beliefs && new Map(view.beliefs.list);
    for (const { i, x, y, sign } of this.inView()) {
      c.fillStyle = toCss(lit?.get(i) ?? colour(i));
      c.fillRect(x + 14, y - 6, 12, 12);
      c.fillStyle = palette.text;
      c.fillText(sign, x, y);
      const name = view.fitted(view.labels.get(i) ?? "", width - x - 180);
      c.fillText(name, x + 32, y);
      c.fillStyle = palette.faint;
      const p = view.beliefs?.map.get(i), told = [shape.size[i] > 1 ? count(shape.size[i] - 1, "node") : "", p === undefined ? "" : percent(p)].filter(Boolean).join(" · ");
      c.fillText(told, x + 42 + view.widthOf(name), y);
    }
    for (const i of view.marks()) {
      const at = this.place.get(i);
      if (at !== undefined) c.strokeRect(4, (at - view.window.row) * ROW + 1, width - 8, ROW - 2);
    }
  }

  svg(out) {
    const { view } = this, { colour } = view.style(), ink = view.palette.text;
    for (const { i, x, y, sign } of this.inView()) {
      out.rect(x + 14, y - 6, 12, 12, colour(i));
      out.text(x, y, sign, ink);
      out.text(x + 32, y, view.labels.get(i) ?? "", ink);
    }
  }
}
