"""A classifier fitted on many machines: blocks of rows and shards of classes on dask.distributed, with checkpoints.

What is divided is the work: proposing, training of heads, judging. The sums, the dictionary and the combiner are made where
`fit_classifier` is called, and every worker holds the tree, the rows (sent once a round) and the heads (once a pass).
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from vpunn._types import Engine, Features, Targets
from vpunn.errors import VpunnError, check_whole
from vpunn.files import written_beside
from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._crew import Arrays, Crew
from vpunn.io.streams import Parts
from vpunn.scale._tasks import Sent, each
from vpunn.scale.cluster import _engine


def fit_classifier(
    model: HiPaNClassifier,
    X: Features,
    y: Targets,
    *,
    shards: int = 8,
    engine: Engine = None,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> HiPaNClassifier:
    """``model.fit(X, y, **options)``, the heads trained in ``shards`` and the work spread over an engine; returns the model.

    ``engine`` is a ``distributed.Client`` (None: this process). The result depends on ``shards`` and not on the engine or how many
    workers it has: the same bytes. One shard gives the bytes of ``model.fit``; several give other weights, a little less
    accurate (docs/scale.md), because a shard does not see what the others change until they are added up, eight times a pass.
    The heads of a model of label sets are trained each by itself, so there any number of shards gives the bytes of ``model.fit``.
    With ``checkpoint``, a folder, every finished part is kept, so that a killed fit goes on to the same bytes; other rows, labels
    or settings are refused there. The parts are removed at the end.

    >>> from vpunn import HiPaNClassifier, Tree
    >>> tree = Tree.from_paths(["animal/bird", "animal/fish", "plant/tree", "plant/fern"], sep="/", root="life")
    >>> X = np.repeat(np.eye(4), 5, axis=0)
    >>> y = np.repeat(["bird", "fish", "tree", "fern"], 5)
    >>> fit_classifier(HiPaNClassifier(tree, random_state=0), X, y, shards=2).predict(X[::5]).tolist()
    ['bird', 'fish', 'tree', 'fern']
    """
    if not isinstance(model, HiPaNClassifier):
        raise VpunnError(f"fit_classifier fits a HiPaNClassifier, got a {type(model).__name__}; sums fit the others.")
    check_whole("shards", shards)
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
            "shards": int(shards),
            "tree": tree,
            "settings": {k: repr(v) for k, v in params.items()},
        }
        kept = Parts.open(Path(checkpoint), {**job, "rows": _digest((X, y, options))})
    crew = _Cluster(int(shards), _engine(engine), None if kept is None else kept.folder)
    model._crew = crew
    try:
        model.fit(X, y, **options)
    finally:
        del model._crew
    if kept is not None:
        kept.finish()
        for path in kept.folder.glob(f"step-{'[0-9]' * 5}-{'[0-9]' * 5}.npz"):  # what else lies there is not ours
            if path.is_file():
                path.unlink()
    return model


class _Cluster(Crew):
    def __init__(self, shards: int, engine: Engine, folder: Path | None) -> None:
        super().__init__(shards)
        self.engine, self.folder, self.step = engine, folder, 0

    def share(self, thing: Any) -> Any:
        return Sent(thing)

    def run(
        self, work: Callable[..., Arrays], shared: tuple[Any, ...], parts: Iterable[tuple[Any, ...]]
    ) -> list[Arrays]:
        self.step += 1
        tasks = list(parts)
        found: dict[int, Arrays] = {}
        if self.folder is not None:
            found = {i: kept for i in range(len(tasks)) if (kept := _kept(self._path(i))) is not None}
        left = [i for i in range(len(tasks)) if i not in found]
        for i, arrays in zip(left, self._results(work, shared, [tasks[i] for i in left]), strict=True):
            found[i] = arrays
            if self.folder is not None:
                with written_beside(self._path(i)) as beside, open(beside, "wb") as file:
                    np.savez(file, *arrays)
        return [found[i] for i in range(len(tasks))]

    def _results(
        self, work: Callable[..., Arrays], shared: tuple[Any, ...], tasks: list[tuple[Any, ...]]
    ) -> Iterator[Arrays]:
        return each(self.engine, work, [(*shared, *task) for task in tasks])

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
