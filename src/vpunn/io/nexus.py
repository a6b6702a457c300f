"""NEXUS: the TREES block of a file, with its table of translations; and any number of trees, in NEXUS or in Newick."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vpunn._arrays import object_array
from vpunn.errors import counted, examples
from vpunn.files import Source
from vpunn.io.newick import newick_tree
from vpunn.tree import Tree
from vpunn.tree.unnamed import with_names

#: Comments nest once, as far as programs write them.
_COMMENT = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_GAP = rf"(?:\s|{_COMMENT})*"
_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
#: What a statement is cut by, and what no cut may fall into: comments and quotes, which begin where names do.
_WHOLE = rf"""{_COMMENT}|(?<![^\s(),=\];])(?:{_QUOTED})"""
_CUT, _UNCUT = re.compile(rf"{_WHOLE}|;"), re.compile(_WHOLE)
_HEAD = re.compile(rf"{_GAP}(?:#nexus{_GAP})?(\w*){_GAP}(\w*)", re.IGNORECASE)
_TREE = re.compile(rf"{_GAP}u?tree\b{_GAP}(?:\*{_GAP})?({_QUOTED}|[^\s=\[*]+){_GAP}=", re.IGNORECASE)
_TOKEN = re.compile(rf"{_QUOTED}|[^\s,]+|,")


def is_nexus(data: bytes) -> bool:
    """Whether a file begins with #NEXUS."""
    return data[:100].lstrip(b"\xef\xbb\xbf \t\r\n")[:6].upper() == b"#NEXUS"


class _Statement(NamedTuple):
    text: str
    start: int  #: of its first letter in the file's text


def read_nexus(source: Source, *, tree_name: str | None = None, numbers: bool = False, encoding: str = "utf-8") -> Tree:
    """The first tree of a NEXUS file, or the one called ``tree_name``. O(bytes); `read_trees` reads all of them.

    Labels are those of the TRANSLATE table where there is one, kept as they are written (``Homo_sapiens`` keeps its underscore).
    Lengths and comments become columns, as in `newick.read_newick`. ``tree.report`` names the trees that were not read.
    """
    text = source.text(encoding)
    names, found = [], None
    for name, statement, taxa in _trees(source, text):
        names.append(name)
        if found is None and tree_name in (None, name):
            found = _read(source, text, statement, taxa, numbers)
    if found is None:
        raise source.error(0, f"there is no tree {tree_name!r}; the trees are {examples(names)}.")
    if len(names) == 1 or tree_name is not None:
        return found
    more = f"{source.name} has {counted(len(names) - 1, 'more tree')} ({examples(names[1:])})."
    return found.replace(report=(*found.report, more))


def read_nexus_trees(source: Source, *, encoding: str = "utf-8") -> dict[str, Tree]:
    """All trees of a NEXUS file by their names; of two with one name the second is called ``name (2)``."""
    text = source.text(encoding)
    trees: dict[str, Tree] = {}
    for name, statement, taxa in _trees(source, text):
        again = sum(known == name or known.startswith(f"{name} (") for known in trees)
        trees[f"{name} ({again + 1})" if again else name] = _read(source, text, statement, taxa)
    return trees


def _trees(source: Source, text: str) -> Iterator[tuple[str, _Statement, dict[str, str]]]:
    """Name, Newick text and translations of every tree; in a file without #NEXUS they are called tree 1, tree 2…"""
    if not is_nexus(source.data):
        for count, (part, at) in enumerate(_statements(text), 1):
            yield f"tree {count}", _Statement(part, at), {}
        return
    block, count, taxa = "", 0, dict[str, str]()
    for part, start in _statements(text):
        head, name = (word.lower() for word in _HEAD.match(part).groups())  # type: ignore[union-attr]
        if head == "begin":
            block, taxa = name, {}
        elif head in ("end", "endblock"):
            block = ""
        elif block == "trees" and head == "translate":
            taxa = _translations(source, part, start)
        elif block == "trees" and (match := _TREE.match(part)) is not None:
            count += 1
            yield _plain(match[1]), _Statement(part[match.end() :], start + match.end()), taxa
    if not count:
        raise source.error(
            0, "the file has no tree: a TREES block has lines such as 'tree best = ((owl:1,wren:1):2,emu:3);'."
        )


def _statements(text: str) -> Iterator[_Statement]:
    """The parts of a text that end with ';' outside of quotes and comments, with it; empty ones are left out."""
    start = 0
    for match in _CUT.finditer(text):
        if match[0] == ";":
            if text[start : match.start()].strip():
                yield _Statement(text[start : match.end()], start)
            start = match.end()
    if text[start:].strip():
        yield _Statement(text[start:], start)  # what is cut off is told by the tree's own reader


def _translations(source: Source, text: str, start: int) -> dict[str, str]:
    """TRANSLATE 1 Homo_sapiens, 2 'Pan paniscus'"""
    bare = _UNCUT.sub(lambda match: " " if match[0][0] == "[" else match[0], text)
    tokens = _TOKEN.findall(bare.rstrip("; \t\r\n"))[1:]
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
    quote = word[:1]
    return word[1:-1].replace(quote * 2, quote) if quote in ("'", '"') else word


def _read(source: Source, text: str, statement: _Statement, taxa: dict[str, str], numbers: bool = False) -> Tree:
    """One Newick text, in lines and columns counted as in the file, its tips translated."""
    before = text.rfind("\n", 0, statement.start) + 1
    above = "\n" * text.count("\n", 0, before) + " " * (statement.start - before)
    tree = newick_tree(Source(source.name, (above + statement.text).encode()), numbers=numbers)
    if taxa:
        labels = tree.labels.tolist()
        for leaf in tree.leaves.tolist():  # a number at an inner node is its support, not a key
            labels[leaf] = taxa.get(labels[leaf], labels[leaf])
        tree = tree.relabel(object_array(labels))
    return with_names(tree)
