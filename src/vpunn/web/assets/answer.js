// An answer of a classifier as people read it: one sentence, a ranked list, where the guesses part, what spoke for the best one.
import { count, fill, make, percent, short } from "./dom.js";

const LITTLE = 0.1; // words that say less than this part of the loudest are folded
const ABOVE = 3; // names of a path that stand behind a place

// Words that tell nobody anything, whatever they add up to.
const SMALL = new Set("a an and are as at be by for from in into is it its of on or that the their they this to was which who whose with".split(" "));

// What is shown: places that are asked for by name, so the caller has their names at hand.
export function placesOf(answer, shape) {
  const best = [...(answer.labels ?? []), ...answer.top, ...(answer.nearest ?? [])].map((one) => one.node);
  return [...new Set([...best, ...answer.path.map((one) => one.node), ...(answer.stop ? [answer.stop.node] : [])].flatMap((i) => shape.path(i)))];
}

export class Answer {
  constructor(app, answer) {
    Object.assign(this, { app, answer });
    this.p = new Map(answer.beliefs.nodes.map((i, k) => [i, answer.beliefs.probabilities[k]]));
    for (const one of answer.path) this.p.set(one.node, one.probability);
  }

  name(i) { return this.app.labels.get(i) ?? String(i); }

  link(i, text) { return make("a", { href: this.app.state.link({ focus: `@${i}` }) }, text ?? this.name(i)); }

  inside(i) { return !this.answer.stop || this.app.shape.contains(this.answer.stop.node, i); }

  parts() { return [this.verdict(), this.ranked(), this.fork(), this.why(), this.nearest(), this.speakers()].flat(); }

  // ---- the sentence --------------------------------------------------------------------------------------------------

  verdict() {
    const { labels, stop, top } = this.answer;
    if (labels) return make("p", { class: "verdict" }, labels.length ? `${count(labels.length, "label")} under this rule` : "No label is likely enough under this rule; its best guesses are");
    if (!stop) return null;
    const sure = make("b", { id: "stopped" }, this.link(stop.node)), p = this.p.get(stop.node);
    if (top[0] && stop.node === top[0].node) return make("p", { class: "verdict" }, sure, ` (${percent(p ?? top[0].probability)})`);
    return make("p", { class: "verdict" }, "The model would stop at ", sure, p === undefined ? "" : ` (${percent(p)})`, "; its best guesses inside are");
  }

  // ---- the list ------------------------------------------------------------------------------------------------------

  // Places that lie where the model would stop come first, the line moves with the rule.
  ranked() {
    const { labels, top, stop } = this.answer, listed = labels ? [labels, top.filter((one) => !labels.some((l) => l.node === one.node))] : [top.filter((one) => this.inside(one.node)), top.filter((one) => !this.inside(one.node))];
    const list = (nodes, more) => make("ol", { class: "ranked", ...more }, nodes.map((one) => this.place(one)));
    const line = make("p", { class: "line" }, labels ? "less likely" : `outside ${stop ? this.name(stop.node) : ""}`);
    return [list(listed[0], { id: labels ? "labels" : "ranked" }), listed[1].length && (listed[0].length || labels) ? line : null, listed[1].length ? list(listed[1]) : null];
  }

  place({ node, probability }) {
    const { app } = this, above = app.shape.path(node).slice(0, -1).slice(-ABOVE).map((i) => this.name(i)).join(" › ");
    const own = app.shape.size[node] > 1 ? make("span", { class: "own", title: "here, and in no branch below" }, " itself") : null;
    return make("li", {}, make("span", {}, this.link(node), own), make("span", { class: "p" }, percent(probability)), this.bar(probability), make("small", {}, above));
  }

