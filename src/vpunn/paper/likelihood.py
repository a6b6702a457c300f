"""Probabilities of HiPaN: the soft-max of every digit head, multiplied along the path into the likelihood of a label (§6.7)."""

from __future__ import annotations

import numpy as np

from vpunn._rows import slices
from vpunn.metrics.calibration import fit_depth_temperatures
from vpunn.paper.hybrid import HybridLoss, find_keys
from vpunn.tree.sweeps import sweep_down
from vpunn.vapo.heads import Layout
from vpunn.vapo.losses import segment_log_softmax

#: Numbers held at a time: nodes times items.
CELLS = 4_000_000


class Likelihood:
    """At every ball a distribution over the children it has; a leaf's probability is the product along its path.

    Nothing shown: the soft-max of the root's logits; of −(v − c)² where the head is trained by squared error, which is minus the
    logarithm of a Gaussian around v; of −τ(v_c − c)² below. Shown the digit t of its position, a ball below the split gives its
    child t what the two logits give it, σ(z_good − z_other), and the rest evenly to the others, because two logits name no other
    digit. A depth without a head, and a value that no training item reached (it is 0), say what they can: every child alike, and
    the score of 0. ``temperature`` divides the scores of a depth.
    """

    def __init__(self, problem: HybridLoss, theta: np.ndarray, temperature: np.ndarray) -> None:
        tree = problem.tree
        self.problem, self.tree, self.layout, self.temperature = problem, tree, Layout(tree), temperature
        layout = self.layout
        root, over, good = problem.parts(theta)
        self.node = np.empty(layout.n_slots, np.int64)  # the child that each slot leads to
        self.node[layout.slot[1:]] = np.arange(1, tree.n_nodes)
        self.index, self.k = layout.digit - 1, layout.position[layout.context]
        self.above = np.maximum(tree.digit[tree.parent[self.node]].astype(np.int64) - 1, 0)
        self.value = _at(problem.context_key, over, self.k * problem.p + self.above)
        mine = _at(problem.slot_key, good, problem._key(self.k, self.above, self.index))
        error, deep = np.square(self.value - self.index), problem.tau * np.square(mine - self.index)
        score = np.where(self.k <= problem.split_depth, -error, -deep)
        score = np.where(self.k == 0, root[np.minimum(self.index, problem.p - 1)], score)
        self.score = np.where(np.isin(self.k, problem.depths), score, 0.0)
        self._good = good
        self.told = (self.k > problem.split_depth) & np.isin(self.k, problem.depths)
        self.siblings = np.diff(layout.start)[layout.context]

    def common(self) -> np.ndarray:
        """log p of every node, the same for every item: nothing is shown, so there is no input."""
        scaled = self.score / self.temperature[self.k]
        return self._down(segment_log_softmax(scaled, self.layout.start, self.layout.context))

    def shown(self, digits: np.ndarray) -> np.ndarray:
        """log p of every node for items whose true digits are shown, (n_nodes, items)."""
        scaled = self.score / self.temperature[self.k]
        own = segment_log_softmax(scaled, self.layout.start, self.layout.context)
        t, gap = self._gaps(digits)
        gap /= self.temperature[self.k][:, None]
        rest = -np.logaddexp(0.0, gap) - np.log(np.maximum(self.siblings - 1, 1))[:, None]
        law = np.where(t == self.index[:, None], -np.logaddexp(0.0, -gap), rest)
        applies = self.told[:, None] & (t < self.siblings[:, None]) & (self.siblings > 1)[:, None]
        return self._down(np.where(applies, law, own[:, None]))

    def parts(self, n: int) -> list[slice]:
        """Items that fit into memory together."""
        return list(slices(n, max(1, CELLS // self.tree.n_nodes)))

    def fit_temperatures(self, nodes: np.ndarray, digits: np.ndarray, shown: bool) -> np.ndarray:
        """One temperature a depth that makes the true children of these leaves most likely; see `fit_depth_temperatures`."""
        layout, tree = self.layout, self.tree
        scores, sizes, targets, depths = [], [], [], []
        for part in self.parts(len(nodes)):
            gap = self._gaps(digits[part])[1] if shown else None
            for k in range(tree.max_depth):
                mine = np.flatnonzero(tree.depth[nodes[part]] > k)
                slot = layout.slot[tree.ancestor_at(nodes[part][mine], np.full(len(mine), k + 1))]
                mine, slot = mine[self.siblings[slot] > 1], slot[self.siblings[slot] > 1]
                if gap is not None and len(slot) and self.told[slot[0]]:
                    scores.append(np.column_stack([gap[slot, mine], np.zeros(len(slot))]).ravel())
                    sizes.append(np.full(len(slot), 2))
                    targets.append(np.zeros(len(slot), np.int64))
                else:
                    start = layout.start[layout.context[slot]]
                    run = np.repeat(start - np.cumsum(np.append(0, self.siblings[slot]))[:-1], self.siblings[slot])
                    scores.append(self.score[run + np.arange(len(run))])
                    sizes.append(self.siblings[slot])
                    targets.append(self.index[slot])
                depths.append(np.full(len(slot), k + 1))
        start = np.append(0, np.cumsum(np.concatenate(sizes)))
        if len(start) == 1:  # no ball on these paths has a choice
            return np.ones(tree.max_depth)
        found = (np.concatenate(part) for part in (scores, targets, depths))
        values, target, depth = found
        return np.asarray(fit_depth_temperatures(values, start, target, depth, tree.max_depth))

    def _gaps(self, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The shown digit and z_good − z_other of every slot's ball, (slots, items)."""
        problem = self.problem
        _, first, of = np.unique(self.k * problem.p + self.above, return_index=True, return_inverse=True)
        k, above, other = self.k[first], self.above[first], self.value[first][:, None]
        t = digits[:, k].T.astype(np.int64)
        mine = _at(problem.slot_key, self._good, problem._key(k[:, None], above[:, None], t).ravel()).reshape(t.shape)
        gap = problem.tau * (np.square(other - t) - np.square(mine - t))
        return t[of], gap[of]

    def _down(self, law: np.ndarray) -> np.ndarray:
        values = np.zeros((self.tree.n_nodes, *law.shape[1:]))
        values[self.node] = law
        return sweep_down(self.tree, values)


def _at(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Values by key, 0 where there is none."""
    at, known = find_keys(keys, wanted)
    return np.where(known, values[at], 0.0) if len(values) else np.zeros(len(wanted))
