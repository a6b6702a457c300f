"""What GIST searches: one digit for every context of heads, or for every ball of a v-PuNN."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.padic import code_prime
from vpunn.tree import Tree
from vpunn.tree.sweeps import sweep_down
from vpunn.vapo.adam import RoundedAdam
from vpunn.vapo.gist import DigitGist, NetworkGist
from vpunn.vapo.heads import Factorisation, Heads, check_tau
from vpunn.vapo.losses import Weighting, segment_log_softmax

DigitLoss = Literal["zero-one", "squared", "circular", "ordinal"]


class DigitHeads(Heads):
    """One digit θ ∈ Z/p per context, as the paper stores weights; what GIST searches.

    The loss of a context is Σ_c N_c·ℓ(θ, c) over its children's digits c, with ℓ ``zero-one`` (θ ≠ c), ``squared``,
    ``circular`` (distance on the circle Z/p) or ``ordinal`` (the soft-max form −log soft-max(−τ(θ−c)²)). Contexts do not
    share parameters, so the coordinate optimum is the optimum.
    """

    solvers: ClassVar[dict[str, Any]] = {"gist": DigitGist, "adam": RoundedAdam}
    #: No closed form; GIST's certificate stands in for it.
    known_optimum = None

    def __init__(
        self,
        tree: Tree,
        factorisation: Factorisation = "node",
        *,
        loss: DigitLoss = "zero-one",
        p: int | None = None,
        tau: float = 0.5,
        items: Any = None,
        weighting: Weighting = "none",
    ) -> None:
        super().__init__(tree, factorisation, items=items, weighting=weighting)
        check_choice("loss", loss, get_args(DigitLoss))
        self.loss_name, self.loss_code = loss, get_args(DigitLoss).index(loss)
        self.p = code_prime(tree.max_branching) if p is None else p
        if not isinstance(self.p, int | np.integer) or self.p <= tree.max_branching:
            raise VpunnError(
                f"p={p} is too small for digits up to {tree.max_branching}; leave p out for the right prime."
            )
        self.tau = check_tau(tau)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "loss": self.loss_name, "p": self.p, "tau": self.tau}

    def initial(self) -> np.ndarray:
        """All digits zero."""
        return np.zeros(self.n_parameters, np.int64)

    def check_digits(self, theta: Numbers) -> np.ndarray:
        """Digits as int64 after checking that there is one in 0…p−1 for each context."""
        digits = np.asarray(theta)
        if digits.shape != (self.n_parameters,) or digits.dtype.kind not in "iu":
            raise VpunnError(
                f"expected {self.n_parameters:,} integer digits, got {digits.dtype} of shape {digits.shape}."
            )
        bad = (digits < 0) | (digits >= self.p)
        if bad.any():
            raise VpunnError(f"digits must lie in 0..{self.p - 1}, got {examples(digits[bad])}.")
        return digits.astype(np.int64)

    def slot_losses(self, theta: np.ndarray) -> np.ndarray:
        """ℓ(θ of its context, digit) of every slot, also for real θ."""
        gap = np.abs(self._check(theta)[self.layout.context] - self.layout.digit).astype(float)
        if self.loss_name == "zero-one":
            return np.asarray((gap != 0).astype(float))
        if self.loss_name == "squared":
            return gap**2
        if self.loss_name == "circular":
            return np.asarray(np.minimum(gap % self.p, -gap % self.p))
        return -segment_log_softmax(-self.tau * gap**2, self.layout.start, self.layout.context)

    def loss(self, theta: np.ndarray) -> float:
        """Total loss per item."""
        return float((self.mass * self.slot_losses(theta)).sum() / self.total)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∂loss/∂θ of the smooth losses, read at (rounded) θ: the straight-through gradient of digit Adam."""
        if self.loss_name not in ("squared", "ordinal"):
            raise VpunnError(f"the {self.loss_name} loss has no useful gradient; use method='gist' or loss='ordinal'.")
        layout, c = self.layout, self.layout.digit
        mass = layout.per_context(self.mass)
        observed = layout.per_context(self.mass * c)
        if self.loss_name == "squared":
            return np.asarray(2 * (mass * theta - observed) / self.total)
        scores = -self.tau * (theta[layout.context] - c) ** 2
        q = np.exp(segment_log_softmax(scores.astype(float), layout.start, layout.context))
        return np.asarray(2 * self.tau * (mass * layout.per_context(q * c) - observed) / self.total)

    def accuracies(self, theta: np.ndarray) -> dict[str, float]:
        """Share of digits named right given the true prefix; at the root; and of the one path the digits name from there."""
        hit = self._check(theta)[self.layout.context] == self.layout.digit
        at_root = self.layout.context == self.layout.context[self.layout.slot[1]]
        end = self.named_leaf(theta)
        return {
            "digit": float(self.counts[hit].sum() / self.counts.sum()),
            "root": float(self.counts[hit & at_root].sum() / self.total),
            "leaf": 0.0 if end is None else float(self.items[end] / self.total),
        }

    def named_leaf(self, theta: np.ndarray) -> int | None:
        """The leaf that the digits lead to from the root; None if some digit on the way names no child."""
        layout, here = self.layout, 0
        while not self.tree.is_leaf[here]:
            below = self.tree.children(here)
            digit = int(theta[layout.context[layout.slot[below[0]]]])
            if not 1 <= digit <= len(below):
                return None
            here = int(below[digit - 1])
        return here


