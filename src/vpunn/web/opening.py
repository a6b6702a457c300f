"""From what a user names or holds to what is explored: a tree, a fitted model, a model's folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError
from vpunn.tree import Tree
from vpunn.web.beliefs import Believer
from vpunn.web.subject import Subject

if TYPE_CHECKING:
    from vpunn._types import HasTree, Vectorizer


def as_subject(
    source: HasTree, title: str | None = None, *, features: Vectorizer = None, columns: dict[str, Any] | None = None
) -> Subject:
    """A subject from a `Tree`, anything with a ``tree``, a fitted classifier (with the ``features`` before it) or a model folder.

    ``columns`` are further per-node columns to show and colour by.
    """
    if isinstance(source, str | os.PathLike):
        return open_model(Path(source))
    believer = None
    tree = source if isinstance(source, Tree) else getattr(source, "tree_", None)
    if tree is None:
        tree = getattr(source, "tree", None)
    if hasattr(source, "posterior") and hasattr(source, "tree_"):
        believer = Believer(source, features)
    if not isinstance(tree, Tree):
        raise VpunnError(
            f"the explorer shows a Tree, a fitted classifier or a model folder, got {type(source).__name__}."
        )
    if columns:
        tree = tree.replace(columns={**tree.columns, **columns})
    return Subject(tree, title or _title(source, tree), believer)


def _title(source: HasTree, tree: Tree) -> str:
    given = getattr(source, "title", None)
    return str(given) if isinstance(given, str) and given else str(tree.labels[0])


def is_model(path: Path) -> bool:
    """Whether a folder holds something that was saved with `vpunn.io.store`."""
    return (path / "model.json").is_file()


def open_model(path: Path) -> Subject:
    """Whatever was saved in a folder: a classifier with the text features that `vpunn fit` keeps beside it, or a tree."""
    from vpunn.io.store import Stored, load

    stored = Stored.open(path)
    if stored.kind != "HiPaNClassifier":
        return as_subject(load(path), path.name)
    from vpunn.hipan import HiPaNClassifier
    from vpunn.text import TextFeatures

    inputs = stored.settings.get("inputs")
    inputs = inputs if isinstance(inputs, dict) else {}
    features = TextFeatures.from_stored(stored.part("features")) if "text" in inputs else None
    text, numeric = ([str(name) for name in inputs.get(kind) or []] for kind in ("text", "columns"))
    model = HiPaNClassifier.from_stored(stored)
    sep = str(inputs.get("path_sep") or "") or None
    believer = Believer(model, features, text, inputs.get("target"), numeric, sep)
    return Subject(model.tree_, path.name, believer)
