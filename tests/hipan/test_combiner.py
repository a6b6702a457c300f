"""The combiner: scores beside whole-array operations, and evidence beyond what held-out rows have shown."""

import json

import numpy as np
import pytest

from stores import edit_array, write_head
from vpunn import HiPaNClassifier
from vpunn.errors import DataError
from vpunn.hipan._combiner import Combiner, anything
from vpunn.hipan._rest import BY_PRIOR


def made_up(width, units, bounds):
    rng = np.random.default_rng(0)
    parts = (rng.normal(size=shape).astype(np.float32) for shape in [(width,), (units, width), (units,), (units,)])
    centre, scale = rng.normal(size=width), rng.random(width) + 0.5
    return Combiner(centre.astype(np.float32), scale.astype(np.float32), *bounds, *parts, np.zeros(()), BY_PRIOR)


def test_scores_are_those_of_whole_arrays_and_evidence_is_cut_at_its_bounds():
    rng = np.random.default_rng(1)
    bounds = np.full(5, -0.7, np.float32), np.full(5, 0.9, np.float32)
    combiner = made_up(5, 3, bounds)
    evidence = rng.normal(size=(4, 3, 5)).astype(np.float32)
    candidates = np.array([[1, 2], [1, -1], [3, 1], [2, 3]], np.int32)
    z = (np.clip(evidence, *bounds) - combiner.centre) / combiner.scale
    inside = z @ combiner.hidden.T + combiner.hidden_bias
    plain = z @ combiner.linear + np.maximum(inside, 0) @ combiner.output
    plain[1, 1] = -np.inf
    np.testing.assert_allclose(combiner.scores(evidence, candidates), plain, rtol=1e-5)
    assert not np.allclose(combiner.unbounded().scores(evidence, candidates)[0], plain[0])


def overlapping(gen, rows=1000, columns=20, classes=5):
    """Numbers whose classes overlap, cut to a decimal: no two rows are alike, and each is nearest to itself."""
    rng = np.random.default_rng(gen)
    label = np.arange(rows) % classes
    make = lambda: np.round(2.5 * np.eye(columns)[label] + rng.normal(size=(rows, columns)), 1)  # noqa: E731
    return make(), make(), label


@pytest.mark.parametrize(("gen", "bounded"), [(1, False), (5, True)])
def test_rows_that_were_learned_are_answered_no_worse_than_new_ones(gen, bounded):
    """Held-out rows are never as like an item as these are; answered by what lay beyond them, two in three were right."""
    known, new, label = overlapping(gen)
    model = HiPaNClassifier(random_state=2).fit(known, label)
    told = {name: np.mean(model.predict(X) == label) for name, X in (("known", known), ("new", new))}
    assert told["new"] > 0.85
    assert told["known"] > told["new"] - 0.02
    beyond = model.combiner_.unbounded()
    assert np.array_equal(beyond.most, model.combiner_.most) != bounded


@pytest.mark.parametrize("gen", [1, 7, 11])
def test_where_chance_labels_rows_those_learned_are_not_answered_by_the_opposite(gen):
    """A third of the labels is chance: near an item its class was less likely than all else told, and 53 to 58 % were right."""
    rng = np.random.default_rng(gen)
    X = rng.normal(size=(1400, 8))
    y = (X[:, 0] + 1.5 * rng.normal(size=1400) > 0).astype(int)
    model = HiPaNClassifier(random_state=0).fit(X[:400], y[:400])
    right = model.predict(X) == y
    assert right[400:].mean() > 0.64
    assert right[:400].mean() > right[400:].mean() - 0.02


def test_few_held_out_rows_set_no_bounds():
    model = HiPaNClassifier().fit([[0.0], [0.1], [1.0], [1.1]], ["a", "a", "b", "b"])
    for found, free in zip(
        (model.combiner_.least, model.combiner_.most), anything(len(model.combiner_.centre)), strict=True
    ):
        np.testing.assert_array_equal(found, free)


@pytest.fixture(scope="module")
def model():
    X, _, label = overlapping(0, rows=200)
    return HiPaNClassifier().fit(X, label)


def test_an_older_folder_has_no_bounds(model, tmp_path):
    folder = model.save(tmp_path / "m")
    head = json.loads((folder / "model.json").read_text())
    for name in ("least", "most"):
        del head["arrays"][f"combiner.{name}"]
        (folder / f"combiner.{name}.npy").unlink()
    write_head(folder, head)
    loaded = HiPaNClassifier.load(folder)
    np.testing.assert_array_equal(loaded.combiner_.most, anything(len(loaded.combiner_.centre))[1])


def test_bounds_in_the_wrong_order_are_refused(model, tmp_path):
    folder = model.save(tmp_path / "m")
    edit_array(folder, "combiner.least", np.ones_like)
    edit_array(folder, "combiner.most", np.zeros_like)
    with pytest.raises(DataError, match="least evidence is above the most"):
        HiPaNClassifier.load(folder)
