"""NEXUS: the TREES block of a file, with its table of translations and any number of trees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vpunn._arrays import object_array
from vpunn.errors import examples
from vpunn.files import Source
from vpunn.io.newick import newick_tree
from vpunn.tree import Tree
from vpunn.tree.unnamed import with_names

#: What a statement is cut by, and what no cut may fall into: comments (which nest once, as far as programs write them) and quotes.
_CUT = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]|'(?:[^']|'')*'|;")
_TREE = re.compile(r"\s*u?tree\s+\*?\s*('(?:[^']|'')*'|[^\s=\[]+)\s*(?:\[[^\]]*\]\s*)*=", re.IGNORECASE)
_COMMENT = re.compile(r"'(?:[^']|'')*'|\[(?:[^\[\]]|\[[^\[\]]*\])*\]")
_TOKEN = re.compile(r"'(?:[^']|'')*'|[^\s,]+|,")


def is_nexus(data: bytes) -> bool:
    """Whether a file begins with #NEXUS."""
    return data[:100].lstrip(b"\xef\xbb\xbf \t\r\n")[:6].upper() == b"#NEXUS"


class _Statement(NamedTuple):
    text: str
    start: int  #: of its first letter in the file's text


def read_nexus(source: Source, *, tree_name: str | None = None, encoding: str = "utf-8") -> Tree:
    """The first tree of a NEXUS file, or the one called ``tree_name``. O(bytes); `read_trees` reads all of them.

    Labels are those of the TRANSLATE table where there is one, kept as they are written (``Homo_sapiens`` keeps its underscore).
    Lengths and comments become columns, as in `newick.read_newick`. ``tree.report`` names the trees that were not read.
    """
    text = source.text(encoding)
    names, found = [], None
    for name, statement, taxa in _trees(source, text):
        names.append(name)
        if found is None and tree_name in (None, name):
            found = _read(source, text, statement, taxa)
    if found is None:
        raise source.error(0, f"there is no tree {tree_name!r}; the trees are {examples(names)}.")
    rest = len(names) - 1
    more = f"{source.name} has {rest:,} more trees ({examples([n for n in names if n != tree_name][-rest:])})"
    return found if not rest or tree_name is not None else found.replace(report=(*found.report, more + "."))


def read_nexus_trees(source: Source, *, encoding: str = "utf-8") -> dict[str, Tree]:
    """All trees of a NEXUS file by their names; of two with one name the second is called ``name (2)``.

    A file without the word #NEXUS holds Newick trees one after the other, called tree 1, tree 2…
    """
    text = source.text(encoding)
    trees: dict[str, Tree] = {}
    parts = _trees(source, text)
    if not is_nexus(source.data):
        parts = ((f"tree {k}", _Statement(part + ";", at), {}) for k, (part, at) in enumerate(_statements(text), 1))
    for name, statement, taxa in parts:
        again = sum(known == name or known.startswith(f"{name} (") for known in trees)
        trees[f"{name} ({again + 1})" if again else name] = _read(source, text, statement, taxa)
    return trees


def _trees(source: Source, text: str) -> Iterator[tuple[str, _Statement, dict[str, str]]]:
    """Name, Newick text and translations of every tree in the TREES blocks."""
    block, count, taxa = "", 0, dict[str, str]()
    for text_of, start in _statements(text):
        bare = _COMMENT.sub(lambda match: match[0] if match[0][0] == "'" else " ", text_of[:4000])
        word = bare.split(None, 2)
        head = word[0].lower() if word else ""
        if head.startswith("#nexus"):
            word = word[1:]
            head = word[0].lower() if word else ""
        if head == "begin":
            block, taxa = (word[1].lower() if len(word) > 1 else ""), {}
        elif head in ("end", "endblock"):
            block = ""
        elif block == "trees" and head == "translate":
            taxa = _translations(source, text_of, start)
        elif block == "trees" and (match := _TREE.match(bare)) is not None:
            count += 1
            at = (
                text_of.index("=")
                if "=" not in match[1]
                else text_of.index("=", text_of.index(match[1]) + len(match[1]))
            )
            yield _plain(match[1]), _Statement(text_of[at + 1 :] + ";", start + at + 1), taxa
    if not count:
        raise source.error(
            0, "the file has no tree: a TREES block has lines such as 'tree best = ((owl:1,wren:1):2,emu:3);'."
        )


def _statements(text: str) -> Iterator[_Statement]:
    """The parts of a text that end with ';' outside of quotes and comments."""
    start = 0
    for match in _CUT.finditer(text):
        if match[0] == ";":
            yield _Statement(text[start : match.start()], start)
            start = match.end()
    if text[start:].strip():
        yield _Statement(text[start:], start)  # what is cut off is told by the tree's own reader


def _translations(source: Source, text: str, start: int) -> dict[str, str]:
    """TRANSLATE 1 Homo_sapiens, 2 'Pan paniscus'"""
    bare = _COMMENT.sub(lambda match: match[0] if match[0][0] == "'" else " ", text)
    tokens = _TOKEN.findall(bare)[1:]
    taxa: dict[str, str] = {}
    pair: list[str] = []
    for token in [*tokens, ","]:
        if token != ",":
            pair.append(token)
        elif pair:
            if len(pair) != 2:
                raise source.error(
                    start, f"the translation {' '.join(pair)!r} is not one key and one name; quote names with blanks."
                )
            if _plain(pair[0]) in taxa:
                raise source.error(start, f"the key {pair[0]!r} is translated twice.")
            taxa[_plain(pair[0])] = _plain(pair[1])
            pair = []
    return taxa


def _plain(word: str) -> str:
    return word[1:-1].replace("''", "'") if word[:1] == "'" else word


def _read(source: Source, text: str, statement: _Statement, taxa: dict[str, str]) -> Tree:
    """One Newick text, in lines counted as in the file, its tips translated."""
    above = "\n" * text.count("\n", 0, statement.start)
    tree = newick_tree(Source(source.name, (above + statement.text).encode()))
    if taxa:
        labels = tree.labels.tolist()
        for leaf in tree.leaves.tolist():  # a number at an inner node is its support, not a key
            labels[leaf] = taxa.get(labels[leaf], labels[leaf])
        tree = tree.relabel(object_array(labels))
    return with_names(tree)
