// The Poincaré disk: angles follow the leaves, and a node lies ln(its parent's leaves / its leaves) beyond its parent in
// hyperbolic distance, so that every sector is about as wide as any other where it begins. Moving about is a translation of
// the disk (a Möbius map): every node can stand in the middle with its own neighbourhood around it.

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

export function place(shape, i) {
  const r = radiiOf(shape)[i], angle = (Math.PI * (shape.from(i) + shape.to(i))) / shape.total;
  return [r * Math.sin(angle), -r * Math.cos(angle)];
}

// z moved by the translation that takes f to the centre
export function moved([x, y], [fx, fy]) {
  const nx = x - fx, ny = y - fy, dx = 1 - (fx * x + fy * y), dy = fy * x - fx * y, q = dx * dx + dy * dy;
  return [(nx * dx + ny * dy) / q, (ny * dx - nx * dy) / q];
}

export function clampDisk([x, y]) {
  const r = Math.hypot(x, y), most = 1 - 1e-11;
  return r > most ? [(x / r) * most, (y / r) * most] : [x, y];
}

// Nodes in view with their places. A subtree fills a sector outside its node; how large the map makes it at most follows from
// the angle between the sector and the focus. Sectors smaller than `least` pixels are one dot, and siblings that small are
// jumped over, so a frame costs about as much as there are pixels on the rim.
export function layOut(shape, focus, radius, least) {
  const found = [], { pos, size, depth, parent, total } = shape, seats = new Map(), radii = radiiOf(shape);
  const f = Math.hypot(...focus), shown = (1 - f) * (1 + f), turn = (2 * Math.PI) / total;
  const toward = ((Math.atan2(focus[0], -focus[1]) + 2 * Math.PI) % (2 * Math.PI)) / turn;
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
    seats.set(i, spot);
    found.push(spot);
    i++;
  }
  return found;
}
