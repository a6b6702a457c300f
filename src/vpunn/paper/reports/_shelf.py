"""What a report is made of, and where its parts are kept: sections in order, facts that only running something can give.

``reports/<name>/checkpoints/facts.json`` holds those facts; ``plan.json`` beside it says for which run they are. A report made
``--from`` such a folder runs nothing; one that goes on with ``--resume`` runs what is missing.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from vpunn._show import plain
from vpunn.errors import DataError, VpunnError
from vpunn.files import make_folder, written_beside
from vpunn.paper.reports._codes import explain_codes
from vpunn.report import Report

PLAN, FACTS = "plan.json", "facts.json"


@dataclass
class Shelf:
    """Name, seeds and folders of a report (``out`` is made and tried first); `fact` measures once and keeps."""

    name: str
    seeds: int = 10
    out: Any = None
    source: Any = None
    resume: bool = False
    #: Results several sections share, by name.
    memo: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = None if self.source is None else Path(self.source)
        self.out = None if self.out is None else make_folder(self.out)  # before any work is done for it
        if self.source is not None:
            plan = self._read_plan(self.source)
            self.seeds = plan["seeds"]
        elif self.resume and self.out is not None and (self.out / "checkpoints" / PLAN).is_file():
            plan = self._read_plan(self.out)
            if plan["seeds"] != self.seeds:
                raise DataError(
                    f"{str(self.out)!r} was begun with --seeds {plan['seeds']}; go on with that, or leave out --resume."
                )

    # ---- facts -------------------------------------------------------------------------------------------------------

    def fact(self, key: str, measure: Callable[[], Any]) -> Any:
        """Numbers that only running something can give: measured now and kept, or taken from an earlier run.

        They come back as JSON has them (lists for tuples and arrays), so that both ways give the same.
        """
        kept = self._kept_facts
        if key not in kept:
            if self.source is not None:
                raise DataError(f"{str(self.source)!r} has no {key!r} in {FACTS}; run vpunn reproduce without --from.")
            kept[key] = json.loads(json.dumps(measure(), default=plain))
            if self.out is not None:
                self._write_plan()
                _write_json(self.out / "checkpoints" / FACTS, kept)
        return kept[key]

    @cached_property
    def _kept_facts(self) -> dict[str, Any]:
        folder = self.source or (self.out if self.resume else None)
        path = None if folder is None else folder / "checkpoints" / FACTS
        facts = read_json(path) if path is not None and path.is_file() else {}
        if not isinstance(facts, dict):
            raise DataError(f"{str(path)!r} holds no facts; run vpunn reproduce {self.name} again.")
        return facts

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        """What identifies the run whose parts are kept."""
        return {"report": self.name, "seeds": self.seeds}

    def _write_plan(self) -> None:
        assert self.out is not None
        folder = self.out / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / PLAN, self.plan())

    def _read_plan(self, folder: Path) -> dict[str, Any]:
        path = folder / "checkpoints" / PLAN
        plan = read_json(path)
        if not isinstance(plan, dict) or not isinstance(plan.get("seeds"), int) or "report" not in plan:
            raise DataError(f"{str(path)!r} cannot be read; run vpunn reproduce {self.name} again.")
        if plan["report"] != self.name:
            raise DataError(f"{str(folder)!r} holds the models of {plan['report']!r}, not of {self.name!r}.")
        return plan


# ---- sections --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """What it shows (the paper's tables, figures and claims, by id), and the function that adds it to a report."""

    ids: tuple[str, ...]
    run: Callable[[Any, Report], None]
    only_for: str = ""
    #: The heading of the part of the report it stands in; sections that bring their own have none.
    part: str = ""

    def belongs_to(self, name: str) -> bool:
        """Whether the paper, or we, have it for this report."""
        return self.only_for in ("", name)


def choose(sections: Sequence[Section], name: str, only: Collection[str] = ()) -> list[Section]:
    """The sections of the wanted tables, or all of this report."""
    here = [section for section in sections if section.belongs_to(name)]
    known = list(dict.fromkeys(id_ for section in here for id_ in section.ids))
    unknown = [table for table in only if table not in known]
    if unknown:
        raise VpunnError(f"the report on {name} has no {unknown[0]!r}; it has {', '.join(known)}.")
    return [section for section in here if not only or set(only) & set(section.ids)]


def assemble(
    shelf: Shelf, report: Report, wanted: Sequence[Section], last: Callable[[Any, Report], None] | None = None
) -> Report:
    """Run sections in order; each is written when it is done. At the end the codes are explained."""
    part = ""
    for section in wanted:
        if section.part and section.part != part:
            report.heading(part := section.part)
        section.run(shelf, report)
        if shelf.out is not None:
            report.write(shelf.out)
    if last is not None:
        report.heading("Resources and codes")
        last(shelf, report)
    explain_codes(report)
    return report


def command_line(name: str, seeds: int, only: Collection[str] = (), policy: str | None = None) -> str:
    """The command that makes a report."""
    options = "".join(f" --only {table}" for table in sorted(only)) + ("" if policy is None else f" --policy {policy}")
    return f"vpunn reproduce {name} --seeds {seeds}{options}"


# ---- what a block costs ----------------------------------------------------------------------------------------------


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """CPU seconds of a block, and the megabytes by which it raised the peak of resident memory (Linux; else None)."""
    spent: dict[str, Any] = {}
    before = _reset_peak()
    started = time.process_time()
    yield spent
    spent["seconds"] = time.process_time() - started
    after = _resident("VmHWM")
    spent["peak_mb"] = None if before is None or after is None else round((after - before) / 1024, 1)


def _reset_peak() -> int | None:
    """Set the peak to what is resident now, so that the next peak is the next block's; the resident kilobytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def read_json(path: Path) -> Any:
    """What a file of a report says."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"cannot read {str(path)!r}: {error.strerror}; run vpunn reproduce without --from first."
        ) from None
    except ValueError:
        raise DataError(f"{str(path)!r} is not valid JSON; run vpunn reproduce again.") from None


def _write_json(path: Path, content: Any) -> None:
    with written_beside(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, default=plain), encoding="utf-8")
