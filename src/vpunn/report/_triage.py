"""Where a classifier goes wrong: the branches in which its answers leave the truth, what it takes for what, where it is too sure.

An answer leaves the truth at one node, their lowest common ancestor. So mistakes add up over the tree: those below a node are a
sum over its slice. The code calls a node with all below it a ball.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._show import show
from vpunn._types import Features, Targets
from vpunn.errors import VpunnError, counted, examples
from vpunn.structure import Finding
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vpunn._types import FittedModel
    from vpunn.hipan.distribution import NodeDistribution

#: A ball is called over-confident if its gap survives a false discovery rate of this over all balls looked at.
DISCOVERY = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Triage(Finding):
    """One entry per row: ``true`` and ``predicted`` node, ``confidence`` (probability of the answer), ``fork`` (the ball at which
    the path went wrong, or the answer itself where it is right).

    One entry per node: ``reached`` rows whose truth and answer both lie in the ball, ``mistakes`` rows that go wrong exactly there;
    ``asked`` rows whose answer lies in the ball, with the sums ``claimed`` of P(ball) and ``right`` of those whose truth lies in it
    too, and ``noise``, the variance that ``right`` would have if the probabilities were exact.
    """

    tree: Tree
    true: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    fork: np.ndarray
    reached: np.ndarray
    mistakes: np.ndarray
    asked: np.ndarray
    claimed: np.ndarray
    right: np.ndarray
    noise: np.ndarray
    min_rows: int

    @property
    def n_rows(self) -> int:
        """Test rows."""
        return len(self.true)

    @property
    def wrong(self) -> np.ndarray:
        """Which rows are answered with another node than the true one."""
        return np.asarray(self.true != self.predicted)

    @cached_property
    def names(self) -> np.ndarray:
        """What to call the nodes: the column ``name`` where there is one, else the label."""
        return self.tree.names

    def hardest(self, top: int = 20) -> list[dict[str, Any]]:
        """The balls at which most rows go wrong; ``rate`` is the share of the rows that got there, with a 95 % interval."""
        order = np.lexsort((np.arange(len(self.tree)), -self.mistakes))[:top]
        out = []
        for ball in order[self.mistakes[order] > 0].tolist():
            wrong, reached = int(self.mistakes[ball]), int(self.reached[ball])
            low, high = wilson(wrong, reached)
            out.append(
                {
                    **self._ball(ball),
                    "mistakes": wrong,
                    "reached": reached,
                    "rate": wrong / reached,
                    "low": low,
                    "high": high,
                    "share_of_mistakes": wrong / max(int(self.wrong.sum()), 1),
                }
            )
        return out

    def confusions(self, top: int = 20) -> list[dict[str, Any]]:
        """What is taken for what at the step where the path goes wrong: the fork's child towards the truth and towards the answer.

        A side that is the fork itself means that the path should have stopped there, or did.
        """
        rows = np.flatnonzero(self.wrong)
        if len(rows) == 0:
            return []
        a, b = (self._step(side[rows], self.fork[rows]) for side in (self.true, self.predicted))
        pairs, first, count = np.unique(np.column_stack([a, b]), axis=0, return_index=True, return_counts=True)
        out = []
        for i in np.lexsort((first, -count))[:top].tolist():
            truth, answer = int(pairs[i, 0]), int(pairs[i, 1])
            fork = int(self.fork[rows[first[i]]])
            out.append(
                {
                    "rows": int(count[i]),
                    "fork": fork,
                    "fork_name": self.names[fork],
                    "true": truth,
                    "true_name": "(stops here)" if truth == fork else self.names[truth],
                    "predicted": answer,
                    "predicted_name": "(stops here)" if answer == fork else self.names[answer],
                    "depth": int(self.tree.depth[fork]),
                    "examples": rows[(a == truth) & (b == answer)][:5].tolist(),
                }
            )
        return out

    def overconfident(self, top: int = 20) -> list[dict[str, Any]]:
        """Subtrees that are right less often than they say: answers in the ball, mean P(ball), share whose truth lies in it.

        ``z`` is the gap in standard errors of exact probabilities; only gaps that survive a false discovery rate of 5 % over all
        balls with at least ``min_rows`` answers are listed, the largest ``excess`` of claimed over right rows first.
        """
        balls, z = self._gaps()
        keep = balls[discovered(z)]
        excess = self.claimed - self.right
        order = keep[np.lexsort((keep, -excess[keep]))][:top]
        return [
            {
                **self._ball(ball),
                "rows": int(self.asked[ball]),
                "confidence": float(self.claimed[ball] / self.asked[ball]),
                "accuracy": float(self.right[ball] / self.asked[ball]),
                "excess": float(excess[ball]),
                "z": float(excess[ball] / np.sqrt(max(self.noise[ball], 1e-12))),
            }
            for ball in order.tolist()
        ]

    def rows_at(self, ball: int, *, below: bool = False) -> np.ndarray:
        """Rows whose path goes wrong at a ball (with ``below`` also anywhere inside it), the surest mistakes first."""
        node = self.tree._one_node(ball)
        inside = self.tree.is_ancestor(node, self.fork) if below else self.fork == node
        rows = np.flatnonzero(inside & self.wrong)
        return rows[np.argsort(-self.confidence[rows], kind="stable")]

    def matrix(self, depth: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Confusion by branch: the balls of a depth (and nodes above it on their own), and counts of rows, truth × answer."""
        sides = [
            self.tree.ancestor_at(side, np.minimum(depth, self.tree.depth[side]))
            for side in (self.true, self.predicted)
        ]
        balls = np.unique(np.concatenate(sides))
        table = np.zeros((len(balls), len(balls)), np.int64)
        np.add.at(table, tuple(np.searchsorted(balls, side) for side in sides), 1)
        return balls, table

    @property
    def verdict(self) -> str:
        """Where the mistakes are, in a sentence."""
        wrong = int(self.wrong.sum())
        if wrong == 0:
            return f"all {self.n_rows:,} rows are right." if self.n_rows > 1 else "the one row is right."
        forks = self.hardest(3)
        here = sum(ball["mistakes"] for ball in forks)
        places = examples([str(ball["name"]) for ball in forks])
        sure = len(self.overconfident(len(self.tree)))
        trust = (
            f"{counted(sure, 'branch is', 'branches are')} right less often than the probabilities say, beyond chance."
            if sure
            else "No branch is right less often than its probabilities say, beyond chance."
        )
        most = (
            f" {here:,} of {counted(wrong, 'mistake')} begin in {places}."
            if int((self.mistakes > 0).sum()) < wrong
            else ""
        )
        return f"{self.n_rows - wrong:,} of {self.n_rows:,} rows are right.{most} {trust}"

    def summary(self) -> dict[str, Any]:
        """Rows, and how many are wrong."""
        return {"rows": self.n_rows, "wrong": int(self.wrong.sum())}

    def rows(self) -> list[dict[str, Any]]:
        """The balls at which most rows go wrong."""
        return self.hardest()

    def to_dict(self, top: int = 20) -> dict[str, Any]:
        """Everything as plain numbers and texts, ready for JSON."""
        return {
            **self.summary(),
            "verdict": self.verdict,
            "hardest": self.hardest(top),
            "confusions": self.confusions(top),
            "overconfident": self.overconfident(top),
        }

    def __str__(self) -> str:
        lines = [self.verdict]
        lines += [
            f"  at {b['name']}: {b['mistakes']:,} of {b['reached']:,} rows ({show(b['rate'])})" for b in self.hardest(5)
        ]
        lines += [
            f"  {c['true_name']} taken for {c['predicted_name']}: {counted(c['rows'], 'row')}"
            for c in self.confusions(5)
        ]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """The confusion of the branches below the root."""
        from vpunn import plot

        return plot.confusion(self, ax, **options)

    def _ball(self, ball: int) -> dict[str, Any]:
        return {"ball": ball, "name": self.names[ball], "depth": int(self.tree.depth[ball])}

    def _step(self, nodes: np.ndarray, fork: np.ndarray) -> np.ndarray:
        """The child of the fork on the way to each node; the fork itself where the way ends."""
        found: np.ndarray = self.tree.ancestor_at(nodes, np.minimum(self.tree.depth[fork] + 1, self.tree.depth[nodes]))
        return found

    def _gaps(self) -> tuple[np.ndarray, np.ndarray]:
        """Balls that were answered often enough (not the root, which is always right), and their gap in standard errors."""
        balls = np.flatnonzero(self.asked >= self.min_rows)
        balls = balls[balls > 0]
        return balls, (self.claimed - self.right)[balls] / np.sqrt(np.maximum(self.noise[balls], 1e-12))


