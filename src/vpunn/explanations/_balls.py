"""What a ball contains and stands for."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._types import FeatureNames, HasTree, Label
from vpunn.errors import VpunnError, check_whole, examples
from vpunn.explanations._sources import find_node, parts
from vpunn.hipan.explanation import above_siblings, namer, strongest
from vpunn.hipan.reasons import row_counts
from vpunn.padic import code_prime
from vpunn.tree import Tree

_WORD = re.compile(r"[^\W\d_]{3,}")
#: Words that say nothing about a ball; left out of its commonest gloss words.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "and any are but can for from has have into its not one other such than that the their them they this used was "
        "were when which who whose with",
    )
)


@dataclass(frozen=True)
class BallDescription:
    """What `describe_ball` says; ``str()`` is readable.

    ``around`` is the node asked for, ``node`` the ball, ``depths`` the range of its leaves' depths; ``tokens`` are
    the commonest gloss words with counts, ``files`` the lexicographer files with shares, ``n_lemmas`` the
    number of different words; empty or None where the tree has no such column.
    """

    node: int
    label: Label
    path: tuple[Label, ...]
    n_nodes: int
    n_leaves: int
    n_rows: float | None
    entropy: float
    members: list[Label]
    speaks_for: list[tuple[str, float]]
    around: int
    p: int
    depths: tuple[int, int]
    tokens: list[tuple[str, int]]
    files: list[tuple[str, float]]
    n_lemmas: int | None

    def __str__(self) -> str:
        rows = "" if self.n_rows is None else f", {self.n_rows:g} training rows"
        low, high = self.depths
        what = f"ball of radius {self.p}^-{len(self.path) - 1}: " if self.around != self.node else ""
        deep = f"at depth {low}" if low == high else f"at depths {low} to {high}"
        more = ", …" if self.n_leaves > len(self.members) else ""
        lines = [
            " / ".join(map(str, self.path)),
            f"  {what}{self.n_nodes:,} nodes, {self.n_leaves:,} leaves {deep}{rows}, entropy over its children "
            f"{self.entropy:.2f} bits",
            "  members: " + ", ".join(map(str, self.members)) + more,
        ]
        if self.files:
            lemmas = "" if self.n_lemmas is None else f"; {self.n_lemmas:,} lemmas"
            lines.append("  files: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in self.files) + lemmas)
        if self.tokens:
            lines.append("  glosses: " + ", ".join(f"{word} {count:,}" for word, count in self.tokens))
        if self.speaks_for:
            lines.append(
                "  against its siblings: " + ", ".join(f"{name} {value:+.3g}" for name, value in self.speaks_for)
            )
        return "\n".join(lines)


def describe_ball(
    source: HasTree, theta: Label, k: int | None = None, *, show: int = 10, feature_names: FeatureNames = None
) -> BallDescription:
    """Describe B_k(θ), the ball of radius p^−k around θ: all nodes that share θ's first k digits.

    ``source`` is a tree, a code, a network or a fitted classifier. ``theta`` is a label, a node id, digits (root first, from 1),
    or, where the source is a code, an integer code. ``k`` is the ball's depth, by default that of θ itself; ``show`` the length
    of the lists. Told are members, counts, the range of leaf depths and the entropy (bits) of training rows, else leaves, over
    the children; for a tree with columns ``gloss`` (or ``definition``), ``lexicographer`` and ``lemmas`` (WordNet) also gloss
    words, topic files and the number of lemmas. ``speaks_for`` lists features (of a classifier) or words (of a tree) whose weight
    or share in this ball is highest above its siblings'.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "owl", "robin"])
    >>> print(describe_ball(tree, "bird"))
    animal / bird
      3 nodes, 2 leaves at depth 2, entropy over its children 1.00 bits
      members: owl, robin
    >>> describe_ball(tree, [1, 2]).label, describe_ball(tree, "robin", 1).label, describe_ball(tree, "robin", 0).label
    ('robin', 'bird', 'animal')
    """
    tree, model = parts(source)
    check_whole("show", show, 0)
    around = find_node(source, theta)
    i = _ball(tree, around, k)
    inside = np.arange(*tree.slice(i).indices(tree.n_nodes))
    leaves = inside[tree.is_leaf[inside]]
    counts = tree.leaf_counts.astype(float)
    rows = None
    if model is not None:
        at = row_counts(model)
        rows = float(at[i])
        counts = at if rows > 0 else counts
    share = counts[tree.children(i)]
    share = share[share > 0] / max(share.sum(), 1e-12)
    entropy = float(-(share * np.log2(share)).sum()) + 0.0
    if model is not None:
        speaks = strongest(above_siblings(model, i), namer(model, feature_names), show)
    else:
        speaks = _gloss_words(tree, i, show)
    depth = tree.depth[leaves]
    return BallDescription(
        i,
        tree.labels[i],
        tree.path(i),
        len(inside),
        len(leaves),
        rows,
        entropy,
        tree.labels[leaves[:show]].tolist(),
        speaks,
        around,
        int(getattr(source, "p", 0)) or code_prime(tree.max_branching),
        (int(depth.min()), int(depth.max())),
        _gloss_tokens(tree, inside, show),
        _shares(tree.columns.get("lexicographer"), inside, show),
        _count_lemmas(tree, inside),
    )


def _ball(tree: Tree, node: int, k: int | None) -> int:
    """The ancestor of a node at depth k."""
    if k is None:
        return node
    check_whole("k", k, 0)
    depth = int(tree.depth[node])
    if k > depth:
        raise VpunnError(
            f"k={k} is deeper than {examples([tree.labels[node]])}, whose code has {depth} digits; take k ≤ {depth} "
            "(show= is the length of the lists)."
        )
    return int(tree.ancestor_at(node, k))


def _gloss_column(tree: Tree) -> Any:
    return next((tree.columns[name] for name in ("gloss", "definition") if name in tree.columns), None)


def _gloss_tokens(tree: Tree, nodes: np.ndarray, show: int) -> list[tuple[str, int]]:
    texts = _gloss_column(tree)
    if texts is None:
        return []
    words = Counter(word.lower() for text in texts[nodes] if isinstance(text, str) for word in _WORD.findall(text))
    plain = ((word, count) for word, count in words.items() if word not in _COMMON)
    return sorted(plain, key=lambda item: (-item[1], item[0]))[:show]


def _shares(values: Any, nodes: np.ndarray, show: int) -> list[tuple[str, float]]:
    if values is None:
        return []
    counts = Counter(str(value) for value in values[nodes])
    return [(name, count / len(nodes)) for name, count in sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:show]]


def _count_lemmas(tree: Tree, nodes: np.ndarray) -> int | None:
    if "lemmas" not in tree.columns:
        return None
    return len(
        {word for words in tree.columns["lemmas"][nodes] if isinstance(words, str) for word in words.split("; ")}
    )


def _gloss_words(tree: Tree, i: int, k: int) -> list[tuple[str, float]]:
    """Words whose share in the texts of the ball exceeds that in its siblings' texts most."""
    texts = _gloss_column(tree)
    if texts is None or i == 0:
        return []

    def shares(nodes: np.ndarray) -> tuple[Counter[str], int]:
        words = Counter(
            word.lower() for text in texts[nodes] if isinstance(text, str) for word in set(_WORD.findall(text))
        )
        return words, max(len(nodes), 1)

    family = np.arange(*tree.slice(int(tree.parent[i])).indices(tree.n_nodes))[1:]
    here = (family >= i) & (family < i + tree.size[i])
    mine, n = shares(family[here])
    others, m = shares(family[~here])
    gain = {word: count / n - others[word] / m for word, count in mine.items()}
    return sorted(((w, g) for w, g in gain.items() if g > 0), key=lambda item: (-item[1], item[0]))[:k]
