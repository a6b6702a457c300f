"""T8, T10–T13 and T21: the paper's own model in the paper's own layout, under protocols that are named.

Three protocols: *shown the digit* (the paper's rule: deep heads are read at the true digit), *nothing shown* (the same fitted
numbers, every child scored), *held-out leaves* (a fifth of the leaves is hidden from training, then judged by both rules).
Controls: always answering 0, and the same model after no epoch and after one. Digits are counted as in the paper: K of every leaf,
with zeros as padding after a leaf's last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vpunn._progress import progress_bar
from vpunn.paper import printed
from vpunn.paper.hipan import HiPaN, HiPaNScore, score_digits
from vpunn.paper.hybrid import HybridLoss, Prefix, Rule
from vpunn.paper.reports._run import Bench, Trained, spread
from vpunn.report import Report
from vpunn.tree import Tree
from vpunn.vapo.schedule import Phase, Schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Share of the leaves hidden from training in the third protocol.
HIDDEN = 0.2

#: One pass over all digits at the paper's fine-tuning rate.
ONE_EPOCH = Schedule("one epoch", (Phase("all digits", 1, 0.015),), batch=64)
NO_EPOCH = Schedule("no epoch", (), batch=64)

#: The table of each hierarchy, and what the paper calls the model there.
TABLE = {"wordnet": "T10", "go": "T11", "ncbi": "T12", "own": "T10"}
NAMES = {"go": ("GOHiPaN-DS", "GOHiPaN")}
#: The last and the first of K digits, padding counted.
LEAF, ROOT = "LeafAcc %", "RootAcc %"


@dataclass(frozen=True)
class Runs:
    """Scores of one variant, one per seed and protocol, with what its training cost."""

    scores: dict[str, list[HiPaNScore]]
    cost: list[Trained]


class Protocol(NamedTuple):
    """How the model is asked, and why its numbers are what they are."""

    text: str
    rule: Rule
    prefix: Prefix
    hidden: bool
    why: str


NO_INPUT = "no input: one path for every leaf (E-45)"
PROTOCOLS = {
    "shown": Protocol("shown the digit", "given", "predicted", False, "the paper's rule checks the given digit (E-43)"),
    "nothing": Protocol("nothing shown", "predicted", "predicted", False, NO_INPUT),
    "told": Protocol("told the parent's digit", "predicted", "true", False, "the commonest child of a digit (E-47)"),
    "hidden shown": Protocol(
        "held out, shown the digit", "given", "predicted", True, "hidden leaves are shown their digits too (E-61)"
    ),
    "hidden nothing": Protocol("held out, nothing shown", "predicted", "predicted", True, NO_INPUT),
}
PRINTED = "one digit, padding included, of training items (E-60)"


def train_all(bench: Bench) -> dict[str, Runs]:
    """HiPaN and HiPaN-DS on all leaves and on four fifths of them, one training per seed (or their checkpoints)."""
    if "composed" not in bench.memo:
        bench.memo["composed"] = _train_all(bench)
    runs: dict[str, Runs] = bench.memo["composed"]
    return runs


def _train_all(bench: Bench) -> dict[str, Runs]:
    found: dict[str, Runs] = {}
    for key, optimizer in (("hipan-ds", "gist"), ("hipan", "adam")):
        runs = Runs({name: [] for name in PROTOCOLS}, [])
        with progress_bar(f"{bench.doing} {key}", bench.seeds) as advance:
            for seed in range(bench.seeds):
                hidden, seen = split(bench.tree, seed)
                ending = f".seed{seed}" if seed else ""
                whole, cost = bench.hipan(f"{key}{ending}", optimizer=optimizer, seed=seed)
                part, _ = bench.hipan(f"{key}-heldout{ending}", items=seen, optimizer=optimizer, seed=seed)
                runs.cost.append(cost)
                for name, asked in PROTOCOLS.items():
                    model, items = (part, hidden) if asked.hidden else (whole, None)
                    runs.scores[name].append(model.score(items, asked.rule, asked.prefix, seed=seed))
                advance()
        found[key] = runs
    return found


def split(tree: Tree, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Hidden and seen leaves."""
    order = np.random.default_rng([seed, 7]).permutation(tree.leaves)
    cut = int(HIDDEN * len(order))
    return np.sort(order[:cut]), np.sort(order[cut:])


def controls(bench: Bench) -> tuple[HiPaNScore, dict[str, tuple[HiPaNScore, HiPaNScore]]]:
    """What needs no training to speak of: the constant 0, and the model early on, by the paper's rule and honestly."""
    tree = bench.tree
    zeros = np.zeros((tree.n_leaves, tree.max_depth), np.int32)
    found: dict[str, tuple[HiPaNScore, HiPaNScore]] = {}
    for key, label, schedule in (
        ("epoch0", "HiPaN after 0 epochs", NO_EPOCH),
        ("epoch1", "HiPaN after 1 epoch", ONE_EPOCH),
    ):
        model, _ = bench.hipan(f"hipan-{key}", schedule=schedule)
        found[label] = (model.score(rule="given"), model.score(rule="predicted"))
    return score_digits(tree, tree.leaves, zeros, rule="constant 0"), found


