// The view as a URL: everything after the # is `name=value`, so that reload, back, middle-click and sharing work,
// also in a saved file. docs/explorer.md lists the names.

const NAMES = ["layout", "root", "focus", "with", "zoom", "color", "stat", "size", "tab", "q", "text", "risk", "stop", "theme"];
export const DEFAULTS = { layout: "icicle", root: "@0", stat: "mean", stop: "risk" };

export function readHash(hash = location.hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { ...DEFAULTS };
  for (const name of NAMES) if (given.has(name)) state[name] = given.get(name);
  return state;
}

export function writeHash(state) {
  const out = new URLSearchParams();
  for (const name of NAMES) {
    const value = state[name];
    if (value !== undefined && value !== null && value !== (DEFAULTS[name] ?? "")) out.set(name, value);
  }
  return "#" + out.toString();
}

export class State {
  constructor(changed) {
    this.now = readHash();
    this.changed = changed;
    addEventListener("popstate", () => this.reread());
    addEventListener("hashchange", () => this.reread());
  }

  reread() {
    const next = readHash();
    if (writeHash(next) === writeHash(this.now)) return;
    const before = this.now;
    this.now = next;
    this.changed(before, next);
  }

  // A step one can go back from; `replace` for what changes continuously (zoom, a slider, typing).
  set(patch, { replace = false, silent = false } = {}) {
    const before = this.now, next = { ...before, ...patch };
    const hash = writeHash(next);
    this.now = next;
    if (hash !== writeHash(before)) {
      try { history[replace ? "replaceState" : "pushState"](null, "", hash); } catch { /* a frame without a URL of its own */ }
    }
    if (!silent) this.changed(before, next);
  }

  // Follow a link where the page has no URL of its own.
  jump(hash) {
    const { now } = this, next = readHash(hash);
    this.set({ ...Object.fromEntries(NAMES.map((name) => [name, undefined])), ...next, theme: next.theme ?? now.theme });
  }

  link(patch) { return writeHash({ ...this.now, zoom: undefined, ...patch }); }
}
