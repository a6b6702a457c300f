"""What the paper says of balls one by one: its neurons and their leak, and its three counts.

`VPuNN` needs none of it: a network is its coefficients, and the balls around a point are its ancestors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._types import OneOrMany
from vpunn.errors import check_whole
from vpunn.padic import check_base, code_prime
from vpunn.tree import Nodes, Tree
from vpunn.vapo.leaky import LEAK


def indicator(tree: Tree, ball: int, nodes: Nodes, alpha: float = 0.0) -> OneOrMany:
    """χ_B(x), or the leaky χ̃_B = χ_B + α(1 − χ_B) of the training surrogate when ``alpha`` is given."""
    inside = np.asarray(tree.is_ancestor(np.full(np.shape(nodes), ball), nodes))
    return np.where(inside, 1.0, alpha) if alpha else inside.astype(np.int8)


@dataclass(frozen=True)
class BallNeuron:
    """One characteristic-ball neuron: c_B inside the ball (= subtree) of node ``ball``, zero outside.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1])
    >>> BallNeuron(tree, ball=1, coefficient=5)(range(5))
    array([0, 5, 5, 5, 0])
    """

    tree: Tree
    ball: int
    coefficient: Any

    def __call__(self, nodes: Nodes) -> np.ndarray:
        ids = self.tree.check_nodes(np.asarray(nodes))
        inside: np.ndarray = indicator(self.tree, self.ball, ids).astype(np.int64) * self.coefficient
        return inside

    def surrogate(self, nodes: Nodes, alpha: float = LEAK) -> np.ndarray:
        """The leaky response, for training only."""
        ids = self.tree.check_nodes(np.asarray(nodes))
        inside: np.ndarray = indicator(self.tree, self.ball, ids, alpha) * float(self.coefficient)
        return inside


def n_full_balls(p: int, K: int) -> int:
    """Balls of the full p-ary tree of K digits, root and points included: Σ_{j=0}^{K} p^j (E-17, E-30).

    >>> n_full_balls(5, 3), n_full_balls(5, 4)
    (156, 781)
    """
    base = check_base(p)
    return int((base ** (check_whole("K", K, 0) + 1) - 1) // (base - 1))


def n_markov_heads(p: int, K: int) -> int:
    """The paper's N_HiPaN = K·p·(p+1): one parameter per (depth, parent digit or none, child digit).

    >>> n_markov_heads(409, 18), n_markov_heads(331, 14), n_markov_heads(281, 15)
    (3018420, 1538488, 1188630)
    """
    base = check_base(p)
    return check_whole("K", K, 0) * base * (base + 1)


def parameter_counts(tree: Tree, p: int | None = None) -> dict[str, int]:
    """The three counts the paper calls N, by name: what we store, what the full tree has, what its heads would have.

    >>> parameter_counts(Tree.from_parents([-1, 0, 0, 1, 1]))
    {'n_nodes': 5, 'n_full_balls': 13, 'n_markov_heads': 24}
    """
    prime = code_prime(tree.max_branching) if p is None else p
    return {
        "n_nodes": tree.n_nodes,
        "n_full_balls": n_full_balls(prime, tree.max_depth),
        "n_markov_heads": n_markov_heads(prime, tree.max_depth),
    }
