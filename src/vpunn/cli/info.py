"""``vpunn info``: what a saved model, code or tree is, without loading it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, emit
from vpunn.errors import counted

#: Lines for people are no longer than this; JSON has all of every value.
WIDTH = 80

#: What models are for.
KINDS = {
    "HiPaNClassifier": "places rows on a tree",
    "VPuNNRegressor": "predicts a number from levels",
    "TreeSampleRegressor": "predicts a number from levels, averaged over trees",
    "VPuNNClassifier": "predicts a class from levels",
    "PadicTargetEncoder": "turns levels into numbers",
    "TextFeatures": "counts words and letters of texts",
    "Tree": "a hierarchy",
    "VPuNN": "one number for each branch, summed up",
    "TabHiPaN": "predicts from a tree found in a table",
    "LatentTreeEncoder": "a tree found in a table",
    "SemanticIds": "ids that begin with their group",
}

#: Facts that people call otherwise than Python does.
CALLED = {"bytes": "size of arrays", "numbers of balls": "numbers of branches", "numbers of no ball": "other numbers"}

#: What stands behind a word, said where it first appears. Words that are not here say it themselves.
WORDS = {
    "format": "how the folder is laid out",
    "arrays": "files of numbers",
    "numbers of balls": "a branch is a node with all below it",
    "numbers of no ball": "of no single branch",
    "settings": "what it was fitted with, and what was found then",
    "params": "what its constructor was given",
    "novelty": "whether answers may lie where no row does",
    "novel": "what that came to",
    "answers": "which nodes are answers",
    "class_prior": "how common classes are among questions",
    "training_rows": "rows it learned from",
    "held_out_exact": "share of held-out rows answered exactly",
    "changed_rows": "came or went since, see refresh",
    "described_rows": "nodes with a text of their own",
    "random_state": "seed",
    "multilabel": "several labels a row",
    "flat": "labels without a tree",
    "n_features": "columns or words it reads",
    "rows": "training rows",
    "blocks": "columns that belong together",
    "texts": "kinds of texts about the nodes",
    "risk_rows": "rows behind --stop risk",
    "given_tree": "fitted on a tree, not on levels alone",
    "by_label": "one label a row, no levels",
    "covariate_columns": "numbers beside the levels",
    "one_target": "one number a row",
    "targets": "numbers it predicts",
    "inputs": "columns of the table",
    "medians": "stand in for missing numbers",
    "provenance": "where it comes from",
    "data_sha256": "by which the table is known again",
    "part features": "how texts are read",
    "ngram_range": "from so many to so many in a row",
    "analyzer": "what is counted",
    "sublinear_tf": "a word twice counts less than double",
    "min_df": "rows that a word must be in",
    "cut": "letters and digits are told apart",
    "checksums": "of the files, as they were saved",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(info)


def info(
    path: Annotated[
        Path,
        typer.Argument(help="Folder that a save method, `vpunn fit` or `vpunn tabular fit` wrote; or a tree file."),
    ],
    verify: Annotated[bool, typer.Option(help="Compare the checksum of every array.")] = True,
    json: JsonFlag = False,
) -> None:
    """Say what a saved model or a tree file is.

    Kind, version, size, tree, which numbers belong to branches, settings, where it comes from."""
    from vpunn.cli.source import read_source
    from vpunn.cli.tree import tree_facts
    from vpunn.store import Stored

    if path.is_file():
        emit(tree_facts(read_source(str(path)), json), json)
        return
    facts = {**Stored.open(path, verify=verify).facts(), "checksums": "all agree" if verify else "not compared"}
    if json:
        emit(facts, True)
        return
    lines = list(_lines(facts, set()))
    room = WIDTH - 2 - max(len(name) for name, _, _ in lines)
    cells = [_cell(value, words, room) for _, value, words in lines]
    emit([{"": name, " ": cell} for (name, _, _), cell in zip(lines, cells, strict=True)], False)
    if any("…" in cell for cell in cells):
        typer.echo("(what is cut at … stands whole in --json)")


def _lines(facts: Mapping[str, Any], said: set[str], depth: int = 0) -> Iterator[tuple[str, str, str]]:
    """Name, value and meaning of every fact, groups indented; what is empty or unset says nothing, nothing is explained twice."""
    for name, value in facts.items():
        words = KINDS.get(value, "") if name == "kind" else "" if name in said else WORDS.get(name, "")
        said.add(name)
        shown = "  " * depth + CALLED.get(name, name)
        if name == "numbers of no ball":
            yield shown, f"{sum(value.values()):,}", words
        elif isinstance(value, Mapping):
            below = list(_lines(value, said, depth + 1))
            yield from [(shown, "", words), *below] if below else []
        elif value is not None and value != "" and value != []:
            yield shown, _text(name, value), words


def _text(name: str, value: Any) -> str:
    """A value in one line."""
    from vpunn._show import show

    if name == "bytes":
        return f"{value / 1e6:,.3g} MB"
    if name == "blocks":
        kinds = {True: "numbers", False: "words"}
        return ", ".join(f"{called or 'all'}: {count:,} {kinds[dense]}" for called, dense, count in value)
    if isinstance(value, list):
        listed = ", ".join(map(show, value))
        return listed if len(value) < 5 else f"{len(value):,}: {listed}"
    tree = re.fullmatch(r"Tree\((.*), branching ≤ (\d+)\)", str(value))
    return f"{tree[1]}, at most {counted(int(tree[2]), 'child', 'children')} a node" if tree else show(value)


def _cell(value: str, words: str, room: int) -> str:
    """The value, cut if it is long, and its meaning in brackets."""
    if not value:
        return f"({words})" if words else ""
    more = f" ({words})" if words else ""
    return f"{value}{more}" if len(value) + len(more) <= room else f"{value[: room - len(more) - 1]}…{more}"
