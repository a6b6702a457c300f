"""Decay chains: a tree of channels with measured branching fractions, and what its digits cost in bits.

The file format is nested JSON. Every channel has a ``name`` and either ``channels`` of its own or a ``branching``
fraction (with an optional ``error``); at the top stand ``particle``, ``source`` and ``fractions``: ``absolute`` (the
default: each final channel's share of all decays) or ``conditional`` (each step's share among its siblings; the share
of a final channel is the product along its chain, and inner channels carry a ``branching`` too).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import DataError
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.codes import PadicCode


@dataclass(frozen=True, eq=False)
class DecayTree(Storable):
    """Channels as a tree whose leaves carry branching fractions.

    ``branching`` and ``error`` are per leaf, in leaf order, as measured; ``weights`` are the fractions scaled to sum to
    1 over the listed channels, and ``coverage`` is what they summed to.

    >>> tau = read_decays()
    >>> tau.tree
    Tree(12 nodes, 7 leaves, depth 3, branching ≤ 3)
    >>> print(round(tau.coverage, 3), round(tau.entropy(), 3), round(tau.huffman_length(), 3))
    0.943 2.634 2.684
    """

    tree: Tree
    branching: np.ndarray
    error: np.ndarray
    source: str

    @cached_property
    def code(self) -> PadicCode:
        """The code of the channels; digits as in the tree."""
        from vpunn.codes import PadicCode

        return PadicCode(self.tree)

    @property
    def coverage(self) -> float:
        """Share of all decays that the listed channels account for."""
        return float(self.branching.sum())

    @property
    def weights(self) -> np.ndarray:
        """Probability of each leaf among the listed channels."""
        return np.asarray(self.branching / self.branching.sum())

    def entropy(self) -> float:
        """Bits needed on average to name a channel, H = −Σ q log₂ q: no code can do with less."""
        return _entropy(self.weights)

    def entropy_error(self) -> float:
        """Standard error of the entropy from the measured errors, taken as independent (first order).

        With q = b / Σb, ∂H/∂b_i = −(log₂ q_i + H) / Σb.
        """
        slope = (np.log2(self.weights) + self.entropy()) / self.branching.sum()
        return float(np.sqrt(np.sum((slope * self.error) ** 2)))

    def huffman_lengths(self) -> np.ndarray:
        """Length in bits of each channel's Huffman code, the best prefix code there is."""
        return huffman_lengths(self.weights)

    def huffman_length(self) -> float:
        """Average length of the Huffman code: between H and H + 1."""
        return float(self.weights @ self.huffman_lengths())

    def digits(self) -> list[dict[str, Any]]:
        """Per digit: its entropy given the digits before it, and the average bits of a Huffman code per ball.

        The conditional entropies add up to the entropy of the whole channel (chain rule), so they say how many bits of
        the answer each digit carries. One Huffman code per ball keeps the digits readable one by one and can only cost
        more than the Huffman code over all channels.
        """
        mass = self.tree.subtree_sum(self._leaf_values(self.weights))
        rows = []
        for k in range(self.tree.max_depth):
            balls = np.flatnonzero((self.tree.depth == k) & ~self.tree.is_leaf)
            entropy = bits = 0.0
            for ball in balls.tolist():
                share = mass[self.tree.children(ball)] / mass[ball]
                entropy += mass[ball] * _entropy(share)
                bits += mass[ball] * float(share @ huffman_lengths(share))
            rows.append({"digit": k + 1, "balls": len(balls), "entropy": float(entropy), "huffman bits": float(bits)})
        return rows

    def channels(self) -> list[dict[str, Any]]:
        """One row per final channel: name, code, digits, fraction, error, ideal and Huffman bits."""
        leaves = self.tree.leaves
        return [
            {
                "channel": str(self.tree.labels[leaf]),
                "code": int(code),
                "digits": "|".join(str(d) for d in digits if d),
                "branching": float(fraction),
                "error": float(error),
                "-log2 q": float(-np.log2(q)),
                "huffman bits": int(bits),
            }
            for leaf, code, digits, fraction, error, q, bits in zip(
                leaves,
                self.code.encode(leaves),
                self.code.digits(leaves).tolist(),
                self.branching,
                self.error,
                self.weights,
                self.huffman_lengths(),
                strict=True,
            )
        ]

    def _to_store(self, draft: Draft) -> None:
        draft.add("tree", self.tree)
        draft.settings["source"] = self.source

    @classmethod
    def _from_store(cls, stored: Stored) -> DecayTree:
        tree = stored.get("tree", Tree)
        for name in ("branching", "error"):
            found = np.asarray(tree.columns[name], float)[tree.leaves]
            if not (np.isfinite(found).all() and (found >= 0).all()):
                raise DataError(f"the column {name!r} holds numbers that are no fractions.")
        return _of_tree(tree, stored.setting("source", str), str(stored.path))

    def _leaf_values(self, values: np.ndarray) -> np.ndarray:
        """Values of the leaves as an array over all nodes."""
        everywhere = np.zeros(self.tree.n_nodes)
        everywhere[self.tree.leaves] = values
        return everywhere


