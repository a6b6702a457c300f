"""What can be explained: the tree of anything that has one, and a node named in any way."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpunn._types import HasTree, Label
from vpunn.codes import PadicCode
from vpunn.errors import VpunnError, examples
from vpunn.tree import Tree


def parts(source: HasTree) -> tuple[Tree, Any]:
    """The tree and, if there is one, the fitted classifier."""
    if isinstance(source, Tree):
        return source, None
    if hasattr(source, "model_"):
        return source.tree_, source
    tree = getattr(source, "tree_", getattr(source, "tree", None))
    if isinstance(tree, Tree):
        return tree, None
    raise VpunnError(f"expected a fitted classifier, a code or a Tree, got {type(source).__name__}.")


def tree_of(source: HasTree) -> Tree:
    """The tree of a classifier, code, network or model, or the tree itself."""
    return parts(source)[0]


def find_node(source: HasTree, theta: Label) -> int:
    """The node of a label, a node id, digits (root first, 1 … children), or an integer code if ``source`` is a code."""
    tree = tree_of(source)
    code = source if isinstance(source, PadicCode) else None
    if code is not None and isinstance(theta, int | np.integer) and not isinstance(theta, bool):
        return int(code.decode(int(theta)))
    if isinstance(theta, list | np.ndarray) and np.ndim(theta) == 1 and all(_whole(d) for d in theta):
        code = code or PadicCode(tree)
        if any(not 0 <= d < code.p for d in theta):
            raise VpunnError(f"digits must lie in 0..{code.p - 1}, got {examples(theta)}.")
        return int(code.parse(str([int(d) for d in theta])))
    if isinstance(theta, list | np.ndarray) and np.ndim(theta) > 0:
        raise VpunnError(f"name one node, by label, id or digits; got {examples(theta)}.")
    return int(tree.find(theta))


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
