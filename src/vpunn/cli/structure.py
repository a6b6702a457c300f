"""Commands on trees and codes: ``tree info|check|convert``, ``encode``, ``decode``, ``distance``, ``ball``.

A *source* is a tree file, ``-`` for standard input (with ``--format``), a model folder (its tree is meant), or the name of a
data set that is fetched on first use: ``wordnet``, ``wordnet-3.1``, ``go``, ``mammalia``, ``ncbi`` or ``pantheria``.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, emit, refuse_unused, say
from vpunn.errors import CodeError, DataError, TreeError, VpunnError

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
Prime = Annotated[int | None, typer.Option("--prime", "-p", help="A larger prime than the smallest that fits.")]
Labels = Annotated[
    list[str] | None, typer.Argument(help="Labels; none: all nodes; '-': one per line on standard input.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tree = typer.Typer(no_args_is_help=True, help="Look at, check and convert tree files.")
    tree.command("info")(info)
    tree.command("check")(check)
    tree.command("convert")(convert)
    app.add_typer(tree, name="tree")
    for command in (encode, decode, distance, ball):
        app.command()(command)


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
            return read_tree(source, format=format, policy=policy, **chosen)
        except TreeError:
            if source == "-" or not str(chosen.get("root", "")).isdecimal():
                raise
            return read_tree(source, format=format, policy=policy, **{**chosen, "root": int(chosen["root"])})
    except (TreeError, DataError) as error:
        raise type(error)(in_shell_words(str(error))) from error


def _tree_of_model(source: str, options: list[str] | None) -> Tree:
    """The tree inside a model folder."""
    from vpunn.io.store import load
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
    say(f"{source} is a model folder ({type(found).__name__}); this is its tree")
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
            from vpunn.hipan.tables import split_names

            options[name] = split_names(value)
        else:
            options[name] = int(value) if name in NUMBERS else words.get(value, value)
    return options


_PYTHON_OPTION = re.compile(r"\b(?:pass )?([a-z_]+)=(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|…|True|False)")


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


def _lines(source: str, values: list[str] | None) -> list[str] | None:
    """The values themselves, or the lines of standard input when the only value is ``-``."""
    if values != ["-"]:
        return values
    if source == "-":
        raise VpunnError("only one of the tree and the values can come from standard input; write the tree to a file.")
    if sys.stdin is None:
        raise VpunnError("standard input is closed; give the values, or send them with |.")
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise VpunnError(f"standard input is not UTF-8 text: byte {byte:#x} at position {error.start}.") from None
    return [line for line in re.split(r"\r\n|\r|\n", text) if line.strip()]


def _name(tree: Tree, node: Any, json: bool) -> Any:
    """A label for output; in tables as text (9606 is a name, not the quantity 9,606) with the readable name beside it."""
    if json:
        return tree.labels[node]
    return _readable(tree.labels[node], tree.columns["name"][node] if "name" in tree.columns else None)


def _readable(label: Any, name: Any) -> str:
    """``9606 Homo sapiens``, but plain ``dog.n.01``, which says its name already."""
    return str(label) if name is None or str(label).startswith(str(name).replace(" ", "_")) else f"{label} {name}"


def readable_names(tree: Tree) -> list[str]:
    """The name of every node, its label where it has none."""
    pairs = zip(tree.labels.tolist(), tree.columns["name"].tolist(), strict=True)
    return [str(label) if name is None or name != name or name == "" else str(name) for label, name in pairs]


def _nodes(tree: Tree, source: str, labels: list[str] | None) -> Any:
    import numpy as np

    wanted = _lines(source, labels)
    return np.arange(tree.n_nodes) if wanted is None else tree.find(wanted)


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
    facts["columns"] = ", ".join(tree.columns)
    facts["changed on reading"] = "; ".join(tree.report) or "nothing"
    emit(facts, json)


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
    from vpunn.io import write_tree
    from vpunn.io.files import suffix
    from vpunn.io.writers import ENDINGS
    from vpunn.tree._inputs import object_array

    tree = read_source(source, format, policy, option)
    what = "labels"
    if (to or ENDINGS.get(suffix(out))) == "newick" and "name" in tree.columns:
        # The other formats keep the column; Newick has one text per node, and that is the name people read.
        tree, what = tree.relabel(object_array(readable_names(tree))), "readable names as labels"
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
        typer.echo(f"written: {out} ({tree.n_nodes:,} nodes, {tree.n_leaves:,} leaves, {what})")


def encode(
    source: Source,
    labels: Labels = None,
    mode: Annotated[
        str | None, typer.Option(help="How to print codes: int (the default), digits, bars, series or path.")
    ] = None,
    prime: Prime = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="A table file (or, ending in /, a folder of parts): node, last, depth and path key of every row of a table "
            "named in place of labels, else of every node, in constant memory. Any other name is a folder that keeps the "
            "codes stamped with tree, prime and release; decode --codes reads it."
        ),
    ] = None,
    column: Annotated[str | None, typer.Option(help="With --out TABLE: the table's column of labels.")] = None,
    unseen: Annotated[
        str | None, typer.Option(help="With --out TABLE: labels that are not in the tree, error (the default) or null.")
    ] = None,
    format: Format = None,
    policy: Policy = "first",
    option: Options = None,
    json: JsonFlag = False,
) -> None:
    """Codes of labels, or of a column of labels in a table of any size."""
    from vpunn.codes import PadicCode

    if out is not None and (out.endswith("/") or Path(out.lower()).suffix in TABLE_ENDINGS):
        refuse_unused({"--json": json or None}, "--out writes a table; its ending .jsonl gives JSON lines")
        _encode_files(source, labels, out, mode, prime, column, unseen, (format, policy, option))
        return
    refuse_unused({"--column": column, "--unseen": unseen}, "there is no --out with a table")
    tree = read_source(source, format, policy, option)
    code = PadicCode(tree, prime)
    mode = mode or "int"
    nodes = _nodes(tree, source, labels)
    if out is not None:
        code.stamp(nodes, release=source if policy == "first" else f"{source}, {policy}").save(out)
        facts = {"written": str(out), "codes": len(nodes), "p": code.p, "fingerprint": code.fingerprint}
        emit(facts, json)
        return
    texts = code.format(nodes, mode)
    rows = [
        {"label": _name(tree, i, json), "depth": tree.depth[i], "code": text}
        for i, text in zip(nodes, texts, strict=True)
    ]
    emit(rows, json)


#: Endings by which --out means a table of codes rather than a folder of stamped ones.
TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson", ".feather", ".gz", ".bz2", ".xz")


def _encode_files(
    source: str,
    tables: list[str] | None,
    out: str,
    mode: str | None,
    prime: int | None,
    column: str | None,
    unseen: str | None,
    reading: Any,
) -> None:
    """A tree's own nodes, or a column of labels, as a table of codes."""
    from vpunn.io.frames import check_table_path
    from vpunn.io.streams import is_folder, table_files
    from vpunn.scale import encode_stream

    if tables is not None:
        table_files(tables)  # refused before the tree is read
    else:
        refuse_unused(
            {"--column": column, "--unseen": unseen}, "no table is named, so the tree's own nodes are encoded"
        )
    if not is_folder(out) and (tables is None or len(table_files(tables)) == 1):
        check_table_path(out)
    tree = read_source(source, *reading)
    chosen: dict[str, Any] = {"mode": mode, "prime": prime, "column": column, "unseen": unseen or "error"}
    done = encode_stream(tree, tables, out, **chosen)
    typer.echo(f"written: {out} ({done.rows:,} rows)")


