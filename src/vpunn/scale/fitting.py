"""A classifier fitted on many machines, with checkpoints: every fold of held-out rows is a task on dask.distributed.

Learning the experts anew for every fold and asking them about the rows that left is most of a fit. The experts of all rows and the
combiner are made where `fit_classifier` is called.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from vpunn._types import Engine, Features, Targets
from vpunn.errors import VpunnError
from vpunn.files import written_beside
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan.engine import Arrays
from vpunn.io.streams import Parts
from vpunn.scale.engine import Sent, checked_engine, each


def fit_classifier(
    model: HiPaNClassifier,
    X: Features,
    y: Targets,
    *,
    engine: Engine = None,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> HiPaNClassifier:
    """``model.fit(X, y, **options)``, the work spread over an engine; returns the model, with the bytes of ``model.fit``.

    ``engine`` is a ``distributed.Client`` (None: this process); every worker that takes a fold holds the rows and the experts of
    the others. With ``checkpoint``, a folder, every finished fold is kept, so that a killed fit goes on to the same bytes; other
    rows, labels or settings are refused there. The parts are removed at the end. A model of label sets is fitted in this process.

    >>> from vpunn import HiPaNClassifier, Tree
    >>> tree = Tree.from_paths(["animal/bird", "animal/fish", "plant/tree", "plant/fern"], sep="/", root="life")
    >>> X = np.repeat(np.eye(4), 5, axis=0)
    >>> y = np.repeat(["bird", "fish", "tree", "fern"], 5)
    >>> fit_classifier(HiPaNClassifier(tree, random_state=0), X, y).predict(X[::5]).tolist()
    ['bird', 'fish', 'tree', 'fern']
    """
    if not isinstance(model, HiPaNClassifier):
        raise VpunnError(f"fit_classifier fits a HiPaNClassifier, got a {type(model).__name__}; sums fit the others.")
    kept = None
    if checkpoint is not None:
        if model.random_state is None:
            raise VpunnError(
                "a fit that may be continued needs a random_state: without one its second half is another fit."
            )
        params = {key: value for key, value in model.get_params(deep=False).items() if key not in ("tree", "n_jobs")}
        tree = None if model.tree is None else model.tree.fingerprint
        job = {
            "command": "fit",
            "tree": tree,
            "settings": {k: repr(v) for k, v in params.items()},
        }
        kept = Parts.open(Path(checkpoint), {**job, "rows": _digest((X, y, options))})
    run = _Folds(checked_engine(engine), None if kept is None else kept.folder)
    model._fit(X, y, **options, run=run)
    if kept is not None:
        kept.finish()
        for path in kept.folder.glob(f"step-{'[0-9]' * 5}-{'[0-9]' * 5}.npz"):  # what else lies there is not ours
            if path.is_file():
                path.unlink()
    return model


class _Folds:
    """Runs the parts of a fit on an engine; those that a folder holds already are read from it."""

    def __init__(self, engine: Engine, folder: Path | None) -> None:
        self.engine, self.folder, self.step = engine, folder, 0

    def __call__(
        self, work: Callable[..., Arrays], shared: tuple[Any, ...], parts: list[tuple[Any, ...]]
    ) -> list[Arrays]:
        self.step += 1
        found: dict[int, Arrays] = {}
        if self.folder is not None:
            found = {i: kept for i in range(len(parts)) if (kept := _kept(self._path(i))) is not None}
        left = [i for i in range(len(parts)) if i not in found]
        everywhere = [Sent(thing) for thing in shared]
        for i, arrays in zip(left, self._results(work, [(*everywhere, *parts[i]) for i in left]), strict=True):
            found[i] = arrays
            if self.folder is not None:
                with written_beside(self._path(i)) as beside, open(beside, "wb") as file:
                    np.savez(file, *arrays)
        return [found[i] for i in range(len(parts))]

    def _results(self, work: Callable[..., Arrays], tasks: list[tuple[Any, ...]]) -> Iterator[Arrays]:
        return each(self.engine, work, tasks)

    def _path(self, part: int) -> Path:
        assert self.folder is not None
        return self.folder / f"step-{self.step:05d}-{part:05d}.npz"


def _kept(path: Path) -> Arrays | None:
    """The arrays of a finished part; None if it is not there or cannot be read, so that it is made again."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            return tuple(found[f"arr_{i}"] for i in range(len(found.files)))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def _digest(thing: Any) -> str:
    """A checksum of rows, labels and options."""
    seal = hashlib.sha256()

    def add(value: Any) -> None:
        if sparse.issparse(value):
            matrix = value.tocsr()
            for array in (matrix.indptr, matrix.indices, matrix.data):
                add(array)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biufUS":
            seal.update(f"{value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        elif isinstance(value, Mapping):
            for key in value:
                seal.update(repr(key).encode())
                add(value[key])
        elif isinstance(value, list | tuple):
            seal.update(f"{type(value).__name__} {len(value)}".encode())
            for one in value:
                add(one)
        elif isinstance(value, set | frozenset):
            add(sorted(value, key=repr))
        elif hasattr(value, "to_numpy"):
            add(value.to_numpy())
        elif isinstance(value, np.ndarray):
            add(value.tolist())
        else:
            seal.update(repr(value).encode() + b"\0")

    add(thing)
    return seal.hexdigest()
