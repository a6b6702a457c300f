// The Poincaré disk: angles follow the leaves, and a node lies ln(its parent's leaves / its leaves) beyond its parent in
// hyperbolic distance, so that every sector is about as wide as any other where it begins. Moving about is a translation of
// the disk (a Möbius map): every node can stand in the middle with its own neighbourhood around it.

import { toCss } from "./colors.js";

// An only child still lies this far beyond its parent; in trees deeper than FAR steps less, since at distances of 30 and more
// 1 - r is lost in double precision.
const STEP = 0.35;
const FAR = 12;

// Radius of every node in the disk, made when first needed and again when sizes change.
function radiiOf(shape) {
  if (shape.radii && shape.radiiFor === shape.pos) return shape.radii;
  const { n, parent, total, maxDepth } = shape, step = Math.min(STEP, FAR / Math.max(maxDepth, 1)), far = new Float64Array(n);
  const width = (i) => Math.max(shape.to(i) - shape.from(i), total * 1e-8);
  for (let i = 1; i < n; i++) far[i] = far[parent[i]] + Math.max(Math.log(width(parent[i]) / width(i)), step);
  shape.radii = far.map((d) => Math.tanh(d / 2));
  shape.radiiFor = shape.pos;
  return shape.radii;
}

function place(shape, i) {
  const r = radiiOf(shape)[i], angle = (Math.PI * (shape.from(i) + shape.to(i))) / shape.total;
  return [r * Math.sin(angle), -r * Math.cos(angle)];
}

// z moved by the translation that takes f to the centre
function moved([x, y], [fx, fy]) {
  const nx = x - fx, ny = y - fy, dx = 1 - (fx * x + fy * y), dy = fy * x - fx * y, q = dx * dx + dy * dy;
  return [(nx * dx + ny * dy) / q, (ny * dx - nx * dy) / q];
}

function clamped([x, y]) {
  const r = Math.hypot(x, y), most = 1 - 1e-11;
  return r > most ? [(x / r) * most, (y / r) * most] : [x, y];
}

// Nodes in view with their places. A subtree fills a sector outside its node; how large the map makes it at most follows from
// the angle between the sector and the focus. Sectors smaller than `least` pixels are one dot, and siblings that small are
// jumped over, so a frame costs about as much as there are pixels on the rim.
function layOut(shape, focus, radius, least) {
  const found = [], { pos, size, depth, parent, total } = shape, seats = new Map(), radii = radiiOf(shape);
  const f = Math.hypot(...focus), shown = (1 - f) * (1 + f), turn = (2 * Math.PI) / total;
  const toward = ((Math.atan2(focus[0], -focus[1]) + 2 * Math.PI) % (2 * Math.PI)) / turn;
  const within = (j, [x, y]) => {
    const angle = (Math.PI * (pos[j] + pos[j + size[j]])) / total, [u, v] = moved([radii[j] * Math.sin(angle), -radii[j] * Math.cos(angle)], focus);
    return Math.hypot(u - x, v - y) * radius < 1;
  };
  let i = 0;
  while (i < shape.n) {
    const d = depth[i], r = radii[i], x0 = pos[i], x1 = pos[i + size[i]];
    const angle = (Math.PI * (x0 + x1)) / total, z = [r * Math.sin(angle), -r * Math.cos(angle)];
    const dx = 1 - (focus[0] * z[0] + focus[1] * z[1]), dy = focus[1] * z[0] - focus[0] * z[1];
    const zoom = (shown / (dx * dx + dy * dy)) * radius;
    const width = ((2 * Math.PI * (x1 - x0)) / total) * Math.max(r, 0.2) * zoom;
    const w = moved(z, focus);
    const aside = x0 <= toward && toward < x1 ? 0 : Math.min(Math.abs(x0 - toward), Math.abs(x1 - toward), total - Math.abs(x0 - toward), total - Math.abs(x1 - toward));
    const reach = ((x1 - x0) * turn * shown * radius) / ((1 - f) ** 2 + 4 * f * Math.sin((aside * turn) / 2) ** 2);
    const spot = { node: i, x: w[0], y: w[1], width, up: d ? seats.get(parent[i]) : undefined, near: 1 - w[0] ** 2 - w[1] ** 2 };
    if (reach < least && d) {
      // the next sibling at least one dot further along the rim; never past half the way to the focus, where dots are smaller
      const gap = Math.min(((x1 - x0) * least) / reach, Math.max(aside / 2, x1 - x0));
      if (spot.near * radius > 0.4) found.push(spot);
      const k = shape.skipTo(shape.rank(i), shape.start[d + 1], x0 + gap), p = parent[i], last = p + size[p];
      i = k < shape.start[d + 1] && shape.ids[k] < last ? shape.ids[k] : last;
      continue;
    }
    found.push(spot);
    while (shape.onlyChild(i) && within(i + 1, w)) i++; // a chain of less than a pixel is one node
    seats.set(i, spot);
    i++;
  }
  return found;
}

