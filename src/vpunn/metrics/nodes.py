"""How good are predicted nodes? ``f(tree, true, predicted)`` compares node ids (``tree.index(labels)`` finds them).

A target may be a leaf or an internal node of any depth, and every score rests on the depth of the lowest common
ancestor. Depth counts edges below the root. Padding never counts: an item is compared on the digits it has (audit 3.2,
E-60).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.metrics._checks import FloatArray, finite, node_pairs
from vpunn.tree import Nodes, Tree
from vpunn.tree.sweeps import sweep_down

#: One number ≥ 0 for each depth 1…K.
Weights = Sequence[float] | np.ndarray


def leaf_accuracy(tree: Tree, true: Nodes, predicted: Nodes) -> float:
    """Share of items whose *whole path* is right, that is, whose predicted node is the true node."""
    t, q = node_pairs(tree, true, predicted)
    return float(np.mean(t == q))


def root_accuracy(tree: Tree, true: Nodes, predicted: Nodes) -> float:
    """Share of items whose first digit is right; never below `leaf_accuracy` (the paper has it the other way)."""
    return float(prefix_accuracy(tree, true, predicted)[0])


def prefix_accuracy(tree: Tree, true: Nodes, predicted: Nodes, *, reached_only: bool = False) -> FloatArray:
    """Accuracy at every depth k = 1…K: is the path right as far as depth k? K entries, one sweep over the pairs.

    Both paths are cut at depth k and must end in the same node. A path shorter than k is compared whole, so the first
    entry is the root accuracy, the last is the leaf accuracy, and the curve never rises.

    With ``reached_only`` entry k averages over the items whose *true* path is at least k long (NaN if there are none);
    that answers "how good are we this far down?", but the population changes with k and so the curve may rise.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> true, predicted = tree.index(["owl", "robin", "fish"]), tree.index(["owl", "owl", "bird"])
    >>> prefix_accuracy(tree, true, predicted).round(2)      # fish → bird is wrong from the first digit on
    array([0.67, 0.33])
    >>> prefix_accuracy(tree, true, predicted, reached_only=True)
    array([0.66666667, 0.5       ])
    """
    t, q = node_pairs(tree, true, predicted)
    depths = np.arange(1, max(tree.max_depth, 1) + 1)
    right_to = _right_to_depth(tree, t, q)
    if reached_only:
        hits = _count_at_least(np.minimum(right_to, tree.depth[t]), depths)
        reached = _count_at_least(tree.depth[t], depths)
        return np.asarray(np.divide(hits, reached, out=np.full(len(depths), np.nan), where=reached > 0))
    return _count_at_least(right_to, depths) / len(t)


class HierarchicalScores(NamedTuple):
    """Hierarchical precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f1: float


def hierarchical_scores(
    tree: Tree, true: Nodes, predicted: Nodes, *, average: Literal["micro", "macro"] = "micro"
) -> HierarchicalScores:
    """Precision and recall over the *ancestor sets* (root left out): |A(t)∩A(q)| over |A(q)| and over |A(t)|.

    The intersection has exactly LCA-depth many balls. ``micro`` divides the sums over all items, ``macro`` averages the
    items' own ratios; an item with an empty set (the root itself) scores 1 there if both are the root, else 0. With
    ``micro`` a data set of nothing but correct roots scores 1.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> hierarchical_scores(tree, tree.index(["owl", "robin"]), tree.index(["bird", "owl"]))
    HierarchicalScores(precision=0.6666666666666666, recall=0.5, f1=0.5714285714285715)
    """
    check_choice("average", average, ("micro", "macro"))
    t, q = node_pairs(tree, true, predicted)
    shared = tree.lca_depth(t, q).astype(float)
    if average == "micro":
        precision, recall = (
            float(shared.sum() / total) if total else float((t == q).all())
            for total in (tree.depth[q].sum(dtype=float), tree.depth[t].sum(dtype=float))
        )
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return HierarchicalScores(precision, recall, f1)
    same = (t == q).astype(float)
    each = [np.divide(shared, total, out=same.copy(), where=total > 0) for total in (tree.depth[q], tree.depth[t])]
    both = tree.depth[q] + tree.depth[t]
    f1s = np.divide(2 * shared, both, out=same.copy(), where=both > 0)
    return HierarchicalScores(float(each[0].mean()), float(each[1].mean()), float(f1s.mean()))


def wu_palmer(tree: Tree, true: Nodes, predicted: Nodes) -> FloatArray:
    """Wu–Palmer similarity of each pair, 2·d(lca) / (d(t) + d(q)) with depths counted in *nodes* (the root has 1).

    In (0, 1]; 1 exactly for equal nodes. Take the mean for a data set.
    """
    t, q = node_pairs(tree, true, predicted)
    return np.asarray(2.0 * (tree.lca_depth(t, q) + 1.0) / (tree.depth[t] + tree.depth[q] + 2.0))