def triage(model: FittedModel, X: Features, y: Targets, *, min_rows: int = 10) -> Triage:
    """Hardest balls, confusions and over-confident subtrees of a fitted classifier on test rows ``X`` with labels ``y``.

    The model needs ``posterior(X)`` and ``nodes_of(y)``, as `HiPaNClassifier` has them; rows must not be those it was fitted on.
    Balls with fewer than ``min_rows`` answers are not judged for over-confidence. One pass over the rows' ancestor chains,
    then sums over slices: O(rows × depth + nodes). Unknown labels are refused by the model.

    >>> import numpy as np
    >>> from vpunn import HiPaNClassifier, Tree
    >>> tree = Tree.from_paths([["animal", "bird"], ["animal", "fish"], ["plant", "tree"], ["plant", "fern"]], root="life")
    >>> X, y = np.tile(np.eye(4), (5, 1)), ["bird", "fish", "tree", "fern"] * 5
    >>> model = HiPaNClassifier(tree, random_state=0).fit(X, y)
    >>> found = triage(model, X[:4], ["bird", "fish", "tree", "bird"])   # the last row is called a bird, but looks like a fern
    >>> [(c["true_name"], c["predicted_name"], c["rows"]) for c in found.confusions()]
    [('animal', 'plant', 1)]
    """
    if not hasattr(model, "posterior") or not hasattr(model, "nodes_of"):
        raise VpunnError(
            f"triage needs a fitted classifier with posterior and nodes_of, such as HiPaNClassifier, got {type(model).__name__}."
        )
    true = np.asarray(model.nodes_of(y), np.int64)
    posterior = model.posterior(X)
    if len(true) != len(posterior):
        raise VpunnError(f"triage needs one label per row: got {len(true):,} labels for {len(posterior):,} rows.")
    if len(true) == 0:
        raise VpunnError("triage needs at least one test row.")
    return triage_of(posterior, true, min_rows=min_rows, names=getattr(model, "label_tree_", None))


