"""Why: what a ball contains and stands for, why an item was placed where it was, and what separates two nodes.

Free functions over fitted models, trees and codes. The head weights of a `HiPaNClassifier` belong to one ball each, so an
explanation is a list of balls with what each contributed, and it sums to the score exactly.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, examples
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.regress import BallSum

_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(frozen=True)
class BallDescription:
    """What `describe_ball` says; ``str()`` is readable."""

    node: int
    label: Any
    path: tuple[Any, ...]
    n_nodes: int
    n_leaves: int
    n_rows: float | None
    entropy: float
    members: list[Any]
    speaks_for: list[tuple[str, float]]

    def __str__(self) -> str:
        rows = "" if self.n_rows is None else f", {self.n_rows:g} training rows"
        lines = [
            " / ".join(map(str, self.path)),
            f"  {self.n_nodes:,} nodes, {self.n_leaves:,} leaves{rows}, entropy over its children {self.entropy:.2f} bits",
            "  members: " + ", ".join(map(str, self.members)),
        ]
        if self.speaks_for:
            lines.append(
                "  against its siblings: " + ", ".join(f"{name} {value:+.3g}" for name, value in self.speaks_for)
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class BallContribution:
    """One ball on the activation path: ⟨w_B, x⟩ + b_B, P(B), and ln P(B | the ball above)."""

    node: int
    label: Any
    depth: int
    stops_here: bool
    head: float
    probability: float
    log_conditional: float
    features: list[tuple[str, float]]


@dataclass(frozen=True)
class Explanation:
    """Why a node got its score. ``score`` is the sum of the balls' ``head``, ``log_probability`` of their ``log_conditional``.

    ``evidence`` is what the combiner saw for the node, by name; empty if the node was not among the candidates.
    """

    node: int
    label: Any
    score: float
    log_probability: float
    balls: list[BallContribution]
    evidence: dict[str, float]

    def __str__(self) -> str:
        lines = [f"{self.label}: probability {np.exp(self.log_probability):.3f}, head score {self.score:+.3f}"]
        for ball in self.balls:
            name = f"stop at {ball.label}" if ball.stops_here else str(ball.label)
            why = ", ".join(f"{feature} {value:+.2f}" for feature, value in ball.features)
            lines.append(f"  {'  ' * ball.depth}{name}: P {ball.probability:.3f}, head {ball.head:+.3f}  {why}")
        return "\n".join(lines)


def describe_ball(source: Any, node: Any, k: int = 10, *, feature_names: Any = None) -> BallDescription:
    """Describe a ball of a fitted classifier, a code or a tree: members, counts, entropy, and what speaks for it.

    ``node`` is a label or a node id. For a classifier ``speaks_for`` lists the features whose weight in this ball is highest above
    the mean of its siblings; for a tree with a ``gloss`` (or ``definition``) column, the words whose share of the ball's texts
    exceeds that of its siblings' most. The entropy (bits) is that of training rows, else leaves, over the children.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> print(describe_ball(tree, "bird"))
    animal / bird
      3 nodes, 2 leaves, entropy over its children 1.00 bits
      members: owl, robin
    """
    tree, model = _parts(source)
    _check_count("k", k)
    i = int(tree.find(node))
    inside = np.arange(*tree.slice(i).indices(tree.n_nodes))
    leaves = inside[tree.is_leaf[inside]]
    counts = tree.leaf_counts.astype(float)
    rows = None
    if model is not None:
        rows = float(model.balls_.counts[tree.n_nodes + i])
        if rows > 0:
            counts = model.balls_.counts[tree.n_nodes :].astype(float)
    share = counts[tree.children(i)]
    share = share[share > 0] / max(share.sum(), 1e-12)
    entropy = float(-(share * np.log2(share)).sum()) + 0.0
    if model is not None:
        speaks = _named(_above_siblings(model, i), _names(model, feature_names), k)
    else:
        speaks = _gloss_words(tree, i, k)
    return BallDescription(
        i,
        tree.labels[i],
        tree.path(i),
        len(inside),
        len(leaves),
        rows,
        entropy,
        tree.labels[leaves[:k]].tolist(),
        speaks,
    )


def explain(model: Any, x: Any, node: Any = None, *, k: int = 5, feature_names: Any = None) -> Explanation | BallSum:
    """Why row ``x`` scores as it does at ``node`` (default: the predicted one): the activation path, ball by ball.

    For a `VPuNNRegressor` it says which balls made the number, for a `VPuNNClassifier` which made the probability of a
    class (``node``; default: the predicted one): their own ``explain``.

    The head score of the node is Σ_B (⟨w_B, x⟩ + b_B) over the balls listed, and ln P(node) is Σ_B ln P(B | ball above), the
    last term being that the path stops there; both sums are exact up to float rounding.
    """
    from vpunn.hipan._combiner import evidence_names
    from vpunn.regress import VPuNNClassifier, VPuNNRegressor

    if isinstance(model, VPuNNClassifier):
        return model.explain(x, node)
    if isinstance(model, VPuNNRegressor):
        if node is not None:
            raise VpunnError(f"a regressor explains its number, not a node ({node!r}); leave node out.")
        return model.explain(x)
    _check_fitted(model)
    _check_count("k", k)
    posterior = model.posterior(x, evidence=True)
    if len(posterior) != 1:
        raise VpunnError(f"explain takes one row, got {len(posterior):,}; pass X[[i]] to keep it two-dimensional.")
    tree, balls, heads = model.tree_, model.balls_, model.heads_
    i = int(posterior.best()[0]) if node is None else int(model.label_tree_.find(node))
    row = posterior.rows
    names = _names(model, feature_names)
    chain, p = posterior.chain(np.array([i]))
    mass = float(posterior.masses(slice(0, 1))[0, i])
    steps, above = [], 1.0
    for j, q in zip(chain[0][chain[0] >= 0].tolist(), p[0].tolist(), strict=False):
        if not tree.is_leaf[j]:
            steps.append(_step(tree, balls, heads, row, names, k, tree.n_nodes + j, j, False, q, above))
            above = q
    steps.append(_step(tree, balls, heads, row, names, k, i, i, not tree.is_leaf[i], mass, above))
    at = np.flatnonzero(posterior.candidates[0] == i)
    evidence = {}
    if len(at):
        evidence = dict(zip(evidence_names(balls.n_kinds), posterior.evidence[0, at[0]].tolist(), strict=True))
    score = sum(step.head for step in steps)
    return Explanation(i, tree.labels[i], score, sum(step.log_conditional for step in steps), steps, evidence)


def _step(
    tree: Tree,
    balls: Any,
    heads: Any,
    row: Any,
    names: Any,
    k: int,
    block: int,
    node: int,
    stops: bool,
    p: float,
    above: float,
) -> BallContribution:
    values = {}
    for f, v in zip(row.indices.tolist(), row.data.tolist(), strict=True):
        start, stop = balls.feature_start[f], balls.feature_start[f + 1]
        e = start + np.searchsorted(balls.entry_block[start:stop], block)
        if e < stop and balls.entry_block[e] == block:
            values[f] = float(heads.weight[e]) * v
    largest = sorted(values.items(), key=lambda item: (-abs(item[1]), item[0]))[:k]
    head = float(heads.bias[block]) + sum(values.values())
    gain = float(np.log(p / above)) if p > 0 and above > 0 else -np.inf
    return BallContribution(
        node,
        tree.labels[node],
        int(tree.depth[node]),
        stops,
        head,
        p,
        gain,
        [(str(names(f)), v) for f, v in largest if v],
    )


def contrast(model: Any, a: Any, b: Any, k: int = 10, *, feature_names: Any = None) -> list[tuple[str, float]]:
    """The features that separate two nodes most: Σ of weights along a's chain minus along b's, positive speaks for ``a``."""
    _check_fitted(model)
    _check_count("k", k)
    tree = model.tree_
    i, j = (int(model.label_tree_.find(node)) for node in (a, b))
    difference = np.zeros(model.n_features_in_)
    for sign, node in ((1.0, i), (-1.0, j)):
        for block in _chain_blocks(tree, node):
            difference += sign * _block(model, block)
    return _named(difference, _names(model, feature_names), k, both=True)


def export_tree_for_viz(source: Any, x: Any = None, *, max_nodes: int | None = None) -> str:
    """The tree as nested JSON for a viewer: name, id, depth, leaves, training ``rows``, and ``probability`` of row ``x``.

    With ``max_nodes`` only the largest balls (or the most probable ones) are written, and ``hidden`` counts what was left out.
    """
    tree, model = _parts(source)
    if max_nodes is not None:
        _check_count("max_nodes", max_nodes)
    p = None
    if x is not None:
        if model is None:
            raise VpunnError("only a fitted classifier has probabilities; leave x out for a tree or a code.")
        p = model.predict_node_proba(x)
        if len(p) != 1:
            raise VpunnError(f"export_tree_for_viz shows one row, got {len(p):,}.")
    kept = np.arange(tree.n_nodes)
    if max_nodes is not None and max_nodes < tree.n_nodes:
        rank = -tree.size.astype(float) if p is None else -p[0]
        # A ball never ranks below its parts; among equals the shallower comes first, so the choice is closed upwards.
        kept = np.sort(np.lexsort((tree.depth, rank))[: max(max_nodes, 1)])
    built: dict[int, dict[str, Any]] = {}
    for i in kept.tolist():
        label = tree.labels[i]
        entry: dict[str, Any] = {
            "name": str(label),
            "id": i,
            "depth": int(tree.depth[i]),
            "leaves": int(tree.leaf_counts[i]),
        }
        if model is not None:
            entry["rows"] = float(model.balls_.counts[tree.n_nodes + i])
        if p is not None:
            entry["probability"] = float(p[0, i])
        hidden = int(tree.size[i]) - int(np.searchsorted(kept, i + tree.size[i]) - np.searchsorted(kept, i))
        if hidden:
            entry["hidden"] = hidden
        built[i] = entry
        if i:
            built[int(tree.parent[i])].setdefault("children", []).append(entry)
    return json.dumps(built[0], ensure_ascii=False)


def _parts(source: Any) -> tuple[Tree, Any]:
    """The tree and, if there is one, the fitted classifier."""
    if isinstance(source, Tree):
        return source, None
    if hasattr(source, "balls_"):
        return source.tree_, source
    tree = getattr(source, "tree", None)
    if isinstance(tree, Tree):
        return tree, None
    raise VpunnError(f"expected a fitted classifier, a code or a Tree, got {type(source).__name__}.")


def _check_fitted(model: Any) -> None:
    if not hasattr(model, "balls_"):
        raise VpunnError(f"expected a fitted classifier, got {type(model).__name__}; HiPaNClassifier.fit makes one.")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or value < 0:
        raise VpunnError(f"{name} must be a whole number of at least 0, got {value!r}.")


def _chain_blocks(tree: Tree, i: int) -> list[int]:
    chain = tree.ancestors(i).tolist()
    return [i] + [tree.n_nodes + u for u in chain if u and not tree.is_leaf[u]]


def _block(model: Any, block: int) -> np.ndarray:
    """The weights of one ball, dense over features."""
    balls = model.balls_
    at = np.flatnonzero(balls.entry_block == block)
    weights = np.zeros(len(balls.feature_start) - 1)
    weights[np.searchsorted(balls.feature_start, at, side="right") - 1] = model.heads_.weight[at]
    return weights


def _above_siblings(model: Any, i: int) -> np.ndarray:
    tree = model.tree_
    if i == 0:
        return np.zeros(len(model.balls_.feature_start) - 1)
    blocks = [tree.n_nodes + j if not tree.is_leaf[j] else j for j in tree.children(int(tree.parent[i])).tolist()]
    mine = tree.n_nodes + i if not tree.is_leaf[i] else i
    siblings = [b for b in blocks if b != mine]
    own = _block(model, mine)
    if not siblings:
        return own
    balls = model.balls_
    at = np.flatnonzero(np.isin(balls.entry_block, siblings))
    mean = np.zeros_like(own)
    np.add.at(mean, np.searchsorted(balls.feature_start, at, side="right") - 1, model.heads_.weight[at])
    return own - mean / len(siblings)


def _names(model: Any, feature_names: Any) -> Any:
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        return lambda f: f"x{f}"
    if len(feature_names) != model.n_features_in_:
        shown = examples(feature_names[:3])
        raise VpunnError(f"feature_names needs {model.n_features_in_:,} names, got {len(feature_names):,}: {shown}.")
    return lambda f: feature_names[f]


def _named(values: np.ndarray, names: Any, k: int, *, both: bool = False) -> list[tuple[str, float]]:
    order = np.argsort(-(np.abs(values) if both else values), kind="stable")[:k]
    return [(str(names(int(f))), float(values[f])) for f in order if (values[f] != 0 if both else values[f] > 0)]


def _gloss_words(tree: Tree, i: int, k: int) -> list[tuple[str, float]]:
    """Words whose share in the texts of the ball exceeds that in its siblings' texts most."""
    column = next((name for name in ("gloss", "definition") if name in tree.columns), None)
    if column is None or i == 0:
        return []
    texts = tree.columns[column]

    def shares(nodes: np.ndarray) -> tuple[Counter[str], int]:
        words = Counter(
            word.lower() for text in texts[nodes] if isinstance(text, str) for word in set(_WORD.findall(text))
        )
        return words, max(len(nodes), 1)

    family = np.arange(*tree.slice(int(tree.parent[i])).indices(tree.n_nodes))[1:]
    here = (family >= i) & (family < i + tree.size[i])
    mine, n = shares(family[here])
    others, m = shares(family[~here])
    gain = {word: count / n - others[word] / m for word, count in mine.items()}
    return sorted(((w, g) for w, g in gain.items() if g > 0), key=lambda item: (-item[1], item[0]))[:k]
