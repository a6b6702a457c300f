// The dendrogram: a node stands as far to the right as it is from the root, by the lengths of branches where the tree has them, else
// by levels; its subtree takes as much height as it has leaves. Subtrees lower than a pixel are one line.
import { toCss } from "./colors.js";
import { LINE, Levels } from "./columns.js";
import { short } from "./dom.js";

const PAD = 14;
const TIPS = 170; // pixels for names of leaves
const LOW = 1.2; // pixels of a subtree that is drawn as one line

export class Dendrogram extends Levels {
  keys = ["a", "b", "left", "right"];
  lengths = null; // of the branch above each node

  // Distance of every node from the root, and of the farthest node below each; made when first needed.
  get far() {
    if (this.made) return this.made;
    const { shape } = this.view, { n, parent } = shape, far = new Float64Array(n), reach = new Float64Array(n);
    for (let i = 1; i < n; i++) far[i] = far[parent[i]] + (this.lengths ? this.lengths[i] : 1);
    for (let i = n - 1; i >= 0; i--) { reach[i] = Math.max(reach[i], far[i]); if (i) reach[parent[i]] = Math.max(reach[parent[i]], reach[i]); }
    return (this.made = { far, reach });
  }

  setLengths(lengths) {
    this.lengths = lengths;
    this.made = null;
  }

  fit(i) {
    const { shape } = this.view, { far, reach } = this.far;
    if (i && shape.size[i] === 1) i = shape.parent[i];
    const left = i ? far[shape.parent[i]] : 0, { a, b } = super.fit(i);
    return { a, b, left, right: Math.max(reach[i], left + 1e-9 * (1 + reach[0])) };
  }

  // Pixels for branches: names of leaves have theirs as soon as they can be read.
  get room() {
    const { width, height, window: { a, b } } = this.view, tall = Math.min(Math.max((height / (b - a) / LINE - 0.5) * 2, 0), 1);
    return width - PAD - 10 - tall * Math.min(TIPS, width / 3);
  }

  x(far) { const { left, right } = this.view.window; return PAD + ((far - left) / (right - left)) * this.room; }

  y(leaf) { const { a, b } = this.view.window; return ((leaf - a) / (b - a)) * this.view.height; }

  shows(i, { a, b } = this.view.window) {
    const { shape, height } = this.view, tall = ((shape.to(i) - shape.from(i)) / (b - a)) * height;
    return shape.to(i) > a && shape.from(i) < b && tall >= LINE * 0.8;
  }

  valid({ a, b, left, right }) { return b > a && a >= 0 && b <= this.view.shape.total * 1.0001 && right > left && left >= 0; }

  framed() { const { a, b } = this.view.window; return { a, b, top: 0, cols: this.view.shape.maxDepth + 1 }; }

  zoom(factor, x, y) { return this.zoomAt(y / this.view.height, factor); }

  pan(dx, dy) {
    const { window: w, height } = this.view;
    this.slide(w.a - (dy / height) * (w.b - w.a));
    const step = Math.max(-(dx / this.room) * (w.right - w.left), -w.left);
    if (!dx) return;
    w.left += step;
    w.right += step;
    this.view.drift = false;
  }

