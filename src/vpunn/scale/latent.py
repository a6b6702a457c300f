"""Latent trees of tables that lie on many machines: a fair sample finds the tree, all rows are counted in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vpunn._types import DataSource, Engine, Table
from vpunn.errors import DataError, VpunnError, check_whole
from vpunn.scale.engine import checked_engine, each
from vpunn.scale.sources import Part, Reading, parts_of
from vpunn.tabular.encoder import LatentTreeEncoder
from vpunn.tree.sweeps import sweep_up


def fit_latent_tree(
    source: DataSource,
    columns: Sequence[str],
    *,
    encoder: LatentTreeEncoder | None = None,
    sample: int = 100_000,
    engine: Engine = None,
) -> LatentTreeEncoder:
    """A `LatentTreeEncoder` of numeric columns of any source that `predict` takes; ``tree_.columns["rows"]`` counts all rows.

    First every part keeps the ``sample`` rows whose numbers have the smallest checksums, and so does the whole: a fair sample
    that depends on the rows and not on how they are divided. ``encoder`` (by default two-stage, with a fixed seed) is fitted on it
    where this is called. Then the parts count their rows ball by ball. The same bytes for any partitioning and engine; memory is
    the sample and a batch. Give the encoder a ``random_state``, or other runs find other trees. ``apply`` and ``transform`` take
    batches as they come.
    """
    if encoder is None:
        encoder = LatentTreeEncoder("two-stage", random_state=0)
    check_whole("sample", sample)
    names = list(columns)
    if not names:
        raise VpunnError("name at least one column to learn the tree from.")
    parts, engine = parts_of(source, names), checked_engine(engine)
    chosen = _sampled([], names, int(sample))
    for found in each(engine, _sampled, [([part], names, int(sample)) for part in parts]):
        chosen = _smallest([chosen, found], int(sample))
    if not len(chosen[0]):
        raise DataError("there are no rows to learn a tree from: the source is empty.")
    encoder.fit(chosen[1])
    count = np.zeros(encoder.tree_.n_nodes, np.int64)
    for here in each(engine, _counted, [([part], names, encoder) for part in parts]):
        count += here
    tree = encoder.tree_.replace(columns={**encoder.tree_.columns, "rows": sweep_up(encoder.tree_, count)})
    encoder.tree_, encoder._balls = tree, replace(encoder._balls, tree=tree)
    return encoder


def _sampled(parts: Sequence[Part], names: list[str], sample: int) -> tuple[np.ndarray, np.ndarray]:
    """Checksums and numbers of the rows with the smallest checksums."""
    chosen = np.zeros(0, np.uint64), np.zeros((0, len(names)))
    for part in parts:
        for table in part.tables(Reading(tuple(names))):
            rows = _numbers(table, names)
            chosen = _smallest([chosen, (_checksums(rows), rows)], sample)
    return chosen


def _smallest(some: list[tuple[np.ndarray, np.ndarray]], sample: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows with the smallest checksums, in their order (equal ones are equal rows, or as good as)."""
    sums = np.concatenate([one[0] for one in some])
    rows = np.concatenate([one[1] for one in some])
    order = np.lexsort((*rows.T[::-1], sums))[:sample]
    return sums[order], rows[order]


def _checksums(rows: np.ndarray) -> np.ndarray:
    """64 well-mixed bits of every row."""
    bits = (rows + 0.0).view(np.uint64)  # −0 is 0
    sums = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            sums = (sums ^ column) + np.uint64(0x9E3779B97F4A7C15)
            sums = (sums ^ (sums >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            sums = (sums ^ (sums >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            sums ^= sums >> np.uint64(31)
    return sums


def _counted(parts: Sequence[Part], names: list[str], encoder: LatentTreeEncoder) -> np.ndarray:
    """How many rows of some parts lie in each leaf ball."""
    count = np.zeros(encoder.tree_.n_nodes, np.int64)
    for part in parts:
        for table in part.tables(Reading(tuple(names))):
            rows = _numbers(table, names)
            if len(rows):
                count += np.bincount(encoder.apply(rows), minlength=len(count))
    return count


def _numbers(table: Table, names: list[str]) -> np.ndarray:
    """The columns as one array of doubles; text is refused, missing cells are NaN, which the encoder fills in."""
    found = []
    for name in names:
        try:
            found.append(table[name].cast("float64").to_numpy())
        except ValueError:  # pyarrow's ArrowInvalid
            raise DataError(f"column {name!r} is not a column of numbers ({table[name].type}); leave it out.") from None
    return np.ascontiguousarray(np.column_stack(found), np.float64)