  bar(p) {
    const bar = make("i", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--p", p);
    return bar;
  }

  // ---- the fork ------------------------------------------------------------------------------------------------------

  // The paths to the best guesses as one small tree: a step is shown where paths part, end, or where the model stops.
  fork() {
    const { shape } = this.app, { top, stop, path } = this.answer, ends = new Set([...top.slice(0, 5).map((one) => one.node), path.at(-1).node]);
    const below = new Map(), nodes = new Set([...ends].flatMap((i) => shape.path(i)));
    for (const i of nodes) if (i) below.set(shape.parent[i], [...(below.get(shape.parent[i]) ?? []), i]);
    const kept = (i) => ends.has(i) || i === 0 || i === stop?.node || (below.get(i) ?? []).length > 1;
    const draw = (i) => {
      let left = 0;
      while (!kept(i)) { i = below.get(i)[0]; left++; }
      const more = (below.get(i) ?? []).sort((a, b) => (this.p.get(b) ?? 0) - (this.p.get(a) ?? 0)), p = this.p.get(i);
      const stops = i === stop?.node ? make("em", {}, "stops here") : null;
      return make("li", { class: stops ? "stop" : "" }, make("div", { class: "step" }, make("span", {}, left ? make("span", { class: "left", title: `${count(left, "step")} left out` }, "… ") : null, this.link(i), " ", stops), make("span", { class: "p" }, p === undefined ? "< 0.1 %" : percent(p)), p === undefined ? null : this.bar(p)),
        more.length ? make("ul", {}, more.map(draw)) : null);
    };
    return [make("h3", {}, "Where the guesses part"), make("ul", { class: "fork", id: "fork" }, draw(0))];
  }

  // ---- reasons -------------------------------------------------------------------------------------------------------

  // Every word with what it added on the way to the best guess.
  why() {
    const total = new Map();
    for (const turn of this.answer.turns) for (const [word, value] of turn.spoke) total.set(word, (total.get(word) ?? 0) + value);
    const words = [...total].sort((p, q) => Math.abs(q[1]) - Math.abs(p[1])), most = Math.max(...words.map(([, v]) => Math.abs(v)), 1e-12);
    if (!words.length) return null;
    const told = ([word, value]) => !SMALL.has(word) && Math.abs(value) >= LITTLE * most;
    const loud = words.filter(told), rest = words.filter((one) => !told(one));
    const row = (one) => this.bars(one, most), best = this.answer.path.at(-1).node;
    return [make("h3", {}, `What spoke for and against ${this.name(best)}`), make("ul", { class: "reasons", id: "reasons" }, loud.map(row)),
      rest.length ? make("details", {}, make("summary", {}, `${count(rest.length, "word")} that said little`), make("ul", { class: "reasons" }, rest.map(row))) : null];
  }

  // A word or a part of the model with what it added, to the right or to the left.
  bars([word, value], most) {
    const bar = make("i", { class: value < 0 ? "signed against" : "signed for", "aria-hidden": "true" });
    bar.style.setProperty("--v", Math.abs(value) / most);
    return make("li", {}, make("span", { class: "word", title: word }, word), bar, make("span", { class: "p", title: value < 0 ? "spoke against" : "spoke for" }, `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`));
  }

  // Which parts of the model were for the best guess.
  speakers() {
    const told = (this.answer.speakers ?? []).filter(([, value]) => Math.abs(value) >= 0.01), most = Math.max(...told.map(([, v]) => Math.abs(v)), 1e-12);
    if (!told.length) return null;
    return make("details", {}, make("summary", {}, "Which parts of the model spoke"), make("ul", { class: "reasons wide", id: "speakers" }, told.sort((p, q) => q[1] - p[1]).map((one) => this.bars(one, most))));
  }

  nearest() {
    const found = this.answer.nearest ?? [];
    if (!found.length) return null;
    return [make("h3", {}, "Nearest known items"), make("ul", { class: "items", id: "nearest" }, found.map((one) => make("li", {}, make("a", { href: this.app.state.link({ text: one.text, tab: "ask" }) }, one.shown), make("small", {}, " in ", this.link(one.node), ` · ${percent(Math.max(one.likeness, 0))} alike`))))];
  }
}

export function showAnswer(place, app, answer) { fill(place, new Answer(app, answer).parts()); }
