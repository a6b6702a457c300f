"""The paper's hybrid loss (Eq. 2) on whole arrays: a soft-max at the root, squared error below it, two logits further down.

Digits are the paper's: child indices from 0, root first, and zeros after the end of a short path, which count as digits.
A *context* is (position, parent digit), a *slot* (position, parent digit, child digit). The paper allots p + 1 values to each
of p contexts at every depth; the ones no item ever reaches stay where they started, so only the others are stored.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from vpunn._types import Items, Numbers
from vpunn.codes import PadicCode
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.padic import check_prime, code_prime
from vpunn.paper.balls import n_markov_heads
from vpunn.tree import Nodes, Tree
from vpunn.vapo.driver import real_start
from vpunn.vapo.gist import GistSweeps, as_digits
from vpunn.vapo.leaky import LEAK
from vpunn.vapo.losses import segment_log_softmax
from vpunn.vapo.schedule import Schedule, find_schedule

Weighting = Literal["inverse-sqrt", "none"]
Rule = Literal["given", "predicted", "paper", "honest"]
Prefix = Literal["predicted", "true"]

#: ``given``: the true digit is shown, as in the paper; ``predicted``: nothing is. The other two words are older names of these.
RULES: dict[str, Literal["given", "predicted"]] = {
    "given": "given",
    "predicted": "predicted",
    "paper": "given",
    "honest": "predicted",
}

#: Adam's ε; see `vpunn.vapo.adam`.
EPSILON = 1e-12


def paper_digits(tree: Tree, nodes: Nodes | None = None) -> np.ndarray:
    """The paper's digits of nodes (default: all leaves): child indices from 0, root first, zero-padded to K; (n, K) int32.

    >>> paper_digits(Tree.from_parents([-1, 0, 0, 1, 1])).tolist()
    [[0, 0], [0, 1], [1, 0]]
    """
    ids = tree.leaves if nodes is None else np.atleast_1d(tree.check_nodes(nodes))
    return np.asarray(np.maximum(PadicCode(tree).digits(ids) - 1, 0))


class HybridLoss:
    """L = Σ_k [soft-max CE at k = 0, MSE for 1 ≤ k ≤ split_depth, two-logit CE below], averaged over the items (Eq. 2).

    The paper prints "MSE for k < 1, CE for k ≥ 1" and describes heads that contradict it (a soft-max at the root, squared
    error at depth 1); the heads are what is built. Parameters are one array: p root logits, then a value per context, then a
    value per slot. ``items`` are node ids (default: all leaves), each weighing 1. ``weighting`` is the paper's
    w = 1/√count below the split. ``leak`` enters `loss` and training, never a prediction. ``depths`` keeps the heads of some
    positions only. One evaluation costs O(occupied slots).

    >>> problem = HybridLoss(Tree.from_parents([-1, 0, 0, 1, 1, 1, 3, 3]), leak=0.0)
    >>> problem.K, problem.p, problem.n_parameters, problem.n_printed
    (3, 5, 18, 90)
    >>> round(problem.loss(problem.initial()), 4)
    3.2214
    """

    known_optimum = None

    def __init__(
        self,
        tree: Tree,
        *,
        items: Items = None,
        p: int | None = None,
        tau: float = 0.5,
        leak: float = LEAK,
        weighting: Weighting = "inverse-sqrt",
        split_depth: int = 1,
        depths: Any = None,
    ) -> None:
        if tree.n_nodes < 2:
            raise VpunnError("HiPaN needs a tree with at least one edge; this one is a single node.")
        check_choice("weighting", weighting, get_args(Weighting))
        for name, value in (("tau", tau), ("leak", leak)):
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise VpunnError(f"{name} must be a number, got {value!r}.")
        if not 0 < tau < np.inf:
            raise VpunnError(f"tau={tau!r} must be positive and finite; the paper uses 0.5.")
        if not 0 <= leak < 1:
            raise VpunnError(f"leak={leak!r} must lie in 0 ≤ α < 1; the paper uses 0.01.")
        if not isinstance(split_depth, int | np.integer) or split_depth < 0:
            raise VpunnError(f"split_depth={split_depth!r} must be a whole number ≥ 0; the paper uses 1.")
        self.tree, self.K = tree, tree.max_depth
        self.p = code_prime(tree.max_branching) if p is None else check_prime(p)
        if self.p < tree.max_branching:
            raise VpunnError(
                f"p={p} is too small for child indices up to {tree.max_branching - 1}; leave p out for the right prime."
            )
        self.tau, self.leak, self.weighting, self.split_depth = float(tau), float(leak), weighting, int(split_depth)
        self.nodes = tree.leaves if items is None else np.unique(tree.check_nodes(items))
        if not len(self.nodes):
            raise VpunnError("HiPaN needs at least one item to train on.")
        self.items = self.nodes  # what distinguishes two problems on one tree
        self.depths = _check_positions(depths, self.K)
        self._lay_out(paper_digits(tree, self.nodes))

    def _lay_out(self, digits: np.ndarray) -> None:
        """Slots sorted by (position, child digit, parent digit), so that columns and positions are slices."""
        n, width = len(digits), self.p
        self.total = n
        self.root_digit = digits[:, 0].astype(np.int64)
        self.root_counts = np.bincount(self.root_digit, minlength=self.p).astype(float)
        used = [k for k in self.depths if k > 0]
        keys = np.concatenate([self._key(k, digits[:, k - 1], digits[:, k]) for k in used] or [np.zeros(0, np.int64)])
        #: Sorted keys of the occupied slots; `find_keys` looks them up.
        self.slot_key, slot, counts = np.unique(keys, return_inverse=True, return_counts=True)
        #: The slot of every item at every trained position below the root.
        self.slot_of = dict(zip(used, slot.astype(np.int64).reshape(len(used), n), strict=True))
        self.counts = counts.astype(float)
        self.position = self.slot_key // (width * width)
        self.digit = self.slot_key // width % width
        parent = self.slot_key % width
        self.context_key, self.context = np.unique(self.position * width + parent, return_inverse=True)
        self.context_position = self.context_key // width
        _, first, self.column_of = np.unique(self.slot_key // width, return_index=True, return_inverse=True)
        self.column = np.append(first, len(self.slot_key)).astype(np.int64)
        self.two_logit = self.position > self.split_depth
        plain = (self.weighting == "none") | ~self.two_logit
        self.weights = np.where(plain, 1.0, 1 / np.sqrt(np.maximum(self.counts, 1)))
        self.mass = self.counts * self.weights

    def _key(self, k: int, parent: np.ndarray, child: np.ndarray) -> np.ndarray:
        return np.asarray((np.int64(k) * self.p + child) * self.p + parent)

    def settings(self) -> dict[str, Any]:
        """What identifies the problem besides the tree and the items (kept in checkpoints)."""
        names = ("p", "tau", "leak", "weighting", "split_depth")
        return {"head": "HiPaN", **{name: getattr(self, name) for name in names}, "depths": list(self.depths)}

    @property
    def n_parameters(self) -> int:
        """Values stored: p root logits, one per occupied context, one per occupied slot."""
        return self.p + len(self.context_key) + len(self.slot_key)

    @property
    def n_printed(self) -> int:
        """The paper's count p + p² + (K − 1)(p² + p), of which all but `n_parameters` are never touched."""
        return n_markov_heads(self.p, self.K)

    def without_leak(self) -> HybridLoss:
        """The same problem with α = 0: what a prediction sees."""
        twin = copy(self)
        twin.leak = 0.0
        return twin

    def initial(self) -> np.ndarray:
        """All values zero."""
        return np.zeros(self.n_parameters)

    def parts(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Views of the root logits, the values of contexts and the values of slots."""
        if theta.shape != (self.n_parameters,):
            raise VpunnError(f"this HiPaN has {self.n_parameters:,} parameters, got an array of shape {theta.shape}.")
        return np.split(theta, [self.p, self.p + len(self.context_key)])  # type: ignore[return-value]

    # ---- loss ------------------------------------------------------------------------------------------------------

    def _read(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of slots and of their contexts as training sees them: (1 − α)·v + α·(sum over the depth)."""
        _, over, good = self.parts(theta)
        a = self.leak
        columns = np.bincount(self.column_of, good, minlength=len(self.column) - 1)
        levels = np.bincount(self.context_position, over, minlength=self.K)
        read_over = (1 - a) * over + a * levels[self.context_position]
        return (1 - a) * good + a * columns[self.column_of], read_over[self.context]

    def loss_by_position(self, theta: np.ndarray) -> np.ndarray:
        """The K terms of Eq. 2."""
        theta = np.asarray(theta, float)
        root = self.parts(theta)[0]
        terms = np.zeros(self.K)
        if 0 in self.depths:
            log_q = segment_log_softmax(root, np.array([0, self.p]), np.zeros(self.p, int))
            terms[0] = -(self.root_counts * log_q).sum() / self.total
        good, over = self._read(theta)
        gap = self.tau * ((over - self.digit) ** 2 - (good - self.digit) ** 2)
        each = np.where(self.two_logit, np.logaddexp(0.0, -gap), (over - self.digit) ** 2)
        return terms + np.bincount(self.position, self.mass * each, minlength=self.K) / self.total

    def loss(self, theta: np.ndarray) -> float:
        """L_hyb, per item."""
        return float(self.loss_by_position(theta).sum())

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∂L_hyb/∂θ with the right signs (AUDIT E-41)."""
        theta = np.asarray(theta, float)
        root = self.parts(theta)[0]
        by_root = np.zeros(self.p)
        if 0 in self.depths:
            q = np.exp(segment_log_softmax(root, np.array([0, self.p]), np.zeros(self.p, int)))
            by_root = (self.total * q - self.root_counts) / self.total
        good, over = self._read(theta)
        gap = self.tau * ((over - self.digit) ** 2 - (good - self.digit) ** 2)
        wrong = self.mass * np.exp(-np.logaddexp(0.0, gap))
        by_good = np.where(self.two_logit, 2 * self.tau * (good - self.digit) * wrong, 0.0)
        by_over = np.where(
            self.two_logit, -2 * self.tau * (over - self.digit) * wrong, 2 * self.mass * (over - self.digit)
        )
        a = self.leak
        columns = np.bincount(self.column_of, by_good, minlength=len(self.column) - 1)[self.column_of]
        contexts = np.bincount(self.context, by_over, minlength=len(self.context_key))
        levels = np.bincount(self.context_position, contexts, minlength=self.K)[self.context_position]
        below = np.concatenate([(1 - a) * contexts + a * levels, (1 - a) * by_good + a * columns])
        return np.concatenate([by_root, below / self.total])

    # ---- prediction ------------------------------------------------------------------------------------------------

    def predict(self, theta: np.ndarray, digits: np.ndarray, rule: Rule, prefix: Prefix) -> np.ndarray:
        """Digits of items with true digits ``digits`` (n, K); see `HiPaN.predict_digits`. O(n·K·log slots)."""
        root, over, good = self.parts(np.asarray(theta, float))
        out = np.zeros_like(digits)
        if 0 in self.depths:
            out[:, 0] = int(np.argmax(root))
        favourite = self._favourites(good) if RULES[rule] == "predicted" else None
        for k in (k for k in self.depths if k > 0):
            parent = (out if prefix == "predicted" else digits)[:, k - 1].astype(np.int64)
            at, known = find_keys(self.context_key, k * self.p + parent)
            value = np.where(known, over[at], 0.0)
            answer = np.rint(value).astype(np.int64) % self.p
            if k > self.split_depth and favourite is not None:
                answer = np.where(known, favourite[at], answer)
            elif k > self.split_depth:
                told = digits[:, k].astype(np.int64)
                slot, there = find_keys(self.slot_key, self._key(k, parent, told))
                mine = np.where(there, good[slot], 0.0)
                answer = np.where((mine - told) ** 2 < (value - told) ** 2, told, answer)
            out[:, k] = answer
        return out

    def _favourites(self, good: np.ndarray) -> np.ndarray:
        """For every context the child digit c with the largest −τ(v_c − c)², smallest first among equals (AUDIT S15)."""
        order = np.lexsort((self.digit, (good - self.digit) ** 2, self.context))
        first = np.searchsorted(self.context[order], np.arange(len(self.context_key)))
        return self.digit[order[first]]

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Slots by context: (start, slots)."""
        order = np.argsort(self.context, kind="stable")
        return np.searchsorted(self.context[order], np.arange(len(self.context_key) + 1)), order

    def slots_at(self, k: int) -> tuple[int, int]:
        """The slice of slots of a position."""
        first, last = np.searchsorted(self.position, [k, k + 1])
        return int(first), int(last)

    def contexts_at(self, k: int) -> tuple[int, int]:
        """The slice of contexts of a position."""
        first, last = np.searchsorted(self.context_position, [k, k + 1])
        return int(first), int(last)

    def drawn(self, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """``root_counts`` and ``mass`` of ``batch`` items drawn at random (of all, if there are no more)."""
        items = rng.choice(self.total, min(batch, self.total), replace=False)
        slots = np.concatenate([self.slot_of[k][items] for k in self.slot_of] or [np.zeros(0, np.int64)])
        counts = np.bincount(self.root_digit[items], minlength=self.p).astype(float)
        return counts, np.bincount(slots, minlength=len(self.weights)) * self.weights

    @property
    def solvers(self) -> dict[str, Any]:
        """The optimisers `vapo.minimize` runs on this loss: Algorithms 5 and 4."""
        return {"adam": HybridAdam, "gist": HybridGist}


def find_keys(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position of each wanted key among sorted keys (0 where it is missing), and whether it is there."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    known = keys[at] == wanted
    return np.where(known, at, 0), known


class TwoLogitCEHead(HybridLoss):
    """The paper's deep head H_k of one depth: v_good[parent, child] and v_other[parent], L = −ln σ(z_good − z_other) at the true
    digit, z = −τ(v − t)². p² + p values, of which the occupied ones are stored.

    `vpunn.vapo.heads.QuadraticHeads` is its honest form, with a soft-max over all children.

    >>> from vpunn.vapo import minimize
    >>> head = TwoLogitCEHead(Tree.from_parents([-1, 0, 0, 1, 1, 1, 3, 3]), depth=2)
    >>> minimize(head, "gist").loss < head.loss(head.initial())
    True
    """

    def __init__(self, tree: Tree, depth: int = 2, *, leak: float = 0.0, **options: Any) -> None:
        super().__init__(tree, leak=leak, split_depth=0, depths=[depth], **options)
        if depth == 0:
            raise VpunnError("the root has no parent digit; TwoLogitCEHead stands at depth ≥ 1.")

    @property
    def n_printed(self) -> int:
        """p² + p, the paper's count for one depth."""
        return self.p * (self.p + 1)


def _check_positions(depths: Any, K: int) -> tuple[int, ...]:
    if depths is None:
        return tuple(range(K))
    wanted = np.unique(np.asarray(depths))
    if wanted.dtype.kind not in "iu" or not len(wanted) or (wanted < 0).any() or (wanted >= K).any():
        raise VpunnError(f"depths must be digit positions in 0..{K - 1}, got {examples(np.ravel(depths)) or 'none'}.")
    return tuple(wanted.tolist())


class HybridAdam:
    """Adam-VAPO on the hybrid loss: the curriculum's phases, digit-wise shuffling, mini-batches (full batch if none)."""

    method = "adam"

    def __init__(
        self,
        problem: HybridLoss,
        *,
        schedule: str | Schedule = "paper-main",
        start: Numbers | None = None,
        seed: int = 0,
        tolerance: float = 1e-6,
    ) -> None:
        self.problem, self.seed, self.tolerance = problem, seed, tolerance
        self.schedule = find_schedule(schedule)
        self.epochs = self.schedule.epochs
        v = real_start(problem, start)
        n = len(v)
        self.state = {"v": v, "m": np.zeros(n), "u": np.zeros(n), "steps": np.zeros(n, np.int64)}
        batch = self.schedule.batch or problem.total
        ages = np.arange(self.epochs * -(-problem.total // batch) + 2, dtype=float)
        b1, b2 = self.schedule.betas
        self._fades = (1 - b1**ages, 1 - b2**ages)
        slots, contexts, columns = len(problem.slot_key), len(problem.context_key), len(problem.column) - 1
        self._scratch = (
            np.zeros(slots),
            np.zeros(contexts),
            np.zeros(columns),
            np.zeros(slots, bool),
            np.zeros(contexts, bool),
            np.zeros(columns, bool),
        )
        self._root_events = problem.root_digit

    def settings(self) -> dict[str, Any]:
        return self.schedule.settings()

    def parameters(self) -> np.ndarray:
        return self.state["v"]

    def certificate(self) -> None:
        return None

    def finished(self, history: list[float]) -> bool:
        return False

    def epoch(self, number: int) -> int:
        problem, schedule = self.problem, self.schedule
        phase, rate = schedule.at(number)
        rng, updates = np.random.default_rng([self.seed, number]), 0
        active = np.array(problem.depths)
        for k in rng.permutation(active[phase.active(active)]).tolist():
            order = rng.permutation(problem.total)
            if k == 0:
                updates += self._root_epoch(self._root_events[order], rate)
            else:
                updates += self._position_epoch(k, problem.slot_of[k][order], rate)
        return int(updates)

    def _split(self) -> list[tuple[np.ndarray, ...]]:
        """(v, m, u, steps) of the root, of contexts and of slots, as views."""
        return list(zip(*(self.problem.parts(self.state[name]) for name in ("v", "m", "u", "steps")), strict=True))

    def _root_epoch(self, events: np.ndarray, rate: float) -> int:
        from vpunn.vapo import _kernels

        p, (v, m, u, steps) = self.problem.p, self._split()[0]
        count = _kernels.adam_epoch(
            events,
            np.ones(len(events)),
            self.schedule.batch or len(events),
            np.zeros(p, np.int32),
            _kernels.Slots(np.array([0, p]), np.zeros(p, np.int64), _kernels.LOGITS, 1.0, 0.0),
            _kernels.AdamArrays(v, m, u, steps[:1], np.zeros(p), np.zeros(p)),
            _kernels.AdamStep(rate, *self.schedule.betas, EPSILON),
        )
        return int(count) * p

    def _position_epoch(self, k: int, events: np.ndarray, rate: float) -> int:
        from vpunn.paper import _kernels

        problem = self.problem
        _, over, good = self._split()
        shape = (problem.context, problem.digit, problem.weights, problem.column_of, problem.column)
        return int(
            _kernels.adam_position(
                events,
                self.schedule.batch or len(events),
                (*shape, *problem.contexts_at(k)),
                (k > problem.split_depth, problem.tau, problem.leak),
                self._scratch,
                good,
                over,
                (rate, *self.schedule.betas, *self._fades, EPSILON),
            )
        )


class HybridGist(GistSweeps):
    """GIST-VAPO on the hybrid loss: θ ± 1 mod p on every value, root to leaf, for ``max_sweeps`` sweeps or until ``patience``
    sweeps in a row move nothing (one such sweep already proves that none will). With ``batch``, the paper's stochastic
    variant, sweeps are judged on that many drawn items first."""

    def __init__(
        self,
        problem: HybridLoss,
        *,
        batch: int | None = None,
        max_sweeps: int = 10,
        patience: int = 2,
        start: Numbers | None = None,
        seed: int = 0,
    ) -> None:
        theta = as_digits(real_start(problem, start), problem.p, given=start is not None)
        super().__init__(
            problem,
            theta,
            neighbourhood="pm1",
            batch=batch,
            patience=patience,
            seed=seed,
            max_sweeps=max_sweeps,
            rest=patience,
        )

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "max_sweeps": self.epochs}

    def sweep(self, rng: np.random.Generator | None) -> tuple[int, int]:
        from vpunn.paper import _kernels
        from vpunn.vapo._kernels import LOGITS, logit_sweep

        problem = self.problem
        counts, mass = (problem.root_counts, problem.mass) if rng is None else problem.drawn(self.batch or 1, rng)
        one, whole, none = np.zeros(1, np.int64), np.array([0, problem.p]), np.zeros(problem.p, np.int64)
        root, over, good = problem.parts(self.state["theta"])
        moves = tried = 0
        for k in problem.depths:
            if k == 0:
                moved, seen = logit_sweep(one, whole, counts, none, root, False, problem.p, LOGITS, problem.tau)
            else:
                shape = (problem.context, problem.digit, problem.column_of, problem.column, *problem.contexts_at(k))
                head = (k > problem.split_depth, problem.tau, problem.leak)
                moved, seen = _kernels.gist_position(
                    problem.slots_at(k), shape, head, mass, problem.members, problem.p, good, over
                )
            moves, tried = moves + moved, tried + seen
        return int(moves), int(tried)