def _shares(scores: list[HiPaNScore]) -> dict[str, str]:
    return {
        LEAF: spread([100 * s.leaf for s in scores]),
        ROOT: spread([100 * s.root for s in scores]),
        "mean digit %": spread([100 * s.digit for s in scores]),
        "whole path %": spread([100 * s.path for s in scores]),
        "ρ of the codes": spread([s.rho for s in scores], ".3f"),
    }


def _cost(cost: list[Trained]) -> dict[str, str]:
    peaks = [c.peak_mb for c in cost if c.peak_mb is not None]
    return {
        "CPU s": spread([c.seconds for c in cost]),
        "peak MB": f"+{max(peaks):,.0f}" if peaks else "not measured",
    }


def domain_table(bench: Bench, report: Report) -> None:
    """T10, T11 or T12."""
    runs = train_all(bench)
    said, table = printed.RESULTS[bench.kind], TABLE[bench.kind]
    rows: list[dict[str, Any]] = []
    for label, key, method in zip(NAMES.get(bench.name, ("HiPaN-DS", "HiPaN")), runs, ("gist", "adam"), strict=True):
        if bench.kind != "own":
            paper: dict[str, Any] = {
                LEAF: said[method]["leaf"],
                ROOT: said[method]["root"],
                "ρ of the codes": said[method]["rho"],
            }
            paper |= {"CPU s": said[method]["time"], "peak MB": printed.MEMORY if bench.name == "wordnet" else None}
            rows.append({"model": label, "protocol": "as printed in the paper", **paper, "why": PRINTED})
        for protocol, asked in PROTOCOLS.items():
            cost = _cost(runs[key].cost) if protocol == "shown" else {}
            shares = _shares(runs[key].scores[protocol])
            rows.append({"model": label, "protocol": asked.text, **shares, **cost, "why": asked.why})
    zero, trained = controls(bench)
    why = "padding is right, and who always takes the first child"
    rows.append({"model": "control", "protocol": "always the digit 0", **_shares([zero]), "why": why})
    for label, both in trained.items():
        for asked, score in zip((PROTOCOLS["shown"], PROTOCOLS["nothing"]), both, strict=True):
            protocol = f"{label}, {asked.text}"
            rows.append({"model": "control", "protocol": protocol, **_shares([score]), "why": asked.why})
    columns = (
        "model",
        "protocol",
        LEAF,
        ROOT,
        "mean digit %",
        "whole path %",
        "ρ of the codes",
        "CPU s",
        "peak MB",
        "why",
    )
    report.table(
        f"{table}: the paper's model, trained as the paper says, under named protocols",
        [{column: row.get(column) for column in columns} for row in rows],
        name=table,
    )
    report.text(_reading(runs, zero))


def _reading(runs: dict[str, Runs], zero: HiPaNScore) -> str:
    shown = runs["hipan"].scores
    leaf, path = (np.mean([getattr(s, key) for s in shown["shown"]]) for key in ("leaf", "path"))
    hidden = np.mean([s.leaf for s in shown["hidden shown"]])
    nothing = np.mean([s.path for s in shown["nothing"]])
    return (
        f"LeafAcc is the paper's Pr[d_(K−1) = z_(K−1)]: the last of K digits, child indices from 0, padding included. Always "
        f"answering 0 scores {100 * zero.leaf:.2f} % by it. Shown the true digit the trained model scores {100 * leaf:.2f} % "
        f"(and {100 * hidden:.2f} % on leaves it was never trained on, because it is shown their digits too), with "
        f"{100 * path:.2f} % of whole paths right; nothing shown, {100 * nothing:.3f} % of paths: a model without input names one "
        "path for every item (E-43, E-45, E-60). CPU seconds and the rise of resident memory are those of one training alone."
    )


def optimiser_tables(bench: Bench, report: Report) -> None:
    """T8 and T13, which the paper prints for WordNet; the same layout for the others. Every cell names its protocol."""
    runs = train_all(bench)
    name = bench.name
    count = bench.hipan("hipan", optimizer="adam", seed=0)[0].n_parameters
    padding = 100 * padding_by_position(bench.tree)[-1]
    rows = []
    for label, key, method in (("GIST-VAPO", "hipan-ds", "gist"), ("Adam-VAPO", "hipan", "adam")):
        if bench.kind != "own":
            said = printed.RESULTS[name][method]
            params = "3.018.420" if name == "wordnet" else printed.DATASETS[name]["parameters"]
            rows.append((label, "paper", said["leaf"], said["root"], said["time"], params, PRINTED))
        for protocol, asked in PROTOCOLS.items():
            found = runs[key].scores[protocol]
            leaf, root = (spread([100 * getattr(s, part) for s in found]) for part in ("leaf", "root"))
            named = f"{leaf} ({asked.text}; {padding:.2f} is padding)"
            seconds = spread([c.seconds for c in runs[key].cost])
            rows.append((label, "ours", named, root, seconds, count["stored"], asked.why))
    T8 = ("Optimizer", "row", "Leaf Acc. %", "Root Acc. %", "CPU s", "Params", "why")
    report.table(
        f"T8: optimisers (p = {HiPaN(bench.bare).p}, K = {bench.tree.max_depth}, batch = 64)",
        [dict(zip(T8, row, strict=True)) for row in rows],
        name="T8",
    )
    report.text(
        f"Of the last digits {padding:.2f} % are padding, zeros after a leaf's own last digit, which the paper counts as right "
        f"answers. Its K·p·(p+1) = {count['printed']:,} parameters are an allotment: {count['stored']:,} are ever touched, and "
        f"only {count['of one ball']:,} of those belong to one ball (E-18, E-19)."
    )
    T13 = ("Optimizer", "row", "LeafAcc %", "RootAcc %", "Time (s)", "why")
    report.table(
        "T13: speed and accuracy of the two optimisers",
        [dict(zip(T13, (*row[:5], row[6]), strict=True)) for row in rows],
        name="T13",
    )


