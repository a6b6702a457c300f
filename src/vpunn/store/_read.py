"""Opening a model folder: whatever is read is checked before it is used."""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from vpunn._rows import slices
from vpunn.errors import DataError, VpunnError, examples
from vpunn.files import check_path, open_regular
from vpunn.store._head import FILE, is_head, read_head, seal
from vpunn.store._labels import decoded
from vpunn.store._swap import refuse_old_formats, steady
from vpunn.store._write import LABEL_ARRAYS, LAYOUT, PLAIN, Draft

if TYPE_CHECKING:
    from vpunn._types import DTypeOrKinds, FilePath, HasTree, Json


AnyArray = npt.NDArray[Any]
Kind = TypeVar("Kind", bound="Storable")

#: Smaller files are read at once; larger ones are memory-mapped.
MAPPED = 1 << 16
#: Labels of one width may take so much memory, or eight times what the file holds.
TEXT_BYTES = 1 << 24
#: Numbers that are looked through twice while they are near.
BLOCK = 1 << 18
#: The array of a classifier that has a number for each of its training rows.
ROWS = "row.weight"
#: Kind of model → module that has the class of that name.
KINDS = {
    "BallSums": "vpunn.scale",
    "Catalogue": "vpunn.hipaq",
    "ClassSums": "vpunn.scale",
    "DecayTree": "vpunn.hipaq",
    "HiPaN": "vpunn.paper.hipan",
    "HeadClassifier": "vpunn.torch",
    "HiPaNClassifier": "vpunn.hipan",
    "HiPaQ": "vpunn.hipaq",
    "HierarchicalHead": "vpunn.torch",
    "SetHead": "vpunn.torch",
    "LatentTreeEncoder": "vpunn.tabular.encoder",
    "MixedRadixCode": "vpunn.codes",
    "PadicCode": "vpunn.codes",
    "PadicEmbedding": "vpunn.torch",
    "PathHead": "vpunn.torch",
    "PadicEncoder": "vpunn.regress",
    "PadicTargetEncoder": "vpunn.regress",
    "SemanticIds": "vpunn.tabular.ids",
    "StampedCodes": "vpunn.codes",
    "TabHiPaN": "vpunn.tabular.tabhipan",
    "TextFeatures": "vpunn.text",
    "Tree": "vpunn.tree",
    "TreeEffects": "vpunn.regress",
    "TreeSampleRegressor": "vpunn.regress",
    "VPuNN": "vpunn.network",
    "VPuNNClassifier": "vpunn.regress",
    "VPuNNRegressor": "vpunn.regress",
    "ValuationBias": "vpunn.torch",
    "VapoResult": "vpunn.vapo",
}
#: Models that `vpunn fit` writes with the columns they read.
OF_TABLES = ("HiPaNClassifier", "VPuNNRegressor", "TreeSampleRegressor", "VPuNNClassifier")


