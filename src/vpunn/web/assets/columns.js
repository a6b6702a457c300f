// Columns of pixels: column d holds the nodes of depth d, one pixel row each. Icicle and radial pictures are made from them.
//
// A level is sorted, so the nodes in view are found by binary search, and nodes thinner than a pixel are jumped over to the
// first one of the next pixel: a frame costs (pixels × columns × log n), whatever the size of the tree or the width of a node.

export const LINE = 13; // pixels of a line of text
const READABLE = 150; // pixels of a level whose names can be read
const NARROW = 100; // the same where the whole window is narrow
const COMPANY = 20; // leaves that are in view at least when the page moves to a node

export class Columns {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
  }

  // Paint depths first … first + count - 1 over the window [a, b) into `height` pixels; returns cells worth a label.
  paint(shape, { a, b, first, count, height, colour, gap, minCell, beliefs }) {
    if (this.canvas.width !== count || this.canvas.height !== height) {
      this.canvas.width = count;
      this.canvas.height = height;
      this.image = this.context.createImageData(count, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const { pixels } = this, { ids, pos, size } = shape;
    pixels.fill(0);
    const scale = height / (b - a), cells = [];
    for (let c = 0; c < count; c++) {
      const d = first + c;
      if (d < 0 || d > shape.maxDepth) continue;
      const end = shape.start[d + 1];
      let k = Math.max(shape.lastBefore(d, a), shape.start[d]);
      while (k < end) {
        const i = ids[k], x0 = pos[i];
        if (x0 >= b) break;
        const x1 = pos[i + size[i]];
        const y0 = (x0 - a) * scale, y1 = (x1 - a) * scale;
        if (y1 <= 0 || x1 === x0) { k++; continue; }
        if (y1 - y0 < 1) {
          const row = Math.max(Math.floor(y0), 0);
          if (row >= height) break;
          if (!pixels[row * count + c]) pixels[row * count + c] = colour(i);
          k = shape.skipTo(k, end, a + (row + 1) / scale);
          continue;
        }
        const top = Math.max(Math.round(y0), 0), bottom = Math.min(Math.round(y1), height);
        const paint = colour(i, y1 - y0 >= 3);
        let row = top;
        if (y1 - y0 >= 3 && gap && y0 > 0) pixels[row++ * count + c] = gap;
        for (let at = row * count + c; row < bottom; row++, at += count) pixels[at] = paint;
        if (y1 - y0 >= minCell) cells.push({ node: i, column: c, top: y0, bottom: y1, colour: paint });
        k++;
      }
    }
    if (beliefs) this.light(shape, beliefs, a, scale, first, count, height, cells);
    this.context.putImageData(this.image, 0, 0);
    return cells;
  }

  // Balls with a probability, faint ones first, each at least a pixel: the brightest is never hidden by its neighbours.
  light(shape, beliefs, a, scale, first, count, height, cells) {
    const lit = new Map();
    for (const [i, colour] of beliefs) {
      const c = shape.depth[i] - first;
      if (c < 0 || c >= count) continue;
      const y0 = (shape.from(i) - a) * scale, y1 = (shape.to(i) - a) * scale;
      if (y1 <= 0 || y0 >= height) continue;
      const tall = y1 - y0 >= 3, top = Math.min(Math.max(tall ? Math.round(y0) : Math.floor(y0), 0), height - 1);
      const bottom = Math.min(Math.max(Math.round(y1), top + 1), height), edge = tall && y0 > 0 ? 1 : 0;
      for (let row = top + edge; row < bottom; row++) this.pixels[row * count + c] = colour;
      lit.set(i, colour);
    }
    for (const cell of cells) if (lit.has(cell.node)) cell.colour = lit.get(cell.node);
  }
}

// What icicle, radial layout and dendrogram share: a window is an interval [a, b) of leaves and, unless a layout has other keys, `cols` levels from depth `top` on.
export class Levels {
  keys = ["a", "b", "top", "cols"];

  constructor(view) {
    this.view = view;
    this.columns = new Columns();
  }

  // Levels that have room for names, besides those above the node.
  mostColumns() { const { width } = this.view; return Math.min(Math.max(Math.floor(width / (width < 600 ? NARROW : READABLE)), 2), 6); }

  // The window that shows a node's subtree, its parent beside it.
  fit(i) {
    const { shape } = this.view;
    if (i && shape.size[i] === 1) i = shape.parent[i]; // a leaf alone would fill the window
    const above = shape.depth[i] ? 1 : 0;
    const cols = Math.min(Math.max(shape.levelsBelow(i) + above, 2), this.mostColumns() + above, Math.max(shape.maxDepth + 1, 2));
    let [a, b] = [shape.from(i), shape.to(i)];
    if (!(b > a)) { const e = shape.total * 1e-9; a = Math.max(a - e, 0); b = a + 2 * e; }
    return { a, b, top: shape.depth[i] - above, cols };
  }

  // The window that shows nodes with what stands beside them: their siblings and some company, as long as they stay in view themselves.
  around(...nodes) {
    const { shape } = this.view, deepest = Math.max(...nodes.map((i) => shape.depth[i]));
    let i = nodes.reduce((a, b) => shape.lca(a, b));
    while (i && shape.leaves(i, COMPANY) < COMPANY && deepest - shape.depth[i] + 1 <= this.mostColumns()) i = shape.parent[i];
    const window = this.fit(i);
    return nodes.length > 1 ? window : this.enlarged(nodes[0], window);
  }

  // The part of a window in whose middle a node is tall enough for its name.
  enlarged(i, window) {
    const { shape, height } = this.view, { a, b } = window, from = shape.from(i), to = shape.to(i);
    const width = Math.min(((to - from) * height) / (2 * LINE), b - a);
    if (!(width > 0)) return window;
    const start = Math.min(Math.max((from + to - width) / 2, a), b - width);
    return { ...window, a: start, b: start + width };
  }

  // Is the node's cell in the window, and large enough to be seen?
  shows(i, { a, b, top, cols } = this.view.window) {
    const { shape, height } = this.view, d = shape.depth[i];
    const tall = ((shape.to(i) - shape.from(i)) / (b - a)) * height;
    return d >= top - 0.01 && d < top + cols - 0.5 && shape.to(i) > a && shape.from(i) < b && tall >= LINE;
  }

  valid({ a, b, top, cols }) { return b > a && a >= 0 && b <= this.view.shape.total * 1.0001 && cols >= 1 && cols < 500 && top >= 0; }

  // Widths shrink by equal factors in equal times; the edges follow, so that a zoom has one fixed point.
  between(from, to, s) {
    const w0 = from.b - from.a, w1 = to.b - to.a, width = w0 * (w1 / w0) ** s;
    const share = Math.abs(w1 - w0) > 1e-12 * (w0 + w1) ? (width - w0) / (w1 - w0) : s;
    const a = from.a + (to.a - from.a) * share, mixed = this.keys.slice(2).map((key) => [key, from[key] + (to[key] - from[key]) * s]);
    return { a, b: a + width, ...Object.fromEntries(mixed) };
  }

  // The deepest node that covers the whole window.
  covering() {
    const { shape, window: { a, b } } = this.view;
    let i = 0;
    for (let d = 1; d <= shape.maxDepth; d++) {
      const j = shape.at(d, (a + b) / 2);
      if (j < 0 || shape.from(j) > a + (b - a) * 0.02 || shape.to(j) < b - (b - a) * 0.02) break;
      i = j;
    }
    return i;
  }

  // One step of the columns towards those of what the window shows by now; false when they are there.
  follow() {
    const { window: w } = this.view, want = this.fit(this.covering()), keys = this.keys.slice(2);
    for (const key of keys) w[key] += (want[key] - w[key]) * 0.25;
    return keys.some((key) => Math.abs(want[key] - w[key]) >= 0.002 * (1 + Math.abs(want[key])));
  }

  // Zoom about the point that lies `share` of the way through the window.
  zoomAt(share, factor) {
    const { window: w, shape } = this.view, least = shape.pos instanceof Int32Array ? 0.8 : shape.total * 1e-11;
    const at = w.a + share * (w.b - w.a), width = Math.min(Math.max((w.b - w.a) * factor, least), shape.total);
    this.slide(at - share * width, width);
    return true;
  }

  slide(a, width = this.view.window.b - this.view.window.a) {
    const { window: w, shape } = this.view;
    w.a = Math.min(Math.max(a, 0), shape.total - width);
    w.b = w.a + width;
  }

  // The window moved to a place of the small map.
  seek(share) {
    const { window: w, shape } = this.view, width = w.b - w.a;
    const a = Math.min(Math.max(share * shape.total - width / 2, 0), shape.total - width);
    return { ...w, a, b: a + width };
  }

  framed() { return this.view.window; }
}