def decode(
    source: Source,
    codes: Annotated[
        list[str] | None, typer.Argument(help="Codes in any mode but path; '-': one per line on standard input.")
    ] = None,
    kept: Annotated[
        Path | None, typer.Option("--codes", help="A folder of encode --out; codes of another tree are refused.")
    ] = None,
    by_path: Annotated[
        bool,
        typer.Option("--by-path", help="With --codes: find nodes of another tree or release by their label paths."),
    ] = False,
    prime: Prime = None,
    lenient: Annotated[bool, typer.Option(help="Give the nearest ancestor of a code that leaves the tree.")] = False,
    format: Format = None,
    policy: Policy = "first",
    option: Options = None,
    json: JsonFlag = False,
) -> None:
    """Labels of codes."""
    from vpunn.codes import PadicCode

    if (codes is None) == (kept is None):
        raise VpunnError("decode takes codes, or --codes and a folder of encode --out; give one of them.")
    tree = read_source(source, format, policy, option)
    if kept is not None:
        refuse_unused({"--lenient": lenient or None, "--prime": prime}, "kept codes carry their tree and prime")
        emit(_read_kept(tree, kept, by_path, json), json)
        return
    refuse_unused({"--by-path": by_path or None}, "it belongs to --codes")
    code = PadicCode(tree, prime)
    texts = _lines(source, codes) or []
    try:
        nodes = code.parse(texts, strict=not lenient)
    except CodeError as error:  # the library's advice in the words of the command line
        raise CodeError(str(error).replace("decode(…, strict=False) gives", "--lenient gives")) from None
    rows = [
        {"code": text, "label": _name(tree, i, json), "depth": tree.depth[i]}
        for text, i in zip(texts, nodes, strict=True)
    ]
    emit(rows, json)


