"""Cells of a dense block: what a row finds there against slow twins, the same in any batch, kept and refused on loading."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores import edit_array
from vpunn import load
from vpunn.errors import DataError
from vpunn.explain import explain
from vpunn.hipan import HiPaNClassifier, _cells, _dense
from vpunn.hipan._arrays import Lift
from vpunn.hipan._balls import Items
from vpunn.hipan._cells import Cells, nearest_centre
from vpunn.hipan._dense import EVIDENCE, Dense
from vpunn.hipan._directions import directed, exactly, is_exact, padded
from vpunn.hipan.kernels.products import best_in_cells, best_products
from vpunn.tree import Tree

TREE = Tree.from_paths([(f"g{i // 8}", f"c{i}") for i in range(120)], root="r")


@pytest.fixture
def many(monkeypatch):
    """A few hundred items are many, and so are 120 classes."""
    monkeypatch.setattr(_dense, "CELLS_FROM", 400)
    monkeypatch.setattr(_dense, "CLASSES_A_CELL", 1)
    monkeypatch.setattr(_dense, "CROWD", 0)
    monkeypatch.setattr(_cells, "PER_ROOT", 2)


def directions(seed, rows, width=6):
    return padded(directed(np.random.default_rng(seed).normal(size=(rows, width)))[0])


def rows_of_classes(seed=0, rows=900, width=70):
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(TREE.n_nodes, width))
    node = rng.choice(TREE.leaves, rows)
    return place[node] + 0.7 * rng.normal(size=(rows, width)), node


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_best_in_cells_match_a_slow_twin(seed, limit, lifted):
    """Some cells are empty; rows look into one, several or too few."""
    rng = np.random.default_rng(seed)
    rows, columns = directions(seed, 9), directions(seed + 1, 60)
    columns[::7] = columns[3]  # equal products
    cell = np.sort(rng.integers(0, 8, 60))
    cells = Cells(directions(seed + 2, 8), cell.astype(np.int32))
    asked = cells.asked(rows)
    lift = Lift(*(rng.random(n).astype(np.float32) for n in (9, 60, 60))) if lifted else None
    best, top = best_in_cells(rows, columns, limit, asked, cells.starts(cell), lift)
    nearest = (rows @ cells.centre.T).argmax(1)  # one in eight of eight cells
    for r in range(9):
        value = rows[r] @ columns.T
        if lift is not None:
            value = value * lift.scale * lift.length[r] + lift.bias
        among = np.flatnonzero(cell == nearest[r])
        among = among if len(among) >= limit else np.arange(60)
        wanted = among[np.lexsort((among, -value[among]))][:limit]
        np.testing.assert_array_equal(best[r], wanted)
        np.testing.assert_array_equal(top[r], value[wanted])


def test_rows_that_look_into_all_cells_find_what_is_nearest(many, monkeypatch):
    monkeypatch.setattr(_cells, "ONE_IN", 1)
    X, node = rows_of_classes()
    items = Items(
        X.astype(np.float32), node.astype(np.int32), np.ones(len(node), np.float32), np.zeros(len(node), np.int8)
    )
    cells, whole = Dense("x", TREE, items), Dense("x", TREE, items, in_cells=False)
    assert cells.cells is not None and cells.class_start is not None and whole.cells is None
    asked = X[::9].astype(np.float32)
    found, wanted = cells.look(asked), whole.look(asked)
    assert all((np.sort(a) == np.sort(b)).all() for a, b in zip(found.propose(5), wanted.propose(5), strict=True))
    np.testing.assert_array_equal(found.closest(16)[1], wanted.closest(16)[1])
    candidates = np.tile(TREE.leaves, (len(asked), 1)).astype(np.int32)
    np.testing.assert_allclose(found.evidence(candidates), wanted.evidence(candidates), atol=1e-6)
    own = cells.class_at[node[::9]]
    np.testing.assert_array_equal(found.closed()[:, cells.class_at[TREE.leaves]], wanted.closed())
    assert (cells.classes[own] == node[::9]).all()


def test_cells_hold_their_items_and_most_of_what_is_near(many):
    X = rows_of_classes(rows=3000)[0]
    unit = directed(X)[0]
    cells = Cells.of(unit)
    assert is_exact(cells.centre) and not is_exact(cells.centre * 0.9) and not is_exact(cells.centre * 4)
    np.testing.assert_array_equal(cells.of_item, nearest_centre(padded(unit), cells.centre))
    order = np.argsort(cells.of_item, kind="stable")
    start, memory = cells.starts(cells.of_item[order]), padded(unit)[order]
    asked = padded(directed(X[:200] + 0.3)[0])
    near = best_in_cells(asked, memory, 16, cells.asked(asked), start)[0]
    truth = best_products(asked, memory, 16)[0]
    assert np.mean([np.isin(t, n).mean() for t, n in zip(truth, near, strict=True)]) > 0.8
    read = np.diff(start) @ np.diff(np.stack(cells.asked(asked)[1:]), axis=0)[0] / len(asked) / len(memory)
    assert read < 0.17  # a twelfth of the cells


def test_a_model_with_cells_answers_alike_in_any_batch_and_when_loaded(many, tmp_path):
    X, node = rows_of_classes(rows=900)
    y = TREE.labels[node]
    model = HiPaNClassifier(TREE, epochs=1).fit({"e": X[:700]}, y[:700])
    block = model.dense_["e"]
    assert block.cells is not None and len(block.memory) == 700
    asked = {"e": X[700:]}
    together = model.posterior(asked).top_k(5)
    assert np.mean(model.predict(asked) == y[700:]) > 0.9
    for size in (1, 7):
        parts = [model.posterior({"e": X[700 + i : 700 + min(i + size, 200)]}).top_k(5) for i in range(0, 200, size)]
        assert all(
            (np.concatenate(part) == whole).all()
            for part, whole in zip(zip(*parts, strict=True), together, strict=True)
        )
    assert explain(model, {"e": X[700:701]}).blocks.keys() == {"e"}
    again = HiPaNClassifier(TREE, epochs=1).fit({"e": X[:700]}, y[:700])
    files = [sorted(m.save(tmp_path / name).glob("*.npy")) for name, m in (("m", model), ("again", again))]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))
    kept = load(tmp_path / "m")
    np.testing.assert_array_equal(kept.dense_["e"].cells.centre, block.cells.centre)
    assert all((a == b).all() for a, b in zip(kept.posterior(asked).top_k(5), together, strict=True))
    model.partial_fit(asked, y[700:])
    assert len(model.dense_["e"].cells.of_item) == 900 and np.mean(model.predict(asked) == y[700:]) > 0.9


@pytest.mark.parametrize(
    ("file", "edit", "said"),
    [
        ("cells.item", lambda a: a + 10_000, "not below"),
        ("cells.item", lambda a: a - 10_000, "below 0"),
        ("cells.item", lambda a: a[:-1], "has the shape"),
        ("cells.centre", lambda a: a * np.float32(0.7), "no rounded directions"),
        ("cells.centre", lambda a: a * np.float32(np.nan), "not finite"),
        ("cells.centre", lambda a: exactly(np.ones_like(a)), "no rounded directions"),
        ("cells.centre", lambda a: a[:, :32], "has the shape"),
        ("cells.centre", lambda a: a[:0], "no rounded directions"),
    ],
)
def test_edited_cells_are_refused(many, tmp_path, file, edit, said):
    X, node = rows_of_classes(rows=450)
    folder = HiPaNClassifier(TREE, epochs=1, candidates=3).fit({"e": X}, TREE.labels[node]).save(tmp_path / "m")
    edit_array(folder, file, edit, "dense0")
    with pytest.raises(DataError, match=said):
        load(folder)


def test_experts_that_judge_have_cells_if_those_that_answer_do(many, monkeypatch):
    made, of = [], Cells.of
    monkeypatch.setattr(Cells, "of", lambda unit: made.append(len(unit)) or of(unit))
    X, node = rows_of_classes(rows=410)
    HiPaNClassifier(TREE, random_state=0).fit(X, TREE.labels[node])
    assert len(made) > 1 and min(made) < 400 and made[-1] == 410


def test_what_fit_decided_about_cells_stays(many, monkeypatch):
    X, node = rows_of_classes(rows=500)
    y = TREE.labels[node]
    few = HiPaNClassifier(TREE, random_state=0).fit(X[:380], y[:380])
    assert all(block.cells is None for block in few.partial_fit(X[380:], y[380:]).dense_.values())
    model = HiPaNClassifier(TREE, random_state=0).fit(X[:450], y[:450])
    assert all(block.cells is not None for block in model.partial_fit(X[450:], y[450:]).dense_.values())


@pytest.mark.parametrize("in_cells", [True, False])
def test_rows_of_zeros_look_into_no_cell_and_find_nothing(many, in_cells):
    """They were as near to all centres, and looked into every cell."""
    X, node = rows_of_classes()
    items = Items(
        X.astype(np.float32), node.astype(np.int32), np.ones(len(node), np.float32), np.zeros(len(node), np.int8)
    )
    block = Dense("x", TREE, items, in_cells=in_cells)
    asked = X[:6].astype(np.float32)
    asked[[0, 3]] = 0
    look, others = block.look(asked), block.look(asked[[1, 2, 4, 5]])
    if in_cells:
        assert not np.isin(look.asked.row, [0, 3]).any()
    for found, wanted in zip(look.propose(5), others.propose(5), strict=True):
        assert (found[[0, 3]] == -1).all()
        np.testing.assert_array_equal(found[[1, 2, 4, 5]], wanted)
    candidates = np.tile(TREE.leaves[:9], (6, 1)).astype(np.int32)
    said = look.evidence(candidates)
    assert not said[[0, 3]].any() and said[1].any()


def test_a_row_that_lies_at_the_centre_has_an_answer(many):
    """It has no direction, but it is no row of zeros: the heads speak of it, no item votes."""
    X, node = rows_of_classes(rows=450)
    model = HiPaNClassifier(TREE, random_state=0).fit(X + 3.0, TREE.labels[node])
    (block,) = model.dense_.values()
    row = block.space.centre[None]
    look = block.look(row)
    assert row.all() and 0 < look.length[0] < 1e-5 and not look.unit.any()
    said = look.evidence(block.classes[None, :9].astype(np.int32))[0, :-1]
    assert np.ptp(said[:, EVIDENCE.index("log-probability by the closed-form head")]) > 0
    assert not said[:, EVIDENCE.index("votes of the nearest items for the node")].any()
    nodes, p = model.posterior(row).top_k(3)
    assert (nodes >= 0).all() and np.isfinite(p).all() and 0 < p.sum() <= 1 + 1e-9
    assert model.predict(row)[0] in set(TREE.labels)
