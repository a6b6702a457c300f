"""Commands on tree files: ``tree info|check|convert``, and how every command reads a tree.

A *source* is a tree file, ``-`` for standard input (with ``--format``), a model folder (its tree is meant), or the name of a
data set that is fetched on first use: ``wordnet``, ``wordnet-3.1``, ``go``, ``mammalia``, ``ncbi`` or ``pantheria``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, emit, reader_voice, refuse_unused, say
from vpunn.errors import DataError, TreeError, VpunnError, counted, speaking

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


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tree = typer.Typer(no_args_is_help=True, help="Look at, check and convert tree files.")
    tree.command("info")(info)
    tree.command("check")(check)
    tree.command("convert")(convert)
    app.add_typer(tree, name="tree")


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
        raise type(error)(in_shell_words(str(error))) from error


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


_PYTHON_OPTION = re.compile(r"\b(?:pass )?([a-z_]+)=(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|…|True|False|-?[0-9]+)")


def in_shell_words(sentence: str) -> str:
    """Advice of the library as it is written in a shell: ``pass header=False`` becomes ``give -o header=false``.

    >>> in_shell_words("pass parent='…' and child='…', or levels=['…', …].")
    'give -o parent=… and -o child=…, or -o levels=…,….'
    """

    def written(found: re.Match[str]) -> str:
        name, value = found[1], re.sub(r"['\"\[\]]", "", found[2]).replace(", ", ",")
        flag = (
            f"--{name} {value}"
            if name in ("format", "policy")
            else f"-o {name}={value.lower() if value in ('True', 'False') else value}"
        )
        return f"give {flag}" if found[0].startswith("pass ") else flag

    return _PYTHON_OPTION.sub(written, sentence)


def info(
    source: Source, format: Format = None, policy: Policy = "first", option: Options = None, json: JsonFlag = False
) -> None:
    """Size, depth, branching, the prime and the bits of each code."""
    from vpunn.codes import PadicCode

    tree = read_source(source, format, policy, option)
    code = PadicCode(tree)
    facts: dict[str, Any] = {
        "nodes": tree.n_nodes,
        "leaves": tree.n_leaves,
        "depth K": tree.max_depth,
        "largest branching": tree.max_branching,
        "prime p": code.p,
    }
    facts |= {f"bits, {row['code']}": row["bits"] for row in code.summary()}
    facts |= _branches(tree)
    facts["columns"] = ", ".join(tree.columns) or ("" if json else "none")
    facts["changed on reading"] = "; ".join(tree.report) or "nothing"
    emit(facts, json)


def _branches(tree: Tree) -> dict[str, Any]:
    """What a tree with branch lengths is: how high, whether all tips are alike (as with dates), how many nodes fork wider."""
    if "length" not in tree.columns:
        return {}
    import numpy as np

    from vpunn.regress._pruning_kernels import path_sums

    length = np.asarray(tree.columns["length"], float)
    bare, below = int(np.isnan(length[1:]).sum()), int((length[1:] < 0).sum())
    height = path_sums(tree.parent, np.nan_to_num(length))[tree.leaves]
    alike = bool(np.ptp(height) <= 1e-3 * height.max())  # dates are rounded
    facts: dict[str, Any] = {
        "branch lengths": f"{tree.n_nodes - 1 - bare:,} of {tree.n_nodes - 1:,}"
        + (f", {below:,} negative" if below else ""),
        "height of the tips": f"{height.mean():.6g}" if alike else f"{height.min():.6g} to {height.max():.6g}",
        "ultrametric": ("yes, as a dated tree is" if alike else "no, so its lengths are no dates of living tips"),
    }
    many = np.bincount(tree.parent[1:], minlength=tree.n_nodes)
    return facts | {"polytomies": int((many > 2).sum())}


def check(
    source: Source, format: Format = None, policy: Policy = "first", option: Options = None, json: JsonFlag = False
) -> None:
    """Say whether a file holds a tree, and if not, why."""
    try:
        tree = read_source(source, format, policy, option)
    except (TreeError, DataError) as error:  # no tree, or a file in which none can be read
        emit({"ok": False, "reason": str(error)}, json)
        raise typer.Exit(1) from None
    emit({"ok": True, "nodes": tree.n_nodes, "changed on reading": "; ".join(tree.report) or "nothing"}, json)


def convert(
    source: Source,
    out: Annotated[str, typer.Argument(help="File to write, or '-' for standard output (with --to).")],
    format: Format = None,
    to: Annotated[str | None, typer.Option(help="Format to write, if the name does not tell.")] = None,
    policy: Policy = "first",
    option: Options = None,
    json: JsonFlag = False,
) -> None:
    """Rewrite a tree in another format; Newick gets readable names where the tree has them (NCBI: scientific names)."""
    from vpunn.files import suffix
    from vpunn.io import ENDINGS, write_tree

    tree = read_source(source, format, policy, option)
    what = "labels"
    if (to or ENDINGS.get(suffix(out))) == "newick" and "name" in tree.columns:
        # The other formats keep the column; Newick has one text per node, and that is the name people read.
        tree, what = tree.relabel(tree.names), "readable names as labels"
    elif (to or ENDINGS.get(suffix(out))) == "json" and "name" in tree.columns:
        # Nested JSON calls labels so.
        columns = {"readable_name" if name == "name" else name: cells for name, cells in tree.columns.items()}
        tree, what = tree.replace(columns=columns), "labels as name, names as readable_name"
    write_tree(tree, out, format=to)
    if out == "-":
        return
    if json:
        emit({"written": out, "nodes": tree.n_nodes, "leaves": tree.n_leaves, "labels": what}, True)
    else:
        typer.echo(
            f"written: {out} ({counted(tree.n_nodes, 'node')}, {counted(tree.n_leaves, 'leaf', 'leaves')}, {what})"
        )
