// Names of nodes: what is on screen is asked for in one go, as slices of ids; what is known is kept.

const KEPT = 60000;
const AT_ONCE = 600;

export class Labels {
  constructor(api, hash, arrived) {
    this.api = api;
    this.hash = hash;
    this.arrived = arrived;
    this.known = new Map();
    this.wanted = new Set();
    this.busy = false;
    this.timer = 0;
  }

  get(i) {
    const name = this.known.get(i);
    if (name === undefined) {
      this.wanted.add(i);
      if (!this.busy && !this.timer) this.timer = setTimeout(() => this.fetch(), 15);
      return null;
    }
    return name;
  }

  learn(i, name) { this.known.set(i, name); }

  // Names of nodes that are about to be written in the panel.
  async need(ids) {
    const missing = ids.filter((i) => !this.known.has(i)).sort((a, b) => a - b);
    for (let k = 0; k < missing.length; k += AT_ONCE) {
      const part = missing.slice(k, k + AT_ONCE), names = await this.api.json("labels", { ids: slices(part), hash: this.hash });
      part.forEach((id, j) => this.known.set(id, names[j]));
    }
  }

  async fetch() {
    this.timer = 0;
    const ids = [...this.wanted].slice(-AT_ONCE).sort((a, b) => a - b);
    this.wanted.clear();
    if (!ids.length) return;
    this.busy = true;
    try {
      const names = await this.api.json("labels", { ids: slices(ids), hash: this.hash });
      if (this.known.size > KEPT) this.known.clear();
      ids.forEach((id, k) => this.known.set(id, names[k]));
    } catch { /* asked for again by the next frame that shows them */ }
    this.busy = false;
    this.arrived();
  }
}

export function slices(ids) {
  const parts = [];
  for (let k = 0; k < ids.length;) {
    let last = k;
    while (last + 1 < ids.length && ids[last + 1] === ids[last] + 1) last++;
    parts.push(last > k ? `${ids[k]}-${ids[last]}` : `${ids[k]}`);
    k = last + 1;
  }
  return parts.join(",");
}
