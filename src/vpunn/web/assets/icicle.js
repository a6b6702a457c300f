// Icicle and radial pictures from the same columns of pixels: column d holds the nodes of depth d, one pixel row each.
//
// A level is sorted, so the nodes in view are found by binary search, and nodes thinner than a pixel are jumped over to the
// first one of the next pixel: a frame costs (pixels × columns × log n), whatever the size of the tree or the width of a node.

export class Columns {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
  }

  // Paint depths first … first + count - 1 over the window [a, b) into `height` pixels; returns cells worth a label.
  paint(shape, { a, b, first, count, height, colour, gap, minCell, beliefs, ground }) {
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
    if (beliefs) this.light(shape, beliefs, a, scale, first, count, height, ground, cells);
    this.context.putImageData(this.image, 0, 0);
    return cells;
  }

  // Balls with a probability, faint ones first, each at least a pixel: the brightest is never hidden by its neighbours.
  light(shape, beliefs, a, scale, first, count, height, ground, cells) {
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

// Pixels of a disk looked up in the columns: the distance of each from the centre says which ring, its angle which row. Both
// depend on the size of the canvas alone, so a frame is one multiplication and one look a pixel.
export class Rings {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
  }

  resize(width, height, rows) {
    const key = [width, height, rows].join();
    if (key === this.key) return;
    this.key = key;
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.far = new Float32Array(width * height);
    this.row = new Uint16Array(width * height);
    this.radius = Math.min(width, height) / 2 - 4;
    const scale = rows / (2 * Math.PI);
    for (let y = 0, k = 0; y < height; y++) {
      const dy = y + 0.5 - height / 2;
      for (let x = 0; x < width; x++, k++) {
        const dx = x + 0.5 - width / 2, r = Math.sqrt(dx * dx + dy * dy);
        this.far[k] = r;
        if (r > this.radius) continue;
        const turn = Math.atan2(dx, -dy);
        this.row[k] = Math.min((turn < 0 ? turn + 2 * Math.PI : turn) * scale, rows - 1);
      }
    }
  }

  paint(columns, rings) {
    const { pixels, far, row, radius } = this, source = columns.pixels, step = radius / rings, inverse = 1 / step;
    this.step = step;
    for (let k = 0; k < far.length; k++) {
      const r = far[k], ring = (r * inverse) | 0;
      pixels[k] = r >= radius || r - ring * step < 1 ? 0 : source[row[k] * rings + ring];
    }
    this.context.putImageData(this.image, 0, 0);
  }
}