class DigitNetwork:
    """A v-PuNN with digit weights, F(x) = Σ_{B∋x} θ_B mod p, fitted to digits on the leaves.

    The loss counts wrong leaves (``zero-one``) or sums distances on the circle Z/p (``circular``), per leaf. Coefficients
    of one chain interact; those of disjoint balls do not, so GIST judges a ball on its own slice: O(Σ depth) per sweep.
    """

    solvers: ClassVar[dict[str, Any]] = {"gist": NetworkGist}

    def __init__(
        self, tree: Tree, leaf_digits: Any, *, p: int | None = None, loss: Literal["zero-one", "circular"] = "zero-one"
    ) -> None:
        check_choice("loss", loss, ("zero-one", "circular"))
        self.tree, self.loss_name = tree, loss
        self.p = code_prime(tree.max_branching) if p is None else int(p)
        digits = np.asarray(leaf_digits)
        if digits.shape != (tree.n_leaves,) or digits.dtype.kind not in "iu":
            raise VpunnError(
                f"leaf_digits needs {tree.n_leaves:,} integers, got {digits.dtype} of shape {digits.shape}."
            )
        bad = (digits < 0) | (digits >= self.p)
        if bad.any():
            raise VpunnError(f"leaf digits must lie in 0..{self.p - 1}, got {examples(digits[bad])}.")
        self.target = np.zeros(tree.n_nodes, np.int64)
        self.target[tree.leaves] = digits
        self.items = self.target  # what distinguishes two problems on one tree
        self.n_parameters = tree.n_nodes

    def settings(self) -> dict[str, Any]:
        """What identifies the problem besides the tree and the targets."""
        return {"head": "DigitNetwork", "loss": self.loss_name, "p": self.p}

    def initial(self) -> np.ndarray:
        """All digits zero."""
        return np.zeros(self.n_parameters, np.int64)

    def check_digits(self, theta: Numbers) -> np.ndarray:
        """Digits as int64 after checking that there is one in 0…p−1 for each ball."""
        digits = np.asarray(theta)
        if (
            digits.shape != (self.n_parameters,)
            or digits.dtype.kind not in "iu"
            or ((digits < 0) | (digits >= self.p)).any()
        ):
            raise VpunnError(
                f"expected {self.n_parameters:,} integer digits in 0..{self.p - 1}, got {examples(digits.ravel())}."
            )
        return np.asarray(digits).astype(np.int64)

    def predict(self, theta: np.ndarray) -> np.ndarray:
        """F at every node."""
        return sweep_down(self.tree, theta) % self.p

    def loss(self, theta: np.ndarray) -> float:
        """Mean loss over leaves."""
        leaves = self.tree.leaves
        gap = (self.predict(theta)[leaves] - self.target[leaves]) % self.p
        return float((gap != 0).mean() if self.loss_name == "zero-one" else np.minimum(gap, self.p - gap).mean())
