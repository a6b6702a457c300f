"""The seam of this room: one function gives every node the variance of its step from its parent.

A model of numbers on a tree is a normal step at every node. What is the same for all of one depth (`by_depth`) and what grows
with a branch (`along_branches`: Brownian motion and its kin) differ in these variances and in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vpunn.errors import VpunnError, advice, check_choice, counted, examples
from vpunn.tree import Tree

FloatArray = np.ndarray
Evolution = Literal["brownian", "lambda", "ou", "kappa"]

#: Names of the models along branches, with the parameters that each finds by likelihood.
FREE: dict[str, tuple[str, ...]] = {
    "brownian": (),
    "lambda": ("lambda",),
    "ou": ("alpha", "lambda"),
    "kappa": ("kappa", "lambda"),
}


def by_depth(tree: Tree, ratios: FloatArray) -> FloatArray:
    """Per node the variance of its depth, from those of depth 1…K; the root's is 0 (its value is free)."""
    return np.asarray(np.concatenate([[0.0], ratios])[tree.depth])


@dataclass(frozen=True)
class Steps:
    """A node's value is ``keep`` × its parent's and a step of variance ``step``; rows there differ by ``own`` more."""

    keep: FloatArray
    step: FloatArray  #: at the root: the variance of its own value around the intercept
    own: FloatArray


@dataclass(frozen=True)
class Branches:
    """Branch lengths in units of the mean height of the tips, so that no result depends on the unit of a file."""

    tree: Tree
    length: FloatArray
    height: FloatArray
    unit: float

    @classmethod
    def of(cls, tree: Tree, lengths: Any = None) -> Branches:
        """From the tree's own lengths, or others; see `branch_lengths`."""
        from vpunn.regress import _pruning_kernels as kernels

        raw = branch_lengths(tree, lengths)
        unit = float(kernels.path_sums(tree.parent, raw)[tree.leaves].mean())
        if unit == 0 and tree.n_nodes > 1:
            raise VpunnError(
                "all branches have length 0, so nothing can evolve along them; pass lengths=1 or evolution=None."
            )
        if unit and not 1e-100 <= unit <= 1e100:  # powers of it would leave the floats
            raise VpunnError(
                f"branch lengths add up to {unit:.3g} on average; they may to 1e-100 to 1e100: use another unit."
            )
        length = raw / (unit or 1.0)
        return cls(tree, length, kernels.path_sums(tree.parent, length), unit or 1.0)

    @property
    def longest(self) -> float:
        """Height of the highest tip."""
        return float(self.height.max()) or 1.0

    def along(self, model: str, parameters: Mapping[str, float]) -> Steps:
        """Variances under a model, for a rate of 1; parameters in units of `Branches`.

        ``brownian``: the length. ``kappa``: length^κ (κ = 0: every branch alike, κ = 1: Brownian). ``ou``: the value is pulled
        to the intercept by α, its root drawn from the stationary distribution (covariance e^{−α·distance}/2α). Pagel's λ takes
        a share 1 − λ of a tip's variance from its branches and gives it to the tip alone.
        """
        from vpunn.regress import _pruning_kernels as kernels

        keep, step = np.ones(self.tree.n_nodes), self.length.copy()
        whole = self.height
        if model == "kappa":
            step = np.where(self.length > 0, self.length ** parameters["kappa"], 0.0)
            whole = kernels.path_sums(self.tree.parent, step)
        elif model == "ou":
            alpha = parameters["alpha"]
            keep = np.exp(-alpha * self.length)
            step = -np.expm1(-2 * alpha * self.length) / (2 * alpha)
            step[0] = 1 / (2 * alpha)
            whole = -np.expm1(-2 * alpha * self.height) / (2 * alpha)
        share = parameters.get("lambda", 1.0)
        return Steps(keep, share * step, (1.0 - share) * whole)


def branch_lengths(
    tree: Tree, lengths: Any = None, *, negative: str = "refuse", zero: str = "keep", missing: str = "refuse"
) -> FloatArray:
    """The length of the branch above every node, 0 at the root, with policies for those that no process can have.

    ``lengths`` is None (the tree's column ``length``), the name of another column, one number for every branch, an array with one
    number a node, or a dict of these arguments, as an estimator's ``lengths`` may be. ``negative``: "refuse", "zero" or
    "absolute". ``missing``: "refuse", "zero" or "mean" (of those there are). ``zero``: "keep", or "tiny" (a millionth of the mean
    length, where two tips without noise must differ).

    >>> tree = Tree.from_parents([-1, 0, 0, 0], columns={"length": [np.nan, 2.0, -0.5, 4.0]})
    >>> branch_lengths(tree, negative="zero")
    array([0., 2., 0., 4.])
    """
    if isinstance(lengths, Mapping):
        unknown = [name for name in lengths if name not in ("lengths", "negative", "zero", "missing")]
        if unknown:
            raise VpunnError(
                f"lengths may say what to do about negative, zero and missing ones, got {examples(unknown)}."
            )
        return branch_lengths(tree, **lengths)
    check_choice("negative", negative, ("refuse", "zero", "absolute"))
    check_choice("zero", zero, ("keep", "tiny"))
    check_choice("missing", missing, ("refuse", "zero", "mean"))
    name = "length" if lengths is None else lengths
    if isinstance(name, str):
        if name not in tree.columns:
            raise VpunnError(
                f"the tree has no branch lengths (a column {name!r}); pass lengths=1 for branches of one length, or evolution=None "
                "for variances by depth."
            )
        name = tree.columns[name]
    try:
        out = np.array(np.broadcast_to(np.asarray(name, dtype=float), tree.n_nodes))
    except (TypeError, ValueError):
        raise VpunnError(
            f"lengths must be a column of the tree, a number, or one number for each of its {tree.n_nodes:,} nodes; got "
            f"{examples([lengths])}."
        ) from None
    out[0] = 0.0
    for what, bad, policy, others in (
        ("missing", np.isnan(out), missing, "mean"),
        ("infinite", np.isinf(out), "refuse", ""),
        ("negative", out < 0, negative, "zero"),
    ):
        if bad.any() and policy == "refuse":
            where = [f"{tree.labels[i]}: {out[i]:g}" for i in np.flatnonzero(bad)[:5]]
            many = counted(int(bad.sum()), f"branch length is {what}", f"branch lengths are {what}")
            fix = (
                f"; {advice('lengths', f'{what}={others}', f'pass lengths={{{what!r}: {others!r}}}')}" if others else ""
            )
            raise VpunnError(f"{many} ({examples(where, total=int(bad.sum()))}){fix}.")
        if bad.any():
            out[bad] = {"zero": 0.0, "absolute": np.abs(out[bad]), "mean": np.nanmean(out[1:])}[policy]
    if zero == "tiny":
        out[1:][out[1:] == 0] = 1e-6 * out[1:].mean()
    return out
