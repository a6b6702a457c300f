"""What can be explained: the tree of anything that has one, a node named in any way, and names for features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vpunn._types import FeatureNames, HasTree, Label
from vpunn.codes import PadicCode
from vpunn.errors import VpunnError, examples
from vpunn.tree import Tree


def parts(source: HasTree) -> tuple[Tree, Any]:
    """The tree and, if there is one, the fitted classifier."""
    if isinstance(source, Tree):
        return source, None
    if hasattr(source, "balls_"):
        return source.tree_, source
    tree = getattr(source, "tree", None)
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


def check_fitted(model: HasTree) -> None:
    if not hasattr(model, "balls_"):
        raise VpunnError(f"expected a fitted classifier, got {type(model).__name__}; HiPaNClassifier.fit makes one.")


def namer(model: HasTree, feature_names: FeatureNames) -> Callable[[int], str]:
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None:
        return lambda f: f"x{f}"
    if len(feature_names) != model.n_features_in_:
        shown = examples(feature_names[:3])
        raise VpunnError(f"feature_names needs {model.n_features_in_:,} names, got {len(feature_names):,}: {shown}.")
    given = feature_names
    return lambda f: str(given[f])


def strongest(
    values: np.ndarray, names: Callable[[int], str], k: int, *, both: bool = False
) -> list[tuple[str, float]]:
    order = np.argsort(-(np.abs(values) if both else values), kind="stable")[:k]
    return [(names(int(f)), float(values[f])) for f in order if (values[f] != 0 if both else values[f] > 0)]