def _read_kept(tree: Tree, folder: Path, by_path: bool, json: bool) -> list[dict[str, Any]]:
    """Labels of stamped codes; with ``by_path`` those whose path is gone have none, and that is said."""
    from vpunn.codes import PadicCode, StampedCodes
    from vpunn.padic import code_prime

    stamped = StampedCodes.load(folder, verify=True)
    fits = stamped.p >= code_prime(tree.max_branching)
    code = PadicCode(tree, stamped.p if fits else None)
    try:
        nodes = code.read(stamped, by="path" if by_path else "code", strict=False)
    except CodeError as error:
        raise CodeError(str(error).replace("read(…, by='path') finds", "--by-path finds")) from None
    gone = int((nodes < 0).sum())
    if gone:
        say(f"{gone:,} of {len(nodes):,} codes have a path that {tree.labels[0]!r} of this release does not have")
    return [
        {
            "code": str(number),
            "label": None if i < 0 else _name(tree, i, json),
            "depth": None if i < 0 else tree.depth[i],
            "was": stamped.paths[row][-1] if stamped.paths[row] else tree.labels[0],
        }
        for row, (number, i) in enumerate(zip(stamped.codes.tolist(), nodes.tolist(), strict=True))
    ]


def distance(
    source: Source,
    labels: Annotated[
        list[str],
        typer.Argument(
            help="Two labels, or '-': two per line, tab-separated, on standard input; with --matrix one per line."
        ),
    ],
    matrix: Annotated[bool, typer.Option("--matrix", help="Distances between all labels, as a square table.")] = False,
    measure: Annotated[
        str | None,
        typer.Option(
            help="For --matrix: length (branch lengths), edges, valuation or padic; length if the tree has any."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="For --matrix: write a table (.csv, .tsv, .parquet) instead.")
    ] = None,
    prime: Prime = None,
    format: Format = None,
    policy: Policy = "first",
    option: Options = None,
    json: JsonFlag = False,
) -> None:
    """Lowest common ancestor, valuation, p-adic distance and, where a tree has branch lengths, path length of pairs."""
    from vpunn.codes import PadicCode
    from vpunn.tree.sweeps import path_lengths

    if matrix:
        _matrix(read_source(source, format, policy, option), _lines(source, labels) or [], measure, prime, out, json)
        return
    refuse_unused({"--measure": measure, "--out": out}, "it belongs to --matrix")
    pairs = [line.split("\t") for line in _lines(source, labels) or []] if labels == ["-"] else [labels]
    wrong = [pair for pair in pairs if len(pair) != 2]
    if wrong:
        raise VpunnError(f"a distance needs two labels, got {wrong[0]!r}.")
    tree = read_source(source, format, policy, option)
    code = PadicCode(tree, prime)
    u, v = (tree.find([pair[side] for pair in pairs]) for side in (0, 1))
    rows = []
    for i, j, power, exact in zip(u, v, code.valuation(u, v), code.distance(u, v, exact=True), strict=True):
        a, b, common = (_name(tree, node, json) for node in (i, j, tree.lca(i, j)))
        shown = f"{code.p}^-{power}" if exact else "0"
        rows.append({"a": a, "b": b, "common ancestor": common, "valuation": power, "distance": shown})
    if "length" in tree.columns:
        for row, length in zip(rows, path_lengths(tree, u, v).tolist(), strict=True):
            row["path length"] = None if length != length else length
    emit(rows, json)


