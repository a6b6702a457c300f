"""T8, T10–T13 and T21: the paper's own model in the paper's own layout, under protocols that are named.

Three protocols: *shown the digit* (the paper's rule: deep heads are read at the true digit), *honest* (the same fitted numbers,
nothing shown), *held-out leaves* (a fifth of the leaves is hidden from training, then judged by both rules). Controls: always
answering 0, and the same model after no epoch and after one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn.paper.hipan import HiPaN, HiPaNScore, score_digits
from vpunn.paper.hybrid import HybridLoss, Prefix, Rule
from vpunn.paper.reports import _numbers as paper
from vpunn.paper.reports._bench import Bench, Trained
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
TABLE = {"wordnet": "T10", "go": "T11", "ncbi": "T12"}
NAMES = {"wordnet": ("HiPaN-DS", "HiPaN"), "go": ("GOHiPaN-DS", "GOHiPaN"), "ncbi": ("HiPaN-DS", "HiPaN")}


@dataclass(frozen=True)
class Runs:
    """Scores of one variant, one per seed and protocol, with what its training cost."""

    scores: dict[str, list[HiPaNScore]]
    cost: list[Trained]


PROTOCOLS: dict[str, tuple[str, Rule, Prefix, bool]] = {
    "shown": ("shown the true digit (the paper's rule)", "paper", "predicted", False),
    "honest": ("honest: nothing shown", "honest", "predicted", False),
    "told": ("honest: told the true parent digit", "honest", "true", False),
    "hidden shown": ("held-out leaves, shown the true digit", "paper", "predicted", True),
    "hidden honest": ("held-out leaves, honest", "honest", "predicted", True),
}


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
                for name, (_, rule, prefix, holdout) in PROTOCOLS.items():
                    model, items = (part, hidden) if holdout else (whole, None)
                    runs.scores[name].append(model.score(items, rule, prefix, seed=seed))
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
        found[label] = (model.score(rule="paper"), model.score(rule="honest"))
    return score_digits(tree, tree.leaves, zeros, rule="constant 0"), found


def spread(values: Any, digits: int = 2) -> str:
    """mean ± s.d. over seeds in %, or as numbers; one seed has no spread."""
    given = np.asarray(values, float)
    if np.isnan(given).all():
        return "undefined"
    text = f"{np.nanmean(given):.{digits}f}"
    return text if len(given) < 2 else f"{text} ± {np.nanstd(given, ddof=1):.{digits}f}"


def _shares(scores: list[HiPaNScore]) -> dict[str, str]:
    return {
        "LeafAcc %": spread([100 * s.leaf for s in scores]),
        "RootAcc %": spread([100 * s.root for s in scores]),
        "mean digit %": spread([100 * s.digit for s in scores]),
        "whole path %": spread([100 * s.path for s in scores]),
        "ρ of the codes": spread([s.rho for s in scores], 3),
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
    name = bench.name
    said, labels = paper.RESULTS[name], NAMES[name]
    rows: list[dict[str, Any]] = []
    for label, key, method in zip(labels, ("hipan-ds", "hipan"), ("gist", "adam"), strict=True):
        printed = said[method]
        rows.append(
            {
                "model": label,
                "protocol": "as printed in the paper",
                "LeafAcc %": printed["leaf"],
                "RootAcc %": printed["root"],
                "ρ of the codes": printed["rho"],
                "CPU s": printed["time"],
                "peak MB": paper.MEMORY if name == "wordnet" else None,
            }
        )
        for protocol, (text, *_) in PROTOCOLS.items():
            cost = _cost(runs[key].cost) if protocol == "shown" else {}
            rows.append({"model": label, "protocol": text, **_shares(runs[key].scores[protocol]), **cost})
    zero, trained = controls(bench)
    rows.append({"model": "control", "protocol": "always the digit 0", **_shares([zero])})
    for label, (shown, honest) in trained.items():
        rows.append({"model": "control", "protocol": f"{label}, shown", **_shares([shown])})
        rows.append({"model": "control", "protocol": f"{label}, honest", **_shares([honest])})
    columns = (
        "model",
        "protocol",
        "LeafAcc %",
        "RootAcc %",
        "mean digit %",
        "whole path %",
        "ρ of the codes",
        "CPU s",
        "peak MB",
    )
    report.table(
        f"{TABLE[name]}: the paper's model, trained as the paper says, under named protocols",
        [{column: row.get(column) for column in columns} for row in rows],
        name=TABLE[name],
    )
    report.text(_reading(runs, zero))


def _reading(runs: dict[str, Runs], zero: HiPaNScore) -> str:
    shown = runs["hipan"].scores
    leaf, path = (np.mean([getattr(s, key) for s in shown["shown"]]) for key in ("leaf", "path"))
    hidden = np.mean([s.leaf for s in shown["hidden shown"]])
    honest = np.mean([s.path for s in shown["honest"]])
    return (
        f"LeafAcc is the paper's Pr[d_(K−1) = z_(K−1)]: the last of K digits, child indices from 0, padding included. Always "
        f"answering 0 scores {100 * zero.leaf:.2f} % by it. Shown the true digit the trained model scores {100 * leaf:.2f} % "
        f"(and {100 * hidden:.2f} % on leaves it was never trained on, because it is shown their digits too), with "
        f"{100 * path:.2f} % of whole paths right; nothing shown, {100 * honest:.3f} % of paths: a model without input names one "
        "path for every item (E-43, E-45, E-60). CPU seconds and the rise of resident memory are those of one training alone."
    )


def optimiser_tables(bench: Bench, report: Report) -> None:
    """T8 and T13, which the paper prints for WordNet; the same layout for the others."""
    runs = train_all(bench)
    name = bench.name
    count = bench.hipan("hipan", optimizer="adam", seed=0)[0].n_parameters
    rows, ablation = [], []
    for label, key, method in (("GIST-VAPO", "hipan-ds", "gist"), ("Adam-VAPO", "hipan", "adam")):
        said = paper.RESULTS[name][method]
        for who, scores in (
            ("paper", None),
            ("ours, shown", "shown"),
            ("ours, honest", "honest"),
            ("ours, held out, honest", "hidden honest"),
        ):
            if scores is None:
                leaf, root, seconds = said["leaf"], said["root"], said["time"]
                params: Any = "3.018.420" if name == "wordnet" else paper.DATASETS[name]["parameters"]
            else:
                found = runs[key].scores[scores]
                leaf, root = spread([100 * s.leaf for s in found]), spread([100 * s.root for s in found])
                seconds, params = spread([c.seconds for c in runs[key].cost]), count["stored"]
            rows.append(
                {
                    "Optimizer": label,
                    "row": who,
                    "Leaf Acc. %": leaf,
                    "Root Acc. %": root,
                    "CPU s": seconds,
                    "Params": params,
                }
            )
            ablation.append({"Optimizer": label, "row": who, "Time (s)": seconds, "LeafAcc %": leaf, "RootAcc %": root})
    report.table(f"T8: optimisers (p = {HiPaN(bench.bare).p}, K = {bench.tree.max_depth}, batch = 64)", rows, name="T8")
    report.text(
        f"The paper's K·p·(p+1) = {count['printed']:,} parameters are an allotment: {count['stored']:,} are ever touched, and only "
        f"{count['of one ball']:,} of those belong to one ball (E-18, E-19)."
    )
    report.table("T13: speed and accuracy of the two optimisers", ablation, name="T13")


def digit_table(bench: Bench, report: Report) -> None:
    """T21 for every position, also as results/<name>_digit_accuracy.csv."""
    runs = train_all(bench)
    tree, name, K = bench.tree, bench.name, bench.tree.max_depth
    shown = np.array([s.by_position for s in runs["hipan"].scores["shown"]])
    honest = np.array([s.by_position for s in runs["hipan"].scores["honest"]])
    best, padding = ceiling_by_position(tree), padding_by_position(tree)
    said = paper.DIGIT_ACCURACY if name == "wordnet" else ()
    rows = []
    for k in range(K + (name == "wordnet")):
        at = min(k, K - 1)  # the printed digit d_K is a copy of d_(K−1)
        truth_is_zero = k == K
        rows.append(
            {
                "k": k,
                "paper": said[k] if k < len(said) else None,
                "shown": spread(100 * (shown[:, at] if not truth_is_zero else _tied(bench, "shown"))),
                "honest": spread(100 * (honest[:, at] if not truth_is_zero else _tied(bench, "honest"))),
                "ceiling": 100 * best[at] if not truth_is_zero else 100.0,
                "padding": 100 * padding[at] if not truth_is_zero else 100.0,
            }
        )
    report.table("T21: accuracy digit by digit in %, root = 0, padding counted as the paper does", rows, name="T21")
    tied = f" The row k = {K} is the printed digit d_{K}, a copy of d_{K - 1}: no path has it, so it is right where that copy is 0."
    report.text(
        "shown: the paper's rule, which reads the true digit; honest: nothing shown; ceiling: the best any rule can do that is "
        "told the true parent digit and nothing else (E-47); padding: the share of leaves whose path has ended by then."
        + (tied if name == "wordnet" else "")
    )
    report.csv(f"results/{name}_digit_accuracy.csv", rows)
    report.figure(
        "Accuracy of every digit position: shown the digit, honest, ceiling, and the share of padding.",
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
    for name, style in (("shown", "C3o-"), ("honest", "C0o-"), ("ceiling", "k--")):
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
        _, rule, prefix, _ = PROTOCOLS[protocol]
        found.append((model.printed_digits(model.predict_digits(None, rule, prefix))[:, -1] == 0).mean())
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
