// Asking the model: the question, the rule where to stop, and its probabilities on the tree. answer.js writes what it says.
import { placesOf, showAnswer } from "./answer.js";
import { $, fill, later, make, percent, short } from "./dom.js";

const RISKS = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5];

export class Ask {
  constructor(app) {
    this.app = app;
    this.model = app.summary.model;
    this.turn = 0;
    this.again = later(80, () => this.ask());
    if (this.model) this.build();
  }

  // A few rows that the model has learned from, to be asked again.
  async examples() {
    let found = [];
    try { found = await this.app.api.json("examples"); } catch { return; } // a page without them is whole
    const link = (one) => make("li", {}, make("a", { href: this.app.state.link({ text: one.text, tab: "ask" }) }, one.shown));
    fill($("examples"), found.length ? [make("h3", {}, "For example"), make("ul", { class: "items" }, found.map(link))] : []);
  }

  build() {
    const { model } = this, form = $("ask");
    if (model.input === "columns") {
      fill($("inputs"), model.columns.map((name) => make("label", {}, name, make("input", { name, type: "text", inputmode: model.numeric.includes(name) ? "decimal" : "text" }))));
    } else {
      const hint = model.input === "text" ? "Describe something; the model says where it belongs." : `${model.features} numbers, separated by commas`;
      fill($("inputs"), make("textarea", { id: "text", rows: "3", placeholder: hint, "aria-label": hint }));
      $("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); form.requestSubmit(); } });
    }
    form.addEventListener("submit", (event) => { event.preventDefault(); this.app.state.set({ text: this.read() || undefined, tab: "ask" }); });
    $("risk").addEventListener("input", () => { this.app.state.set({ risk: String(this.level()) }, { replace: true, silent: true }); this.tell(); this.again(); });
    $("rule").addEventListener("change", () => this.app.state.set({ stop: $("rule").value }, { replace: true }));
    this.ofLevels = model.answers === "number" || model.answers === "class"; // one answer, and no place to stop at
    $("rules").hidden = this.ofLevels;
    $("forget").addEventListener("click", () => this.app.state.set({ text: undefined }));
  }

  // The question as text: what is typed, or the cells as JSON.
  read() {
    if (this.model.input !== "columns") return $("text").value.trim();
    const cells = Object.fromEntries([...$("inputs").querySelectorAll("input")].map((box) => [box.name, box.value.trim()]));
    return Object.values(cells).some(Boolean) ? JSON.stringify(cells) : "";
  }

  write(text) {
    if (this.model.input !== "columns") { $("text").value = text; return; }
    let cells = {};
    try { cells = JSON.parse(text || "{}"); } catch { /* a URL edited by hand */ }
    for (const box of $("inputs").querySelectorAll("input")) box.value = cells[box.name] ?? "";
  }

  body(text) {
    if (this.model.input === "text") return { texts: [text] };
    if (this.model.input === "numbers") return { X: [text.split(/[\s,;]+/).filter(Boolean).map(Number)] };
    const cells = JSON.parse(text);
    const number = (v) => (v === "" ? null : Number(v)); // an empty box is no zero
    return { rows: [Object.fromEntries(Object.entries(cells).map(([name, v]) => [name, this.model.numeric.includes(name) ? number(v) : v]))] };
  }

  level() { return $("rule").value === "threshold" ? Number($("risk").value) / 10 + 0.05 : RISKS[Number($("risk").value)]; }

  tell() {
    const at = this.level();
    const sets = this.model.answers === "sets";
    $("level").textContent = $("rule").value === "threshold" ? (sets ? `It gives all labels with at least ${percent(at)}.` : `It answers with the deepest branch that is at least ${percent(at)} likely.`) : sets ? `It misses at most ${percent(at)} of the right branches.` : `It is wrong at most ${percent(at)} of the time, and stops early where it has to.`;
  }

  // Set form and tree to a state.
  async apply(now) {
    if (!this.model) return;
    this.write(now.text || "");
    $("rule").value = now.stop === "threshold" ? "threshold" : "risk";
    const risk = Number(now.risk);
    if (now.risk !== undefined && risk > 0) {
      const near = (list) => list.reduce((best, r, k) => (Math.abs(r - risk) < Math.abs(list[best] - risk) ? k : best), 0);
      $("risk").value = String(now.stop === "threshold" ? Math.round((risk - 0.05) * 10) : near(RISKS));
    }
    this.tell();
    await this.ask(true);
  }

  async ask(moveThere = false) {
    const { app } = this, text = app.state.now.text, turn = ++this.turn;
    if (!text) { this.clear(); return; }
    const rule = $("rule").value === "threshold" ? { threshold: this.level() } : { risk: this.level() };
    const wanted = this.ofLevels ? {} : { ...rule, top: 5, explain: true, beliefs: true };
    let found;
    try { found = await app.api.post("predict", JSON.stringify({ ...this.body(text), ...wanted }), "application/json"); } catch (error) {
      if (turn === this.turn) { this.clear(); fill($("answer"), make("p", { class: "wrong", role: "alert" }, error.message)); }
      return;
    }
    if (turn !== this.turn) return;
    $("examples").hidden = true;
    if (this.ofLevels) this.showSum(found.answers[0], moveThere); else await this.show(found.answers[0], moveThere);
    if (turn !== this.turn) return;
    $("answer").prepend(...found.notes.map((note) => make("p", { class: "wrong" }, `${note}.`)));
  }

  clear() {
    const { view } = this.app;
    view.beliefs = null;
    view.stop = -1;
    view.answers = [];
    view.changed();
    fill($("answer"));
    $("examples").hidden = false;
    this.app.showLegend();
  }

  async show(answer, moveThere) {
    const { app } = this, { view, palette, shape } = app, { nodes, probabilities } = answer.beliefs, turn = this.turn;
    const map = new Map(nodes.map((i, k) => [i, probabilities[k]]));
    const order = nodes.map((i, k) => [probabilities[k], i]).sort((p, q) => p[0] - q[0]);
    view.beliefs = { map, list: order.map(([p, i]) => [i, palette.ofProbability(p)]) };
    view.stop = answer.stop ? answer.stop.node : -1;
    view.answers = (answer.labels ?? []).map((one) => one.node);
    this.last = answer;
    if (moveThere) this.moveTo(answer);
    view.changed();
    app.showLegend();
    await app.labels.need(placesOf(answer, shape));
    if (turn === this.turn) showAnswer($("answer"), app, answer);
  }

  // The fork comes into view: the best guesses with what lies between them, as long as that is no more than the tree itself.
  moveTo(answer) {
    const { view, shape, state } = this.app, sure = answer.path.filter((ball) => ball.probability >= 0.8).at(-1) ?? answer.path[0];
    const nodes = view.answers.length ? view.answers : [sure.node];
    for (const one of answer.top) view.layout.unfold?.(one.node);
    view.goTo(view.layout.around(...nodes));
    this.app.opened(nodes.reduce((a, b) => shape.lca(a, b)));
    if (!view.answers.length && state.now.focus === undefined) view.focus = -1;
  }

  // A number with its spread, or a class with its probability, and the sum it is, ball by ball.
  showSum(answer, moveThere) {
    const { app } = this, { view } = app, signed = (v) => (v < 0 ? "−" : "+") + short(Math.abs(v));
    view.stop = answer.node;
    if (moveThere) { view.goTo(view.layout.around(answer.node)); app.opened(answer.node); }
    view.changed();
    const step = (name, adds, total) => make("li", {}, name, make("span", { class: "p" }, make("span", { class: "adds" }, signed(adds)), ` = ${short(total)}`));
    let total = answer.path.at(-1).total;
    const balls = answer.path.map((ball) => step(make("a", { href: app.state.link({ focus: `@${ball.node}` }) }, app.labels.get(ball.node) ?? ball.label), ball.coefficient, ball.total));
    if (this.model.answers === "class") {
      const beyond = Math.abs(answer.beyond) > 1e-9 ? [step("beyond the branches", answer.beyond, answer.probability)] : [];
      fill($("answer"), make("p", {}, `${this.model.target}: `, make("b", { id: "number" }, answer.prediction), ` with probability ${percent(answer.probability)}`),
        make("ul", { class: "path" }, answer.classes.slice(0, 8).map((one) => make("li", {}, one.name, make("span", { class: "p" }, percent(one.probability))))),
        make("h3", {}, `What makes ${answer.prediction} so probable`), make("ol", { class: "path" }, balls, beyond));
      return;
    }
    const covariates = answer.covariates.map((one) => step(`${one.name} ${short(one.value)} × ${short(one.slope)}`, one.adds, (total += one.adds)));
    fill($("answer"), make("p", {}, `${this.model.target}: `, make("b", { id: "number" }, short(answer.prediction)), ` ± ${short(answer.sd)} (standard deviation of a new row)`),
      make("p", {}, `90 % of new rows between ${short(answer.low)} and ${short(answer.high)}`),
      make("h3", {}, `The sum of the path${this.model.scale === this.model.target ? "" : `, ${this.model.scale}`}`), make("ol", { class: "path" }, balls, covariates));
  }
}