def triage_of(
    posterior: NodeDistribution, true: np.ndarray, *, min_rows: int = 10, names: Tree | None = None
) -> Triage:
    """The same from a posterior and the true nodes; ``names`` is a tree of the same shape whose labels are to be shown."""
    tree = posterior.tree
    best, probability = posterior.top_k(1)
    predicted = best[:, 0].astype(np.int64)
    fork = np.asarray(tree.lca(true, predicted), np.int64)
    n = len(tree)
    reached = tree.subtree_sum(np.bincount(fork, minlength=n))
    mistakes = np.bincount(fork[true != predicted], minlength=n)
    balls, p = posterior.chain(predicted)
    inside = balls >= 0
    at, said = balls[inside], p[inside]
    row = np.broadcast_to(np.arange(len(true))[:, None], balls.shape)[inside]
    hit = tree.is_ancestor(at, true[row]).astype(float)
    asked, claimed, right, noise = (
        np.bincount(at, weights=w, minlength=n) for w in (np.ones(len(at)), said, hit, said * (1 - said))
    )
    return Triage(
        tree if names is None else names,
        true,
        predicted,
        probability[:, 0],
        fork,
        reached,
        mistakes,
        asked.astype(np.int64),
        claimed,
        right,
        noise,
        min_rows,
    )


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share; (0, 1) of nothing."""
    from scipy.stats import binomtest

    if n == 0:
        return 0.0, 1.0
    low, high = binomtest(hits, n).proportion_ci(method="wilson")
    return float(low), float(high)


def discovered(z: np.ndarray, sides: int = 1) -> np.ndarray:
    """Which gaps, in standard errors, survive a false discovery rate of 5 % (Benjamini and Hochberg), one- or two-sided."""
    from scipy.stats import false_discovery_control, norm

    p = np.minimum(sides * norm.sf(z), 1.0)
    return np.asarray(false_discovery_control(p) <= DISCOVERY) if len(z) else np.zeros(0, bool)
