"""Labels of any kind as three plain arrays: UTF-8 bytes, where each label starts, and whether it is text or JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vpunn._arrays import object_array
from vpunn.errors import DataError

if TYPE_CHECKING:
    from vpunn._types import Json, Label


AnyArray = npt.NDArray[Any]

_TEXT, _JSON = 0, 1


def encoded(labels: AnyArray, name: str) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Bytes, offsets and tags of labels: text as itself; numbers, booleans, None and tuples of all these as JSON."""
    texts: list[bytes] = []
    tags = np.full(len(labels), _TEXT, np.uint8)
    for at, value in enumerate(labels.tolist()):
        if isinstance(value, str):
            texts.append(value.encode("utf-8", "surrogatepass"))
            continue
        tags[at] = _JSON
        try:
            texts.append(json.dumps(_checked(value)).encode())
        except (TypeError, ValueError, RecursionError):
            raise DataError(
                f"{name!r} holds {value!r}; text, numbers, booleans, None and tuples of them can be saved."
            ) from None
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return np.frombuffer(b"".join(texts), np.uint8), offsets, tags


def decoded(data: AnyArray, offsets: AnyArray, tags: AnyArray) -> AnyArray | str:
    """The labels of `encoded` as an object array, or what is wrong with the arrays, as text."""
    if [data.dtype, offsets.dtype, tags.dtype] != [np.dtype(kind) for kind in ("u1", "i8", "u1")]:
        return "their arrays have other types"
    if len(offsets) != len(tags) + 1 or offsets[0] != 0 or offsets[-1] != len(data) or (np.diff(offsets) < 0).any():
        return "their offsets do not span their text"
    if (tags > _JSON).any():
        return f"there is no tag {int(tags.max())}"
    raw = data.tobytes()
    try:
        if raw.isascii():  # a letter is a byte
            text = raw.decode("ascii")
            found = object_array([text[a:b] for a, b in pairwise(offsets.tolist())])
        else:
            found = object_array([raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets.tolist())])
        for at in np.flatnonzero(tags == _JSON).tolist():
            found[at] = _as_tuples(json.loads(found[at]))
    except (ValueError, RecursionError):
        return "some are no text"
    return found


def _checked(value: Label) -> Label:
    """A label as JSON gives it back; lists and dicts are no labels."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return [_checked(part) for part in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise TypeError


def _as_tuples(value: Json) -> Label:
    return tuple(_as_tuples(part) for part in value) if isinstance(value, list) else value
