"""One family of user errors, and the helper that quotes offending values.

A message is one sentence: what was wrong, the value (at most five examples and a count), where, and the fix.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from numbers import Integral
from typing import Any


class VpunnError(ValueError):
    """Something the caller passed, or a file they named, cannot be used as it is."""


class TreeError(VpunnError):
    """The input does not describe a rooted tree, or a node asked for is not in it."""


class CodeError(VpunnError):
    """An integer or a digit string is not the code of any node."""


class DataError(VpunnError):
    """A data set or a file could not be found, fetched, verified or read."""


class CodeChangeWarning(UserWarning):
    """An operation made the prime grow, so integer codes written down before no longer apply."""


class DataWarning(UserWarning):
    """A file was read by a rule that may not be what its author meant; the sentence says which."""


def examples(values: Iterable[object], total: int | None = None, limit: int = 5) -> str:
    """Quote up to ``limit`` values and say how many more there are.

    >>> examples(["a", "b"])
    "'a', 'b'"
    >>> examples(range(1000))
    '0, 1, 2, 3, 4 and 995 more'
    """
    values = values if hasattr(values, "__len__") else list(values)
    count = len(values) if total is None else total  # type: ignore[arg-type]
    shown = [v.item() if hasattr(v, "item") else v for v in islice(iter(values), limit)]
    text = ", ".join(map(_short, shown))
    return text if count <= len(shown) else f"{text} and {count - len(shown):,} more"


def repeated(values: Iterable[Any]) -> list[Any]:
    """What stands there more than once, each once, in order of first appearance.

    >>> repeated(["a", "b", "a", "c", "b"])
    ['a', 'b']
    """
    return [value for value, count in Counter(values).items() if count > 1]


#: How whoever called words advice: from the name of an option and its value to a phrase, "" if it has no such option, or None for
#: the phrase of Python.
Voice = Callable[[str, object], str | None]
_voice: ContextVar[Voice] = ContextVar("voice", default=lambda name, value: None)


def advice(name: str, value: object, phrase: str = "", note: str = "") -> str:
    """What to do about it, in the words of whoever called: by default the argument of a function in Python, or ``phrase``.

    ``note`` follows the phrase, if there is one.

    >>> advice("encoding", "latin-1"), advice("strict", False, "decode(…, strict=False) gives")
    ("pass encoding='latin-1'", 'decode(…, strict=False) gives')
    >>> with speaking(lambda name, value: f"give --{name} {value}"):
    ...     advice("encoding", "latin-1", note="(or another)")
    'give --encoding latin-1 (or another)'
    """
    said = _voice.get()(name, value)
    said = (phrase or f"pass {name}={_short(value)}") if said is None else said
    return f"{said} {note}" if said and note else said


def either(*ways: str) -> str:
    """Ways out of which one will do; those that are empty are none.

    >>> either("", "save it as UTF-8"), either("a", "b")
    ('save it as UTF-8', 'a, or b')
    """
    return ", or ".join(way for way in ways if way)


@contextmanager
def speaking(voice: Voice) -> Iterator[None]:
    """Advice is worded by ``voice`` inside the block."""
    token = _voice.set(voice)
    try:
        yield
    finally:
        _voice.reset(token)


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count and what is counted, in words for one and for several (by default with an s).

    >>> counted(1, "row"), counted(1200, "row"), counted(2, "row has", "rows have")
    ('1 row', '1,200 rows', '2 rows have')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def rows_have(count: int, total: int, where: object) -> str:
    """The beginning of a sentence about some rows of a table.

    >>> rows_have(1, 9, "a.csv"), rows_have(1200, 5000, "a.csv")
    ("1 of 9 rows of 'a.csv' has", "1,200 of 5,000 rows of 'a.csv' have")
    """
    return f"{count:,} of {counted(total, 'row')} of {str(where)!r} {'has' if count == 1 else 'have'}"


def first_words(error: Exception) -> str:
    """What another library complains of, for the end of a sentence of ours: its first line, cut if it is long.

    >>> first_words(ValueError("no such file.\\nTry another."))
    'no such file'
    """
    said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return said if len(said) <= 200 else f"{said[:200]}…"


def _short(value: object, limit: int = 200) -> str:
    """A value as Python writes it, cut if it is long: a message is a sentence, whatever a file holds."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        return (
            f"a number of {abs(value).bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
        )
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse a named option that does not exist, listing those that do.

    >>> check_choice("gauge", "vdp", ("vdp", "mean"))
    """
    names = tuple(allowed)
    if value not in names:
        raise VpunnError(f"{name}={value!r} is unknown; choose one of {', '.join(names)}.")


def check_whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least ``least``, as a Python int; booleans are none.

    >>> check_whole("k", 5)
    5
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise VpunnError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def refuse_lazy(*frames: Any) -> None:
    """Refuse frames of dask, which NumPy would load into memory without a word."""
    for frame in frames:
        if type(frame).__module__.partition(".")[0] in ("dask", "dask_expr"):
            raise VpunnError(
                f"a dask {type(frame).__name__} is not loaded into memory silently; vpunn.scale works on it part by part, or call "
                ".compute() on it first."
            )
