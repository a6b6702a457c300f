"""Which number a table or figure carries in the paper.

The audit counts tables (T1…T22) and figures (F1…F19) in order of appearance; the paper numbers only those with a caption.
"""

from __future__ import annotations

from vpunn.errors import VpunnError

#: Counted by the audit, printed without a caption, hence without a number.
UNNUMBERED = frozenset({"T1", "T3", "T4", "T19", "T20", "T21", "T22", "F4"})


def _numbered(letter: str, word: str, last: int) -> dict[str, str]:
    keys = [f"{letter}{i}" for i in range(1, last + 1)]
    numbers = iter(range(1, last + 1))
    return {key: f"unnumbered {word.lower()}" if key in UNNUMBERED else f"{word} {next(numbers)}" for key in keys}


#: What the paper prints, by the audit's name.
PRINTED = {**_numbered("T", "Table", 22), **_numbered("F", "Figure", 19)}


def captions(*names: str) -> str:
    """The paper's numbers, with the audit's names behind them.

    >>> captions("T9", "T19")
    'Table 6 (T9), unnumbered table (T19)'
    >>> captions("T17"), captions("F17")
    ('Table 14 (T17)', 'Figure 16 (F17)')
    """
    unknown = [name for name in names if name not in PRINTED]
    if unknown:
        raise VpunnError(f"the paper has no {unknown[0]!r}; tables are T1 to T22, figures F1 to F19.")
    return ", ".join(f"{PRINTED[name]} ({name})" for name in names)