export class Disk {
  keys = ["fx", "fy"];

  constructor(view) {
    this.view = view;
    this.spots = [];
  }

  get radius() { return Math.min(this.view.width, this.view.height) / 2 - 6; }

  fit(i) { const [fx, fy] = place(this.view.shape, i); return { fx, fy }; }

  // The disk shows all that is around its centre.
  around(...nodes) {
    const { shape } = this.view, i = nodes.reduce((a, b) => shape.lca(a, b));
    return this.fit(i && shape.size[i] === 1 ? shape.parent[i] : i);
  }

  shows() { return false; } // the chosen node goes to the middle

  valid({ fx, fy }) { return Math.hypot(fx, fy) < 1; }

  between(from, to, s) { return { fx: from.fx + (to.fx - from.fx) * s, fy: from.fy + (to.fy - from.fy) * s }; }

  nodeAt(x, y) {
    const { width, height } = this.view, dx = x - width / 2, dy = y - height / 2;
    let best = -1, least = 20 ** 2;
    for (const s of this.spots) {
      const q = (s.x * this.radius - dx) ** 2 + (s.y * this.radius - dy) ** 2;
      if (q < least) { least = q; best = s.node; }
    }
    return best;
  }

  zoom(factor, x, y) {
    const { window: w, width, height } = this.view, r = this.radius, target = [((x - width / 2) / r) * 0.5, ((y - height / 2) / r) * 0.5];
    const sign = factor < 1 ? 1 - factor : -(1 - 1 / factor);
    const step = sign > 0 ? [target[0] * sign, target[1] * sign] : [w.fx * sign, w.fy * sign];
    [w.fx, w.fy] = clamped(sign > 0 ? moved(step, [-w.fx, -w.fy]) : [w.fx + step[0], w.fy + step[1]]);
    return false;
  }

  pan(dx, dy) {
    const { window: w } = this.view;
    [w.fx, w.fy] = clamped(moved([-dx / this.radius, -dy / this.radius], [-w.fx, -w.fy]));
  }

  seek(share) {
    const { shape } = this.view, i = shape.at(Math.min(2, shape.maxDepth), share * shape.total);
    return this.fit(Math.max(i, 0));
  }

  framed() { return null; }

  // The colour of a dot: probabilities where there are any.
  paint() {
    const { palette, shape, beliefs, byBranch, colour } = this.view, lit = beliefs && beliefs.map, dots = byBranch ? palette.ofDots(shape, this.view.root) : colour;
    return (i) => (lit ? (lit.has(i) ? palette.ofProbability(lit.get(i)) : palette.nothing) : dots(i));
  }

  draw() {
    const { view, radius } = this, { shape, window: w, context: c, palette } = view, lit = view.beliefs && view.beliefs.map, paint = this.paint();
    const spots = (this.spots = layOut(shape, [w.fx, w.fy], radius, view.coarse * (view.move ? 1.5 : 1)));
    c.save();
    c.translate(view.width / 2, view.height / 2);
    c.fillStyle = palette.ground;
    c.beginPath();
    c.arc(0, 0, radius, 0, 2 * Math.PI);
    c.fill();
    c.lineWidth = 0.7;
    c.strokeStyle = palette.thread;
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
    for (const i of view.marks()) this.outline(i);
    this.names();
    c.restore();
  }

  outline(i) {
    const { radius } = this, { context: c } = this.view, s = this.spots.find((spot) => spot.node === i);
    if (!s) return;
    c.beginPath();
    c.arc(s.x * radius, s.y * radius, s.r + 3, 0, 2 * Math.PI);
    c.stroke();
  }

  names() {
    const { view, spots, radius } = this, { context: c, palette } = view, taken = [];
    const first = (s) => (s.node === view.focus ? 1e9 : 0) + s.near * Math.min(s.width, 60) * (s.near > 0.03);
    for (const s of spots.slice().sort((p, q) => first(q) - first(p)).slice(0, view.many)) {
      if (first(s) < 2 || taken.length > 90) break;
      const text = view.named(s.node, 150);
      if (!text) continue;
      const x = s.x * radius + s.r + 3, y = s.y * radius, box = [x - 1, y - 7, x + view.widthOf(text) + 1, y + 7];
      if (taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) continue;
      taken.push(box);
      c.lineWidth = 3;
      c.strokeStyle = palette.ground;
      c.strokeText(text, x, y);
      c.fillStyle = palette.text;
      c.fillText(text, x, y);
    }
  }

  svg(out) {
    const { view, radius } = this, paint = this.paint(), x = (s) => view.width / 2 + s.x * radius, y = (s) => view.height / 2 + s.y * radius;
    for (const s of this.spots) if (s.up) out.line(x(s.up), y(s.up), x(s), y(s));
    for (const s of this.spots) {
      out.circle(x(s), y(s), s.r, paint(s.node));
      if (s.near > 0.3 && s.width > 20) out.text(x(s) + s.r + 3, y(s), view.named(s.node, 140), view.palette.text);
    }
  }
}
