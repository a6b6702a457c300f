"""docs/paper.md is made from `vpunn.paper.contents`, and what its rows name exists: functions, tests, report sections, figures."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

import vpunn
from commands import run
from vpunn.cli import app
from vpunn.errors import VpunnError
from vpunn.paper import contents
from vpunn.paper.figures import DRAW, find_figures
from vpunn.paper.reports import TARGETS, words_of

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def find(dotted: str) -> Any:
    """What a dotted name stands for, from the package down; a bare name is looked up in `vpunn`, then in `vpunn.torch`."""
    parts = dotted.removeprefix("vpunn.").split(".")
    here: Any = vpunn if hasattr(vpunn, parts[0]) or dotted.startswith("vpunn.") else vpunn.torch
    for i, part in enumerate(parts):
        here = (
            getattr(here, part) if hasattr(here, part) else importlib.import_module("vpunn." + ".".join(parts[: i + 1]))
        )
    return here


def test_the_page_is_that_of_the_table():
    spec = importlib.util.spec_from_file_location("paper_page", ROOT / "tools" / "paper_page.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.written(TEXT) == TEXT, "run python -m tools.paper_page"


def test_every_name_exists():
    named = set(re.findall(r"`((?:vpunn\.)?[A-Za-z_]+(?:\.[A-Za-z_]+)*)(?:\([a-z]+=\))?`", TEXT))
    names = {n for n in named if n.startswith("vpunn.") or (n[0].isupper() and len(n) > 1)}
    if importlib.util.find_spec("torch") is None:
        names = {n for n in names if "torch" not in n and not hasattr(vpunn, n.partition(".")[0])}
    for name in sorted(names):
        owner, _, last = name.rpartition(".")
        if last.endswith("_"):  # set by fitting
            assert last in find(owner).__doc__ or hasattr(find(owner), last), name
        else:
            find(name)


def test_every_test_and_benchmark_exists():
    file = ""
    for path, name in re.findall(r"(tests/[\w/]+(?:\.py)?)?(?:::(test_\w+))?", TEXT):
        file = path or file
        assert (ROOT / file).exists(), path
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
    for module in re.findall(r"python -m (benchmarks[\w.]+)", TEXT):
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_every_command_makes_what_it_says():
    for target, word in re.findall(r"vpunn reproduce (\w+) --only ([\w-]+)", TEXT):
        assert word in words_of(target), (target, word)
    for exhibit in contents.EXHIBITS.values():
        for target, word in exhibit.made_by:
            assert word in words_of(target), exhibit.id
    commands = re.findall(r"vpunn figures ((?:F\d+ ?)+)", TEXT)
    assert {figure.key for names in commands for figure in find_figures(names.split())} == set(DRAW)


def test_every_word_has_a_meaning_and_is_listed():
    rows = json.loads(run(app, "reproduce", "--list", "--json"))
    assert {row["target"] for row in rows} == {*TARGETS, "own"}
    assert all(row["shows"] for row in rows)
    assert {row["--only"] for row in rows if row["target"] == "own"} >= {f"T{i}" for i in (7, 8, 9, 10, 13, 14, 15, 16)}
    assert "T10" not in words_of("ncbi") and "T12" in words_of("ncbi")


def test_every_code_that_the_package_cites_is_explained():
    cited = {
        code
        for path in (ROOT / "src" / "vpunn").rglob("*.py")
        if path.name != "contents.py"
        for code in re.findall(r"\bE-\d\d\b", path.read_text(encoding="utf-8"))
    }
    assert cited <= set(contents.FOUND)
    assert {e for row in contents.EXHIBITS.values() for e in re.findall(r"E-\d\d", row.verdict)} <= set(contents.FOUND)
    assert [key for key in contents.EXHIBITS if key[0] in "ATFL"] == [
        f"{letter}{i}" for letter, last in (("A", 5), ("T", 22), ("F", 19), ("L", 6)) for i in range(1, last + 1)
    ]
    assert dict(contents.codes_in("see T9–T11 and E-43")).keys() == {"T9", "T10", "T11", "E-43"}
    with pytest.raises(VpunnError, match="the paper has no 'T23'"):
        contents.captions("T23")
