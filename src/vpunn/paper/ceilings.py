"""What input-free digit heads can and cannot know: information ceilings, digit-separability, and the paper's leak.

These are measurements of a tree, not models. They explain the paper's tables: no head without input or leakage can
beat `ceilings`, the ``markov`` factorisation is exact only where `separability` says so, and `leaky_paper_rule` shows
how near-perfect "accuracy" appears when the true digit is handed to the rule that should predict it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, check_choice
from vpunn.padic import code_prime
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down
from vpunn.vapo.heads import Layout, SoftmaxHeads
from vpunn.vapo.losses import first_best


@dataclass(frozen=True)
class Ceilings:
    """Best average digit accuracy given nothing, the true parent digit, or the whole true prefix (AUDIT E-47)."""

    nothing: float
    parent_digit: float
    prefix: float
    #: Digits judged, per leaf.
    digits_per_leaf: float

    def as_dict(self) -> dict[str, float]:
        """The four numbers by name."""
        return asdict(self)


def ceilings(tree: Tree, *, padding: bool = False) -> Ceilings:
    """The three information ceilings over all leaves.

    By default only real digits count. ``padding`` judges K digits per leaf as the paper does: digits are child indices
    from 0, and the zeros after a leaf's last digit count as digits to predict. O(n log n).

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 1])
    >>> ceilings(tree).as_dict()
    {'nothing': 0.5714285714285714, 'parent_digit': 0.5714285714285714, 'prefix': 0.5714285714285714, 'digits_per_leaf': 1.75}
    """
    if not padding:
        heads = (SoftmaxHeads(tree, "depth"), SoftmaxHeads(tree, "markov"), SoftmaxHeads(tree, "node"))
        nothing, parent_digit, prefix = (h.accuracies(h.closed_form())["digit"] for h in heads)
        return Ceilings(nothing, parent_digit, prefix, float(tree.depth[tree.leaves].mean()))
    return _padded_ceilings(tree)


def _padded_ceilings(tree: Tree) -> Ceilings:
    """As the paper counts. A padded position repeats 0; its parent digit is the leaf's last index, then 0."""
    if tree.n_nodes < 2:
        raise VpunnError(
            "a single node has no digits, so there is no accuracy to bound; give a tree with at least one edge."
        )
    K, leaves, total = tree.max_depth, tree.leaves, tree.n_leaves
    index = np.maximum(tree.digit[1:].astype(np.int64) - 1, 0)
    up = tree.parent[1:]
    position = tree.depth[up].astype(np.int64)
    above = np.maximum(tree.digit[up].astype(np.int64) - 1, 0)
    weight = tree.leaf_counts[1:].astype(np.int64)
    # Padding events (position, parent index, how many leaves): just after a leaf, then further on.
    depth = tree.depth[leaves].astype(np.int64)
    last = np.maximum(tree.digit[leaves].astype(np.int64) - 1, 0)
    ended = np.cumsum(np.bincount(depth, minlength=K + 1))  # leaves of depth ≤ k
    just, further = depth < K, np.arange(1, K)
    pad_position = np.concatenate([depth[just], further])
    pad_above = np.concatenate([last[just], np.zeros(len(further), np.int64)])
    pad_weight = np.concatenate([np.ones(int(just.sum()), np.int64), ended[further - 1]])

    width = tree.max_branching + 1
    where = np.concatenate([position, pad_position])
    before = np.concatenate([above, pad_above])
    digit = np.concatenate([index, np.zeros(len(pad_position), np.int64)])
    mass = np.concatenate([weight, pad_weight])
    nothing = _best_share(where, digit, mass, width)
    parent = _best_share(where * width + before, digit, mass, width)
    # A padded prefix belongs to one leaf only, so padding is known; real digits are won by the largest child.
    prefix = _best_share(up.astype(np.int64), index, weight, width) + int(pad_weight.sum())
    judged = total * K
    return Ceilings(nothing / judged, parent / judged, prefix / judged, float(K))


