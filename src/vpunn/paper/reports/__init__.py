"""What ``vpunn reproduce`` makes: a report a target, section by section, under the words of `vpunn.paper.contents`."""

from __future__ import annotations

from collections.abc import Collection
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

    ``out`` is the report's folder: it is checked first, each section is written when it is done, trained models are kept in
    ``checkpoints``. ``source`` is such a folder: its models are used and nothing is trained; with ``resume`` those of ``out``
    are used and only missing ones trained. ``only`` names tables. ``work`` replaces data and amounts of work of single sections.
    """
    from vpunn.datasets.hierarchy import Hierarchy
    from vpunn.paper.reports._run import TITLES, assemble, choose, command_line

    name, extra = target.partition("-")[0], {}
    if data is not None or name in HIERARCHIES:
        if data is not None and not isinstance(data, Tree) and not isinstance(getattr(data, "tree", None), Tree):
            raise VpunnError(f"data must be a Tree, got {type(data).__name__}; vpunn.read_tree makes one from a file.")
        given = Hierarchy(data, target, "", "", "", policy or "first") if isinstance(data, Tree) else data
        kind = name if given is None or target in TITLES else "own"
        name, extra = (target if kind == "own" else kind), {"policy": policy, "given": given}
    elif target not in OTHERS:
        raise VpunnError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)}, or give data, a tree.")
    elif policy is not None:
        raise VpunnError(f"policy is for {', '.join(HIERARCHIES)}; leave it out for {target}.")
    else:
        kind = target
    module = _module(kind)
    wanted = choose(module.SECTIONS, name, only, kind)
    shelf = module.SHELF(target, seeds, out, source, resume, work or {}, **extra)
    report = module.begin(shelf, command_line(target, shelf.seeds, only, policy))
    return assemble(shelf, report, wanted, None if only else getattr(module, "finish", None))


def _module(kind: str) -> Any:
    """What makes the reports of a kind: ``SECTIONS``, a ``SHELF``, ``begin``, and ``finish`` if the whole report has an end."""
    return import_module(f"vpunn.paper.reports.{kind if kind in OTHERS else 'hierarchy'}")


def words_of(target: str) -> dict[str, str]:
    """What ``--only`` may name for a target ("own" is a tree of one's own), and what each stands for."""
    from vpunn.paper.reports._run import words

    return {word: meaning(word) for word in words(_module(target).SECTIONS, target)}
