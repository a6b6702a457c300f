"""Target ``baselines``: T14 as the paper ran it, six baselines that are given the digits of the answer (AUDIT E-62).

How such methods do on held-out rows, with the same features, split and budget for all, is measured by ``python -m
benchmarks.predict`` in a checkout, and mammals' traits by ``python -m benchmarks.traits``.
"""

from __future__ import annotations

from vpunn.paper.reports import given_digits
from vpunn.paper.reports._run import Section, Shelf, load_hierarchy
from vpunn.report import Report

#: CPU seconds of each baseline unless the paper's hour is asked for; the growth of the last sizes says what an hour does.
GROWTH = 120.0


def begin(shelf: Shelf, command: str) -> Report:
    """The report without its table; ``shelf.work`` may hold a tree and the budget of each baseline in CPU seconds."""
    budget = shelf.work.get("budget", GROWTH)
    time = "" if budget == GROWTH else f" --minutes {budget / 60:g}"
    return Report("The paper's six baselines", command + time)


def _given_digits(shelf: Shelf, report: Report) -> None:
    tree = shelf.work["tree"] if "tree" in shelf.work else load_hierarchy("wordnet").tree
    given_digits.section(shelf, report, tree, shelf.work.get("budget", GROWTH))


SHELF = Shelf
SECTIONS = [Section(("T14",), _given_digits)]
