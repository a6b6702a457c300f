"""``model.json``: what makes a folder a model, which files of the folder are the model's, and their checksums."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vpunn.errors import DataError
from vpunn.files import open_regular

if TYPE_CHECKING:
    from vpunn._types import Json


#: The file that makes a folder a model.
FILE = "model.json"
#: What arrays and parts, and files of other libraries, may be called.
NAME, FILE_NAME = re.compile(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*"), re.compile(r"[A-Za-z0-9_]+\.safetensors")


def read_head(folder: Path) -> Any:
    """What ``model.json`` holds, unchecked; a `DataError` if it cannot be read or is no JSON."""
    place = folder / FILE
    try:
        with open_regular(place) as file:
            text = file.read().decode("utf-8", "surrogatepass")
    except OSError as error:
        raise DataError(f"cannot read {str(place)!r}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        text = ""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{str(place)!r} is not valid JSON; the model is damaged, save it again.") from None


def files_of(folder: Path) -> set[str] | None:
    """The names of the files that a model folder's own ``model.json`` lists, itself among them; None if it is not ours.

    Ours is what has the checksum of its own content: many libraries write a file of that name.
    """
    try:
        head = read_head(folder)
    except DataError:
        return None
    if not is_head(head) or head.get("sha256") != seal(head):
        return None
    return {FILE, *_listed(head, "")}


def _listed(head: Mapping[str, Any], prefix: str) -> set[str]:
    found = {f"{prefix}{name}.npy" for name in head["arrays"]} | {f"{prefix}{name}" for name in head.get("files", {})}
    for name, part in head.get("parts", {}).items():
        found |= _listed(part, f"{prefix}{name}.")
    return found


def is_head(head: Json) -> bool:
    """Whether a head, and those of its parts, has everything that `Stored` looks up without asking."""
    try:
        return isinstance(head, dict) and _is_head(head)
    except RecursionError:  # models in models, hundreds deep
        return False


def _is_head(head: Mapping[str, Any]) -> bool:
    return (
        isinstance(head.get("kind"), str)
        and type(head.get("format")) is int
        and isinstance(head.get("settings"), dict)
        and isinstance(head.get("provenance", {}), dict)
        and isinstance(head.get("version", ""), str)
        and isinstance(head["settings"].get("text_types", {}), dict)
        and isinstance(head.get("arrays"), dict)
        and all(NAME.fullmatch(name) and _is_array_head(about) for name, about in head["arrays"].items())
        and isinstance(head.get("files", {}), dict)
        and all(FILE_NAME.fullmatch(name) and isinstance(v, dict) for name, v in head.get("files", {}).items())
        and all(type(about.get("bytes")) is int for about in head.get("files", {}).values())
        and isinstance(head.get("parts", {}), dict)
        and all(
            NAME.fullmatch(name) and isinstance(part, dict) and _is_head(part)
            for name, part in head.get("parts", {}).items()
        )
    )


def _is_array_head(about: Json) -> bool:
    """A plain dtype, a shape of whole numbers and a checksum."""
    return (
        isinstance(about, dict)
        and re.fullmatch(r"[<|][biufmM]\d{1,2}(\[\w+\])?", str(about.get("dtype"))) is not None
        and isinstance(about.get("shape"), list)
        and all(type(n) is int and n >= 0 for n in about["shape"])
        and isinstance(about.get("sha256"), str)
    )


def seal(head: Mapping[str, Any]) -> str:
    """The checksum of everything else in ``model.json``, whatever its layout and order."""
    plain = json.dumps({name: value for name, value in head.items() if name != "sha256"}, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


class Hashed:
    """A file that sums up what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.sum = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self.file.write(data)