def _matrix(
    tree: Tree, labels: list[str], measure: str | None, prime: int | None, out: Path | None, json: bool
) -> None:
    """The square table of `distance --matrix`."""
    import numpy as np
    import pandas as pd

    from vpunn.codes import PadicCode
    from vpunn.errors import check_choice, examples
    from vpunn.io.frames import check_table_path, write_table
    from vpunn.tree.sweeps import path_lengths

    if out is not None:
        check_table_path(out)
    twice = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
    if twice:
        raise VpunnError(
            f"--matrix has a row and a column per label, and {examples(twice)} is given twice; name it once."
        )
    if len(labels) < 2:
        raise VpunnError(f"--matrix needs two labels or more, got {examples(labels) or 'none'}.")
    measure = measure or ("length" if "length" in tree.columns else "edges")
    check_choice("--measure", measure, ("length", "edges", "valuation", "padic"))
    nodes = tree.find(labels)
    u, v = np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))
    if measure == "length":
        found = path_lengths(tree, u, v)
        if np.isnan(found).any():
            raise VpunnError(
                "some branches between these nodes have no length, or lengths too large to add; give --measure edges, or "
                "complete the file."
            )
    elif measure == "padic":
        found = PadicCode(tree, prime).distance(u, v)
    else:
        shared = tree.lca_depth(u, v)
        found = shared if measure == "valuation" else tree.depth[u] + tree.depth[v] - 2 * shared
    square = np.asarray(found).reshape(len(nodes), -1)
    rows = [
        {"": name, **dict(zip(labels, row, strict=True))} for name, row in zip(labels, square.tolist(), strict=True)
    ]
    if out is not None:
        write_table(pd.DataFrame(rows).rename(columns={"": "label"}), out)
        typer.echo(f"written: {out} ({len(labels)} × {len(labels)}, {measure})")
    elif json:
        emit({"measure": measure, "labels": labels, "distance": square}, True)
    else:
        emit(rows, False)


def ball(
    source: Source,
    label: Annotated[str, typer.Argument(help="A node inside the ball.")],
    k: Annotated[
        int | None, typer.Option("-k", min=0, help="Digits shared by the ball's members (default: all of the node's).")
    ] = None,
    show: Annotated[int, typer.Option(min=1, help="How many nodes to draw.")] = 30,
    prime: Prime = None,
    format: Format = None,
    policy: Policy = "first",
    option: Options = None,
    json: JsonFlag = False,
) -> None:
    """The ball of radius p^-k around a node: the subtree below its ancestor at depth k."""
    import numpy as np

    from vpunn.codes import PadicCode

    tree = read_source(source, format, policy, option)
    code = PadicCode(tree, prime)
    node = tree.find(label)
    k = int(tree.depth[node]) if k is None else k
    top = int(code.ball(node, k))
    members = code.members(node, k)
    facts = {
        "ball": f"B_{k}({tree.labels[node]})",
        "top": _name(tree, top, json),
        "radius": f"{code.p}^-{k}",
        "shared digits": code.format(top, "digits"),
        "nodes": len(members),
        "leaves": tree.leaf_counts[top],
    }
    if json:
        emit(facts | {"members": tree.labels[members]}, True)
        return
    emit(facts, False)
    small = tree.subtree(top)
    if "name" in small.columns:
        names = [_readable(label, name) for label, name in zip(small.labels, small.columns["name"], strict=True)]
        small = type(small)(small.parent, small.depth, small.size, small.digit, np.array(names, object))
    typer.echo("\n" + small.show(max_nodes=show))