  // Nodes in view with where they stand; those of one pixel are one, those out of view are jumped over.
  layOut() {
    const { shape, window: { a, b }, height } = this.view, { ids, pos, size, parent, depth } = shape, { far, reach } = this.far, seats = new Map(), found = [];
    const jump = (i, to) => { const d = depth[i], p = parent[i], end = p < 0 ? shape.n : p + size[p], k = shape.skipTo(shape.rank(i), shape.start[d + 1], to); return k < shape.start[d + 1] && ids[k] < end && ids[k] > i ? ids[k] : end; };
    for (let i = 0; i < shape.n;) {
      const from = pos[i], to = pos[i + size[i]], p = parent[i], above = p < 0 ? null : seats.get(p);
      if (to <= a) { if (above) above.low = -PAD; i = jump(i, a); continue; }
      if (from >= b) { if (above) above.high = height + PAD; i = p + size[p]; continue; }
      const y = this.y((from + to) / 2), low = this.y(to) - this.y(from) < LOW, spot = { node: i, x: this.x(low ? reach[i] : far[i]), y, start: above ? above.x : this.x(far[i]), tall: this.y(to) - this.y(from), low: y, high: y };
      if (above) { above.low = Math.min(above.low, y); above.high = Math.max(above.high, y); }
      found.push(spot);
      if (low) { i = i ? jump(i, from + ((b - a) / height) * LOW) : shape.n; continue; }
      while (shape.onlyChild(i) && this.x(far[i + 1]) - spot.x < 1) i++; // a chain of less than a pixel is one node
      seats.set(i, spot);
      i++;
    }
    return (this.spots = found);
  }

  nodeAt(x, y) {
    let best = -1, least = 14;
    for (const s of this.spots ?? []) {
      const off = Math.hypot(y - s.y, Math.max(s.start - x, x - s.x - (s.tall >= LINE ? TIPS : 0), 0));
      if (off < least) { least = off; best = s.node; }
    }
    return best;
  }

  // Lines and words of the picture: a branch to every node, a bar over its children, names where there is room.
  drawn() {
    const { view } = this, { shape, palette, beliefs, byBranch } = view, spots = this.layOut(), lines = [], words = [];
    const hue = byBranch ? palette.ofDots(shape, view.root) : view.colour, paint = (i) => (beliefs ? (beliefs.map.has(i) ? palette.ofProbability(beliefs.map.get(i)) : 0) : hue(i));
    for (const s of spots) {
      const colour = paint(s.node), ink = colour ? toCss(colour) : palette.thread, lit = beliefs?.map.has(s.node) ? 3 : 1.3;
      lines.push([s.start, s.y, Math.max(s.x, s.start + 1), s.y, ink, lit]);
      if (s.high > s.low) lines.push([s.x, s.low, s.x, s.high, ink, 1.3]);
      const leaf = shape.size[s.node] === 1, room = leaf ? view.width - s.x - 10 : s.x - s.start - 6;
      if (s.tall < (leaf ? LINE - 1 : 2 * LINE) || words.length > view.many) continue;
      const text = view.named(s.node, room);
      if (text && (leaf || !text.endsWith("…"))) words.push([leaf ? s.x + 6 : s.x - 4 - view.widthOf(text), leaf ? s.y : s.y - 8, text]);
    }
    return { lines, words };
  }

  draw() {
    const { view } = this, { context: c, palette } = view, { lines, words } = this.drawn();
    for (const [x0, y0, x1, y1, ink, wide] of lines) {
      c.strokeStyle = ink;
      c.lineWidth = wide;
      c.beginPath();
      c.moveTo(x0, y0);
      c.lineTo(x1, y1);
      c.stroke();
    }
    c.fillStyle = palette.text;
    for (const [x, y, text] of words) c.fillText(text, x, y);
    for (const i of view.marks()) {
      const s = this.spots.find((spot) => spot.node === i);
      if (s) c.strokeRect(s.start, s.y - 5, Math.max(s.x - s.start, 2), 10);
    }
    this.ruler();
  }

  // How long a branch is that is so many pixels wide: a round number at the bottom.
  ruler() {
    if (!this.lengths) return;
    const { context: c, palette, height, window: { left, right } } = this.view, unit = 10 ** Math.floor(Math.log10((right - left) / 4)), wide = (unit / (right - left)) * this.room;
    c.strokeStyle = c.fillStyle = palette.text;
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(PAD, height - 10);
    c.lineTo(PAD + wide, height - 10);
    c.stroke();
    c.fillText(short(unit), PAD + wide + 6, height - 10);
  }

  svg(out) {
    const { lines, words } = this.drawn();
    for (const line of lines) out.line(...line);
    for (const [x, y, text] of words) out.text(x, y, text, this.view.palette.text);
  }
}
