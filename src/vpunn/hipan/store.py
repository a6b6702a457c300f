"""A fitted classifier as one compressed archive."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np
from scipy import sparse

from vpunn.errors import DataError
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._combiner import Combiner
from vpunn.hipan._weights import Heads
from vpunn.io.files import check_path, written_beside
from vpunn.tree import Tree

FORMAT = 3
OPTIONS = ("candidates", "epochs", "holdout", "hidden")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write beside and rename, so that a failure leaves no half file."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "balls_")
    check_path(path)
    items, heads, tree = model.balls_.items, model.heads_, model.tree_
    flat = model.flat_
    labels, kind = _labels(model.classes_ if flat else tree.labels)
    head = {"format": FORMAT, "kind": kind, "flat": flat, "n_features": int(model.n_features_in_)}
    head["options"] = {name: np.asarray(getattr(model, name)).item() for name in OPTIONS}
    if isinstance(model.random_state, int | np.integer):
        head["options"]["random_state"] = int(model.random_state)
    start = np.diff(items.X.indptr)
    arrays = {
        "head": np.array(json.dumps(head)),
        "labels": labels,
        "parent": tree.parent,
        "lengths": start.astype(np.uint16 if start.max(initial=0) < 65536 else np.int64),
        "indices": _differences(items.X),
        "data": items.X.data.astype(np.float16),
        "node": items.node.astype(np.int32),
        "weight": items.weight,
        "kind": items.kind,
        "heads": heads.weight.astype(np.float16),
        "bias": heads.bias.astype(np.float16),
        "branch": heads.branch.astype(np.float16),
        "miss_scores": model.miss_scores_,
        **{f"combiner_{name}": value for name, value in model.combiner_._asdict().items()},
    }
    if model.centre_ is not None:
        arrays |= {"centre": model.centre_, "scale": model.scale_}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = np.asarray(model.feature_names_in_, dtype=str)
    with written_beside(path) as beside, open(beside, "wb") as file:
        np.savez_compressed(file, **arrays)


def load(cls: Any, path: str | os.PathLike[str]) -> Any:
    """Read a file of `save`, rebuild the sums, and return the fitted model."""
    check_path(path)
    name = os.fspath(path)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            part = {key: archive[key] for key in archive.files}
        head = json.loads(str(part["head"]))
        if head["format"] != FORMAT:
            raise DataError(
                f"{name!r} has format {head['format']}, this version reads {FORMAT}; fit and save it again."
            )
        return _rebuilt(cls, head, part)
    except OSError as error:
        raise DataError(f"cannot read {name!r}: {error.strerror or error}.") from error
    except DataError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{name!r} is not a HiPaNClassifier file, or not all of one; HiPaNClassifier.save writes one."
        ) from error


def _rebuilt(cls: Any, head: dict[str, Any], part: dict[str, np.ndarray]) -> Any:
    """The fitted model from the parts of its file."""
    labels = _decoded(part["labels"]) if head["kind"] == "json" else part["labels"]
    labels = labels.astype(object) if head["kind"] == "text" else labels
    names = np.concatenate([np.array(["(all)"], object), labels.astype(object)]) if head["flat"] else labels
    tree = Tree.from_parents(part["parent"], names)
    model = cls(None if head["flat"] else tree, **head["options"])
    model.tree_, model.n_features_in_ = tree, head["n_features"]
    model.centre_, model.scale_ = part.get("centre"), part.get("scale")
    if "feature_names" in part:
        model.feature_names_in_ = part["feature_names"].astype(object)
    indptr = np.concatenate([[0], np.cumsum(part["lengths"], dtype=np.int64)])
    shape = (len(part["node"]), head["n_features"])
    X = sparse.csr_matrix((part["data"].astype(np.float32), _running(part["indices"], indptr), indptr), shape=shape)
    model.balls_ = Balls(tree, Items(X, part["node"], part["weight"], part["kind"]))
    fresh = Heads.zeros(model.balls_)
    heads, bias, branch = (part[name].astype(np.float32) for name in ("heads", "bias", "branch"))
    model.heads_ = Heads(heads, bias, fresh.energy, fresh.bias_energy, branch)
    model.combiner_ = Combiner(*(part[f"combiner_{name}"] for name in Combiner._fields))
    model._set_classes(labels if head["flat"] else None)
    model.miss_scores_ = part["miss_scores"]
    return model


def _differences(X: sparse.csr_matrix) -> np.ndarray:
    """Column indices as steps within each row (the first from −1): small numbers that compress."""
    steps = np.diff(X.indices.astype(np.int64), prepend=-1)
    first = X.indptr[:-1][np.diff(X.indptr) > 0]
    steps[first] = X.indices[first].astype(np.int64) + 1
    return steps.astype(np.uint16 if steps.max(initial=0) < 65536 else np.int32)


def _running(steps: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Undo `_differences`."""
    total = np.concatenate([[0], np.cumsum(steps, dtype=np.int64)])
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return (total[1:] - total[indptr[row]] - 1).astype(np.int32)


def _labels(labels: np.ndarray) -> tuple[np.ndarray, str]:
    """Labels without pickle: plain arrays as they are, objects that are texts as such, other objects as JSON texts."""
    if labels.dtype != object:
        return labels, "plain"
    if all(isinstance(label, str) for label in labels):
        return labels.astype(str), "text"
    try:
        return np.array([json.dumps(label, default=_as_python) for label in labels.tolist()]), "json"
    except TypeError as error:
        raise DataError(f"labels must be text or numbers to be saved: {error}; use pickle for other labels.") from error


def _as_python(value: Any) -> Any:
    """Scalars of NumPy as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither")


def _decoded(texts: np.ndarray) -> np.ndarray:
    labels = np.empty(len(texts), object)
    labels[:] = [tuple(v) if isinstance(v := json.loads(text), list) else v for text in texts]
    return labels
