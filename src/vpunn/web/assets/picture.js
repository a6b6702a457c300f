// The view as SVG: layouts draw into these few forms.
import { isDark, toCss } from "./colors.js";
import { Columns } from "./columns.js";

function escaped(text) { return text.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\x00-\x08\x0b-\x1f]/g, "�"); }

class Drawing {
  parts = [];
  columns = new Columns();

  ink(colour) { return isDark(colour) ? "#ffffff" : "#16191d"; }
  rect(x, y, width, height, fill) { this.parts.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${width.toFixed(1)}" height="${height.toFixed(1)}" fill="${toCss(fill)}"/>`); }
  path(d, fill) { this.parts.push(`<path d="${d}" fill="${toCss(fill)}"/>`); }
  line(x0, y0, x1, y1, ink = "#999", wide = 0.6) { this.parts.push(`<path d="M${x0.toFixed(1)} ${y0.toFixed(1)}L${x1.toFixed(1)} ${y1.toFixed(1)}" stroke="${ink}" stroke-width="${wide}"/>`); }
  circle(x, y, r, fill) { this.parts.push(`<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="${r.toFixed(1)}" fill="${toCss(fill)}"/>`); }

  text(x, y, words, colour, { turn, about, end, middle } = {}) {
    const more = `${turn === undefined ? "" : ` transform="rotate(${turn.toFixed(1)} ${about.join(" ")})"`}${end || middle ? ` text-anchor="${end ? "end" : "middle"}"` : ""}`;
    if (words) this.parts.push(`<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" fill="${colour}" dominant-baseline="central"${more}>${escaped(words)}</text>`);
  }
}

export function asSvg(view) {
  const { width, height, palette } = view, out = new Drawing();
  view.layout.svg(out);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">` +
    `<rect width="100%" height="100%" fill="${toCss(palette.background)}"/>${out.parts.join("")}</svg>`;
}