class Stored:
    """An opened model folder, or a part of one. Reading anything that is not as it should be is a `DataError`."""

    def __init__(self, path: Path, head: Mapping[str, Any], prefix: str = "") -> None:
        """For internal use; `Stored.open` reads the head."""
        self.path, self._head, self._prefix = path, head, prefix
        self.kind: str = head["kind"]
        self.format: int = head["format"]
        self.settings: dict[str, Any] = head["settings"]
        self.provenance: dict[str, Any] = head.get("provenance", {})
        self.version: str = head.get("version", "")

    @classmethod
    def open(cls, path: FilePath, kind: str | None = None, *, format: int = 1, verify: bool = False) -> Stored:
        """Open a folder of `Draft.write`; ``kind`` and ``format`` say what the caller can read (None: any kind)."""
        check_path(path)
        folder = refuse_old_formats(Path(path))
        head = read_head(folder)
        layout = head.get("layout") if isinstance(head, dict) else None
        if isinstance(layout, int) and layout > LAYOUT:
            raise DataError(
                f"{str(path)!r} was written by a newer vpunn ({head.get('version')}); update vpunn to read it."
            )
        if not is_head(head):
            raise DataError(f"{str(folder / FILE)!r} does not describe a model; save it again.")
        stored = cls(folder, head)
        stored.check_kind(kind, format)
        if verify:
            stored.verify()
        return stored

    def check_kind(self, kind: str | None, format: int = 1) -> None:
        """Refuse another kind, and a newer format of this one."""
        if kind is not None and self.kind != kind:
            raise DataError(f"{self._where()} holds a {self.kind}, not a {kind}; vpunn.load opens any kind.")
        if kind is not None and self.format > format:
            raise DataError(
                f"{self._where()} holds a {self.kind} of format {self.format} (vpunn {self.version}), but this version "
                f"reads up to {format}; update vpunn."
            )

    def _where(self) -> str:
        return repr(str(self.path)) + (f" (part {self._prefix[:-1]!r})" if self._prefix else "")

    def damaged(self, what: str) -> DataError:
        """The error that says what is wrong with this model, and where it is."""
        return DataError(f"{self._where()}: {what}; the model is damaged, save it again.")

    def __contains__(self, name: object) -> bool:
        return name in self._head["arrays"] or f"{name}.offsets" in self._head["arrays"] or name in self.part_names

    @property
    def names(self) -> list[str]:
        """Names of the arrays, as they were added."""
        return list(self._head["arrays"])

    @property
    def part_names(self) -> list[str]:
        """Names of the models inside this one."""
        return list(self._head.get("parts", {}))

    def part(self, name: str, kind: str | None = None, *, format: int = 1) -> Stored:
        """A model inside this one."""
        if name not in self.part_names:
            raise self.damaged(f"part {name!r} is missing")
        part = Stored(self.path, self._head["parts"][name], f"{self._prefix}{name}.")
        part.version = self.version
        part.check_kind(kind, format)
        return part

    def get(self, name: str, cls: type[Kind]) -> Kind:
        """What `Draft.add` put inside, which must be of that class."""
        return cls.from_stored(self.part(name))

    def array(
        self,
        name: str,
        *,
        dtype: DTypeOrKinds = None,
        shape: Sequence[int | None] | None = None,
        low: float | None = None,
        high: float | None = None,
        monotone: bool = False,
        finite: bool = True,
    ) -> AnyArray:
        """An array, checked: ``dtype`` (a dtype, or the letters of its kind such as "iu"), ``shape`` (None: any length
        there), ``low`` ≤ values < ``high``, ``monotone`` (never falling), and finite unless told otherwise.

        Large ones are memory-mapped copy-on-write: writing to one changes memory, never the file.
        """
        array = self._open_array(name)
        if dtype is not None:
            kinds = isinstance(dtype, str) and len(dtype) <= len(PLAIN) and set(dtype) <= set(PLAIN)
            if array.dtype.kind not in dtype if kinds else array.dtype != np.dtype(dtype):
                raise self.damaged(f"array {name!r} holds {array.dtype}, not {dtype}")
        if shape is not None and (
            len(shape) != array.ndim or any(w not in (None, n) for w, n in zip(shape, array.shape, strict=True))
        ):
            wanted = "(" + ", ".join("any" if w is None else str(w) for w in shape) + ")"
            raise self.damaged(f"array {name!r} has the shape {array.shape}, not {wanted}")
        finite = finite and array.dtype.kind == "f"
        if array.size and (finite or low is not None or high is not None):
            least, most = _extremes(array)
            if finite and not (np.isfinite(least) and np.isfinite(most)):
                raise self.damaged(f"array {name!r} holds values that are not finite")
            if low is not None and least < low:
                raise self.damaged(f"array {name!r} holds {least}, below {low}")
            if high is not None and most >= high:
                raise self.damaged(f"array {name!r} holds {most}, which is not below {high}")
        if monotone and (array[1:] < array[:-1]).any():
            raise self.damaged(f"array {name!r} falls, but must not")
        return array

    def _open_array(self, name: str) -> AnyArray:
        about = self._head["arrays"].get(name)
        if about is None:
            raise self.damaged(f"array {name!r} is missing")
        try:
            with open_regular(self._place(f"{name}.npy")) as file:
                array = _read_array(file, about["dtype"], tuple(about["shape"]))
        except OSError as error:
            raise self.damaged(f"array {name!r} cannot be read ({error.strerror or error})") from None
        except Exception:  # whatever NumPy's parser makes of foreign bytes
            raise self.damaged(f"array {name!r} is cut short or is no .npy file") from None
        if array is None:
            raise self.damaged(f"array {name!r} is cut short, or not what {FILE} says")
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))

    def _place(self, file: str) -> Path:
        return self.path / f"{self._prefix}{file}"

    def labels(self, name: str, n: int | None = None) -> AnyArray:
        """Labels of `Draft.labels`, ``n`` of them if given."""
        if f"{name}.offsets" not in self._head["arrays"]:
            return self.array(name, shape=(n,), finite=False)
        data, offsets, tags = (self.array(f"{name}.{part}", shape=(None,)) for part in LABEL_ARRAYS)
        found = decoded(data, offsets, tags)
        if isinstance(found, str):
            raise self.damaged(f"labels {name!r}: {found}")
        if n is not None and len(found) != n:
            raise self.damaged(f"there are {len(found):,} labels {name!r}, not {n:,}")
        kind = self.settings.get("text_types", {}).get(name)
        if kind is None:
            return found
        if not isinstance(kind, str) or not (width := re.fullmatch(r"[<|>=]U(\d{1,6})", kind)):
            raise self.damaged(f"{kind!r} is no type of text")
        if int(width[1]) < max((len(text) for text in found if isinstance(text, str)), default=0):
            raise self.damaged(f"labels {name!r} are longer than {kind!r}")
        if 4 * int(width[1]) * len(found) > max(TEXT_BYTES, 8 * (data.nbytes + offsets.nbytes)):
            return found  # one long label makes all of them long: as text of any length they take what they need
        return found.astype(np.dtype(kind).newbyteorder("="))

    def text(self, name: str) -> str:
        """A text of `Draft.text`."""
        try:
            return self.array(name, dtype="u1", shape=(None,)).tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged(f"{name!r} holds bytes that are no text") from None

    def file(self, name: str) -> Path:
        """Where a file of `Draft.file` stands, after checking that it is whole."""
        about = self._head.get("files", {}).get(name)
        path = self._place(name)
        if about is None or not path.is_file() or path.stat().st_size != about["bytes"]:
            raise self.damaged(f"file {name!r} is missing or cut short")
        return path

    def setting(self, name: str, kind: type | tuple[type, ...]) -> Json:
        """A setting, which must be of a type."""
        value = self.settings.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise self.damaged(f"setting {name!r} is {value!r}")
        return value

    def params(self, cls: type) -> dict[str, Any]:
        """Parameters of `Draft.params`, each known to ``cls``."""
        found = self.setting("params", dict)
        known = inspect.signature(cls).parameters
        unknown = [name for name in found if name not in known]
        if unknown:
            raise self.damaged(f"a {cls.__name__} has no parameter {examples(unknown)}")
        return dict(found)

    def verify(self) -> None:
        """Compare the checksums of ``model.json`` and of every array and file, also of the parts."""
        if not self._prefix and self._head.get("sha256") != seal(self._head):
            raise self.damaged(f"{FILE} is not what was saved: its checksum differs")
        arrays = {f"{name}.npy": about for name, about in self._head["arrays"].items()}
        for name, about in {**arrays, **self._head.get("files", {})}.items():
            hashed, shown = hashlib.sha256(), name.removesuffix(".npy")
            self._open_array(shown) if name in arrays else self.file(name)  # of the length that was promised
            try:
                with open_regular(self._place(name)) as file:
                    while block := file.read(1 << 20):
                        hashed.update(block)
            except OSError as error:
                raise self.damaged(f"array {shown!r} cannot be read ({error.strerror or error})") from None
            if hashed.hexdigest() != about["sha256"]:
                raise self.damaged(f"array {shown!r} is not what was saved: its checksum differs")
        for name in self.part_names:
            self.part(name).verify()

    def facts(self) -> dict[str, Any]:
        """What a reader wants to know before loading: kind, version, size, tree, numbers of balls, settings, origin."""
        own = self._head["arrays"]
        count = {name: self._open_array(name).size for name in own}
        found: dict[str, Any] = {"kind": self.kind, "version": self.version, "format": self.format}
        found["arrays"], found["bytes"] = self._size()
        if held := self.held_rows():
            found["holds"] = held
        balls = {name for name, about in own.items() if about.get("balls")}
        if balls:
            real = [n for n in own if "f" in own[n]["dtype"]]
            found["numbers of balls"] = sum(count[name] for name in balls)
            found["numbers of no ball"] = {name: count[name] for name in real if name not in balls and count[name]}
        if self.kind == "Tree":
            found["tree"] = str(_opened(self))
        else:
            found["settings"] = {name: value for name, value in self.settings.items() if name != "text_types"}
        if self.provenance:
            found["provenance"] = self.provenance
        for name in self.part_names:
            part = self.part(name)
            found |= {name: str(_opened(part))} if part.kind == "Tree" else {f"part {name}": part.facts()}
        return found

    def held_rows(self) -> str:
        """Whose data a model holds: how many of the rows it was fitted on, and whether their words can be read; empty for none.

        A classifier remembers its rows (`ROWS` has one number for each). Their texts are there as counts of words where the words
        are. One that was saved without them has sums.
        """
        if ROWS not in self.names:
            rows = self.settings.get("training_rows")
            return f"no training row, only sums of {rows:,}" if type(rows) is int else ""
        described = self.settings.get("described_rows", 0)
        count = len(self._open_array(ROWS)) - (described if type(described) is int else 0)
        texts = "yes, as counted words" if "features" in self.part_names else "no"
        return f"{count:,} training rows; their texts: {texts}"

    def _size(self) -> tuple[int, int]:
        bytes_ = sum(self._open_array(name).nbytes for name in self.names)
        bytes_ += sum(about["bytes"] for about in self._head.get("files", {}).values())
        parts = [self.part(name)._size() for name in self.part_names]
        return len(self.names) + sum(p[0] for p in parts), bytes_ + sum(p[1] for p in parts)


