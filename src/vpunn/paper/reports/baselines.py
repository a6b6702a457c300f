"""Target ``baselines``: T14 as the paper ran it, six baselines that are given the digits of the answer (AUDIT E-62).

How such methods do on held-out rows, with the same features, split and budget for all, is measured by ``python -m
benchmarks.predict`` in a checkout, and mammals' traits by ``python -m benchmarks.traits``.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from vpunn.paper.reports import given_digits
from vpunn.paper.reports._run import Section, Shelf, assemble, choose, command_line, load_hierarchy
from vpunn.report import Report

#: CPU seconds of each baseline unless the paper's hour is asked for; the growth of the last sizes says what an hour does.
GROWTH = 120.0
HOUR = 3600.0


def run(
    seeds: int = 10,
    *,
    out: str | Path | None = None,
    source: str | Path | None = None,
    only: Collection[str] = (),
    resume: bool = False,
    work: dict[str, Any] | None = None,
) -> Report:
    """The report; ``work`` may hold a tree and the budget of each baseline in CPU seconds."""
    wanted = choose(SECTIONS, "baselines", only)
    shelf = Shelf("baselines", seeds, out, source, resume, work or {})
    budget = shelf.work.get("budget", GROWTH)
    time = " --hour" if budget == HOUR else "" if budget == GROWTH else f" --minutes {budget / 60:g}"
    report = Report("The paper's six baselines", command_line("baselines", shelf.seeds, only) + time)
    return assemble(shelf, report, wanted)


def _given_digits(shelf: Shelf, report: Report) -> None:
    tree = shelf.work["tree"] if "tree" in shelf.work else load_hierarchy("wordnet").tree
    given_digits.section(shelf, report, tree, shelf.work.get("budget", GROWTH))


SECTIONS = [Section(("T14",), _given_digits)]
