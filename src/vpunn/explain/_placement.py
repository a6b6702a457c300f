"""Why an item was placed where it was, and what separates two nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vpunn._types import FeatureNames, Features, HasTree, Label
from vpunn.errors import VpunnError, check_whole
from vpunn.explain._heads import HeardRow, ball_weights, chain_blocks, heard_row
from vpunn.explain._sources import check_fitted, namer, strongest

if TYPE_CHECKING:
    from vpunn.regress import BallSum


@dataclass(frozen=True)
class BallContribution:
    """One ball on the activation path: ⟨w_B, x⟩ + b_B, P(B), and ln P(B | the ball above)."""

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
    """Why a node got its score. ``score`` is the sum of the balls' ``head``, ``log_probability`` of their ``log_conditional``.

    ``evidence`` is what the combiner saw for the node, by name; empty if the node was not among the candidates. ``blocks`` says
    how much each block of features spoke, and the learned measure that reads all of them: the log-odds that would be lost if it
    had brought average evidence. Where one expert settled the row alone, ``settled_by`` names it, and its block is all that spoke:
    it moved the probability from the prior.
    """

    node: int
    label: Label
    score: float
    log_probability: float
    balls: list[BallContribution]
    evidence: dict[str, float]
    blocks: dict[str, float] = field(default_factory=dict)
    settled_by: str = ""

    def __str__(self) -> str:
        lines = [f"{self.label}: probability {np.exp(self.log_probability):.3f}, head score {self.score:+.3f}"]
        if self.settled_by:
            lines.append(f"  settled by the {self.settled_by} alone")
        if len(self.blocks) > 1:
            lines.append("  spoke for it: " + ", ".join(f"{name} {value:+.2f}" for name, value in self.blocks.items()))
        for ball in self.balls:
            name = f"stop at {ball.label}" if ball.stops_here else str(ball.label)
            listed = [f"{feature} {value:+.2f}" for feature, value in ball.features]
            rest = ball.head - sum(value for _, value in ball.features)
            if listed and abs(rest) >= 0.005:  # the ball's constant and the features that are not listed
                listed.append(f"rest {rest:+.2f}")
            said = f"  {'  ' * ball.depth}{name}: P {ball.probability:.3f}, head {ball.head:+.3f}  {', '.join(listed)}"
            lines.append(said.rstrip())
        return "\n".join(lines)


def explain(
    model: HasTree, x: Features, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
) -> Explanation | BallSum:
    """Why row ``x`` scores as it does at ``node`` (default: the predicted one): the activation path, ball by ball.

    Other estimators have an ``explain`` of their own, which is called: of a `VPuNNRegressor` or `PadicTargetEncoder` which balls
    made the number, of a `VPuNNClassifier` which made the probability of a class (``node``; default: the predicted one).

    The head score of the node is Σ_B (⟨w_B, x⟩ + b_B) over the balls listed, and ln P(node) is Σ_B ln P(B | ball above), the
    last term being that the path stops there; both sums are exact up to float rounding.
    """
    from vpunn.regress import PadicTargetEncoder, VPuNNClassifier, VPuNNRegressor

    if hasattr(model, "step_log_prob") or hasattr(model, "head_"):  # a head of `vpunn.torch`, alone or as an estimator
        found: Explanation = model.explain(x, node, k=k, feature_names=feature_names)
        return found
    if isinstance(model, VPuNNClassifier):
        return model.explain(x, node)
    if isinstance(model, VPuNNRegressor | PadicTargetEncoder):
        if node is not None:
            raise VpunnError(f"a {type(model).__name__} explains its number, not a node ({node!r}); leave node out.")
        if isinstance(model, VPuNNRegressor):
            return model.explain(x, feature_names=feature_names)
        return model.explain(x)
    if getattr(model, "multilabel_", False):
        check_whole("k", k, 0)
        several: Explanation = model.explain_set(x, node, k=k, feature_names=feature_names)
        return several
    check_fitted(model)
    check_whole("k", k, 0)
    posterior = model.posterior(x, evidence=True)
    if len(posterior) != 1:
        raise VpunnError(f"explain takes one row, got {len(posterior):,}; pass X[[i]] to keep it two-dimensional.")
    tree = model.tree_
    i = int(posterior.best()[0]) if node is None else int(model.label_tree_.find(node))
    heard = HeardRow(model, heard_row(model, posterior.rows))
    names = namer(model, feature_names)
    chain, p = posterior.chain(np.array([i]))
    mass = float(posterior.masses(slice(0, 1))[0, i])
    steps, above = [], 1.0
    for j, q in zip(chain[0][chain[0] >= 0].tolist(), p[0].tolist(), strict=False):
        if not tree.is_leaf[j]:
            steps.append(_step(model, heard, names, k, tree.n_nodes + j, j, False, q, above))
            above = q
    steps.append(_step(model, heard, names, k, i, i, not tree.is_leaf[i], mass, above))
    at = np.flatnonzero(posterior.candidates[0] == i)
    evidence = {}
    if len(at):
        evidence = dict(zip(model.experts_.names(), posterior.evidence[0, at[0]].tolist(), strict=True))
    score = sum(step.head for step in steps)
    said = _spoke(model, posterior.evidence[0, at[0]]) if len(at) else {}
    total, settled = sum(step.log_conditional for step in steps), ""
    if posterior.settled is not None and posterior.settled[0]:
        speaker = model.first_.block or "words"
        settled = model.first_.speaker
        said = {name: total - float(np.log(model.prior_[i])) if name == speaker else 0.0 for name in said}
    return Explanation(i, tree.labels[i], score, total, steps, evidence, said, settled)


def _spoke(model: HasTree, evidence: np.ndarray) -> dict[str, float]:
    """How much each block spoke for a candidate: its score by the combiner, minus that with the block's evidence at its mean. The
    learned measure, which reads all blocks at once, speaks for itself."""
    combiner = model.combiner_
    names = [name.removeprefix("rank by ") for name in model.experts_.names()]
    blocks = list(model.dense_)
    owner = np.array([next((b for b in blocks if n.startswith(f"{b}: ")), "words") for n in names], object)
    if model.measure_ is not None:
        speaker = model.measure_.speaker
        while speaker in ("words", *blocks):
            speaker += "'"
        owner[np.isin(names, model.measure_.names())] = speaker
        blocks.append(speaker)
    cases = [evidence]
    for block in ("words", *blocks):
        cases.append(np.where(owner == block, combiner.centre, evidence))
    score = combiner.scores(np.stack(cases)[:, None].astype(np.float32), np.zeros((len(cases), 0), np.int32))[:, 0]
    listed = ["words"] if model.layout_.words() else []
    said = dict(zip(("words", *blocks), (score[0] - score[1:]).tolist(), strict=True))
    return {name: said[name] for name in (*listed, *blocks)}


def _step(
    model: HasTree,
    heard: HeardRow,
    names: Callable[[int], str],
    k: int,
    block: int,
    node: int,
    stops: bool,
    p: float,
    above: float,
) -> BallContribution:
    tree = model.tree_
    parts = heard.parts(block)
    values = {int(f): float(v) for f, v in zip(heard.columns, parts, strict=True) if v}
    largest = sorted(values.items(), key=lambda item: (-abs(item[1]), item[0]))[:k]
    head = float(model.heads_.bias[block]) + sum(values.values())
    head += sum(block_of.ball_head(block)[1] for block_of in model.dense_.values())
    gain = float(np.log(p / above)) if p > 0 and above > 0 else -np.inf
    return BallContribution(
        node,
        tree.labels[node],
        int(tree.depth[node]),
        stops,
        head,
        p,
        gain,
        [(names(f), v) for f, v in largest if v],
    )


def contrast(
    model: HasTree, a: Label, b: Label, k: int = 10, *, feature_names: FeatureNames = None
) -> list[tuple[str, float]]:
    """The features that separate two nodes most: Σ of weights along a's chain minus along b's, positive speaks for ``a``."""
    check_fitted(model)
    check_whole("k", k, 0)
    tree = model.tree_
    i, j = (int(model.label_tree_.find(node)) for node in (a, b))
    difference = np.zeros(model.n_features_in_)
    for sign, node in ((1.0, i), (-1.0, j)):
        for block in chain_blocks(tree, node):
            difference += sign * ball_weights(model, block)
    return strongest(difference, namer(model, feature_names), k, both=True)
