"""Digit heads: at every ball a law over its children, for all balls at once.

A *slot* is one parameter, a *context* the group of slots that compete. Three factorisations say which edges of the tree
share a slot (AUDIT S14):

- ``node``: a context per ball, a slot per child. Exact; n_nodes − 1 slots.
- ``markov``: a context per (depth, parent digit), as in the paper. Balls that happen to have the same sibling index
  share one law, which is right only for digit-separable trees; `vpunn.paper.ceilings.ceilings` and `separability` measure it.
- ``depth``: a context per depth. Marginals.

The heads here see no input, so the best law is the observed frequencies: `optimum` knows it in closed form, and every
optimiser in `vapo` is judged against it. Items sit on nodes (by default one on each leaf); the digits after an item's
last one are padding and never count.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down, sweep_up
from vpunn.vapo.adam import AdamSolver, FarAdam
from vpunn.vapo.fisher import FisherSolver
from vpunn.vapo.gist import LogitGist, RealGist
from vpunn.vapo.losses import Weighting, first_best, margin_loss, segment_log_softmax, slot_weights

if TYPE_CHECKING:
    from vpunn.scale import BallSums, ClassSums

Factorisation = Literal["node", "markov", "depth"]

#: A logit that stands for probability zero: its exponential underflows, yet sums of it stay finite.
NEVER = -800.0


class Layout:
    """Which slot each edge of the tree uses, and which slots compete.

    ``slot[v]`` is the slot of the edge into node v (−1 for the root), ``start`` delimits contexts, ``context[s]`` is the
    context of slot s, ``digit[s]`` its child digit, ``position[i]`` the digit position (depth of the parents) of context i.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 2])
    >>> [Layout(tree, name).n_slots for name in ("node", "markov", "depth")]
    [5, 5, 4]
    """

    def __init__(self, tree: Tree, factorisation: Factorisation = "node") -> None:
        check_choice("factorisation", factorisation, get_args(Factorisation))
        if tree.n_nodes < 2:
            raise VpunnError("heads need a tree with at least one edge; this one is a single node.")
        self.tree, self.factorisation = tree, factorisation
        up = tree.parent[1:]
        place = tree.depth[up].astype(np.int64)
        if factorisation == "node":
            group = up.astype(np.int64)
        elif factorisation == "markov":
            group = place * (tree.max_branching + 1) + tree.digit[up]
        else:
            group = place
        key = group * (tree.max_branching + 1) + tree.digit[1:]
        slots, first, self_slot = np.unique(key, return_index=True, return_inverse=True)
        self.slot = np.concatenate([[-1], self_slot]).astype(np.int32)
        contexts, start, self.context = np.unique(group[first], return_index=True, return_inverse=True)
        self.start = np.append(start, len(slots)).astype(np.int64)
        self.context = self.context.astype(np.int32)
        self.digit = tree.digit[1:][first].astype(np.int64)
        self.position = place[first][start]
        #: For ``node``: the ball each context belongs to; else the key (position, parent digit) as one integer.
        self.key = contexts

    @property
    def n_slots(self) -> int:
        """Number of competing children: the parameters of a soft-max head."""
        return len(self.context)

    @property
    def n_contexts(self) -> int:
        """Number of laws."""
        return len(self.start) - 1

    def per_context(self, slot_values: np.ndarray) -> np.ndarray:
        """Sums over each context."""
        return np.add.reduceat(slot_values, self.start[:-1])


class Heads:
    """What all heads share: a layout, item counts per slot, and weights."""

    def __init__(
        self,
        tree: Tree,
        factorisation: Factorisation = "node",
        *,
        items: Any = None,
        weighting: Weighting = "none",
        margin: float = 0.0,
    ) -> None:
        if not (isinstance(margin, int | float) and margin >= 0):
            raise VpunnError(f"margin={margin!r} must be 0 (off) or positive.")
        self.tree = tree
        self.layout = Layout(tree, factorisation)
        self.items = _item_weights(tree, items)
        self.weighting, self.margin = weighting, float(margin)
        through = sweep_up(tree, self.items)
        #: Items that pass through each slot.
        self.counts = np.bincount(self.layout.slot[1:], through[1:], minlength=self.layout.n_slots)
        self.weights = slot_weights(weighting, self.counts, self.layout.start)
        self.total = float(self.items.sum())

    @classmethod
    def from_sums(cls, sums: BallSums | ClassSums, factorisation: Factorisation = "node", **options: Any) -> Self:
        """Heads whose items are the rows of `vpunn.scale` sums, wherever they were counted: the same for any partitioning."""
        return cls(sums.tree, factorisation, items=sums.weights(), **options)

    def settings(self) -> dict[str, Any]:
        """What identifies the problem besides the tree and the items (kept in checkpoints)."""
        return {
            "head": type(self).__name__,
            "factorisation": self.layout.factorisation,
            "weighting": self.weighting,
            "margin": self.margin,
        }

    @property
    def n_parameters(self) -> int:
        """One per context; heads with a number per child have one per slot."""
        return self.layout.n_contexts

    def _check(self, theta: Numbers) -> np.ndarray:
        """Parameters as an array of the right length."""
        theta = np.asarray(theta)
        if theta.shape != (self.n_parameters,) or theta.dtype.kind not in "iuf":
            raise VpunnError(
                f"{type(self).__name__} has {self.n_parameters:,} parameters, got an array of {theta.dtype} of shape {theta.shape}."
            )
        return np.asarray(theta)

    @property
    def positions(self) -> np.ndarray:
        """Digit position of every context."""
        return np.asarray(self.layout.position)

    @cached_property
    def mass(self) -> np.ndarray:
        """Weighted counts per slot: the coefficients of −log q in the total loss."""
        return np.asarray(self.counts * self.weights)

    @cached_property
    def frequencies(self) -> np.ndarray:
        """The best law of each context, mass / Σ mass; uniform where nothing was observed."""
        layout = self.layout
        total = layout.per_context(self.mass)[layout.context]
        size = np.diff(layout.start)[layout.context]
        return np.where(total > 0, self.mass / np.where(total > 0, total, 1), 1 / size)

    @cached_property
    def known_optimum(self) -> float | None:
        """The least value of ``loss`` where it is known in closed form, else None."""
        return None if self.margin else self.optimum()

    def optimum(self) -> float:
        """The least cross-entropy any parameters reach, in closed form: frequencies as probabilities (no margin)."""
        seen = self.mass > 0
        return float(-(self.mass[seen] * np.log(self.frequencies[seen])).sum() / self.total)


class SoftmaxHeads(Heads):
    """One logit per slot, a soft-max per context; loss = −Σ w·N·log q / items, in nats per item. O(n) per evaluation.

    ``items`` weighs the nodes (default: 1 on each leaf). ``margin`` > 0 adds the hinge of `losses.margin_loss`.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 1])
    >>> heads = SoftmaxHeads(tree)
    >>> np.isclose(heads.loss(heads.closed_form()), heads.optimum()), round(heads.optimum(), 4)
    (np.True_, 1.3863)
    >>> heads.node_probabilities(heads.closed_form())
    array([1.  , 0.75, 0.25, 0.25, 0.25, 0.25])
    """

    score_kind = 0  # LOGITS in _head_kernels

    @property
    def solvers(self) -> dict[str, Any]:
        """What `vapo.minimize` can do, its default first; the hinge of a margin has gradients only."""
        adam = {"adam": AdamSolver}
        return adam if self.margin else {"fisher": FisherSolver, **adam, "gist": LogitGist}

    def __init__(self, tree: Tree, factorisation: Factorisation = "node", *, tau: float = 0.5, **options: Any) -> None:
        super().__init__(tree, factorisation, **options)
        self.tau = check_tau(tau)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "tau": self.tau}

    @property
    def n_parameters(self) -> int:
        """One per slot."""
        return self.layout.n_slots

    def initial(self) -> np.ndarray:
        """Where training starts: every law uniform."""
        return np.zeros(self.n_parameters)

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """Score of every slot; the soft-max and the arg-max look at nothing else."""
        return theta

    def _score_slope(self, theta: np.ndarray) -> np.ndarray | float:
        return 1.0

    def log_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """log q of every slot within its context."""
        scores = self.scores(self._check(theta))
        return segment_log_softmax(scores, self.layout.start, self.layout.context)

    def loss(self, theta: np.ndarray) -> float:
        """Weighted cross-entropy (plus hinge) per item."""
        seen = self.mass > 0
        total = -float((self.mass[seen] * self.log_probabilities(theta)[seen]).sum())
        if self.margin:
            total += self._hinge(theta)[0]
        return total / self.total

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∂loss/∂θ, exact."""
        layout = self.layout
        q = np.exp(self.log_probabilities(theta))
        by_score = layout.per_context(self.mass)[layout.context] * q - self.mass
        if self.margin:
            by_score += self._hinge(theta)[1]
        return np.asarray(by_score * self._score_slope(theta) / self.total)

    def _hinge(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        return margin_loss(self.scores(theta), self.mass, self.layout.start, self.layout.context, self.margin)

    def closed_form(self) -> np.ndarray:
        """Parameters of the optimum (of the cross-entropy, without margin)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(self.frequencies), NEVER))

    def from_probabilities(self, probabilities: Numbers) -> np.ndarray:
        """Parameters of ``node`` soft-max heads whose ball probabilities are these (checked to be a law)."""
        if self.layout.factorisation != "node" or type(self) is not SoftmaxHeads:
            raise VpunnError("only SoftmaxHeads with factorisation='node' can take any law on the leaves.")
        p = check_probabilities(self.tree, probabilities)
        theta = np.empty(self.n_parameters)
        with np.errstate(divide="ignore"):
            theta[self.layout.slot[1:]] = np.maximum(np.log(p[1:]), NEVER)
        return theta

    # ---- reading a head --------------------------------------------------------------------------------------------

    def node_probabilities(self, theta: np.ndarray) -> np.ndarray:
        """P(B) of every ball: the product of soft-maxes over the *real* children along the path (AUDIT S14, S24).

        Shared laws (``markov``, ``depth``) are renormalised over the children a ball really has, so leaf probabilities
        sum to 1 for every factorisation.
        """
        node = Layout(self.tree, "node") if self.layout.factorisation != "node" else self.layout
        edge_scores = np.empty(node.n_slots)
        edge_scores[node.slot[1:]] = self.scores(self._check(theta))[self.layout.slot[1:]]
        log_q = segment_log_softmax(edge_scores, node.start, node.context)
        return np.asarray(np.exp(sweep_down(self.tree, np.append(0.0, log_q[node.slot[1:]]))))

    def support_mass(self, theta: np.ndarray) -> float:
        """How much probability the raw factorised chain puts on paths that exist; 1 for ``node``."""
        log_q = self.log_probabilities(theta)[self.layout.slot[1:]]
        return float(np.exp(sweep_down(self.tree, np.append(0.0, log_q))[self.tree.leaves]).sum())

    def predicted_slots(self, theta: np.ndarray) -> np.ndarray:
        """The best-scored slot of every context (first of equals); no label is ever looked at."""
        return first_best(self.scores(self._check(theta)), self.layout.start, self.layout.context)

    def accuracies(self, theta: np.ndarray) -> dict[str, float]:
        """Digit accuracy when the true prefix is given (padding excluded), and root and leaf accuracy when it is not.

        Without input a head can name one path only, the greedy one, so ``leaf`` is at most the largest leaf's share.
        """
        counts, picked = self.counts, self.predicted_slots(theta)
        root = self.layout.context[self.layout.slot[1]]
        return {
            "digit": float(counts[picked].sum() / counts.sum()),
            "root": float(counts[picked[root]] / self.total),
            "leaf": float(self.items[self.greedy_node(theta)] / self.total),
        }

    def greedy_node(self, theta: np.ndarray) -> int:
        """Where always taking the most probable real child leads: the one path an input-free head predicts."""
        share, here = self.node_probabilities(theta), 0
        while not self.tree.is_leaf[here]:
            below = self.tree.children(here)
            here = int(below[np.argmax(share[below])])
        return here

    def _check(self, theta: Numbers) -> np.ndarray:
        return super()._check(theta).astype(float, copy=False)


class QuadraticHeads(SoftmaxHeads):
    """The paper's deep head, made honest: scores s_c = −τ(v_c − c)² for *every* child c, soft-max over all (S15).

    The paper's own `vpunn.paper.TwoLogitCEHead` compares two logits at the true digit and then answers with it. Here nobody
    sees the label. v_c = c would be a saddle (all gradients vanish), so training starts one digit away.
    """

    score_kind = 1  # QUADRATIC in _head_kernels

    @property
    def solvers(self) -> dict[str, Any]:
        """As of soft-max heads, without natural gradients."""
        return {name: solver for name, solver in super().solvers.items() if name != "fisher"}

    def initial(self) -> np.ndarray:
        return self.layout.digit + 1.0

    def scores(self, theta: np.ndarray) -> np.ndarray:
        return -self.tau * (theta - self.layout.digit) ** 2

    def _score_slope(self, theta: np.ndarray) -> np.ndarray:
        return -2 * self.tau * (theta - self.layout.digit)

    def closed_form(self) -> np.ndarray:
        """v_c whose scores are the log-frequencies."""
        return self.layout.digit + np.sqrt(-super().closed_form() / self.tau)


class DenseMSEHead(Heads):
    """The paper's depth-1 head: one number per context, trained to the child digit by squared error (S16).

    Kept as an ablation. Its optimum is the *mean* digit, and the rounded mean of names is no name (AUDIT E-44).
    """

    solvers: ClassVar[dict[str, Any]] = {"adam": FarAdam, "gist": RealGist}

    def initial(self) -> np.ndarray:
        """Training starts at zero."""
        return np.zeros(self.n_parameters)

    def loss(self, theta: np.ndarray) -> float:
        """Σ w·N·(v − digit)² / items."""
        gap = self._check(theta)[self.layout.context] - self.layout.digit
        return float((self.mass * gap**2).sum() / self.total)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∂loss/∂v."""
        gap = self.mass * (theta[self.layout.context] - self.layout.digit)
        return 2 * self.layout.per_context(gap) / self.total

    def closed_form(self) -> np.ndarray:
        """The mean digit of each context."""
        return self.layout.per_context(self.frequencies * self.layout.digit)

    def optimum(self) -> float:
        """The least squared error."""
        return self.loss(self.closed_form())

    def accuracies(self, theta: np.ndarray) -> dict[str, float]:
        """Digit accuracy of the rounded value, given the true prefix; and at the root."""
        hit = np.round(self._check(theta))[self.layout.context] == self.layout.digit
        root = self.layout.context[self.layout.slot[1]]
        at_root = self.layout.context == root
        return {
            "digit": float(self.counts[hit].sum() / self.counts.sum()),
            "root": float(self.counts[hit & at_root].sum() / self.total),
        }


def check_tau(tau: float) -> float:
    if not 0 < tau < np.inf:
        raise VpunnError(f"tau={tau!r} must be positive and finite; the paper uses 0.5.")
    return float(tau)


def _item_weights(tree: Tree, items: Any) -> np.ndarray:
    """Item weight of every node; default one item per leaf."""
    if items is None:
        return tree.is_leaf.astype(float)
    try:
        weights = np.asarray(items, float)
    except (TypeError, ValueError):
        raise VpunnError("item weights must be numbers, one per node.") from None
    if weights.shape != (tree.n_nodes,):
        raise VpunnError(f"items needs one weight per node ({tree.n_nodes:,}), got an array of shape {weights.shape}.")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        raise VpunnError(f"item weights must be finite and ≥ 0, got {examples(weights[bad])}.")
    if not (weights[1:] > 0).any():
        raise VpunnError(
            "no item lies below the root, so there is no digit to learn; give some node a positive weight."
        )
    return weights


def check_probabilities(tree: Tree, probabilities: Numbers, tolerance: float = 1e-9) -> np.ndarray:
    """Probabilities of all balls as an array, after checking that they are a law on the leaves.

    The root has 1, every parent the sum of its children, nothing is negative.
    """
    try:
        p = np.asarray(probabilities, float)
    except (TypeError, ValueError):
        raise VpunnError("probabilities must be numbers, one per node.") from None
    if p.shape != (tree.n_nodes,):
        raise VpunnError(f"expected one probability per node ({tree.n_nodes:,}), got an array of shape {p.shape}.")
    bad = ~((p >= 0) & (p <= 1 + tolerance))
    if bad.any():
        raise VpunnError(f"probabilities must lie in [0, 1], got {examples(p[bad])}.")
    below = np.bincount(tree.parent[1:], p[1:], minlength=tree.n_nodes)
    off = np.where(tree.is_leaf, 0.0, np.abs(below - p))
    off[0] = max(off[0], abs(p[0] - 1))
    if off.max() > tolerance:
        worst = int(off.argmax())
        raise VpunnError(
            f"probabilities do not add up at node {worst} ({examples([tree.labels[worst]])}): it has {p[worst]:.6g} and its "
            f"children {below[worst]:.6g}; the root must have 1 and every parent the sum of its children."
        )
    return p
