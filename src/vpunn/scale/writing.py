"""Rows through a function to one file, or to a folder of parts that can be continued, here or on an engine: the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vpunn import files
from vpunn._progress import progress_bar
from vpunn._types import Engine
from vpunn.errors import DataError, VpunnError, counted
from vpunn.io.streams import Parts, is_folder, writing_table
from vpunn.scale.engine import Sent, each
from vpunn.scale.sources import Part, Reading

if TYPE_CHECKING:
    import pyarrow as pa

    from vpunn.tables.gaps import Gaps

#: Rows in one part of a folder.
PART_ROWS = 1 << 18
#: Larger inputs are announced with a bar.
ANNOUNCED = 8 << 20


@dataclass(frozen=True)
class Written:
    """What was written: where, how many rows, which of them held nothing known (their count and the first few), and what
    was filled in (``notes``)."""

    out: Path
    rows: int
    unknown: int = 0
    examples: tuple[int, ...] = ()
    continued: bool = False
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """One sentence."""
        said = f"{counted(self.rows, 'row')} written to {self.out}"
        return "; ".join([said + (f", {self.unknown:,} of them unknown to it" if self.unknown else ""), *self.notes])

    def __str__(self) -> str:
        return self.verdict


class Step(Protocol):
    """From a batch, the number of its first row and the name of its part to the rows that are written."""

    def __call__(self, table: pa.Table, start: int, where: object) -> pa.Table: ...

    def gaps(self, table: pa.Table, where: object) -> Gaps | None:
        """The missing numbers of a batch; None if nobody asks."""
        ...


@dataclass(frozen=True)
class Sizes:
    """Rows that are worked on at once, and rows in a part of a folder; answers depend on a row alone, so neither changes them."""

    batch: int
    part: int

    @classmethod
    def checked(cls, batch: int, part: int) -> Sizes:
        """Parts must be whole numbers of batches."""
        if part % batch and batch % part:
            raise VpunnError(f"part_rows={part} must be a multiple of batch_rows={batch}.")
        return cls(min(batch, part), part)


@dataclass(frozen=True)
class Tally:
    """Rows read, rows written, those that held nothing known (and the first three), and their missing numbers."""

    rows: int = 0
    written: int = 0
    unknown: int = 0
    examples: tuple[int, ...] = ()
    gaps: Any = field(default=None)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows + other.rows,
            self.written + other.written,
            self.unknown + other.unknown,
            (*self.examples, *other.examples)[:3],
            other.gaps if self.gaps is None else self.gaps if other.gaps is None else self.gaps + other.gaps,
        )

    @classmethod
    def of(cls, answers: pa.Table, rows: int, start: int) -> Tally:
        """Of a batch of ``rows`` rows, the first of which is row ``start``."""
        dark = np.empty(0, np.int64)
        if "known" in answers.column_names:
            dark = np.flatnonzero(~answers["known"].to_numpy())
            own = "row" in answers.column_names  # with several answers a row, they say which
            dark = np.unique(answers["row"].to_numpy()[dark]) if own else dark + start
        return cls(rows, len(answers), len(dark), tuple(dark[:3].tolist()))


def write_rows(
    step: Step,
    inputs: Sequence[Part],
    reading: Reading,
    out: Any,
    job: dict[str, Any],
    sizes: Sizes,
    engine: Engine,
    what: str,
) -> tuple[Written, Tally, Parts | None]:
    """Write what ``step`` makes of all rows. A folder is not called complete yet: who called may still refuse the whole."""
    many = len(inputs) > 1 or is_folder(out) or engine is not None
    if many and Path(out).suffix and not is_folder(out):
        why = "workers write parts" if len(inputs) == 1 else f"the input has {len(inputs)} files"
        raise DataError(f"{why}, so the output is a folder of parts; write {out}/ for one.")
    with progress_bar(f"{what}…", verbose=sum(one.bytes for one in inputs) > ANNOUNCED) as bar:
        total = Tally()
        if not many:
            files.check_not_read(out, *(one.name for one in inputs))
            with writing_table(Path(out)) as writer:
                for answers, tally in _answered(step, inputs[0], reading, sizes.batch):
                    writer.write(answers)
                    total += tally
                    bar.say(f"{total.rows:,} rows")
                refuse = getattr(step, "refuse", None)
                if refuse is not None:
                    refuse(total.gaps)
            return Written(Path(out), total.written, total.unknown, total.examples), total, None
        facts = {"input": [one.facts() for one in inputs], "part_rows": sizes.part, "batch_rows": sizes.batch}
        parts = Parts.open(Path(out), {**job, **facts})
        there = parts.rows_there()
        firsts = _firsts(inputs, reading, engine)
        sent = Sent(step)
        tasks = _tasks(inputs, reading, parts, sizes, firsts, engine)
        for tally in each(engine, _write_some, ((sent, *task) for task in tasks)):
            total += tally
            firsts.read += tally.rows
            bar.say(f"{total.rows:,} rows")
    done = Written(Path(out), total.written + sum(there), total.unknown, total.examples, bool(there))
    return done, total, parts


def _answered(step: Step, part: Part, reading: Reading, batch: int) -> Iterator[tuple[pa.Table, Tally]]:
    for table, start, where in part.batches(reading, batch):
        answers = step(table, start, where)
        yield answers, replace(Tally.of(answers, len(table), start), gaps=step.gaps(table, where))


class _Firsts:
    """The number of the first row of every part: known beforehand, or counted while the parts are read in order."""

    def __init__(self, known: list[int] | None) -> None:
        self.known, self.read = known, 0

    def __getitem__(self, at: int) -> int:
        return self.read if self.known is None else self.known[at]


def _firsts(inputs: Sequence[Part], reading: Reading, engine: Engine) -> _Firsts:
    rows = [one.rows() for one in inputs]
    if engine is None and None in rows:
        return _Firsts(None)
    unknown = [one for one, known in zip(inputs[:-1], rows[:-1], strict=True) if known is None]
    counted = each(engine, _count, [(one, reading) for one in unknown])
    ends = [next(counted) if known is None else known for known in rows[:-1]]
    return _Firsts(np.cumsum([0, *ends]).tolist())


def _count(part: Part, reading: Reading) -> int:
    return sum(len(table) for table in part.tables(reading))


def _tasks(
    inputs: Sequence[Part], reading: Reading, parts: Parts, sizes: Sizes, firsts: _Firsts, engine: Engine
) -> Iterator[tuple[Any, ...]]:
    """What one worker does: a part of the folder where the input's rows are numbered, else a whole input."""
    for at, one in enumerate(inputs):
        rows = one.rows()
        if rows is None:
            yield one, at, reading, parts, sizes, firsts[at], 0, None
            continue
        first = firsts[at]
        for part in range(-(-rows // sizes.part)):
            yield one, at, reading, parts, sizes, first, part, part + 1


def _write_some(
    step: Step,
    one: Part,
    at: int,
    reading: Reading,
    parts: Parts,
    sizes: Sizes,
    first: int,
    low: int,
    high: int | None,
) -> Tally:
    """Parts ``low`` … ``high`` of an input; those that are there are read again only for what is counted of all rows."""
    begin = here = low * sizes.part
    total, waiting = Tally(), list[Any]()
    for table in one.tables(reading, sizes.batch, begin):
        part = here // sizes.part
        tally = Tally(len(table))
        if not waiting and parts.path(at, part).exists():
            pass
        else:
            waiting.append(step(table, first + here, one.name))
            tally = Tally.of(waiting[-1], len(table), first + here)
        total += replace(tally, gaps=step.gaps(table, one.name))
        here += len(table)
        if here % sizes.part == 0:
            if waiting:
                parts.write(at, part, waiting)
                waiting = []
            if high is not None and here >= high * sizes.part:
                break
    if waiting:
        parts.write(at, (here - 1) // sizes.part, waiting)
    return total
