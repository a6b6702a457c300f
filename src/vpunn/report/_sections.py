"""What a page about a tree or a classifier says: the parts that `vpunn report` and other reports share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import plot, structure
from vpunn.codes import PadicCode
from vpunn.errors import VpunnError, counted
from vpunn.metrics import calibration_error_interval, hierarchical_summary, reliability, risk_coverage
from vpunn.regress import VPuNNClassifier, VPuNNRegressor
from vpunn.report._page import Report
from vpunn.report._triage import Triage, triage_of
from vpunn.report._words import ANALYSES, BRANCH, CALIBRATION, CHANCE, with_meaning
from vpunn.tree import Tree

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    from vpunn._types import Beliefs, FeatureNames, Features, FittedModel, Targets, Texts

#: Trees with more nodes than this get no eigenmap and no disk: a picture of a million dots says nothing.
DETAIL = 200_000


def report_tree(tree: Tree, title: str, command: str = "vpunn.report.report_tree") -> Report:
    """A page about a tree: what it is, its codes, its structure. Seconds for a hundred thousand nodes.

    >>> page = report_tree(Tree.from_parents([-1, 0, 0, 1, 1]), "five nodes")
    >>> [block["text"] for block in page.blocks if block["kind"] == "heading"]
    ['The tree', 'Codes', 'Structure']
    """
    report = Report(title, command)
    add_tree(report, tree)
    add_codes(report, tree)
    add_structure(report, tree_findings(tree))
    return report


def sentence(verdict: str) -> str:
    """With a capital, unless it opens with a formula such as log_p N(k)."""
    return verdict[:1].upper() + verdict[1:] if verdict.partition(" ")[0].isalpha() else verdict


def tree_findings(tree: Tree) -> dict[str, structure.Finding]:
    """The analyses a page shows, by the heading they stand under."""
    found: dict[str, structure.Finding] = {
        "Branching": structure.branching(tree, permutations=199),
        "Box counting": structure.box_counting(tree),
        "Entropy of the digits": structure.entropy(tree),
        "Distances in code order": structure.distance_matrix(tree, sample=300),
    }
    if tree.n_nodes <= DETAIL:
        found["Laplacian eigenmap"] = structure.spectrum(tree)
    return found


def draw(report: Report, caption: str, ax: Axes) -> None:
    """The figure of some axes, with its caption."""
    figure: Any = ax.figure
    report.figure(caption, figure)


def add_summary(report: Report, found: structure.Finding, caption: str) -> None:
    """How a page about a model begins: what was found, in a sentence and a picture."""
    report.heading("Summary")
    report.text(sentence(found.verdict))
    ax = found.plot()
    if ax.axison:
        draw(report, caption, ax)


def called(tree: Tree, nodes: npt.ArrayLike) -> list[str]:
    """What people call the nodes."""
    return list(tree.names[np.asarray(nodes, np.int64)])


def what(tree: Tree) -> str:
    inner = counted(tree.n_nodes - tree.n_leaves, "inner node")
    return (
        f"A tree of {counted(tree.n_nodes, 'node')}: {counted(tree.n_leaves, 'leaf', 'leaves')} and {inner}, "
        f"{counted(tree.max_depth, 'level')} deep, with at most {counted(tree.max_branching, 'child', 'children')} a node. {BRANCH}"
    )


def add_tree(report: Report, tree: Tree) -> None:
    """What the tree is: counts, what reading it changed, its largest branches, pictures."""
    report.heading("The tree")
    report.text(what(tree))
    draw(report, "Branches as boxes below their parents, as wide as their share of the leaves.", plot.icicle(tree))
    depth = tree.depth[tree.leaves]
    rows = {
        "nodes": tree.n_nodes,
        "leaves": tree.n_leaves,
        "depth K": tree.max_depth,
        "median depth of a leaf": float(np.median(depth)),
        "largest branching": tree.max_branching,
        "nodes with one child": int((tree.n_children == 1).sum()),
    }
    if tree.n_extra:
        rows["nodes with further parents"] = int((np.diff(tree.extra_parents[0]) > 0).sum())
        rows["edges to further parents"] = tree.n_extra
    report.table("Counts", with_meaning(rows, "quantity"))
    if tree.n_extra:
        report.table("Some nodes with further parents", _further(tree))
    for line in tree.report:
        report.text(f"When it was read: {str(line).splitlines()[0]}.")
    if tree.n_nodes > 1:
        draw(
            report,
            "The largest branches; numbers count the leaves in what is not opened.",
            plot.dendrogram(tree, leaves=24),
        )
    if 2 < tree.n_nodes <= DETAIL:
        draw(
            report,
            "The tree in a disk (Poincaré's, where room grows outwards as trees do): depth is the radius, so shells are "
            "concentric by construction.",
            plot.poincare(tree),
        )


def _further(tree: Tree, most: int = 12) -> list[dict[str, str]]:
    """Nodes with several parents, those with most first: the parent that the code follows, and the others."""
    start, ids = tree.extra_parents
    count = np.diff(start)
    order = np.argsort(-count, kind="stable")[:most]
    order = order[count[order] > 0]

    def named(nodes: np.ndarray) -> str:
        return ", ".join(called(tree, nodes))

    return [
        {
            "node": named(np.array([i])),
            "parent": named(tree.parent[[i]]),
            "further parents": named(ids[start[i] : start[i + 1]]),
        }
        for i in order.tolist()
    ]


def add_codes(report: Report, tree: Tree) -> None:
    """How nodes are written as numbers, with examples from the whole tree."""
    report.heading("Codes")
    code = PadicCode(tree)
    report.text(
        f"Every node is the number Σ a_k p^k with p = {code.p}, a prime above the number of children, and up to {code.K} digits: "
        f"a_k is the child taken at depth k, counted from 1, and 0 means that the path stops. The longest code takes "
        f"{code.bits:,} bits."
    )
    chosen = np.unique(tree.leaves[np.linspace(0, tree.n_leaves - 1, 5).astype(int)]).tolist()
    names = called(tree, chosen)
    rows = []
    for leaf, name in zip(chosen, names, strict=True):
        digits = tree.digit[tree.ancestors(leaf)[1:]].tolist()
        rows.append({"leaf": name, "digits": " ".join(map(str, digits)), "depth": int(tree.depth[leaf])})
    report.table("Some leaves and their digits, root first", rows)
    deepest = int(np.argmax(tree.depth))
    if tree.depth[deepest] <= 40:
        draw(report, "The longest path, digit by digit: each step names a smaller branch.", plot.code(tree, deepest))


def add_structure(report: Report, findings: dict[str, structure.Finding]) -> None:
    """Each finding: what it asks, its verdict, its picture and its table."""
    report.heading("Structure")
    for name, finding in findings.items():
        report.text(ANALYSES[name])
        report.text(sentence(finding.verdict))
        ax = finding.plot()
        if ax.axison:  # else it says why there is nothing to draw, which the verdict does
            draw(report, f"{name}.", ax)
        rows = finding.rows()
        if rows:
            report.table(f"{name}, in numbers", rows[:40])


def report_model(
    model: FittedModel,
    X: Features,
    y: Targets,
    title: str,
    command: str = "vpunn.report.report_model",
    *,
    texts: Texts = None,
    feature_names: FeatureNames = None,
    by_node: bool = False,
) -> Report:
    """A page about a fitted model on test rows: how good, how honest, where it goes wrong, examples with explanations.

    A classifier needs ``posterior`` and ``nodes_of``, see `triage`; of rows with several labels y is a set per row; of a
    `VPuNNRegressor` it is a number per row, of a `VPuNNClassifier` a class. ``texts`` are shown beside the examples (one per row),
    ``feature_names`` name what speaks for the labels of a set. With ``by_node`` the y of a classifier with one label per row are
    nodes of its tree.
    """
    if getattr(model, "multilabel_", False):
        from vpunn.report._sets import page_of_sets

        return page_of_sets(model, X, y, title, command, texts=texts, feature_names=feature_names)
    if isinstance(model, VPuNNRegressor):
        from vpunn.report._numbers import page_of_numbers

        return page_of_numbers(model, X, y, title, command)
    if isinstance(model, VPuNNClassifier):
        from vpunn.report._classes import page_of_classes

        return page_of_classes(model, X, y, title, command)
    if not hasattr(model, "posterior") or not hasattr(model, "nodes_of"):
        raise VpunnError(
            f"a page about test rows needs a classifier with posterior and nodes_of, a VPuNNRegressor or a VPuNNClassifier; got "
            f"{type(model).__name__}."
        )
    true = np.asarray(y if by_node else model.nodes_of(y), np.int64)
    posterior = model.posterior(X)
    found = triage_of(posterior, true, names=getattr(model, "label_tree_", None))
    tree = posterior.tree
    report = Report(title, command)
    add_summary(report, found, "Truth against answer for the branches below the root.")
    add_accuracy(report, found, posterior)
    add_triage(report, found)
    add_examples(report, model, X, found, texts)
    add_tree(report, tree)
    return report


def add_accuracy(report: Report, found: Triage, posterior: Beliefs) -> None:
    """How often answers are right, at every depth, and how honest their probabilities are."""
    report.heading("Accuracy and calibration")
    tree = posterior.tree
    scores = hierarchical_summary(tree, found.true, found.predicted)
    shown = {
        "rows": found.n_rows,
        "exactly right": float(1 - found.wrong.mean()),
        "topmost branch right": scores["root_accuracy"],
        "hierarchical F1": scores["hierarchical_f1"],
        "mean depth of the shared path": scores["mean_lca_depth"],
    }
    report.table("Scores", with_meaning(shown))
    balls, p = posterior.chain(found.predicted)
    curves, rows = {}, []
    for k in range(1, balls.shape[1]):
        there = np.flatnonzero(balls[:, k] >= 0)
        if len(there) < 10:
            break
        right = tree.is_ancestor(balls[there, k], found.true[there])
        curves[k] = reliability(p[there, k], right)
        error = calibration_error_interval(p[there, k], right)  # as `vpunn evaluate` has it
        rows.append(
            {
                "depth": k,
                "answers": len(there),
                "share right": float(right.mean()),
                "mean probability": float(p[there, k].mean()),
                "calibration error": error.value,
                "by chance": error.noise,
            }
        )
    if rows:
        report.text(CALIBRATION)
        report.table("The branch of the answer, by depth", rows)
        draw(
            report,
            "Calibration error by depth; the marks are what exact probabilities would show.",
            plot.reliability_by_depth(curves),
        )
    # bins of as many rows each: a curve that few rows do not bend
    curve = reliability(found.confidence, ~found.wrong, strategy="quantile", bins=10)
    draw(report, "Share right against the probability of the answer.", plot.reliability(curve))
    draw(
        report,
        "If only the surest rows are answered, how many answers are wrong?",
        plot.risk_coverage(risk_coverage(found.confidence, found.wrong.astype(float))),
    )


def add_triage(report: Report, found: Triage) -> None:
    """Where paths go wrong, what is taken for what, and which branches are too sure."""
    report.heading("Where it goes wrong")
    report.table(
        "Hardest branches: rows that reach a branch and leave the true path there",
        [
            {"branch": b["name"], "depth": b["depth"], "mistakes": b["mistakes"], "reached": b["reached"], "rate": b["rate"],
             "95 % interval": f"{b['low']:.2f} to {b['high']:.2f}"}
            for b in found.hardest(15)
        ],
    )  # fmt: skip
    report.table(
        "Worst confusions, at the step where the path goes wrong",
        [
            {"at": c["fork_name"], "truth": c["true_name"], "answer": c["predicted_name"], "rows": c["rows"]}
            for c in found.confusions(15)
        ],
    )
    sure = found.overconfident(15)
    if sure:
        called_so = {"rows": "rows", "confidence": "said", "accuracy": "right", "excess": "too many"}
        called_so["z"] = "standard errors"
        report.table(
            "Over-confident branches: answers in them, mean probability said, share right, rows claimed too many, and how many "
            "standard errors that is (beyond 3 is hardly chance)",
            [{"branch": b["name"], "depth": b["depth"], **{n: b[key] for key, n in called_so.items()}} for b in sure],
        )
    else:
        report.text(f"No branch claims more than chance explains {CHANCE}.")


def add_examples(
    report: Report, model: FittedModel, X: Features, found: Triage, texts: Texts = None, count: int = 4
) -> None:
    """The surest mistakes and one right answer, each with the branches that made it."""
    from vpunn.explanations import explain

    report.heading("Examples")
    wrong = np.flatnonzero(found.wrong)
    right = np.flatnonzero(~found.wrong)
    rows = [
        *right[np.argsort(-found.confidence[right], kind="stable")][:1],
        *wrong[np.argsort(-found.confidence[wrong], kind="stable")][: count - 1],
    ]
    for row in map(int, rows):
        truth, answer = found.names[found.true[row]], found.names[found.predicted[row]]
        said = f" {str(texts[row])[:160]!r}" if texts is not None else ""
        report.text(
            f"Row {row}{said}: answered {answer!r} with probability {found.confidence[row]:.2f}; the truth is {truth!r}."
        )
        try:
            one = slice(row, row + 1)
            reason = explain(model, {k: v[one] for k, v in X.items()} if isinstance(X, Mapping) else X[one])
        except VpunnError as error:
            report.text(f"No explanation: {error}")
            continue
        draw(
            report,
            f"The branches around the answer of row {row}: what each adds and how probable it is.",
            plot.activation(reason),
        )