class Storable:
    """``save`` and ``load`` for a class that says in ``_to_store`` what it consists of and in ``_from_store`` how to rebuild it."""

    #: Raise it when old arrays change their meaning; adding arrays needs no new number.
    _store_format = 1
    #: The kind of model that a folder says it holds; the name of the class if empty.
    _stored_as = ""

    def save(self, path: FilePath, *, provenance: Mapping[str, Any] | None = None) -> Path:
        """Write the model as a folder of ``.npy`` arrays and ``model.json`` (no pickle), replacing an older one at the end.

        ``provenance`` is noted as it is: the data set, the command, the seed.
        """
        return self.draft(provenance).write(path)

    def draft(self, provenance: Mapping[str, Any] | None = None) -> Draft:
        """What `save` writes; `Draft.add` puts it into a larger model."""
        draft = Draft(self._kind(), format=self._store_format, provenance=provenance)
        self._to_store(draft)
        return draft

    @classmethod
    def load(cls, path: FilePath, *, verify: bool = True) -> Self:
        """Open a folder of `save`: everything is checked before use, big arrays are memory-mapped.

        ``verify=False`` does not compare checksums, which takes a second per gigabyte.
        """
        form = cls._store_format
        return steady(path, lambda: cls.from_stored(Stored.open(path, cls._kind(), format=form, verify=verify)))

    @classmethod
    def from_stored(cls, stored: Stored) -> Self:
        """The model of an opened folder or of a part of one."""
        stored.check_kind(cls._kind(), cls._store_format)
        try:
            return cls._from_store(stored)
        except DataError:
            raise
        except VpunnError as error:
            raise DataError(f"{str(stored.path)!r}: {error}") from None
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
            raise stored.damaged(f"it does not make a whole {cls._kind()} ({error})") from error

    @classmethod
    def _kind(cls) -> str:
        return cls._stored_as or cls.__name__

    def _to_store(self, draft: Draft) -> None:
        raise NotImplementedError

    @classmethod
    def _from_store(cls, stored: Stored) -> Self:
        raise NotImplementedError


