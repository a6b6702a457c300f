"""Commands on codes: ``encode``, ``decode``, ``distance``, ``ball``. A *source* is what `vpunn.cli.source` reads a tree from."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, add, emit, refuse_unused, say
from vpunn.cli.source import AS_NAMED, Source, TreeFile
from vpunn.errors import VpunnError, counted, examples

if TYPE_CHECKING:
    from vpunn._types import Label, OneOrMany
    from vpunn.tree import Tree

Prime = Annotated[int | None, typer.Option("--prime", "-p", help="A larger prime than the smallest that fits.")]
Labels = Annotated[
    list[str] | None, typer.Argument(help="Labels; none: all nodes; '-': one per line on standard input.")
]
Match = Annotated[
    str, typer.Option(help="exact, or loose: 'homo sapiens' and readable names find Homo_sapiens in the tree.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (encode, decode, distance, ball):
        add(app, command)


def _readable(label: Label, name: object) -> str:
    """``9606 Homo sapiens``, but plain ``dog.n.01``, which says its name already."""
    return str(label) if name is None or str(label).startswith(str(name).replace(" ", "_")) else f"{label} {name}"


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


def _name(tree: Tree, node: int, json: bool) -> Label:
    """A label for output; in tables as text (9606 is a name, not the quantity 9,606) with the readable name beside it."""
    if json:
        return tree.labels[node]
    return _readable(tree.labels[node], tree.columns["name"][node] if "name" in tree.columns else None)


def _nodes(tree: Tree, source: str, labels: list[str] | None, match: str) -> OneOrMany:
    """The nodes asked for, or all."""
    import numpy as np

    wanted = _lines(source, labels)
    return np.arange(tree.n_nodes) if wanted is None else _find(tree, wanted, match)


def _find(tree: Tree, asked: list[str], match: str) -> OneOrMany:
    """Nodes of what was typed; loosely, every step of a path is found by how the tree writes it."""
    from vpunn.errors import check_choice

    check_choice("--match", match, ("exact", "loose"))
    if match == "loose":
        from vpunn.tables.names import Spelling

        spell = Spelling(tree, match)
        steps = [[spell(step.strip())[0] for step in text.split(" / ")] for text in asked]
        return tree.find([step[0] if len(step) == 1 else tuple(step) for step in steps])
    return tree.find(asked)


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
    match: Match = "exact",
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """Codes of labels, or of a column of labels in a table."""
    from vpunn.codes import PadicCode

    if out is not None and (out.endswith("/") or Path(out.lower()).suffix in TABLE_ENDINGS):
        refuse_unused({"--json": json or None}, "--out writes a table; its ending .jsonl gives JSON lines")
        _encode_files(source, labels, out, mode, prime, column, unseen, match, how)
        return
    refuse_unused({"--column": column, "--unseen": unseen}, "there is no --out with a table")
    tree = how.read(source)
    code = PadicCode(tree, prime)
    mode = mode or "int"
    nodes = _nodes(tree, source, labels, match)
    if out is not None:
        code.stamp(nodes, release=source if how.policy == "first" else f"{source}, {how.policy}").save(out)
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
    match: str,
    how: TreeFile,
) -> None:
    """A tree's own nodes, or a column of labels, as a table of codes."""
    from vpunn import scale
    from vpunn.files import check_not_read
    from vpunn.io.frames import check_table_path
    from vpunn.io.streams import is_folder, table_files

    check_not_read(out, source)
    if tables is not None:
        check_not_read(out, *table_files(tables))  # refused before the tree is read
    else:
        refuse_unused(
            {"--column": column, "--unseen": unseen}, "no table is named, so the tree's own nodes are encoded"
        )
    if not is_folder(out) and (tables is None or len(table_files(tables)) == 1):
        check_table_path(out)
    tree = how.read(source)
    chosen: dict[str, Any] = {
        "mode": mode,
        "prime": prime,
        "column": column,
        "unseen": unseen or "error",
        "match": match,
    }
    done = scale.encode(tree, tables, out, **chosen)
    typer.echo(f"written: {out} ({counted(done.rows, 'row')})")


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
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """Labels of codes."""
    from vpunn.codes import PadicCode

    if (codes is None) == (kept is None):
        raise VpunnError("decode takes codes, or --codes and a folder of encode --out; give one of them.")
    tree = how.read(source)
    if kept is not None:
        refuse_unused({"--lenient": lenient or None, "--prime": prime}, "kept codes carry their tree and prime")
        emit(_read_kept(tree, kept, by_path, json), json)
        return
    refuse_unused({"--by-path": by_path or None}, "it belongs to --codes")
    code = PadicCode(tree, prime)
    texts = _lines(source, codes) or []
    nodes = code.parse(texts, strict=not lenient)
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
    nodes = code.read(stamped, by="path" if by_path else "code", strict=False)
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
    match: Match = "exact",
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """Common ancestor and distances of pairs of labels.

    Valuation, p-adic distance and, where a tree has branch lengths, the length of the path."""
    from vpunn.codes import PadicCode
    from vpunn.files import check_not_read
    from vpunn.io.frames import check_table_path
    from vpunn.tree.sweeps import path_lengths

    if matrix:
        if out is not None:
            check_table_path(out)
            check_not_read(out, source)
        tree = how.read(source)
        _matrix(tree, _lines(source, labels) or [], match, measure, prime, out, json)
        return
    refuse_unused({"--measure": measure, "--out": out}, "it belongs to --matrix")
    pairs = [line.split("\t") for line in _lines(source, labels) or []] if labels == ["-"] else [labels]
    wrong = [pair for pair in pairs if len(pair) != 2]
    if wrong:
        more = "; --matrix gives the distances between all of them" if len(wrong[0]) > 2 else ""
        raise VpunnError(f"a distance needs two labels, got {examples(wrong[0]) or 'none'}{more}.")
    tree = how.read(source)
    code = PadicCode(tree, prime)
    u, v = (_find(tree, [pair[side] for pair in pairs], match) for side in (0, 1))
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
    tree: Tree, labels: list[str], match: str, measure: str | None, prime: int | None, out: Path | None, json: bool
) -> None:
    """The square table of `distance --matrix`."""
    import numpy as np
    import pandas as pd

    from vpunn.codes import PadicCode
    from vpunn.errors import check_choice, examples, repeated
    from vpunn.io.frames import write_table
    from vpunn.tree.sweeps import path_lengths

    if twice := repeated(labels):
        raise VpunnError(
            f"--matrix has a row and a column per label, and {examples(twice)} is given twice; name it once."
        )
    if len(labels) < 2:
        raise VpunnError(f"--matrix needs two labels or more, got {examples(labels) or 'none'}.")
    measure = measure or ("length" if "length" in tree.columns else "edges")
    check_choice("--measure", measure, ("length", "edges", "valuation", "padic"))
    nodes = _find(tree, labels, match)
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
    match: Match = "exact",
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """The branch around a node, which shares its first k digits.

    In p-adic words it is the ball of radius p^-k."""
    import numpy as np

    from vpunn.codes import PadicCode

    tree = how.read(source)
    code = PadicCode(tree, prime)
    node = int(_find(tree, [label], match)[0])
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
