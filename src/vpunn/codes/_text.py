"""Codes as text: how digits are written in each print mode, and how such text is read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from vpunn.errors import CodeError

#: Print modes of `PadicCode.format`.
MODES = ("int", "digits", "bars", "series", "path")


def write_int(code: int) -> str:
    """A code in decimal, or one sentence instead of Python's own error about its length."""
    try:
        return str(code)
    except ValueError:
        raise CodeError(
            f"a code of {code.bit_length():,} bits has too many decimal places to print; use mode 'digits' or 'bars'."
        ) from None


def write_digits(digits: Sequence[int], p: int, mode: str) -> str:
    """Digits, root digit first, in one of the three modes that show them.

    >>> [write_digits([1, 2, 4], 5, mode) for mode in ("digits", "bars", "series")]
    ['[1, 2, 4]', '…4|2|1', '1 + 2*5 + 4*5^2']
    """
    if mode == "digits":
        return str(list(digits))
    if mode == "bars":
        return "…" + ("|".join(map(str, reversed(digits))) or "0")
    return " + ".join([f"{a}{power}" for a, power in zip(digits, _powers(p, len(digits)), strict=True)]) or "0"


@lru_cache(maxsize=64)
def _powers(p: int, count: int) -> list[str]:
    return ["", f"*{p}", *(f"*{p}^{k}" for k in range(2, count))][:count]


def read_code(text: Any, p: int, K: int, *, strict: bool = True) -> int | list[int]:
    """What a text says, told apart by its form: an integer, or digits with the root digit first.

    Digits ≥ p are errors, and so are digits other than 0 from position K on, unless ``strict`` is off.

    >>> [read_code(text, 5, 3) for text in ("111", "[1, 2, 4]", "...4|2|1", "1 + 2*5 + 4*5^2")]
    [111, [1, 2, 4], [1, 2, 4], [1, 2, 4]]
    """
    if not isinstance(text, str):
        raise CodeError(f"parse reads text, got {text!r}; decode takes integers.")
    body = text.strip()
    if _INT.fullmatch(body):
        return _read_int(body)
    if match := _BARS.fullmatch(body):
        digits = [_read_digit(a, p, text) for a in reversed(match[1].split("|"))]
    elif match := _LIST.fullmatch(body):
        digits = [_read_digit(a, p, text) for a in match[1].split(",")] if match[1] else []
    else:
        digits = _read_series(body, p, K)
    if strict and any(digits[K:]):
        raise CodeError(f"{_short(text)} has more digits than codes of this tree, which have K = {K}.")
    return digits[:K]


_INT = re.compile(r"-?\d+")
_BARS = re.compile(r"(?:…|\.\.\.)\s*(\d+(?:\|\d+)*)")
_LIST = re.compile(r"\[((?:\s*\d+(?:,\s*\d+)*)?)\s*\]")  # one way only to read a run of blanks
_TERM = re.compile(r"(\d+)(?:\*(\d{1,12})(?:\^(\d{1,12}))?)?")


def _read_digit(written: str, p: int, text: str) -> int:
    written = written.strip()
    digit = int(written) if len(written) < 20 else p
    if digit >= p:
        raise CodeError(f"{_short(text)} has a digit {_short(written)}, but digits in base {p} are smaller than {p}.")
    return digit


def _read_int(body: str) -> int:
    try:
        return int(body)
    except ValueError:  # Python's limit on decimal places
        raise CodeError(
            f"a number of {len(body):,} decimal places is too long to read; give its digits as [1, 2]."
        ) from None


def _read_series(body: str, p: int, K: int) -> list[int]:
    """Digits of text such as ``1 + 2*5 + 3*5^2``; terms may come in any order and zeros may be left out."""
    found: dict[int, int] = {}
    for term in body.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise CodeError(f"cannot read {_short(body)}; codes look like 7, [1, 2], …2|1 or 1 + 2*{p}.")
        digit, base, exponent = match.groups()
        if base and int(base) != p:
            raise CodeError(f"{_short(body)} is written in base {base}, but this code has p = {p}.")
        k = 0 if base is None else int(exponent or 1)
        if k in found:
            raise CodeError(f"{_short(body)} has two terms with exponent {k}.")
        found[k] = _read_digit(digit, p, body)
    # One place past K is enough to say that a digit stands too far out, however large its exponent.
    digits = [0] * (K + 1)
    for k, digit in found.items():
        digits[min(k, K)] |= digit
    return digits


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:50] + "…")