def load(path: FilePath, *, verify: bool = True) -> HasTree:
    """Open any saved model, code or tree: the folder says what it is. ``verify=False`` does not compare checksums.

    >>> import tempfile
    >>> from vpunn import Tree
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Tree.from_parents([-1, 0, 0]).save(f"{folder}/small")
    ...     load(f"{folder}/small")
    Tree(3 nodes, 2 leaves, depth 1, branching ≤ 2)
    """

    return steady(path, lambda: _opened(Stored.open(path, verify=verify)))


def save(model: Any, path: FilePath) -> Path:
    """Write a model, code or tree to a folder that `load` opens: ``model.save(path)``. The path."""
    if not hasattr(model, "save"):
        raise VpunnError(f"a {type(model).__name__} is nothing that vpunn saves; models, codes and trees of vpunn are.")
    return Path(model.save(path))


def _opened(stored: Stored) -> HasTree:
    """The model of any kind that a folder, or a part of it, holds."""
    if stored.kind not in KINDS:
        raise DataError(f"{stored._where()} holds a {stored.kind}, which this version does not know; update vpunn.")
    # a model that knows which columns of a table it reads
    if stored.kind in OF_TABLES and "inputs" in stored.settings:
        return import_module("vpunn.tables.models").table_model_of(stored)
    return getattr(import_module(KINDS[stored.kind]), stored.kind).from_stored(stored)


def _read_array(file: BinaryIO, dtype: str, shape: tuple[int, ...]) -> AnyArray | None:
    """The array of an .npy file, large ones mapped copy-on-write; None if it or the file's length is not what was promised.

    Nothing is read, and no memory asked for, before both are known to agree.
    """
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape_there, fortran, kind = read_header(file)
    start, size = file.tell(), os.fstat(file.fileno()).st_size
    if kind.str != dtype or shape_there != shape or size - start != math.prod(shape) * kind.itemsize:
        return None
    order: Literal["C", "F"] = "F" if fortran else "C"
    if size > MAPPED:
        return np.asarray(np.memmap(file, kind, "c", start, shape, order))
    return np.frombuffer(bytearray(file.read()), kind).reshape(shape, order=order)


def _extremes(array: AnyArray) -> tuple[Any, Any]:
    """The least and the largest value; both are what is not a number, if there is one. A block at a time, read from memory once."""
    flat = array.reshape(-1)
    blocks = [flat[part] for part in slices(len(flat), BLOCK)]
    ends = np.array([(block.min(), block.max()) for block in blocks])
    return ends[:, 0].min().item(), ends[:, 1].max().item()
