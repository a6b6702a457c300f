"""Commands on tree files: ``tree info``, ``tree check``, ``tree convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, add, emit
from vpunn.cli.source import AS_NAMED, Source, TreeFile
from vpunn.errors import DataError, TreeError, counted

if TYPE_CHECKING:
    from vpunn.tree import Tree


def register(app: typer.Typer) -> None:
    """Add the commands."""
    tree = typer.Typer(no_args_is_help=True, help="Look at, check and convert tree files.")
    for command in (info, check, convert):
        add(tree, command)
    app.add_typer(tree, name="tree")


def info(source: Source, how: TreeFile = AS_NAMED, json: JsonFlag = False) -> None:
    """Size, depth, branching, the prime and the bits of each code."""
    emit(tree_facts(how.read(source), json), json)


def tree_facts(tree: Tree, json: bool) -> dict[str, Any]:
    """What a tree is."""
    from vpunn.codes import PadicCode

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
    return facts | {"changed on reading": "; ".join(tree.report) or "nothing"}


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


def check(source: Source, how: TreeFile = AS_NAMED, json: JsonFlag = False) -> None:
    """Say whether a file holds a tree, and if not, why."""
    try:
        tree = how.read(source)
    except (TreeError, DataError) as error:  # no tree, or a file in which none can be read
        emit({"ok": False, "reason": str(error)}, json)
        raise typer.Exit(1) from None
    emit({"ok": True, "nodes": tree.n_nodes, "changed on reading": "; ".join(tree.report) or "nothing"}, json)


def convert(
    source: Source,
    out: Annotated[str, typer.Argument(help="File to write, or '-' for standard output (with --to).")],
    to: Annotated[str | None, typer.Option(help="Format to write, if the name does not tell.")] = None,
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """Rewrite a tree in another format.

    Newick gets readable names where the tree has them (NCBI: scientific names)."""
    from vpunn.files import check_not_read, suffix
    from vpunn.io import ENDINGS, write_tree

    check_not_read(out, source)
    tree = how.read(source)
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
