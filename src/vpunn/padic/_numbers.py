"""What counts as an integer here, and sentences about what does not."""

from __future__ import annotations

from numbers import Number
from typing import Any, TypeGuard

import numpy as np

from vpunn._types import Numbers
from vpunn.errors import CodeError, examples

#: Primes stay below this, so that a digit fits 32 bits and trial division takes a millisecond.
MAX_PRIME = 2**31


def check_base(p: Any) -> int:
    """p as a Python int if it can be the base of an expansion (2 … 2³¹; digits do not need a prime)."""
    if not is_int(p) or not 2 <= p <= MAX_PRIME:
        raise CodeError(f"the base p must be a whole number from 2 to 2**31, got {p!r}.")
    return int(p)


def as_numbers(values: Numbers, what: str) -> np.ndarray:
    """An array of numbers of any kind, exact ones included; ``what`` begins the sentence that refuses others."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise CodeError(f"{what}, got rows of different lengths.") from None
    if array.dtype.kind not in "biufcO":
        raise CodeError(f"{what}, got {examples(array.reshape(-1))}.")
    if array.dtype == object:
        wrong = [one for one in array.reshape(-1).tolist() if not isinstance(one, Number)]
        if wrong:
            raise CodeError(f"{what}, got {examples(wrong)}.")
    return array


def as_integers(x: Numbers) -> tuple[np.ndarray, bool]:
    """Exact integers as an object array, and whether there was only one; floats and booleans are refused."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "iu":
        return x.astype(object), x.ndim == 0
    # NumPy would read mixed lists such as [2**63, -1] as floats, so lists become objects before it looks at them.
    array = np.array(list(x) if isinstance(x, range) else x, dtype=object)
    wrong = [one for one in array.reshape(-1).tolist() if type(one) is not int and not is_int(one)]
    if wrong:
        raise CodeError(f"exact integers are needed, got {examples(wrong)}.")
    if any(type(one) is not int for one in array.reshape(-1).tolist()):
        array = np.frompyfunc(int, 1, 1)(array) if array.ndim else np.array(int(array.item()), object)
    return array, array.ndim == 0


def is_int(x: object) -> TypeGuard[int]:
    return isinstance(x, int | np.integer) and not isinstance(x, bool | np.bool_)


def check_integer(n: Any) -> int:
    """One exact integer as a Python int."""
    if not is_int(n):
        raise CodeError(f"one whole number is needed, got {n!r}.")
    return int(n)


def check_level(k: Any) -> int:
    if not is_int(k) or k < 0:
        raise CodeError(f"a number of digits must be 0 or more, got {k!r}.")
    return int(k)


def show_integer(x: int) -> str:
    """An integer for a message; a long one is described (Python refuses to print more than 4,300 places)."""
    return str(x) if x.bit_length() <= 256 else f"(a number of {x.bit_length():,} bits)"


def refuse(bad: Any, values: np.ndarray, sentence: str) -> None:
    wrong = values[np.asarray(bad, bool)]
    if len(wrong):
        more = f" and {len(wrong) - 5:,} more" if len(wrong) > 5 else ""
        raise CodeError(sentence.format(", ".join(show_integer(x) for x in wrong[:5]) + more))