def read_decays(path: str | Path | None = None) -> DecayTree:
    """Read a decay file; without a path, the seven τ⁻ channels shipped with the package."""
    where = "tau_decays.json" if path is None else str(path)
    try:
        file = files("vpunn.hipaq").joinpath(f"data/{where}") if path is None else Path(path)
        document = json.loads(file.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as problem:  # also text that is not UTF-8, and numbers of 5,000 digits
        raise DataError(f"cannot read the decay file {where}: {problem}.") from problem
    if not isinstance(document, dict) or "particle" not in document:
        raise DataError(f'{where} is not a decay file: the top must be an object with "particle" and "channels".')
    rule = document.get("fractions", "absolute")
    if rule not in ("absolute", "conditional"):
        raise DataError(f'{where}: "fractions" is {rule!r}; it must be "absolute" or "conditional".')
    return _of_tree(_tree_of(document, rule == "conditional", where), str(document.get("source", "")), where)


def _of_tree(tree: Tree, source: str, where: str) -> DecayTree:
    """The fractions and errors stand in the tree's columns; together they are at most all decays."""
    branching, error = (tree.columns[name][tree.leaves] for name in ("branching", "error"))
    if branching.sum() > 1 + 3 * np.sqrt((error**2).sum()) + 1e-9:
        raise DataError(
            f"{where}: the branching fractions sum to {branching.sum():.6g}, which is more than 1; "
            "channels must exclude one another."
        )
    if not branching.all():
        lost = tree.labels[tree.leaves[branching == 0][0]]
        raise DataError(f"{where}: the fraction of {lost!r} is smaller than any number; leave it out.")
    return DecayTree(tree, branching, error, source)


def _tree_of(document: dict[str, Any], conditional: bool, where: str) -> Tree:
    """The channels as a tree with the columns ``branching`` (absolute, also of inner channels) and ``error``."""
    parent, names, fraction, error = [-1], [document["particle"]], [1.0 if conditional else 0.0], [0.0]
    stack = [(document, 0, str(document["particle"]))]  # entry, its node, and the path to it for messages
    while stack:
        entry, node, at = stack.pop()
        below = entry["channels"] if isinstance(entry.get("channels"), list) else []
        if not below:
            raise DataError(f'{where}: {at} needs a non-empty list "channels".')
        share = np.zeros(2)  # sums of fractions and of squared errors among siblings
        for channel in below:
            if not isinstance(channel, dict) or not isinstance(channel.get("name"), str) or not channel["name"]:
                raise DataError(f'{where}: a channel of {at} has no "name": {channel!r}.')
            here = f"{at} → {channel['name']}"
            final = "channels" not in channel
            value = _number(channel, "branching", here, where) if final or conditional else 0.0
            spread = _number(channel, "error", here, where) if "error" in channel else 0.0
            share += value, spread**2
            if conditional:  # fractions multiply along the chain, relative errors add in quadrature
                value, spread = value * fraction[node], float(np.hypot(error[node] * value, spread * fraction[node]))
            parent.append(node)
            names.append(channel["name"])
            fraction.append(value)
            error.append(spread)
            if not final:
                stack.append((channel, len(parent) - 1, here))
        if conditional and share[0] > 1 + 3 * np.sqrt(share[1]) + 1e-9:
            raise DataError(
                f"{where}: the branching fractions below {at} sum to {share[0]:.6g}, which is more than 1; "
                "channels must exclude one another."
            )
    if not conditional:  # an inner channel has what its final channels have; children stand after their parents
        for node in range(len(parent) - 1, 0, -1):
            fraction[parent[node]] += fraction[node]
    return Tree.from_parents(parent, np.array(names, object), columns={"branching": fraction, "error": error})


def huffman_lengths(weights: np.ndarray) -> np.ndarray:
    """Code lengths of a Huffman code for the weights; a single symbol needs 0 bits.

    >>> huffman_lengths(np.array([0.5, 0.25, 0.125, 0.125])).tolist()
    [1, 2, 3, 3]
    """
    from vpunn.vapo import _kernels

    return np.asarray(_kernels.huffman_lengths(np.array([0, len(weights)]), np.asarray(weights, float)))


def _entropy(weights: np.ndarray) -> float:
    from scipy.stats import entropy

    return float(entropy(weights, base=2))


def _number(channel: dict[str, Any], key: str, at: str, where: str) -> float:
    value = channel.get(key)
    low = 0.0 if key == "error" else np.nextafter(0.0, 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= 1:
        raise DataError(
            f'{where}: "{key}" of {at} must be a number in {"[0, 1]" if key == "error" else "(0, 1]"}, got {value!r}.'
        )
    return float(value)
