// A table of the visitor's: every row answered, the doubtful ones first, corrected by hand and saved; with right answers also where
// the model fails and what it takes for what.
import { $, count, download, fill, make, percent, short } from "./dom.js";

const PART = 50; // rows shown at a time

const quoted = (cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

export class Tables {
  constructor(app) {
    this.app = app;
    this.model = app.summary.model;
    this.corrected = new Map();
    const answers = this.model?.answers === "places";
    if (answers) $("testfile").addEventListener("change", () => this.open($("testfile").files[0]));
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
      event.preventDefault(); // lest the browser leaves the page for the file
      const file = event.dataTransfer.files[0];
      if (!file) return;
      if (!answers) { app.say(new Error("tables are answered here by models of places only; vpunn predict answers all")); return; }
      app.state.set({ tab: "ask" }, { replace: true });
      this.open(file);
    });
  }

  async open(file) {
    if (!file) return;
    const place = $("triage"), { api } = this.app, kind = file.name.endsWith(".tsv") ? "text/tab-separated-values" : "text/csv";
    fill(place, make("p", {}, "asking…"));
    this.corrected.clear();
    this.shown = PART;
    try {
      const text = await file.text(), head = text.split(/\r?\n/, 1)[0].split(/[,;\t]/).map((name) => name.trim().replace(/^"|"$/g, ""));
      const target = this.model.target ?? "label";
      const scored = head.includes(target) ? await api.post("triage", text, kind) : null;
      this.answered = await api.post("answers", text, kind);
      await this.app.labels.need([...new Set(this.answered.rows.map((row) => row.node))]);
      this.show(scored);
      this.list();
    } catch (error) { fill(place, make("p", { class: "wrong", role: "alert" }, error.message)); }
  }

  // Rows that the explorer was opened with: where the model fails on them.
  async mistakes() {
    try { this.show(await this.app.api.json("triage")); } catch (error) { this.app.say(error); return; }
    $("triage").scrollIntoView({ block: "start" });
    await this.rows(0);
  }

  show(scored) {
    fill($("triage"), scored ? this.triage(scored) : null, make("div", { id: "rows" }), make("section", { id: "answered" }));
    if (scored) this.confusion(1);
  }

  // ---- all rows ------------------------------------------------------------------------------------------------------

  name(i) { return this.app.labels.get(i) ?? String(i); }

  list() {
    const { app } = this, { rows, notes } = this.answered, branch = this.within ?? 0;
    const kept = rows.filter((row) => app.shape.contains(branch, this.corrected.get(row.row) ?? row.node));
    const line = (row) => {
      const fixed = this.corrected.get(row.row), here = app.view.focus;
      const fix = make("button", { type: "button", title: here < 0 ? "choose the right node in the tree first" : `say that it is ${this.name(here)}`, disabled: here < 0, onclick: () => this.correct(row.row) }, "✎");
      return make("li", {}, make("a", { href: app.state.link({ text: row.text, tab: "ask" }) }, row.shown), make("div", { class: "step" },
        make("span", {}, fixed === undefined ? null : make("s", {}, this.name(row.node)), " ", make("a", { href: app.state.link({ focus: `@${fixed ?? row.node}` }) }, this.name(fixed ?? row.node))),
        make("span", { class: "p" }, fixed === undefined ? percent(row.probability) : "by hand", " ", fix)));
    };
    const here = app.view.focus, limit = make("button", { type: "button", onclick: () => { this.within = branch ? 0 : here; this.list(); } }, branch ? `all branches instead of ${this.name(branch)}` : here > 0 ? `only inside ${this.name(here)}` : "choose a branch in the tree to filter");
    if (!branch && here <= 0) limit.disabled = true;
    fill($("answered"), make("h3", {}, `${count(kept.length, "row")}, the least certain first`), notes.map((note) => make("p", { class: "wrong" }, `${note}.`)),
      make("div", { class: "acts" }, limit, make("button", { type: "button", id: "keep-answers", onclick: () => this.keep() }, "Save as CSV")),
      make("ul", { class: "items" }, kept.slice(0, this.shown).map(line)), kept.length > this.shown ? make("button", { type: "button", onclick: () => { this.shown += PART; this.list(); } }, "more") : null);
  }

  // The chosen node is the right answer of a row.
  async correct(row) {
    const { view, labels } = this.app;
    if (view.focus < 0) return;
    await labels.need([view.focus]);
    this.corrected.set(row, view.focus);
    this.list();
  }

  keep() {
    const rows = this.answered.rows.slice().sort((a, b) => a.row - b.row), label = (row) => { const fixed = this.corrected.get(row.row); return fixed === undefined ? "" : this.name(fixed); };
    const lines = rows.map((row) => [String(row.row), row.text, row.label, String(+row.probability.toPrecision(6)), label(row)].map((cell) => quoted(/^[=+@\-]/.test(cell) && Number.isNaN(Number(cell)) ? `'${cell}` : cell)).join(","));
    download(new Blob([["row,text,answer,probability,corrected", ...lines].join("\n"), "\n"], { type: "text/csv" }), "answers.csv");
  }

  // ---- with right answers --------------------------------------------------------------------------------------------

  triage(found) {
    const { app } = this;
    const table = (part) => make("details", { open: true }, make("summary", {}, part.title),
      make("table", {}, make("thead", {}, make("tr", {}, part.columns.map((name) => make("th", {}, name)))),
        make("tbody", {}, part.rows.map((row) => make("tr", {}, row.cells.map((cell, k) => make("td", {}, k === 0 && row.node !== null
          ? make("a", { href: app.state.link({ focus: `@${row.node}`, tab: "ask" }), onclick: () => this.rows(row.node) }, short(cell)) : short(cell))))))));
    return [make("p", { id: "verdict" }, found.verdict), found.notes.map((note) => make("p", { class: "wrong" }, `${note}.`)), found.parts.map(table), make("section", { id: "confusion" })].flat(2);
  }

  // What is taken for what at a depth: a row a truth, a column an answer.
  async confusion(depth) {
    const place = $("confusion");
    let found;
    try { found = await this.app.api.json("confusion", { depth }); } catch (error) { this.app.say(error); return; }
    const most = Math.max(...found.counts.map((row, i) => Math.max(...row.map((n, j) => (i === j ? 0 : n)))), 1);
    const cell = (n, i, j) => {
      const box = make("td", { title: `${n} rows of ${found.names[i]} put into ${found.names[j]}` }, n || "");
      if (n) box.style.background = i === j ? "var(--chip)" : `color-mix(in srgb, var(--warm) ${Math.round(20 + (60 * n) / most)}%, var(--ground))`;
      return box;
    };
    const choose = make("select", { "aria-label": "Depth", onchange: () => this.confusion(Number(choose.value)) }, Array.from({ length: Math.min(this.app.summary.depth, 8) }, (_, k) => make("option", { value: String(k + 1), selected: k + 1 === depth }, `level ${k + 1}`)));
    fill(place, make("h3", {}, "What is taken for what ", choose), found.names.length ? make("table", { class: "matrix" },
      make("tbody", {}, found.counts.map((row, i) => make("tr", {}, make("th", {}, make("a", { href: this.app.state.link({ focus: `@${found.nodes[i]}`, tab: "ask" }) }, found.names[i])), row.map((n, j) => cell(n, i, j)))))) : make("p", {}, "No row is put into a wrong branch of this level."));
  }

  async rows(node) {
    const { app } = this;
    try {
      const found = await app.api.json("rows", { id: `@${node}` });
      const line = (row) => make("li", { class: row.right ? "" : "miss" }, make("a", { href: app.state.link({ text: row.text, tab: "ask" }) }, row.shown),
        make("small", {}, ` ${row.truth} → ${row.answer} ${percent(row.probability)}`));
      fill($("rows"), make("h3", {}, `${found.total.toLocaleString("en")} rows behind ${found.name}`), make("ul", {}, found.rows.map(line)));
      $("rows").scrollIntoView({ block: "nearest" });
    } catch (error) { app.say(error); }
  }
}
