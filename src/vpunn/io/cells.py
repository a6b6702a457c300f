"""Cells of text columns as numbers and truth values: what a column holds is told from all of its cells, read in any blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Cells that hold nothing, unless they stand in quotes (the words that pandas knows).
MISSING = frozenset(
    ["", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan"]
    + [f"{sign}1.#{word}" for sign in ("", "-") for word in ("IND", "QNAN")]
)
#: 3,5 and 1.234,50; a point that no comma follows may be a decimal point, so 1.234 is none.
COMMA_NUMBER = r"[-+]?(?:[0-9]+(?:,[0-9]+)?(?:[eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+)"

#: As Python prints whole numbers: no 007, no 1e3.
PLAIN_WHOLE = "^(0|-?[1-9][0-9]{0,18})$"
#: Whole numbers that are names: 007; and those that doubles do not hold, beside others with a point.
_NAME = "^[-+]?0[0-9a-zA-Z]+$"
_LONG = "^[-+]?[0-9]{19,}$"
_TRUTH = "^(true|True|TRUE|false|False|FALSE)$"
#: 1,234 beside nothing but such, and whole numbers, could mean thousands.
_MAYBE_THOUSANDS = r"^([-+]?[1-9][0-9]{0,2},[0-9]{3}|[-+]?[0-9]+)$"


class Column:
    """What a column of text holds, told block by block: ``whole``, ``number``, ``comma`` (3,5), ``truth``, ``text`` or ``empty``.

    >>> import pyarrow as pa
    >>> column = Column()
    >>> for block in (["1", "2"], ["3.5", None]):
    ...     column.see(pa.chunked_array([block]))
    >>> column.kind, column.read(pa.chunked_array([["1", "NA"]])).to_pylist()
    ('number', [1.0, None])
    """

    def __init__(self, commas: bool = False) -> None:
        self._may_be = {"whole", "number", "truth"} | ({"comma"} if commas else set())
        self._seen = self.points = self._certain = False

    def see(self, cells: pa.ChunkedArray) -> None:
        """Look at further cells."""
        present = cells.drop_null() if self._may_be else cells.slice(0, 0)
        if len(present) and not _casts(present, "float64"):
            present = _bare(present).drop_null()
        if not len(present):
            return
        self._seen = True
        self._may_be &= _kinds_of(present, self._may_be)
        if "comma" in self._may_be:
            self._certain = self._certain or not _all(present, _MAYBE_THOUSANDS)
            self.points = self.points or _any(present, r"\.")

    @property
    def kind(self) -> str:
        """What all cells seen so far can be."""
        if not self._seen:
            return "empty"
        kind = next((kind for kind in ("whole", "number", "comma", "truth") if kind in self._may_be), "text")
        return "text" if kind == "comma" and not self._certain else kind

    def read(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Cells in the type of the whole column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.kind
        if kind == "text":
            return cells
        try:  # as most are: without blanks, quoted words for nothing or a plus
            if kind in ("whole", "number"):
                return cells.cast(pa.int64() if kind == "whole" else pa.float64())
        except pa.ArrowInvalid:
            pass
        bare = _bare(cells)
        if kind == "whole":
            return _without_plus(bare).cast(pa.int64())
        if kind == "truth":
            return pc.starts_with(pc.utf8_lower(bare), "t")
        if kind == "comma":
            plain = pc.replace_substring(bare, ".", "")
            bare = pc.replace_substring(plain, ",", ".")
        return _without_plus(bare).cast(pa.float64())


def seen(blocks: Iterable[pa.Table], names: Sequence[str], commas: bool) -> dict[str, Column]:
    """What the named columns hold, told from all blocks."""
    columns = {name: Column(commas) for name in names}
    for block in blocks:
        for name, column in columns.items():
            column.see(block[name])
    return columns


def in_types(block: pa.Table, columns: Mapping[str, Column]) -> pa.Table:
    """A block of text with the columns that were looked at in their types, all others as text; an empty text is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = {}
    for name in block.column_names:
        cells = columns[name].read(block[name]) if name in columns else block[name]
        if pa.types.is_string(cells.type) and pc.min(pc.binary_length(cells)).as_py() == 0:
            cells = pc.if_else(pc.equal(cells, ""), pa.scalar(None, cells.type), cells)
        made[name] = cells
    return pa.table(made)


def _bare(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells without blanks around them; null where nothing is left, or a word for nothing, quoted or not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bare = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(bare, pa.array(sorted(MISSING), bare.type)), pa.scalar(None, bare.type), bare)


def _kinds_of(present: pa.ChunkedArray, asked: set[str]) -> set[str]:
    """Which of the kinds asked about all of some cells can be."""
    found = set()
    if asked & {"whole", "number"} and _casts(present, "float64") and not _any(present, _NAME):
        found |= {"whole"} if "whole" in asked and _casts(present, "int64") else set()
        found |= {"number"} if not _has_long(present) else set()
    if "comma" in asked and _all(present, f"^{COMMA_NUMBER}$"):
        found.add("comma")
    if not found and "truth" in asked and _all(present, _TRUTH):
        found.add("truth")
    return found


def _has_long(cells: pa.ChunkedArray) -> bool:
    """Whether some whole number has more digits than doubles hold."""
    import pyarrow.compute as pc

    return pc.max(pc.binary_length(cells)).as_py() >= 19 and _any(cells, _LONG)


def _without_plus(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(cells, "+"), min_count=0).as_py():
        return cells
    return pc.replace_substring_regex(cells, r"^\+", "")


def _all(cells: pa.ChunkedArray, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.match_substring_regex(cells, pattern), min_count=0).as_py())


def _any(cells: pa.ChunkedArray, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(cells, pattern), min_count=0).as_py())


def _casts(cells: pa.ChunkedArray, kind: str) -> bool:
    """Whether all of them are written as such; the first few are tried alone, since Arrow words an error for every cell."""
    import pyarrow as pa

    try:
        for some in (cells.slice(0, 100), cells):
            _without_plus(some).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
