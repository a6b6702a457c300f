"""What ``vpunn reproduce`` makes: a report a target, section by section, under the words of `vpunn.paper.contents`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpunn.errors import VpunnError
from vpunn.paper.contents import meaning
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.report import Report

#: The paper's hierarchies, and the module of each other report.
HIERARCHIES = ("wordnet", "go", "ncbi")
OTHERS = ("hipaq", "tabular", "baselines")
TARGETS = (*HIERARCHIES, *OTHERS)


def reproduce(
    target: str,
    seeds: int = 10,
    *,
    out: str | Path | None = None,
    source: str | Path | None = None,
    only: Collection[str] = (),
    policy: str | None = None,
    resume: bool = False,
    data: Any = None,
    work: dict[str, Any] | None = None,
) -> Report:
    """The report of a target: one of `TARGETS`, a release as in ``wordnet-3.0``, or any name with ``data``, a tree of one's own.

    ``out`` is the report's folder, ``source`` that of an earlier one (nothing is trained then), ``resume`` goes on in ``out``,
    ``only`` names tables, ``work`` replaces data and amounts of work of single sections.
    """
    options: dict[str, Any] = {"out": out, "source": source, "only": only, "resume": resume, "work": work}
    if data is not None or target.partition("-")[0] in HIERARCHIES:
        if data is not None and not isinstance(data, Tree) and not isinstance(getattr(data, "tree", None), Tree):
            raise VpunnError(f"data must be a Tree, got {type(data).__name__}; vpunn.read_tree makes one from a file.")
        run = import_module("vpunn.paper.reports.hierarchy").reproduce
        report: Report = run(target, seeds, policy=policy, data=data, **options)
        return report
    if target not in OTHERS:
        raise VpunnError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)}, or give data, a tree.")
    if policy is not None:
        raise VpunnError(f"policy is for {', '.join(HIERARCHIES)}; leave it out for {target}.")
    made: Callable[..., Report] = import_module(f"vpunn.paper.reports.{target}").run
    return made(seeds, **options)


def words_of(target: str) -> dict[str, str]:
    """What ``--only`` may name for a target ("own" is a tree of one's own), and what each stands for."""
    from vpunn.paper.reports._run import words

    name = "hierarchy" if target in (*HIERARCHIES, "own") else target
    sections = import_module(f"vpunn.paper.reports.{name}").SECTIONS
    return {word: meaning(word) for word in words(sections, target)}
