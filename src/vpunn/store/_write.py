"""What a model is going to be on disk, and how it is written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vpunn._arrays import object_array
from vpunn.errors import DataError
from vpunn.store._head import FILE, FILE_NAME, NAME, Hashed, seal
from vpunn.store._labels import encoded
from vpunn.store._swap import swapped_in

if TYPE_CHECKING:
    from vpunn._types import FilePath, FittedModel, Json, Labels, Numbers
    from vpunn.store._read import Storable


AnyArray = npt.NDArray[Any]

#: How ``model.json`` itself is laid out; the format number of a kind counts what its arrays mean.
LAYOUT = 1
#: The arrays of labels that are not numbers.
LABEL_ARRAYS = ("bytes", "offsets", "tags")
#: Kinds of dtypes that an .npy file holds as they are.
PLAIN = "biufmM"


class Draft:
    """What a model is going to be on disk: settings, arrays and parts (models inside it). Nothing is written before `write`.

    ``balls=True`` marks an array in which each number belongs to one ball; ``vpunn info`` counts them, and names the other
    real numbers (whole ones are labels, pointers and counts).

    >>> from vpunn.store import Draft, Stored
    >>> draft = Draft("Example", {"seed": 7})
    >>> draft.array("coef", np.arange(3.0), balls=True)
    >>> draft.labels("classes", ["owl", 3, ("a", 1), None])
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored = Stored.open(draft.write(f"{folder}/model"), "Example", verify=True)
    ...     stored.array("coef", dtype="f8", shape=(3,)), stored.labels("classes").tolist(), stored.setting("seed", int)
    (array([0., 1., 2.]), ['owl', 3, ('a', 1), None], 7)
    """

    def __init__(
        self,
        kind: str,
        settings: Mapping[str, Any] | None = None,
        *,
        format: int = 1,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind, self.format = kind, format
        self.settings = dict(settings or {})
        self.provenance = dict(provenance or {})
        self.arrays: dict[str, AnyArray] = {}
        self.parts: dict[str, Draft] = {}
        self.files: dict[str, bytes] = {}
        self.of_balls: set[str] = set()

    def array(self, name: str, values: Numbers, *, balls: bool = False) -> None:
        """Add numbers, booleans or dates."""
        array = np.asarray(values)
        if not NAME.fullmatch(name) or name in self.arrays:
            raise DataError(f"{name!r} cannot name an array of a {self.kind}: it is taken, or not letters and digits.")
        if array.dtype.kind not in PLAIN:
            raise DataError(f"array {name!r} of a {self.kind} holds {array.dtype}, which has no plain .npy form.")
        self.arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        if balls:
            self.of_balls.add(name)

    def labels(self, name: str, values: Labels) -> None:
        """Add labels of any kind: numbers as they are; text, None and tuples as UTF-8 bytes, offsets and a tag each."""
        array = values if isinstance(values, np.ndarray) else object_array(values)
        if array.dtype.kind in PLAIN:
            self.array(name, array)
            return
        for part, values in zip(LABEL_ARRAYS, encoded(array, name), strict=True):
            self.array(f"{name}.{part}", values)
        if array.dtype.kind != "O":
            self.settings.setdefault("text_types", {})[name] = array.dtype.str

    def text(self, name: str, text: str) -> None:
        """Add one text, such as another library's own description of its model."""
        self.array(name, np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8))

    def file(self, name: str, data: bytes) -> None:
        """Add a file in another library's own plain format, such as ``weights.safetensors``."""
        if not FILE_NAME.fullmatch(name) or name in self.files:
            raise DataError(f"{name!r} cannot name a file of a {self.kind}: it is taken, or not name.safetensors.")
        self.files[name] = data

    def add(self, name: str, thing: Storable) -> None:
        """Add anything that can be saved, such as a tree, a code or another model; `Stored.get` gives it back."""
        self.part(name, thing.draft())

    def part(self, name: str, draft: Draft) -> None:
        """Add a draft inside this one; its arrays stand in the same folder under ``name``."""
        if not NAME.fullmatch(name) or name in self.parts:
            raise DataError(f"{name!r} cannot name a part of a {self.kind}: it is taken, or not letters and digits.")
        self.parts[name] = draft

    def params(self, estimator: FittedModel, skip: Sequence[str] = ("tree",)) -> None:
        """Add the parameters of an estimator. Generators and splitters (``random_state``, ``cv``) serve fitting only and
        have no plain form: they are left out, and named in ``params_left_out``."""
        found = {name: value for name, value in estimator.get_params(deep=False).items() if name not in skip}
        gone = [n for n in ("random_state", "cv") if not isinstance(found.get(n), int | np.integer | None)]
        if gone:
            self.settings["params_left_out"] = gone
        self.settings["params"] = {name: value for name, value in found.items() if name not in gone}

    def write(self, path: FilePath) -> Path:
        """Write the folder beside ``path`` and swap it in. A folder there that is no model is refused, never deleted."""
        self._json({})  # settings that cannot be written are refused before anything is
        with swapped_in(path) as folder:
            files: dict[str, dict[str, str]] = {}
            self._write_arrays(folder, "", files)
            (folder / FILE).write_bytes(self._json(files))
        return Path(path)

    def _json(self, files: Mapping[str, Mapping[str, str]]) -> bytes:
        try:
            text = json.dumps(self._head(files), ensure_ascii=False, allow_nan=False, indent=1, default=_plain)
        except ValueError as error:
            raise DataError(f"the settings of a {self.kind} cannot be saved: {error}") from None
        head = json.loads(text)
        head["sha256"] = seal(head)
        return json.dumps(head, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass") + b"\n"

    def _write_arrays(self, folder: Path, prefix: str, files: dict[str, dict[str, str]]) -> None:
        sums = files[prefix] = {}
        for name, array in self.arrays.items():
            with open(folder / f"{prefix}{name}.npy", "xb") as file:
                hashed = Hashed(file)
                np.lib.format.write_array(hashed, array, allow_pickle=False)
            sums[name] = hashed.sum.hexdigest()
        for name, data in self.files.items():
            (folder / f"{prefix}{name}").write_bytes(data)
        for name, draft in self.parts.items():
            draft._write_arrays(folder, f"{prefix}{name}.", files)

    def _head(self, files: Mapping[str, Mapping[str, str]], prefix: str = "") -> dict[str, Any]:
        head: dict[str, Any] = {"kind": self.kind, "format": self.format}
        if not prefix:
            from vpunn import __version__

            head |= {"layout": LAYOUT, "version": __version__}
            head["provenance"] = {"created_with": f"vpunn {__version__}, numpy {np.__version__}", **self.provenance}
        head["settings"] = self.settings
        sums = files.get(prefix, {})
        head["arrays"] = {
            name: {
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "sha256": sums.get(name, ""),
                **({"balls": True} if name in self.of_balls else {}),
            }
            for name, array in self.arrays.items()
        }
        if self.files:
            sha = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
            head["files"] = {name: {"bytes": len(data), "sha256": sha[name]} for name, data in self.files.items()}
        if self.parts:
            head["parts"] = {name: part._head(files, f"{prefix}{name}.") for name, part in self.parts.items()}
        return head


def _plain(value: Json) -> Json:
    """NumPy's scalars and arrays as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return value.tolist()
    raise DataError(f"a setting holds {value!r}, which cannot be saved; use text, numbers, lists or None.")
