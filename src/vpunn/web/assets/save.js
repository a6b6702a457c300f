// The view as a picture: SVG is drawn again from the same cells, PNG is the canvas itself.
import { isDark, toCss } from "./colors.js";
import { Columns } from "./icicle.js";

function escaped(text) { return text.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\x00-\x08\x0b-\x1f]/g, "�"); }

export function asSvg(view) {
  const { width, height, palette } = view, out = [];
  const text = (x, y, words, colour, extra = "") => out.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${colour}" dominant-baseline="central"${extra}>${escaped(words)}</text>`);
  const ink = (colour) => (isDark(colour) ? "#ffffff" : "#16191d");
  if (view.layout === "disk") diskSvg(view, out, text);
  else sectorsSvg(view, out, text, ink);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">` +
    `<rect width="100%" height="100%" fill="${toCss(palette.background)}"/>${out.join("")}</svg>`;
}

function sectorsSvg(view, out, text, ink) {
  const { shape, window: w, width, height } = view, radial = view.layout === "radial";
  const first = radial ? Math.round(w.top) : Math.floor(w.top), count = radial ? view.ringCount() : Math.ceil(w.cols + w.top - first) + 1;
  const rows = radial ? 2880 : height, wide = view.columnWidth(), step = (Math.min(width, height) / 2 - 4) / count, turn = (2 * Math.PI) / rows;
  const cells = new Columns().paint(shape, { a: w.a, b: w.b, first, count, height: rows, minCell: radial ? 2 : 1, ...view.style() });
  const [cx, cy] = [width / 2, height / 2];
  for (const cell of cells) {
    const top = Math.max(cell.top, 0), bottom = Math.min(cell.bottom, rows), fill = toCss(cell.colour);
    if (!radial) {
      const x = (first - w.top + cell.column) * wide;
      out.push(`<rect x="${x.toFixed(1)}" y="${top.toFixed(1)}" width="${(wide - 1).toFixed(1)}" height="${Math.max(bottom - top - 0.5, 0.5).toFixed(1)}" fill="${fill}"/>`);
      const words = bottom - top >= 13 ? view.named(cell.node, wide - 8) : "";
      if (words) text(x + 4, (top + bottom) / 2, words, ink(cell.colour));
      continue;
    }
    const [t0, t1] = [top * turn - Math.PI / 2, Math.min(bottom * turn, 2 * Math.PI - 1e-4) - Math.PI / 2], [r0, r1] = [cell.column * step, (cell.column + 1) * step - 1];
    const at = (r, t) => `${(cx + r * Math.cos(t)).toFixed(1)} ${(cy + r * Math.sin(t)).toFixed(1)}`, big = t1 - t0 > Math.PI ? 1 : 0;
    out.push(`<path d="M${at(r1, t0)}A${r1.toFixed(1)} ${r1.toFixed(1)} 0 ${big} 1 ${at(r1, t1)}L${at(r0, t1)}A${r0.toFixed(1)} ${r0.toFixed(1)} 0 ${big} 0 ${at(r0, t0)}Z" fill="${fill}"/>`);
    if (cell.column && (t1 - t0) * r0 < 13) continue;
    const words = view.named(cell.node, step - 8), t = (t0 + t1) / 2, left = Math.cos(t) < 0;
    if (words && cell.column) text(left ? cx - r0 - 4 : cx + r0 + 4, cy, words, ink(cell.colour), ` transform="rotate(${((t * 180) / Math.PI + (left ? 180 : 0)).toFixed(1)} ${cx} ${cy})"${left ? ' text-anchor="end"' : ""}`);
  }
}

function diskSvg(view, out, text) {
  const { palette, radius } = view, [cx, cy] = [view.width / 2, view.height / 2], lit = view.beliefs && view.beliefs.map;
  const x = (s) => cx + s.x * radius, y = (s) => cy + s.y * radius;
  for (const s of view.spots) if (s.up) out.push(`<path d="M${x(s.up).toFixed(1)} ${y(s.up).toFixed(1)}L${x(s).toFixed(1)} ${y(s).toFixed(1)}" stroke="#999" stroke-width="0.6"/>`);
  for (const s of view.spots) {
    const fill = lit ? (lit.has(s.node) ? palette.ofProbability(lit.get(s.node)) : palette.nothing) : view.colour(s.node);
    out.push(`<circle cx="${x(s).toFixed(1)}" cy="${y(s).toFixed(1)}" r="${s.r.toFixed(1)}" fill="${toCss(fill)}"/>`);
    if (s.near > 0.3 && s.width > 20) text(x(s) + s.r + 3, y(s), view.named(s.node, 140), palette.text);
  }
}
