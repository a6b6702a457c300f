"""How commands read a tree: from a file, standard input, a model folder or a data set.

A *source* is a tree file, ``-`` for standard input (with ``--format``), a model folder (its tree is meant), or the name of a
data set that is fetched on first use: ``wordnet``, ``wordnet-3.1``, ``go``, ``mammalia``, ``ncbi`` or ``pantheria``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import reader_voice, refuse_unused, say
from vpunn.errors import DataError, TreeError, VpunnError, speaking

if TYPE_CHECKING:
    from vpunn.tree import Tree

Source = Annotated[str, typer.Argument(help="A tree file, '-' for standard input, or a data set such as wordnet.")]
Format = Annotated[
    str | None, typer.Option("--format", "-f", help="Format of the tree file, if its name does not tell.")
]
Policy = Annotated[
    str, typer.Option(help="Which parent a node with several keeps: first, deepest, most-specific, unfold.")
]
Options = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="An option of the reader as name=value, e.g. add_root=life.")
]


@dataclass(frozen=True)
class TreeFile:
    """How a tree file is read, where that is not found by itself."""

    format: Format = None
    policy: Policy = "first"
    option: Options = None

    def read(self, source: str) -> Tree:
        """The tree of a source."""
        return read_source(source, self.format, self.policy, self.option)


AS_NAMED = TreeFile()


def _data_sets() -> dict[str, Callable[[str], Tree]]:
    from vpunn import datasets

    return {
        "wordnet": lambda policy: datasets.load_wordnet(policy=policy).tree,
        "wordnet-3.0": lambda policy: datasets.load_wordnet("3.0", policy=policy).tree,
        "wordnet-3.1": lambda policy: datasets.load_wordnet("3.1", policy=policy).tree,
        "go": lambda policy: datasets.load_go(policy=policy).tree,
        "mammalia": lambda _: datasets.load_ncbi(root="Mammalia").tree,
        "ncbi": lambda _: datasets.load_ncbi(root=None).tree,
        "pantheria": lambda _: _mammal_levels(),
    }


def _mammal_levels() -> Tree:
    """The taxonomy in PanTHERIA's level columns."""
    from vpunn import Tree, datasets

    return Tree.from_levels(datasets.load_pantheria(), ["Order", "Family", "Genus", "Species"], root="Mammalia")


def read_source(
    source: str, format: str | None = None, policy: str = "first", options: list[str] | None = None
) -> Tree:
    """The tree of a file, of standard input, of a model folder or of a named data set (a file of that name comes first)."""
    from vpunn.io import read_tree

    if not source.strip():
        raise VpunnError("the name of the tree is empty; give a file, '-' for standard input, or a data set.")
    if source != "-" and not Path(source).exists() and format is None:
        known = _data_sets()
        if source in known:
            refuse_unused({"--option": options}, f"{source} is a data set, and no file is read")
            return known[source](policy)
        close = difflib.get_close_matches(source, known, n=1)
        meant = f"did you mean {close[0]!r}? Data" if close else "data"
        raise VpunnError(
            f"there is no file {source!r}, and no data set of that name; {meant} sets are {', '.join(known)}."
        )
    if format is None and (Path(source) / "model.json").is_file():
        return _tree_of_model(source, options)
    chosen = _reader_options(options or [])
    try:
        try:
            with speaking(reader_voice):
                return read_tree(source, format=format, policy=policy, **chosen)
        except TreeError:
            if source == "-" or not str(chosen.get("root", "")).isdecimal():
                raise
            return read_tree(source, format=format, policy=policy, **{**chosen, "root": int(chosen["root"])})
    except (TreeError, DataError) as error:
        raise type(error)(str(error) + _or_a_table(source, options)) from error


def _or_a_table(source: str, options: list[str] | None) -> str:
    """What to do with a table that describes no tree."""
    from vpunn.files import suffix
    from vpunn.io.frames import ENDINGS

    if options or suffix(source) not in ENDINGS:
        return ""
    return f" If it is a table to learn from: vpunn fit {source} shows its columns."


def _tree_of_model(source: str, options: list[str] | None) -> Tree:
    """The tree inside a model folder."""
    from vpunn.store import load
    from vpunn.tree import Tree

    refuse_unused({"--option": options}, f"{source} is a model folder, and no tree file is read")
    found = load(source)
    if isinstance(found, Tree):
        return found
    tree = getattr(found, "tree_", None)
    if tree is None:
        tree = getattr(found, "tree", None)
    if not isinstance(tree, Tree):
        raise DataError(
            f"{source!r} holds a {type(found).__name__}, which has no tree; `vpunn info {source}` tells more."
        )
    say(f"{source} is a model folder ({type(getattr(found, 'model', found)).__name__}); this is its tree")
    return tree


#: Options of readers that take several values, written with commas, and those that take a number.
LISTS, NUMBERS = ("levels", "no_parent", "relations"), ("max_nodes",)


def _reader_options(texts: list[str]) -> dict[str, Any]:
    """``name=value`` as a keyword; ``true`` and ``false`` become truth values, ``levels=order,family`` a list."""
    words = {"true": True, "false": False}
    pairs = [text.partition("=") for text in texts]
    options: dict[str, Any] = {}
    for name, sign, value in pairs:
        if not sign or not name.isidentifier():
            raise VpunnError(f"an option is written name=value, such as add_root=life; got {name + sign!r}.")
        if name in options:
            raise VpunnError(f"the option {name} is given twice; give it once (several columns: {name}=a,b).")
        if name in NUMBERS and not value.isdecimal():
            raise VpunnError(f"the option {name} takes a whole number, got {value!r}.")
        if name in LISTS:
            from vpunn.tables.inputs import split_names

            options[name] = split_names(value)
            if not options[name]:
                raise VpunnError(f"the option {name} needs at least one name after {name}=.")
        else:
            options[name] = int(value) if name in NUMBERS else words.get(value, value)
    return options
