"""What the API answers: a status, bytes and their kind; and the error that becomes ``{"error": …, "where": …}``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._show import plain

if TYPE_CHECKING:
    from vpunn._types import Json


class ApiError(Exception):
    """A request that cannot be answered: the HTTP status, one sentence, and the part of the request it is about."""

    def __init__(self, status: int, sentence: str, where: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.where = where
        self.headers = headers or {}


@dataclass(frozen=True)
class Reply:
    """An answer, whatever carries it: HTTP or a notebook's channel. ``forever`` says that its URL never changes meaning."""

    body: bytes
    kind: str = "application/json"
    status: int = 200
    forever: bool = False
    headers: dict[str, str] = field(default_factory=dict)


def json_reply(value: Json, status: int = 200, **options: Any) -> Reply:
    """A value as JSON; numbers that JSON cannot write (NaN, infinities) become null."""
    try:
        text = json.dumps(value, default=plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), default=plain, ensure_ascii=False, separators=(",", ":"))
    return Reply(text.encode("utf-8", "replace"), status=status, **options)


def error_reply(error: ApiError) -> Reply:
    """The error document."""
    body = {"error": str(error), "where": error.where}
    return json_reply(body, error.status, headers=error.headers)


def _finite(value: Json) -> Json:
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, np.generic | np.ndarray):
        return _finite(plain(value))
    return None if isinstance(value, float) and not np.isfinite(value) else value
