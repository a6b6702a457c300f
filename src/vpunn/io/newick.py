"""Newick: ``(owl:1.5,(robin,wren)songbird)bird;``"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from vpunn._arrays import object_array
from vpunn.errors import TreeError
from vpunn.files import Source
from vpunn.tree import Tree
from vpunn.tree.convert import check_labels, say_dropped
from vpunn.tree.sweeps import depth_first
from vpunn.tree.unnamed import unnamed, with_names

#: A whole length and a comma, which end right before a name; and bytes that are looked at for them.
_WHOLE, LONGEST_WHOLE = re.compile(rb":\s*([0-9]+),$"), 30


def read_newick(source: Source, *, numbers: bool = False, encoding: str = "utf-8") -> Tree:
    """The one Newick tree of a file (several are for `nexus.read_nexus`), scanned in a single compiled pass. O(bytes), any depth.

    Names may be quoted with ``'`` or ``"`` (doubled inside); unquoted names are taken as written, underscores included,
    without surrounding blanks. Nodes without a name are called by
    their tips (`vpunn.tree.unnamed`). Labels are text; with ``numbers=True`` they
    become integers if all of them are whole numbers written plainly, which gives integer labels back. Branch lengths
    go to the column ``length`` (NaN where absent) and comments, without their brackets, to the column ``comment``;
    each only if the file has any.
    """
    return with_names(newick_tree(source, numbers=numbers, encoding=encoding))


def newick_tree(source: Source, *, numbers: bool = False, encoding: str = "utf-8") -> Tree:
    """The same, nodes without a name labelled ``""``."""
    from vpunn.io import _kernels as kernels

    if encoding != "utf-8" or not source.data.isascii() or b"\0" in source.data[:2]:
        source = Source(source.name, source.text(encoding).encode())
    data = source.data
    if not data.strip():
        raise source.error(0, "the file is empty; the smallest Newick tree is 'name;'.")
    why, where, parent, name, length, note, quoted = kernels.scan(np.frombuffer(data, np.uint8))
    if why != kernels.DONE:
        raise source.error(int(where), _reason(int(why), data, int(where)))
    labels = _slices(source, name)
    _refuse_decimal_commas(source, labels, parent, name, length, quoted)
    for i in np.flatnonzero(quoted).tolist():
        mark = chr(data[name[i, 0] - 1])
        labels[i] = labels[i].replace(mark * 2, mark)
    if numbers:
        from vpunn.io.tree_tables import whole_labels

        labels = whole_labels(labels)
    columns = {}
    if length.any():
        columns["length"] = _numbers(source, length)
    if note.any():
        columns["comment"] = _slices(source, note)
        columns["comment"][note[:, 1] == 0] = None
    return Tree.from_parents(parent, labels, columns=columns)


def _reason(why: int, data: bytes, where: int) -> str:
    """What is wrong at a byte, and what to do."""
    from vpunn.io import _kernels as kernels

    here = data[where : where + 20].decode("utf-8", "replace")
    return {
        kernels.NOT_OPENED: "this ')' closes nothing; remove it or add the missing '('.",
        kernels.NOT_CLOSED: "this '(' is never closed; add the missing ')', or the file is cut off.",
        kernels.NO_END: "the tree does not end with ';'; add it, unless the file is cut off.",
        kernels.OPEN_QUOTE: "this quoted name never ends; add the closing quote (a quote inside a name is doubled).",
        kernels.OPEN_COMMENT: "this comment never ends; add the closing ']'.",
        kernels.AFTER_END: f"more text follows the ';' ({here!r}); remove it, or end it with ';' if it is another tree.",
        kernels.NAME_FIRST: "this '(' follows a name or a ')'; names come after the children, and siblings need ',' between them.",
        kernels.OUTSIDE: "this ',' is outside all parentheses, so there would be several roots; put '(' … ')' around the siblings.",
        kernels.UNEXPECTED: f"{here!r} is out of place; a node is written name:length, and names with blanks or marks are quoted.",
    }[why]


def _refuse_decimal_commas(
    source: Source, labels: np.ndarray, parent: np.ndarray, name: np.ndarray, length: np.ndarray, quoted: np.ndarray
) -> None:
    """Refuse (owl:1,5,wren:2,5): by Newick's rules its leaves are owl, 5, wren and 5, which nobody means.

    A decimal comma leaves a bare number without a length right behind a node of whole length. All of the leaves without a length
    must be such, and others must have names, so that files with numbered leaves are read.
    """
    if not length.any():
        return
    leaf = np.ones(len(parent), bool)
    leaf[parent[parent >= 0]] = False
    bare = np.flatnonzero(leaf & (length[:, 1] == 0))
    digits = [label.isascii() and label.isdigit() for label in labels.tolist()]
    if not len(bare) or all(d for d, here in zip(digits, leaf.tolist(), strict=True) if here):
        return
    before = [_WHOLE.search(source.data[max(start - LONGEST_WHOLE, 0) : start]) for start in name[bare, 0].tolist()]
    if not all(found and digits[i] and not quoted[i] for found, i in zip(before, bare.tolist(), strict=True)):
        return
    first, whole = int(bare[0]), str(before[0] and before[0][1].decode())
    raise source.error(
        int(name[first, 0]) - 1,
        f"the length {whole},{labels[first]} has a decimal comma, which separates nodes here; write {whole}.{labels[first]} "
        f"(or quote the name '{labels[first]}', if it is one).",
    )


def _slices(source: Source, ranges: np.ndarray) -> np.ndarray:
    """The text of byte ranges, as an object array."""
    data = source.data
    pairs = zip(ranges[:, 0].tolist(), ranges[:, 1].tolist(), strict=True)
    if data.isascii():
        text = data.decode("ascii")
        return object_array([text[a:b] for a, b in pairs])
    return object_array([data[a:b].decode() for a, b in pairs])


def _numbers(source: Source, ranges: np.ndarray) -> np.ndarray:
    """The numbers in byte ranges, NaN where a range is empty."""
    data = source.data
    at = np.flatnonzero(ranges[:, 1])
    starts, ends = ranges[at, 0].tolist(), ranges[at, 1].tolist()
    values = np.full(len(ranges), np.nan)
    try:
        values[at] = [float(data[a:b]) for a, b in zip(starts, ends, strict=True)]
    except ValueError:
        for a, b in zip(starts, ends, strict=True):
            if not _is_number(data[a:b]):
                shown = data[a:b].decode("utf-8", "replace")
                raise source.error(
                    a, f"the branch length {shown!r} is not a number; write it like 0.25 or 1e-3."
                ) from None
        raise
    return values


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- writing -----------------------------------------------------------------------------------------------------------


def write_newick(tree: Tree) -> bytes:
    """A Newick file with one tree."""
    return (to_newick(tree) + "\n").encode()


def to_newick(tree: Tree) -> str:
    """Newick text; names quoted where needed, branch lengths and comments from the columns of these names.

    Inner nodes that had no name in a file have none in this one.

    >>> to_newick(Tree.from_parents([-1, 0, 0], labels=["bird", "barn owl", "robin's kin"]))
    "('barn owl','robin''s kin')bird;"
    """
    check_labels(tree)
    say_dropped(tree, "Newick")
    bare = unnamed(tree).tolist()
    labels = zip(tree.labels.tolist(), bare, strict=True)
    names = ["" if label is None or empty else _newick_name(str(label)) for label, empty in labels]
    if "comment" in tree.columns:
        notes = tree.columns["comment"].tolist()
        _check_comments(notes)
        names = [name if note is None else f"{name}[{note}]" for name, note in zip(names, notes, strict=True)]
    if "length" in tree.columns:
        lengths = np.asarray(tree.columns["length"], dtype=float).tolist()
        names = [name if x != x else f"{name}:{x!r}" for name, x in zip(names, lengths, strict=True)]
    inner = ~tree.is_leaf
    enter = np.array(["", ",", "(", ",("], object)[(tree.digit > 1) + 2 * inner]
    leave = object_array(names)
    leave[inner] = ")" + leave[inner]
    return depth_first(tree, enter, leave) + ";"


_PLAIN_NAME = re.compile(r"[^\x00-\x20()\[\]:;,'\"]+")


def _newick_name(name: str) -> str:
    return name if not name or _PLAIN_NAME.fullmatch(name) else "'" + name.replace("'", "''") + "'"


def _check_comments(notes: list[Any]) -> None:
    """Comments end at a bracket, so only balanced ones can be written."""
    for note in notes:
        depth = 0
        for mark in re.findall(r"[\[\]]", str(note or "")):
            depth += 1 if mark == "[" else -1
            if depth < 0:
                break
        if depth:
            raise TreeError(
                f"the comment {note!r} has an unmatched bracket, which Newick cannot hold; mend the column 'comment'."
            )
