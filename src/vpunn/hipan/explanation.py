"""Why a row was placed where it was, branch by branch, who spoke for it, and what separates two nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vpunn.errors import VpunnError, check_whole, examples
from vpunn.hipan import inputs, reasons

if TYPE_CHECKING:
    from vpunn._types import FeatureNames, Features, FittedModel, Label


@dataclass(frozen=True)
class BallContribution:
    """One branch on the way to an answer: its head ⟨w_B, x⟩ + b_B, P(B), and ln P(B | the one above)."""

    node: int
    label: Label
    depth: int
    stops_here: bool
    head: float
    probability: float
    log_conditional: float
    features: list[tuple[str, float]]


@dataclass(frozen=True)
class Explanation:
    """Why a node got its probability: what spoke for it and what against.

    ``score`` is the sum of the branches' ``head``, ``log_probability`` that of their ``log_conditional``. ``spoke`` says for every
    expert how much it spoke for the node (below 0: against it): the log-odds that would be lost if it had said what is usual;
    ``blocks`` the same of every block of features, if there are several. ``near`` are training rows of the node that are most like
    this one, with how alike they are (1: the same), ``evidence`` is what the combiner saw, by name. If nobody proposed the node
    these four are empty: its probability is what is left for such nodes.
    """

    node: int
    label: Label
    score: float
    log_probability: float
    balls: list[BallContribution]
    evidence: dict[str, float]
    spoke: dict[str, float] = field(default_factory=dict)
    blocks: dict[str, float] = field(default_factory=dict)
    near: list[tuple[int, float]] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """What spoke for the node and what against it, in one sentence."""
        if not self.evidence:
            return f"{self.label}: no expert proposed it."
        sides = [sorted((-abs(v), n, v) for n, v in self.spoke.items() if sign * v >= 0.01) for sign in (1, -1)]
        if not any(sides):
            return f"{self.label}: nothing in the row speaks for or against it."
        said = [", ".join(f"{name} ({value:+.2f})" for _, name, value in side[:3]) or "nothing" for side in sides]
        return f"{self.label}: {said[0]} spoke for it, {said[1]} against it."

    def __str__(self) -> str:
        lines = [f"{self.label}: probability {np.exp(self.log_probability):.3f}, head score {self.score:+.3f}"]
        for name, told in (("spoke for it", 1), ("spoke against it", -1)):
            values = [(n, v) for n, v in self.spoke.items() if told * v >= 0.01]
            if values:
                ordered = sorted(values, key=lambda pair: (-abs(pair[1]), pair[0]))
                lines.append(f"  {name}: " + ", ".join(f"{n} {v:+.2f}" for n, v in ordered))
        if self.blocks:
            lines.append("  by block: " + ", ".join(f"{name} {value:+.2f}" for name, value in self.blocks.items()))
        if self.near:
            lines.append("  most like training rows " + ", ".join(f"{row} ({like:.2f})" for row, like in self.near))
        for ball in self.balls:
            name = f"stop at {ball.label}" if ball.stops_here else str(ball.label)
            listed = [f"{feature} {value:+.2f}" for feature, value in ball.features]
            rest = ball.head - sum(value for _, value in ball.features)
            if listed and abs(rest) >= 0.005:  # the branch's constant and the features that are not listed
                listed.append(f"rest {rest:+.2f}")
            said = f"  {'  ' * ball.depth}{name}: P {ball.probability:.3f}, head {ball.head:+.3f}  {', '.join(listed)}"
            lines.append(said.rstrip())
        return "\n".join(lines)


def explain(model: FittedModel, x: Features, node: Label, k: int, feature_names: FeatureNames) -> Explanation:
    """Why one row has its probability at ``node`` (None: the answer); ``k`` features of every branch are listed.

    The score of the heads is Σ_B (⟨w_B, x⟩ + b_B) over the branches listed, and ln P(node) is Σ_B ln P(B | the one above), the last
    being that the path stops there; both sums are exact up to rounding.
    """
    check_whole("k", k, 0)
    posterior = model.posterior(x, evidence=True)
    if len(posterior) != 1:
        raise VpunnError(f"explain takes one row, got {len(posterior):,}; pass X[[i]] to keep it two-dimensional.")
    tree, (seen,) = model.tree_, posterior.seen
    i = int(posterior.best()[0]) if node is None else int(model.label_tree_.find(node))
    rows, names = model._rows(x), namer(model, feature_names)
    heard = reasons.hear(model, rows)
    balls, p = posterior.chain(np.array([i]))
    path, mass = balls[0].tolist(), float(posterior.exact(np.array([i]))[0])
    steps = [(ball, False, float(q)) for ball, q in zip(path, p[0], strict=True) if not tree.is_leaf[ball]]
    steps.append((i, not tree.is_leaf[i], mass))
    told, above = [], 1.0
    for (ball, stops, q), block in zip(steps, reasons.chain_blocks(model, i), strict=True):
        values, constant = reasons.head_parts(model, heard, block)
        largest = sorted(values.items(), key=lambda item: (-abs(item[1]), item[0]))[:k]
        gain = float(np.log(q / above)) if q > 0 and above > 0 else -np.inf
        head, features = constant + sum(values.values()), [(names(f), v) for f, v in largest]
        told.append(BallContribution(ball, tree.labels[ball], int(tree.depth[ball]), stops, head, q, gain, features))
        above = q
    found = Explanation(i, tree.labels[i], sum(t.head for t in told), sum(t.log_conditional for t in told), told, {})
    line = reasons.slot_of(model, seen, i)
    if line < 0:
        return found
    evidence = seen.evidence[line]
    called, owner = reasons.evidence_names(model)
    found.evidence.update(zip(called, evidence.tolist(), strict=True))
    speakers = reasons.speakers(model)
    found.spoke.update(zip(speakers, reasons.spoke(model, evidence, list(speakers.values())), strict=True))
    if not model.layout_.single:
        columns = [[at for at, name in enumerate(owner) if name == block] for block in model.layout_.names]
        found.blocks.update(zip(model.layout_.names, reasons.spoke(model, evidence, columns), strict=True))
    found.near.extend(reasons.nearest_rows(model, rows, i, min(k, 3)))
    return found


def contrast(
    model: FittedModel, a: Label, b: Label, k: int = 10, *, feature_names: FeatureNames = None
) -> list[tuple[str, float]]:
    """The features that separate two nodes most: Σ of weights along a's path minus along b's, positive speaks for ``a``."""
    if not hasattr(model, "model_"):
        inputs.refuse_unfitted(model)
    check_whole("k", k, 0)
    difference = np.zeros(model.n_features_in_)
    for sign, node in ((1.0, a), (-1.0, b)):
        for block in reasons.chain_blocks(model, int(model.label_tree_.find(node))):
            difference += sign * reasons.ball_weights(model, block)
    return strongest(difference, namer(model, feature_names), k, both=True)


def above_siblings(model: FittedModel, node: int) -> np.ndarray:
    """The weights of a branch over all columns of ``X``, above the mean of its siblings'."""
    tree = model.tree_
    if node == 0:
        return np.zeros(model.n_features_in_)
    family = tree.children(int(tree.parent[node])).tolist()
    weights = {i: reasons.ball_weights(model, reasons.chain_blocks(model, i)[int(tree.depth[i])]) for i in family}
    own = weights.pop(node)
    return np.asarray(own - np.mean(list(weights.values()), 0)) if weights else own


def namer(model: FittedModel, feature_names: FeatureNames) -> Callable[[int], str]:
    """What a column of ``X`` is called."""
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None and not model.layout_.single:
        return lambda f: _within(model, f)
    if feature_names is None:
        return lambda f: f"x{f}"
    if len(feature_names) != model.n_features_in_:
        shown = examples(feature_names[:3])
        raise VpunnError(f"feature_names needs {model.n_features_in_:,} names, got {len(feature_names):,}: {shown}.")
    given = feature_names
    return lambda f: str(given[f])


def _within(model: FittedModel, column: int) -> str:
    """A column of a named block."""
    block = int(np.searchsorted(model.layout_.first, column, side="right")) - 1
    return f"{model.layout_.names[block]}[{column - int(model.layout_.first[block])}]"


def strongest(
    values: np.ndarray, names: Callable[[int], str], k: int, *, both: bool = False
) -> list[tuple[str, float]]:
    """The k largest values with their names, of ``both`` signs or above 0."""
    order = np.argsort(-(np.abs(values) if both else values), kind="stable")[:k]
    return [(names(int(f)), float(values[f])) for f in order if (values[f] != 0 if both else values[f] > 0)]
