"""What a request asks: its query parameters and its body, read one by one, each refused by name where it cannot be used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vpunn.files import keys_once
from vpunn.web.replies import ApiError
from vpunn.web.subject import clip

#: Ids that one list may name.
MAX_IDS = 2000


class Wanted:
    """Whether somebody still waits for an answer; work in pieces looks between them."""

    no_more = False

    def check(self) -> None:
        """End the work if nobody waits for it."""
        if self.no_more:
            raise ApiError(499, "the client has gone.", "path")


@dataclass(frozen=True)
class Asked:
    """The query and the body of one request.

    >>> asked = Asked({"count": "20", "sort": "size"})
    >>> asked.number("count", 50, 1, 500), asked.number("start", 0, 0, 9), asked.choice("sort", ("order", "size"))
    (20, 0, 'size')
    """

    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    wanted: Wanted = field(default_factory=Wanted)

    def get(self, name: str) -> str | None:
        """A parameter, or None."""
        return self.query.get(name)

    def text(self, name: str, *, empty: bool = False) -> str:
        """A parameter that must be there."""
        value = self.query.get(name)
        if value is None or not (value or empty):
            raise ApiError(400, f"the parameter {name}= is missing.", name)
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
            raise ApiError(400, f"{name} must be a whole number from {least} to {most}, got {clip(text)!r}.", name)
        return int(text)

    def choice(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of a few words, the first of them by default."""
        value = self.query.get(name, allowed[0] if default is None else default)
        if value not in allowed:
            raise ApiError(400, f"{name}={clip(value)!r} is unknown; choose one of {', '.join(allowed)}.", name)
        return value

    def ids(self, name: str, n: int) -> list[int]:
        """``0-3,7`` as [0, 1, 2, 3, 7], every id below ``n`` and not too many of them."""
        found: list[int] = []
        for part in self.text(name).split(","):
            ends = part.split("-")
            if len(ends) > 2 or not all(end.isascii() and end.isdigit() and len(end) < 11 for end in ends):
                raise ApiError(400, f"ids are numbers and ranges such as 0-9,17; got {clip(part)!r}.", name)
            first, last = int(ends[0]), int(ends[-1])
            if not first <= last < n:
                raise ApiError(400, f"ids must lie between 0 and {n - 1}, the smaller first; got {clip(part)!r}.", name)
            if len(found) + last - first >= MAX_IDS:
                raise ApiError(400, f"at most {MAX_IDS:,} labels are given at once; ask again for the rest.", name)
            found.extend(range(first, last + 1))
        return found

    def json(self) -> dict[str, Any]:
        """The body as a JSON object, or an error that says why not."""
        try:
            value = json.loads(self.body, object_pairs_hook=keys_once)
        except RecursionError:
            raise ApiError(400, "the body is nested too deeply to be a question.", "body") from None
        except (ValueError, UnicodeDecodeError) as error:
            raise ApiError(400, f"the body is not JSON: {clip(str(error), 200)}.", "body") from None
        if not isinstance(value, dict):
            raise ApiError(422, f"the body must be a JSON object, got {type(value).__name__}.", "body")
        return value
