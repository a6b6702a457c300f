// The search box: a combobox over all labels, names and codes.
import { $, fill, later, make } from "./dom.js";

export class SearchBox {
  constructor(app) {
    this.app = app;
    this.box = $("query");
    this.list = $("results");
    this.at = -1;
    this.turn = 0;
    this.box.addEventListener("input", () => { this.chosen = null; });
    this.box.addEventListener("input", later(60, () => { if (this.box.value.trim() !== this.chosen) this.ask(); }));
    this.box.addEventListener("focus", () => { if (this.box.value.trim()) this.ask(); });
    this.box.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => { if (!event.target.closest("#search")) this.close(); });
  }

  // Results of what the box says; those of the same text that are on their way serve both who asked.
  ask() {
    const text = this.box.value.trim();
    if (this.waiting?.text !== text) {
      const waiting = this.waiting = { text };
      waiting.done = this.answer(text).finally(() => { if (this.waiting === waiting) this.waiting = null; });
    }
    return this.waiting.done;
  }

  async answer(text) {
    const turn = ++this.turn;
    this.app.state.set({ q: text || undefined }, { replace: true, silent: true });
    if (!text) { this.close(); return; }
    this.stop?.abort();
    this.stop = new AbortController();
    let found;
    try { found = await this.app.api.json("search", { q: text, limit: 30 }, this.stop.signal); } catch (error) { if (error.name !== "AbortError") this.app.say(error); return; }
    if (turn !== this.turn) return;
    this.shown = text;
    this.show(found);
  }

  show(found) {
    const { state } = this.app;
    const entries = found.results.map((node, k) => make("li", { role: "option", id: `r${k}` },
      make("a", { href: state.link({ focus: node.ref, tab: "node" }), tabindex: "-1", onclick: () => this.close() },
        make("b", {}, node.name), node.label === node.name ? null : make("code", {}, node.also || node.label),
        make("small", {}, `depth ${node.depth}${node.above.length ? " · " + node.above.join(" › ") : ""}`))));
    if (!entries.length) {
      const hints = found.did_you_mean.map((text) => make("button", { type: "button", onclick: () => { this.box.value = text; this.ask(); } }, text));
      entries.push(make("li", { class: "none" }, "nothing found", hints.length ? make("span", {}, "; did you mean ", hints, "?") : ""));
    }
    fill(this.list, entries);
    this.list.hidden = false;
    this.box.setAttribute("aria-expanded", "true");
    this.mark(-1);
  }

  mark(k) {
    const links = [...this.list.querySelectorAll("[role=option]")];
    this.at = links.length ? Math.max(Math.min(k, links.length - 1), -1) : -1;
    links.forEach((entry, j) => entry.setAttribute("aria-selected", String(j === this.at)));
    if (this.at >= 0) {
      links[this.at].scrollIntoView({ block: "nearest" });
      this.box.setAttribute("aria-activedescendant", links[this.at].id);
    } else this.box.removeAttribute("aria-activedescendant");
  }

  async key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); this.mark(this.at + (event.key === "ArrowDown" ? 1 : -1)); }
    if (event.key === "Escape") { this.close(); this.box.blur(); $("view").focus(); }
    if (event.key === "Enter") {
      event.preventDefault();
      const text = this.chosen = this.box.value.trim();
      if (this.shown !== text) await this.ask();  // what is listed answers fewer letters
      if (this.shown !== text) return;
      const link = this.list.querySelectorAll("[role=option] a")[Math.max(this.at, 0)];
      if (link && !this.list.hidden) { link.click(); $("view").focus(); }
    }
  }

  close() { this.list.hidden = true; this.box.setAttribute("aria-expanded", "false"); }
}
