"""Codes as text: how digits are written in each print mode, and how such text is read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from vpunn.errors import CodeError
from vpunn.padic import from_digits

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
    powers = ["", f"*{p}", *(f"*{p}^{k}" for k in range(2, len(digits)))]
    return " + ".join([f"{a}{power}" for a, power in zip(digits, powers, strict=False)]) or "0"


def read_code(text: Any, p: int, K: int) -> int:
    """The integer a text stands for; its form shows the mode. Digits ≥ p or beyond position K − 1 are errors.

    >>> [read_code(text, 5, 3) for text in ("111", "[1, 2, 4]", "...4|2|1", "1 + 2*5 + 4*5^2")]
    [111, 111, 111, 111]
    """
    if not isinstance(text, str):
        raise CodeError(f"parse reads text, got {text!r}; decode takes integers.")
    body = text.strip()
    if re.fullmatch(r"-?\d+", body):
        return _read_int(body)
    bars = re.fullmatch(r"(?:…|\.\.\.)\s*(\d+(?:\|\d+)*)", body)
    listed = re.fullmatch(r"\[((?:\d+(?:,\s*\d+)*)?)\]", body)
    if bars:
        terms = list(enumerate(reversed(bars[1].split("|"))))
    elif listed:
        terms = list(enumerate(re.findall(r"\d+", listed[1])))
    else:
        terms = _series_terms(body, p)
    row = np.zeros(K, np.int64)
    for k, written in terms:
        digit = int(written) if len(written) < 12 else p
        if digit >= p:
            raise CodeError(f"{_short(text)} has a digit {_short(written)}, but digits in base {p} are smaller than {p}.")
        if k < K:
            row[k] += digit
        elif digit:
            raise CodeError(f"{_short(text)} has a digit at position {k}, but codes of this tree have K = {K} digits.")
    return from_digits(row, p)


def _read_int(body: str) -> int:
    try:
        return int(body)
    except ValueError:  # Python's limit on decimal places
        raise CodeError(f"a number of {len(body):,} decimal places is too long to read; give its digits as [1, 2].") from None


def _series_terms(body: str, p: int) -> list[tuple[int, str]]:
    """(exponent, digit) of text such as ``1 + 2*5 + 3*5^2``."""
    found: dict[int, str] = {}
    for term in body.split("+"):
        match = re.fullmatch(r"(\d+)(?:\*(\d{1,12})(?:\^(\d{1,12}))?)?", term.strip())
        if match is None:
            raise CodeError(f"cannot read {_short(body)}; codes look like 7, [1, 2], …2|1 or 1 + 2*{p}.")
        digit, base, exponent = match.groups()
        if base and int(base) != p:
            raise CodeError(f"{_short(body)} is written in base {base}, but this code has p = {p}.")
        k = 0 if base is None else int(exponent or 1)
        if k in found:
            raise CodeError(f"{_short(body)} has two terms with exponent {k}.")
        found[k] = digit
    return list(found.items())


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:50] + "…")
