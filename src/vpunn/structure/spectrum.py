"""The Laplacian eigenmap of a tree: what a spectral layout, which knows no codes, shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError, check_whole
from vpunn.structure._finding import Finding
from vpunn.structure._source import coded
from vpunn.tree import Tree

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Finding):
    """Eigenvalues 2, 3, … of L = D − A and their vectors (one column each), for the nodes of ``tree``.

    ``rho`` is Spearman's correlation of a node's distance from the root in the plane of the first two vectors with its
    depth; ``spread`` the share of the nodes within 1 % of the picture's width of its densest point: how much of the
    tree a spectral layout puts on one spot. None for trees of fewer than three nodes.
    """

    tree: Tree
    eigenvalues: np.ndarray
    vectors: np.ndarray
    rho: float | None
    crowded: float | None
    families: float | None  #: share of the plane's variance that lies between the depth-1 balls

    @property
    def position(self) -> np.ndarray:
        """(nodes, 2): where the eigenmap puts each node, the root at the origin."""
        plane = self.vectors[:, :2]
        return np.asarray(plane - plane[0])

    @property
    def radius(self) -> np.ndarray:
        """Distance of every node from the root in the plane."""
        return np.asarray(np.hypot(*self.position.T))

    @property
    def arbitrary(self) -> bool:
        """Whether the second and third vectors could be turned into others with the same eigenvalues."""
        values = self.eigenvalues
        return len(values) > 2 and bool(values[2] - values[1] <= 1e-6 * max(values[2], 1e-30))

    @property
    def verdict(self) -> str:
        if self.rho is None and len(self.tree) < 3:
            return "fewer than three nodes have no plane of eigenvectors."
        if self.rho is None or self.crowded is None or self.families is None:
            return "all nodes below the root have one depth, or one radius: a correlation is not defined."
        word = (
            "tracks depth closely"
            if self.rho > 0.8
            else "goes with depth loosely"
            if self.rho > 0.3
            else "does not track depth"
        )
        turn = "; the plane is not unique (equal eigenvalues)" if self.arbitrary else ""
        return (
            f"the radius in the eigenmap {word} (ρ = {self.rho:+.2f} over {len(self.tree):,} nodes), {self.crowded:.0%} of "
            f"the nodes lie on one spot, and {self.families:.0%} of the spread is between the branches below the root{turn}."
        )

    def summary(self) -> dict[str, Any]:
        return {
            "nodes": len(self.tree),
            "λ₂": float(self.eigenvalues[0]) if len(self.eigenvalues) else None,
            "λ₃": float(self.eigenvalues[1]) if len(self.eigenvalues) > 1 else None,
            "ρ(radius, depth)": self.rho,
            "on one spot": self.crowded,
            "between branches": self.families,
        }


def spectrum(source: Any, node: int = 0, *, count: int = 3, seed: int = 0) -> Spectrum:
    """The eigenmap of the subtree below ``node``: the ``count`` smallest non-zero eigenvalues of L = D − A.

    ``source`` is a tree, a table of digits (n, K), whose tree is that of their prefixes, or a model that gives either.
    Shifted and inverted Lanczos iteration (ARPACK). A tree's Laplacian, eliminated from the leaves up, factorises without
    fill-in, so one factorisation and each step are O(nodes). Each vector has unit length and its largest entry positive.

    >>> from vpunn import Tree
    >>> found = spectrum(Tree.from_parents([-1, 0, 1, 2, 3, 4, 5, 6, 7]))   # a path of 9 nodes: λ_j = 4 sin²(πj/18)
    >>> found.eigenvalues.round(6).tolist() == (4 * np.sin(np.pi * np.arange(1, 4) / 18) ** 2).round(6).tolist()
    True
    """
    check_whole("count", count, 2)
    tree = coded(source).tree
    part = tree.subtree(node) if node else tree
    n = part.n_nodes
    if n < 3:
        return Spectrum(part, np.zeros(0), np.zeros((n, 2)), None, None, None)
    values, vectors = _smallest(_laplacian(part), min(count, n - 1), seed)
    vectors *= np.where(vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    plane = vectors[:, :2] - vectors[0, :2]
    return Spectrum(part, values, vectors, *_readings(part, plane))


def _laplacian(tree: Tree) -> csc_matrix:
    """L = D − A with the nodes in reverse preorder: every node is eliminated before its parent, so nothing fills in."""
    from scipy.sparse import csc_matrix

    n = tree.n_nodes
    child, up = n - 1 - np.arange(1, n), n - 1 - tree.parent[1:].astype(np.int64)
    degree = tree.n_children.astype(float)
    degree[1:] += 1
    rows = np.concatenate([child, up, np.arange(n)])
    columns = np.concatenate([up, child, np.arange(n)])
    data = np.concatenate([np.full(2 * (n - 1), -1.0), degree[::-1]])
    return csc_matrix((data, (rows, columns)), shape=(n, n))


def _smallest(laplacian: csc_matrix, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest non-zero eigenvalues and vectors, back in preorder."""
    from scipy.sparse import identity
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

    n = laplacian.shape[0]
    if n <= max(60, count + 3):
        values, vectors = np.linalg.eigh(laplacian.toarray())
        return values[1 : count + 1], vectors[::-1, 1 : count + 1].copy()
    shift = 1.0 / n**2  # below the smallest eigenvalue a tree of n nodes can have, about π²/n²
    solve = splu(
        (laplacian + shift * identity(n, format="csc")).tocsc(), permc_spec="NATURAL", diag_pivot_thresh=0.0
    ).solve
    start = np.random.default_rng(seed).standard_normal(n)

    def step(vector: np.ndarray) -> np.ndarray:
        out: np.ndarray = solve(vector - vector.mean())  # the constant vector, eigenvalue 0, is kept out
        return np.asarray(out - out.mean())

    inverse = LinearOperator((n, n), matvec=step, dtype=float)
    try:
        inverted, vectors = eigsh(
            inverse, k=count, which="LA", v0=start - start.mean(), ncv=max(40, 2 * count + 1), maxiter=500
        )
    except ArpackError as error:
        raise VpunnError(
            f"the eigenvectors of this tree of {n:,} nodes did not converge ({error}); take a subtree."
        ) from error
    order = np.argsort(-inverted)
    return np.maximum(1.0 / inverted[order] - shift, 0.0), vectors[::-1, order].copy()


def _readings(tree: Tree, plane: np.ndarray) -> tuple[float | None, float | None, float | None]:
    """Radius–depth correlation, crowding, and the share of variance between depth-1 balls."""
    from scipy.stats import spearmanr

    radius = np.hypot(*plane.T)
    rho = None
    if np.ptp(tree.depth) > 0 and np.ptp(radius) > 0:
        rho = float(spearmanr(radius, tree.depth)[0])
    span = np.ptp(plane, 0).max()
    if span <= 0:
        return rho, None, None
    cells = np.unique((plane / (0.02 * span)).round().astype(np.int64), axis=0, return_counts=True)[1]
    crowded = float(cells.max() / len(plane))
    below = plane[1:]
    family = tree.ancestor_at(np.arange(1, tree.n_nodes), 1)
    group = np.unique(family, return_inverse=True)[1]
    size = np.bincount(group)
    means = np.column_stack([np.bincount(group, weights=below[:, j]) / size for j in range(2)])
    total = float(((below - below.mean(0)) ** 2).sum())
    between = float((size[:, None] * (means - below.mean(0)) ** 2).sum())
    return rho, crowded, between / total if total > 0 else None
