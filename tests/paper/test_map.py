"""docs/paper.md names functions, tests, report sections and figures: each of them must exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import vpunn
from vpunn.paper.figures import find_figures
from vpunn.paper.reports import _shelf, baselines, hierarchies, hipaq, tabular

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paper.md"
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
SECTIONS = {"hipaq": hipaq.SECTIONS, "tabular": tabular.SECTIONS, "baselines": baselines.SECTIONS}


def find(dotted: str) -> Any:
    """What a dotted name stands for, from the package down; a bare name is looked up in `vpunn`."""
    parts = dotted.removeprefix("vpunn.").split(".")
    here: Any = vpunn
    for i, part in enumerate(parts):
        if not hasattr(here, part):
            here = importlib.import_module("vpunn." + ".".join(parts[: i + 1]))
        else:
            here = getattr(here, part)
    return here


def test_every_name_exists():
    named = set(re.findall(r"`((?:vpunn\.)?[A-Za-z_]+(?:\.[A-Za-z_]+)*)(?:\([a-z]+=\))?`", TEXT))
    names = {n for n in named if n.startswith("vpunn.") or (n[0].isupper() and len(n) > 1)}
    assert len(names) > 45
    if importlib.util.find_spec("torch") is None:
        names.remove("vpunn.torch")
    for name in sorted(names):
        owner, _, last = name.rpartition(".")
        if last.endswith("_"):  # set by fitting
            assert last in find(owner).__doc__ or hasattr(find(owner), last), name
        else:
            find(name)


def test_every_test_exists():
    found, file = 0, ""
    for path, name in re.findall(r"(tests/[\w/]+(?:\.py)?)?(?:::(test_\w+))?", TEXT):
        file = path or file
        if path:
            assert (ROOT / path).exists(), path
        if name:
            found += 1
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
    assert found > 35


@pytest.mark.parametrize(("target", "table"), sorted(set(re.findall(r"vpunn reproduce (\w+) --only ([\w-]+)", TEXT))))
def test_every_section_exists(target, table):
    sections = SECTIONS.get(target) or hierarchies.sections()
    assert _shelf.choose(sections, target, [table])


def test_every_figure_and_table_of_the_paper_is_on_the_page():
    commands = re.findall(r"vpunn figures ((?:F\d+ ?)+)", TEXT)
    drawn = {figure.key for names in commands for figure in find_figures(names.split())}
    assert drawn == {f"F{i}" for i in range(1, 20)}
    tables = TEXT[TEXT.index("## Tables") : TEXT.index("## Figures")]
    assert {f"T{i}" for i in range(1, 23)} <= set(re.findall(r"T\d+", tables))
    assert {f"Algorithm {i}" for i in range(1, 6)} <= set(re.findall(r"Algorithm \d", TEXT))
