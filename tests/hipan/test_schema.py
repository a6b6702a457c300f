"""Every part of a model can be written, and is what it was when it is read."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from vpunn.errors import DataError
from vpunn.hipan import experts, schema
from vpunn.hipan.combiner import Combiner
from vpunn.hipan.schema import Part, Reader, Writer, parts_of
from vpunn.store import Draft, Stored


def test_every_part_has_a_line_for_each_of_its_fields():
    for kind, fields in schema.SCHEMA.items():
        assert set(fields) == set(parts_of(kind)), kind
    assert {*experts.WORDS, *experts.NUMBERS, experts.Prior, Combiner} <= set(schema.SCHEMA)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if sparse.issparse(a):
        return all(same(getattr(a, part), getattr(b, part)) for part in ("data", "indices", "indptr"))
    if type(a) is tuple:
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    if type(a) in schema.SCHEMA:
        return all(same(getattr(a, f), getattr(b, f)) for f in schema.SCHEMA[type(a)])
    return a is b or a == b


def written(model, folder):
    draft = Draft("Parts")
    writer = Writer(draft)
    draft.settings["told"] = [writer.write(f"e{i}", e) for i, (_, e) in enumerate(model.experts.experts)]
    return Stored.open(draft.write(folder), "Parts", verify=True)


def read(model, stored):
    tree = model.experts.tree
    lengths = {"blocks": tree.blocks, "leaves": len(tree.leaf), "nodes": model.tree.n_nodes}
    reader = Reader(stored, (tree, model.grown), lengths).of_block(
        {"columns": model.experts.experts[1][1].table.start.size - 1}
    )
    kinds = [type(e) for _, e in model.experts.experts]
    return [
        reader.read(f"e{i}", t, Part(k)) for i, (t, k) in enumerate(zip(stored.settings["told"], kinds, strict=True))
    ]


def test_what_is_read_is_what_was_written_and_shared_parts_stay_shared(model, tmp_path):
    found = read(model, written(model, tmp_path / "m"))
    assert all(same(e, f) for (_, e), f in zip(model.experts.experts, found, strict=True))
    assert found[4].sums is found[1] and found[4].items is found[2]


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("e1.table.block", lambda a: a * 0 + 10**6),
        ("e1.table.start", lambda a: a[::-1].copy()),
        ("e1.table.value", lambda a: a * np.nan),
        ("e2.items.leaf", lambda a: a * 0 - 1),
        ("e2.rows.indices", lambda a: a + 10**6),
        ("e3.bias", lambda a: a[:-1]),
    ],
)
def test_numbers_out_of_range_are_refused(model, tmp_path, array, change):
    stored = written(model, tmp_path / "m")
    plain = stored._open_array
    stored._open_array = lambda name: change(plain(name)) if name == array else plain(name)
    with pytest.raises(DataError, match="damaged"):
        read(model, stored)