def digit_table(bench: Bench, report: Report) -> None:
    """T21 for every position, also as results/<name>_digit_accuracy.csv."""
    runs = train_all(bench)
    tree, name, K = bench.tree, bench.name, bench.tree.max_depth
    by = {key: np.array([s.by_position for s in runs["hipan"].scores[key]]) for key in ("shown", "nothing")}
    best, padding = ceiling_by_position(tree), padding_by_position(tree)
    said = printed.DIGIT_ACCURACY if name == "wordnet" else ()
    rows: list[dict[str, Any]] = []
    for k in range(K):
        paper = {"paper": said[k] if k < len(said) else None} if said else {}
        shares = {key: spread(100 * found[:, k]) for key, found in by.items()}
        rows.append({"k": k, **paper, **shares, "ceiling": 100 * best[k], "padding": 100 * padding[k]})
    if said:  # the printed digit d_K is a copy of d_(K−1)
        shares = {key: spread(100 * _tied(bench, key)) for key in by}
        rows.append({"k": K, "paper": None, **shares, "ceiling": 100.0, "padding": 100.0})
    report.table("T21: accuracy digit by digit in %, root = 0, padding counted as the paper does", rows, name="T21")
    tied = f" The row k = {K} is the printed digit d_{K}, a copy of d_{K - 1}: no path has it, so it is right where that copy is 0."
    report.text(
        "shown: the paper's rule, which reads the true digit; nothing: nothing shown; ceiling: the best any rule can do that is "
        "told the true parent digit and nothing else (E-47); padding: the share of leaves whose path has ended by then."
        + (tied if said else "")
    )
    report.csv(f"results/{name}_digit_accuracy.csv", rows)
    report.figure(
        "Accuracy of every digit position: shown the digit, nothing shown, ceiling, and the share of padding.",
        _draw_protocols(rows),
    )


def _draw_protocols(rows: list[dict[str, Any]]) -> Figure:
    """T21 as curves: accuracy by position under each protocol, with the share of padding as a shade."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    k = [row["k"] for row in rows]
    axes.fill_between(k, [row["padding"] for row in rows], color="0.9", label="share of padding", linewidth=0)
    for name, style in (("shown", "C3o-"), ("nothing", "C0o-"), ("ceiling", "k--")):
        values = [float(str(row[name]).split(" ")[0]) for row in rows]
        axes.plot(k, values, style, markersize=3, linewidth=1.4, label=name)
    axes.set(xlabel="digit k (0 = root's choice)", ylabel="right, %", ylim=(0, 104))
    axes.legend(frameon=False, fontsize=9)
    return figure


def _tied(bench: Bench, protocol: str) -> np.ndarray:
    """Per seed: how often the copied last digit is 0, the only value a digit beyond the depth can have."""
    found = []
    for seed in range(bench.seeds):
        model, _ = bench.hipan(f"hipan{f'.seed{seed}' if seed else ''}", optimizer="adam", seed=seed)
        asked = PROTOCOLS[protocol]
        digits = model.predict_digits(None, asked.rule, asked.prefix)
        found.append((model.printed_digits(digits)[:, -1] == 0).mean())
    return np.array(found)


def ceiling_by_position(tree: Tree) -> np.ndarray:
    """The best share of right digits at each position, told the true parent digit; padding counts, as in the paper."""
    problem = HybridLoss(tree)
    order = np.lexsort((-problem.counts, problem.context))
    first = np.searchsorted(problem.context[order], np.arange(len(problem.context_key)))
    best = np.bincount(problem.context_position, problem.counts[order[first]], minlength=tree.max_depth)
    best[0] = problem.root_counts.max()
    return best / tree.n_leaves


def padding_by_position(tree: Tree) -> np.ndarray:
    """The share of leaves that have no digit at each position."""
    ended = np.cumsum(np.bincount(tree.depth[tree.leaves], minlength=tree.max_depth + 1))
    return ended[: tree.max_depth] / tree.n_leaves
