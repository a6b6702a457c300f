"""How bad are mistakes? The measures of the "making better mistakes" literature, from ranked answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vpunn._show import show
from vpunn.errors import VpunnError
from vpunn.tree import Nodes, Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Mistakes:
    """What `mistakes` found. Heights count edges from the lowest common ancestor of truth and answer down to its farthest leaf."""

    n_items: int
    accuracy: float  #: share of exact first answers
    severity: float  #: mean height of the LCA over the *wrong* first answers; NaN if none is wrong
    depth: float  #: mean depth of the LCA over the wrong first answers: digits they still share
    distance_at: dict[int, float]  #: k → mean height of the LCA over the first k answers, right ones counting 0
    depths: np.ndarray  #: entry d counts the wrong first answers that leave the true path after d digits

    @property
    def verdict(self) -> str:
        """The findings in a sentence."""
        if np.isnan(self.severity):
            return f"All {self.n_items:,} answers are right."
        return (
            f"{1 - self.accuracy:.1%} of {self.n_items:,} answers are wrong; a wrong one still shares {self.depth:.2f} digits, "
            f"its common ancestor with the truth being {self.severity:.2f} levels high."
        )

    def __str__(self) -> str:
        pairs = {
            "accuracy": self.accuracy,
            "severity of a mistake": self.severity,
            "digits a mistake shares": self.depth,
        }
        pairs |= {f"hierarchical distance at {k}": value for k, value in self.distance_at.items()}
        return "\n".join([*(f"{name:<28}{show(value)}" for name, value in pairs.items()), self.verdict])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Where wrong answers leave the true path: a bar per depth."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        ax.bar(np.arange(len(self.depths)), self.depths, width=0.8)
        ax.set(xlabel="digits shared with the truth", ylabel="wrong answers", title="where mistakes leave the path")
        return ax


def node_heights(tree: Tree) -> np.ndarray:
    """Edges from every node down to its farthest leaf; O(nodes)."""
    height = np.zeros(tree.n_nodes, np.int64)
    start, ids = tree.levels
    for k in range(tree.max_depth, 0, -1):
        level = ids[start[k] : start[k + 1]]
        np.maximum.at(height, tree.parent[level], height[level] + 1)
    return height


def mistakes(tree: Tree, true: Nodes, ranked: Nodes, at: tuple[int, ...] = (1, 5, 20)) -> Mistakes:
    """Judge ranked answers: ``ranked[i]`` lists node ids for item i, best first (one column is enough).

    *Severity* is the mean height of the lowest common ancestor over wrong first answers, the *hierarchical distance at k*
    the same over the first k answers with right ones counting 0 (depths beyond the columns given are left out).

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> found = mistakes(tree, tree.index(["owl", "owl"]), tree.index(["robin", "fish"])[:, None])
    >>> found.severity, found.depth
    (1.5, 0.5)
    """
    truth = np.atleast_1d(tree.check_nodes(true)).astype(np.int64)
    answers = np.atleast_1d(tree.check_nodes(ranked)).astype(np.int64)
    answers = answers[:, None] if answers.ndim == 1 else answers
    if truth.ndim != 1 or not len(truth) or answers.ndim != 2 or len(answers) != len(truth) or not answers.shape[1]:
        raise VpunnError(f"need a row of ranked nodes per true node: got shapes {answers.shape} and {truth.shape}.")
    depth = tree.lca_depth(truth[:, None], answers)
    height = node_heights(tree)[tree.ancestor_at(truth[:, None], depth)]
    height[answers == truth[:, None]] = 0
    wrong = answers[:, 0] != truth
    return Mistakes(
        n_items=len(truth),
        accuracy=float(1 - wrong.mean()),
        severity=float(height[wrong, 0].mean()) if wrong.any() else float("nan"),
        depth=float(depth[wrong, 0].mean()) if wrong.any() else float("nan"),
        distance_at={k: float(height[:, :k].mean()) for k in at if k <= answers.shape[1]},
        depths=np.bincount(depth[wrong, 0], minlength=tree.max_depth + 1),
    )
