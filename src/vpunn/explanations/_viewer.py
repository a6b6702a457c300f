"""A tree as nested JSON for a viewer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from vpunn._types import Features, HasTree
from vpunn.codes import PadicCode
from vpunn.errors import CodeError, VpunnError, check_whole
from vpunn.explanations._sources import parts
from vpunn.hipan.reasons import row_counts
from vpunn.tree import Tree


def export_tree_for_viz(source: HasTree, x: Features = None, *, max_nodes: int | None = None) -> str:
    """The tree as nested JSON for a viewer: name, id, depth, leaves, ``digit`` and ``code`` (text: it may exceed 2⁵³).

    A network or `HiPaN` adds the ``coefficient`` of every ball, a classifier its training ``rows`` and, for a row ``x``, the
    ``probability``. With ``max_nodes`` only the largest balls (or the most probable ones) are written, and ``hidden`` counts
    what was left out. Codes too long to write down (chains of a million nodes) are left out. The text can stand inside a
    ``<script>`` of a page: ``<``, ``>`` and ``&`` are written as ``\\u003c`` and so on, which JSON reads back as they were.
    """
    tree, model = parts(source)
    if max_nodes is not None:
        check_whole("max_nodes", max_nodes, 0)
    p = None
    if x is not None:
        if model is None:
            raise VpunnError("only a fitted classifier has probabilities; leave x out for a tree or a code.")
        p = model.predict_node_proba(x)
        if len(p) != 1:
            raise VpunnError(f"export_tree_for_viz shows one row, got {len(p):,}.")
    kept = np.arange(tree.n_nodes)
    if max_nodes is not None and max_nodes < tree.n_nodes:
        rank = -tree.size.astype(float) if p is None else -p[0]
        # A ball never ranks below its parts; among equals the shallower comes first, so the choice is closed upwards.
        kept = np.sort(np.lexsort((tree.depth, rank))[: max(max_nodes, 1)])
    rows = None if model is None else row_counts(model)
    codes, coefficients = _codes(source, tree, kept), _coefficients(source)
    built: dict[int, dict[str, Any]] = {}
    for at, i in enumerate(kept.tolist()):
        entry: dict[str, Any] = {"name": str(tree.labels[i]), "id": i, "depth": int(tree.depth[i])}
        entry |= {"leaves": int(tree.leaf_counts[i]), "digit": int(tree.digit[i])}
        if codes is not None:
            entry["code"] = str(codes[at])
        if coefficients is not None:
            entry["coefficient"] = _number(coefficients[i])
        if rows is not None:
            entry["rows"] = float(rows[i])
        if p is not None:
            entry["probability"] = float(p[0, i])
        hidden = int(tree.size[i]) - int(np.searchsorted(kept, i + tree.size[i]) - np.searchsorted(kept, i))
        if hidden:
            entry["hidden"] = hidden
        built[i] = entry
        if i:
            built[int(tree.parent[i])].setdefault("children", []).append(entry)
    return _script_safe(json.dumps(built[0], ensure_ascii=False))


def _script_safe(text: str) -> str:
    """JSON without the characters by which a label could end the script it stands in, or a line of it."""
    return text.translate({ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def _codes(source: HasTree, tree: Tree, nodes: np.ndarray) -> Any:
    """Codes of nodes with the source's own prime, or None where they are too long."""
    try:
        return PadicCode(tree, getattr(source, "p", None)).encode(nodes)
    except CodeError:
        return None


def _coefficients(source: HasTree) -> Any:
    return None if isinstance(source, Tree) else getattr(source, "coefficients_", None)


def _number(value: Any) -> Any:
    """A coefficient as JSON has it: numbers, lists of them, text for exact fractions, null where there is none."""
    if np.ndim(value):
        return [_number(v) for v in value]
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return str(value)
