"""The classifier's answer for a batch of rows as a distribution over nodes, and exact questions to it.

A row's distribution is a few candidates with a probability each, and a rest that is spread over all other nodes (`rest`).
Ball probabilities are sums of it over slices, so a ball's is its own stop mass plus that of its children, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, get_args

import numpy as np

from vpunn.errors import VpunnError, check_choice
from vpunn.hipan._arrays import Answer
from vpunn.hipan._rest import AGREEMENT, Prior, Rest, rings_around, spread_rest
from vpunn.placing.distribution import NodeDistribution, Rule
from vpunn.tree import Tree

Found = TypeVar("Found")


@dataclass
class Posterior(NodeDistribution):
    """``candidates`` (−1 padded) and their ``probability``, both (rows, k), and the ``rest`` (rows,), over a ``prior``.

    ``branch`` numbers the depth-1 ball of every node (0: none), ``tilt`` (rows, branches) says how much likelier than by
    the prior the nodes of a branch are for a row, and ``ring_weights`` how far from the best candidate an answer lies.
    ``rows`` and ``evidence`` (rows, k, columns) are what the combiner read, kept only when an explanation is asked for.
    ``unknown`` rows (rows,) brought nothing known: they have the prior, and their one candidate is the node that lies in the most
    probable ball at every depth, made as probable as the most probable node. ``fixed`` is what follows from the prior. ``settled``
    rows (rows,) were answered by one expert alone (`_first`); None if there is no such expert.
    """

    tree: Tree
    candidates: np.ndarray
    probability: np.ndarray
    rest: np.ndarray
    prior: np.ndarray
    branch: np.ndarray
    tilt: np.ndarray
    ring_weights: np.ndarray
    rows: Any = None
    evidence: np.ndarray | None = None
    unknown: np.ndarray | None = None
    fixed: Prior | None = None
    settled: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rest)

    @cached_property
    def spread(self) -> Rest:
        """The rest, spread over the rings around the best candidate."""
        rings = rings_around(self._fixed, self._answer, self.tilt)
        return spread_rest(rings, self.rest, self.tilt, self.ring_weights, self.unknown)

    @cached_property
    def _fixed(self) -> Prior:
        return Prior(self.tree, self.prior, self.branch) if self.fixed is None else self.fixed

    @property
    def _answer(self) -> Answer:
        return Answer(self.candidates, self.probability)

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable nodes and their probabilities, exact; −1 and 0 where there are fewer."""
        from vpunn.hipan.kernels.rest import merge_best

        fixed = self._fixed
        with fixed.rooms.one() as room:
            return merge_best(self._answer, fixed.peaks, fixed.edges, fixed.outline.size, self.spread, k, room)

    def best(self, rule: Rule = "node") -> np.ndarray:
        """One answer per row. ``"node"``: the most probable node, the first of `top_k`; what `predict` answers.

        ``"path"`` weighs the balls around an answer as well: exact answers are a little rarer, wrong ones lie nearer to the
        truth. Of the candidates, the most probable node and a typical node of each branch, it is the one that maximises
        p(c) + 2 E[shared path] / (its length + the typical length). The expected number of shared balls is Σ_{B∋c} P(B), a sum
        along the ancestors; scaled as in the Wu–Palmer similarity. In a flat tree both rules are the same.
        """
        check_choice("rule", rule, get_args(Rule))
        likeliest = self.top_k(1)[0][:, 0]
        if rule == "node":
            return likeliest
        from vpunn.hipan.kernels.walk import Wish, choose

        depth, typical = self._fixed.typical
        return np.asarray(self._walked(choose, Wish(typical, depth, AGREEMENT), likeliest))

    def _walked(self, walk: Callable[..., Found], *asked: Any) -> Found:
        """What one of the compiled walks finds for every row."""
        fixed = self._fixed
        with fixed.rooms.one() as room:
            return walk(self._answer, fixed.shares, fixed.outline, self.spread, *asked, room)

    def deepest(self, threshold: float) -> np.ndarray:
        """The deepest ball with probability ≥ threshold (the more probable of equally deep ones; the root if none)."""
        from vpunn.hipan.kernels.walk import deepest

        return self._walked(deepest, threshold)

    def at_depth(self, depth: int) -> np.ndarray:
        """The best answer cut at ``depth``: the most probable ball of that depth, or a node above it that stops there."""
        from vpunn.hipan.kernels.walk import at_depth

        return self._walked(at_depth, depth)

    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes)."""
        from vpunn.hipan.kernels.rest import fill_masses

        answer, rest = Answer(*(a[part] for a in self._answer)), Rest(*(a[part] for a in self.spread))
        dense = np.empty((len(answer.candidates), self.tree.n_nodes))
        fill_masses(answer, self._fixed.shares, self._fixed.outline.size, rest, dense)
        return dense

    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (−1 padded), and their probabilities."""
        from vpunn.hipan.kernels.walk import along

        ids = np.asarray(self.tree.check_nodes(nodes), np.int64)
        if ids.shape != (len(self),):
            raise VpunnError(f"chain takes one node per row, {len(self):,} of them; got shape {ids.shape}.")
        return self._walked(along, ids)
