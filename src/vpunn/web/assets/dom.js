// Small helpers for the page. Text is only ever set as text, so what a label, a column or a table says stays text.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return element;
}

export function fill(element, ...children) { element.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined)); }

export function count(number, noun) {
  if (number === 1) return `1 ${noun}`;
  const many = noun.endsWith("f") && noun === "leaf" ? "leaves" : noun === "child" ? "children" : `${noun}s`;
  return `${number.toLocaleString("en")} ${many}`;
}

export function short(value) {
  if (value === null || value === undefined || value === "") return "";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6 ? String(+value.toPrecision(4)) : value.toExponential(2);
}

export function percent(p) { return p >= 0.9995 ? "100 %" : p >= 0.0995 ? `${(100 * p).toFixed(0)} %` : p >= 0.001 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %"; }

export function later(wait, work) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), wait); };
}

export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