def _best_share(group: np.ndarray, digit: np.ndarray, mass: np.ndarray, width: int) -> int:
    """Σ over groups of the mass of the group's commonest digit."""
    keys, at = np.unique(group * width + digit, return_inverse=True)
    sums = np.bincount(at, mass)
    _, first = np.unique(keys // width, return_index=True)
    return int(np.maximum.reduceat(sums, first).sum())


def separability(tree: Tree) -> dict[str, Any]:
    """How far a tree is from digit-separable, the condition under which ``markov`` heads lose nothing (AUDIT E-46).

    Nodes share a context if depth and sibling index agree. Reported: contexts and occupied (depth, parent digit, child
    digit) slots, the share of nodes whose context has one branching throughout, the share whose context has one child
    law throughout (equal leaf proportions, compared exactly), and the number of paths the exact Markov chain can
    produce, a Python integer, next to the leaves that exist.

    >>> found = separability(Tree.from_parents([-1, 0, 0, 1, 1, 2]))
    >>> found["same_branching"], found["chain_paths"], found["leaves"]
    (1.0, 3, 3)
    """
    context = tree.depth.astype(np.int64) * (tree.max_branching + 1) + tree.digit
    _, group, size = np.unique(context, return_inverse=True, return_counts=True)
    branching = tree.n_children
    first = np.zeros(len(size), np.int64)
    first[group[::-1]] = np.arange(tree.n_nodes)[::-1]  # a representative node of each context
    uniform = _all_in_group(branching == branching[first[group]], group)
    # Equal child laws: branching agrees and every child's share equals the representative's child of the same digit.
    children = np.arange(1, tree.n_nodes)
    up = tree.parent[1:]
    twin = first[group[up]]
    comparable = uniform[group[up]]
    start, ids = tree.child_index
    counterpart = ids[np.minimum(start[twin] + tree.digit[1:] - 1, len(ids) - 1)] if len(ids) else ids
    leaves = tree.leaf_counts.astype(np.int64)
    same = leaves[children] * leaves[twin] == leaves[counterpart] * leaves[up]
    lawful = np.ones(len(size), bool)
    np.logical_and.at(lawful, group[up], same & comparable)
    lawful &= uniform
    return {
        "contexts": len(size),
        "slots": Layout(tree, "markov").n_slots if tree.n_nodes > 1 else 0,
        "same_branching": float(size[uniform].sum() / tree.n_nodes),
        "same_law": float(size[lawful].sum() / tree.n_nodes),
        "chain_paths": _chain_paths(tree),
        "leaves": tree.n_leaves,
    }


def _all_in_group(flag: np.ndarray, group: np.ndarray) -> np.ndarray:
    return np.asarray(np.bincount(group, ~flag) == 0)


def _chain_paths(tree: Tree) -> int:
    """Paths of the Markov chain on (depth, digit): it may stop where some node is a leaf, and step where some node does."""
    stops = {(int(d), int(a)) for d, a in zip(tree.depth[tree.leaves], tree.digit[tree.leaves], strict=True)}
    up = tree.parent[1:]
    steps = np.unique(np.stack([tree.depth[up], tree.digit[up], tree.digit[1:]], axis=1), axis=0)
    count: dict[tuple[int, int], int] = dict.fromkeys(stops, 1)
    for depth, parent_digit, digit in steps[::-1].tolist():  # deepest first, so the children's counts are complete
        here = (depth, parent_digit)
        count[here] = count.get(here, 0) + count.get((depth + 1, digit), 0)
    return count[(0, 0)]


def leaky_paper_rule(tree: Tree, *, start: str = "answer", tau: float = 0.5, seed: int = 0) -> dict[str, Any]:
    """The paper's two-logit rule with *untrained* parameters: an exhibit of label leakage, not a prediction.

    Untrained is enough from a start near the answers (``answer``, ``noise``); from ``zero`` the rule is wrong everywhere until
    training has moved its parameters, which this does not do.

    The rule reads v_good[parent, t] at the **true** digit t, compares −τ(v_good − t)² with −τ(v_other − t)², and answers
    t if the first is larger, else round(v_other) mod p (AUDIT E-43). ``start`` sets v_good: ``answer`` (v[parent, c] = c),
    ``noise`` (c plus a standard normal) or ``zero``; v_other is 0. ``honest`` queries the same numbers without knowing t:
    the arg-max over all children of −τ(v_good[parent, c] − c)². Accuracies are teacher-forced per digit, and ``path`` is
    the share of leaves with every digit right.

    >>> shown = leaky_paper_rule(Tree.from_parents([-1, 0, 0, 1, 1, 1]))
    >>> shown["leaky"]["digit"], shown["honest"]["digit"] < 1
    (1.0, True)
    """
    check_choice("start", start, ("answer", "noise", "zero"))
    layout, p = Layout(tree, "markov"), code_prime(tree.max_branching)
    digit = layout.digit.astype(float)
    noise = np.random.default_rng(seed).normal(size=len(digit))
    good = {"answer": digit, "noise": digit + noise, "zero": np.zeros(len(digit))}[start]
    told = -tau * (good - digit) ** 2 > -tau * (0.0 - digit) ** 2
    leaky = told | (digit % p == 0)  # otherwise the answer is round(0) = 0, never a child's digit

    honest = np.zeros(len(digit), bool)
    honest[first_best(-tau * (good - digit) ** 2, layout.start, layout.context)] = True

    def accuracy(right: np.ndarray) -> dict[str, float]:
        hit = np.append(True, right[layout.slot[1:]])
        wrong_so_far = sweep_down(tree, (~hit).astype(np.int64))[tree.leaves]
        through = tree.leaf_counts[1:]
        top = tree.depth[1:] == 1
        return {
            "digit": float((hit[1:] * through).sum() / through.sum()),
            "root": float((hit[1:] * through)[top].sum() / tree.n_leaves),
            "path": float((wrong_so_far == 0).mean()),
        }

    note = "the leaky rule is shown the true digit; it verifies a given answer and predicts nothing"
    return {"start": start, "trained": False, "leaky": accuracy(leaky), "honest": accuracy(honest), "note": note}