def mean_lca_depth(tree: Tree, true: Nodes, predicted: Nodes) -> float:
    """Mean number of leading digits shared by truth and prediction: the mean valuation of their difference."""
    t, q = node_pairs(tree, true, predicted)
    return float(tree.lca_depth(t, q).mean())


def depth_weights(tree: Tree, p: int | None = None) -> FloatArray:
    """The weights w_1…w_K that make `ultrametric_loss` the p-adic distance: a path that leaves at depth ν costs p^{-ν}.

    ``p`` defaults to the tree's prime (smallest prime > largest branching). A small p such as 2 spreads the cost over
    the depths; a large one is nearly the root error.
    """
    from vpunn.padic import code_prime

    base = float(code_prime(tree.max_branching) if p is None else p)
    if base <= 1:
        raise VpunnError(f"the base of the distance must be larger than 1, got p={p}.")
    cost = base ** -np.arange(max(tree.max_depth, 1), dtype=float)  # cost of leaving after 0, 1, … shared digits
    return np.asarray(cost - np.append(cost[1:], 0.0))


def ultrametric_loss(
    tree: Tree, true: Nodes, predicted: Nodes, *, weights: Weights | None = None, p: int | None = None
) -> FloatArray:
    """Loss of each item, Σ_k w_k·[the paths cut at depth k differ]: a monotone function of the valuation (audit S17).

    Without ``weights`` it is the p-adic distance p^{-ν} (0 for equal nodes), see `depth_weights`; all ones count the
    wrong depths. ``weights`` has K entries ≥ 0. Take the mean for a data set.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> owl = tree.index("owl")
    >>> ultrametric_loss(tree, [owl] * 4, tree.index(["owl", "robin", "bird", "fish"]), p=3)
    array([0.        , 0.33333333, 0.33333333, 1.        ])
    """
    t, q = node_pairs(tree, true, predicted)
    return np.asarray(_tail(_weights(tree, weights, p))[_right_to_depth(tree, t, q)])


def bayes_nodes(
    tree: Tree, node_proba: Numbers, *, weights: Weights | None = None, p: int | None = None
) -> tuple[np.ndarray, FloatArray]:
    """The node with the least expected `ultrametric_loss` for each row, and that loss. Any node may win, leaf or not.

    ``node_proba`` (items × nodes) holds the probability of every *ball*: a parent's is its own stopping mass plus its
    children's. Naming v is right at depth k ≤ depth(v) if the truth lies in v's ancestor there, and below only if the
    truth is v itself, so one sweep down decides exactly (audit S17). O(items · nodes).
    """
    proba = np.asarray(node_proba, dtype=float)
    if proba.ndim != 2 or proba.shape[1] != tree.n_nodes:
        raise VpunnError(f"node_proba must have one column per node ({tree.n_nodes:,}), got shape {proba.shape}.")
    bad = np.flatnonzero(~((proba >= 0) & (proba <= 1 + 1e-6)).all(axis=1))
    if len(bad):
        raise VpunnError(f"node probabilities must lie in [0, 1]; they do not in rows {examples(bad)}.")
    loss = _weights(tree, weights, p)
    balls = proba.T
    below = np.zeros_like(balls)
    np.add.at(below, tree.parent[1:], balls[1:])
    right = sweep_down(tree, np.append(0.0, loss)[tree.depth][:, None] * balls)
    right += _tail(loss)[np.minimum(tree.depth, len(loss))][:, None] * (balls - below)
    best = np.argmax(right, axis=0)
    return best, loss.sum() * balls[0] - right[best, np.arange(proba.shape[0])]


def _right_to_depth(tree: Tree, t: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The largest k at which the two paths, cut at depth k, agree: K for equal nodes, else the LCA depth."""
    return np.where(t == q, max(tree.max_depth, 1), tree.lca_depth(t, q))


def _count_at_least(values: np.ndarray, depths: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return (len(ordered) - np.searchsorted(ordered, depths, side="left")).astype(float)


def _weights(tree: Tree, weights: Any, p: int | None) -> FloatArray:
    if weights is None:
        return depth_weights(tree, p)
    w = finite(weights, "weights")
    if len(w) != max(tree.max_depth, 1) or (w < 0).any():
        raise VpunnError(f"weights needs one number ≥ 0 for each depth 1…{tree.max_depth}, got {examples(w)}.")
    return w


def _tail(w: FloatArray) -> FloatArray:
    """Entry ν is w_{ν+1} + … + w_K, the loss of paths that agree down to depth ν; the last entry is 0."""
    return np.append(np.cumsum(w[::-1])[::-1], 0.0)
