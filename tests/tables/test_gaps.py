"""Missing numbers in tables: read as the median of the training rows, said in one sentence, and refused where that is no answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from vpunn import HiPaNClassifier
from vpunn.errors import DataError, VpunnError
from vpunn.tables.fits import FitPlan
from vpunn.tables.gaps import Gaps, with_medians
from vpunn.tables.inputs import Inputs
from vpunn.tables.models import TableClassifier, open_table_model
from vpunn.tables.samples import read_sample

KINDS = ("cold", "flu", "sepsis")
NUMBERS = Inputs(("kind",), (), ("age", "crp"))
BOTH = replace(NUMBERS, text=("note",))
SETS = replace(BOTH, target=("tags",), label_sep=";")
LEVELS = Inputs(("crp",), (), ("age",), ("ward", "kind"))


def clinic(rows=120):
    """Patients: the second number has a long tail, the text says a little."""
    rng = np.random.default_rng(0)
    at = rng.integers(0, 3, rows)
    frame = pd.DataFrame({"kind": np.array(KINDS)[at], "ward": np.array(["a", "b"])[rng.integers(0, 2, rows)]})
    frame["age"] = (20 + 20 * at + rng.normal(0, 3, rows)).round(1)
    frame["crp"] = np.exp(2 * at + rng.normal(0, 0.5, rows)).round(2)
    frame["note"] = np.where(at == 2, "fever chills", "cough")
    return frame.assign(tags=frame["kind"] + ";" + frame["ward"])


def with_gaps(frame):
    """Two ages and a crp are missing; one row lacks both."""
    frame = frame.reset_index(drop=True)
    frame.loc[[1, 4], "age"] = np.nan
    frame.loc[4, "crp"] = np.nan
    return frame


TRAIN, NEW = clinic()[:90], with_gaps(clinic()[90:])


def fitted(inputs, frame=TRAIN, **how):
    sample = read_sample(frame, inputs, "t", regress=bool(inputs.levels), **how)
    return FitPlan(inputs, regress=bool(inputs.levels), characters=False).model(sample)


@pytest.mark.parametrize("inputs", [NUMBERS, BOTH, SETS, LEVELS], ids=["numbers", "both", "sets", "levels"])
def test_a_missing_number_is_answered_as_the_median_of_the_training_rows(inputs, tmp_path):
    fitted(inputs).save(tmp_path / "m", {})
    model = open_table_model(tmp_path / "m")
    medians = {name: float(np.median(TRAIN[name])) for name in inputs.columns}
    assert model.inputs.medians == tuple(medians.values())
    told = {name: f"{name!r} {value:.4g}" for name, value in medians.items()}
    by_hand = NEW.fillna(medians)
    said, wanted = model.answer_table(NEW, "new"), model.answer_table(by_hand, "new")
    pd.testing.assert_frame_equal(said.drop(columns="known"), wanted.drop(columns="known"))
    found, alike = model.evaluate(NEW, "new", "skip"), model.evaluate(by_hand[NEW["crp"].notna()], "new", "skip")
    assert not any("lack" in note for note in alike.notes)
    if inputs.levels:  # the row without a truth is left out
        assert found.scores == alike.scores
        assert found.notes == (
            "1 row without a number left out",
            f"1 of 29 rows lacks a number, read as the median of the training rows: {told['age']} in 1 row",
        )
        return
    assert found.scores == model.evaluate(by_hand, "new").scores
    said_of = "2 of 30 rows lack numbers, read as the median of the training rows"
    assert found.notes[-1] == f"{said_of}: {told['age']} in 2 rows, {told['crp']} in 1 row"


def test_truths_are_likelier_by_medians_than_by_means_where_tails_are_long():
    """A mean looks like the few large rows, and is believed; about as many answers are right either way here."""
    rng = np.random.default_rng(1)
    at = rng.choice(3, 900, p=[0.45, 0.45, 0.1])
    X = np.exp(np.array([[0, 0], [0, 2], [5, 5]])[at] + rng.normal(0, 0.7, (900, 2)))
    model = HiPaNClassifier(random_state=0).fit(X[:600], at[:600])
    gone, loss = rng.random((300, 2)) < 0.2, {}
    for middle in (np.median, np.mean):
        p = model.predict_proba(np.where(gone, middle(X[:600], axis=0), X[600:]))
        loss[middle] = -np.log(np.maximum(p[np.arange(300), at[600:]], 1e-9)).mean()
    assert loss[np.median] < 0.75 * loss[np.mean], loss


def test_rows_that_hold_nothing_else_are_told():
    model = fitted(NUMBERS)
    assert model.answer_table(NEW, "new")["known"].tolist() == [row != 4 for row in range(30)]
    assert "1 row holds nothing the model knows (answered by the medians)" in model.evaluate(NEW, "new").notes
    model = fitted(BOTH)
    assert model.answer_table(NEW, "new")["known"].all()  # there is the text
    assert not model.answer_table(NEW.assign(note=""), "new")["known"][4]


@pytest.mark.parametrize("inputs", [NUMBERS, SETS, LEVELS], ids=["numbers", "sets", "levels"])
def test_fit_refuses_drops_or_takes_the_median(inputs):
    frame = with_gaps(TRAIN)
    with pytest.raises(DataError, match="missing(='| )drop"):
        fitted(inputs, frame, missing="error")
    gone = frame[["age", "crp"]].isna()
    sample = read_sample(frame, inputs, "t", regress=bool(inputs.levels), missing="drop")
    assert len(sample) == 88 and sample.report.dropped == 2
    sample = read_sample(frame, inputs, "t", regress=bool(inputs.levels))
    assert len(sample) == (89 if inputs.levels else 90)  # the target is never made up
    assert "read as the median of the training rows: 'age' " in sample.report.notes[-1]
    model = fitted(inputs, frame)
    there = ~gone["crp"] if inputs.levels else slice(None)
    assert model.inputs.medians[0] == frame.loc[there, "age"].median()


def test_held_out_rows_are_read_by_the_medians_of_the_others():
    """And a part of the rows may have no number in a column at all, on either side."""
    frame = TRAIN.assign(crp=np.where(TRAIN.index == 5, TRAIN["crp"], np.nan))
    sample = read_sample(frame, NUMBERS, "t")
    assert FitPlan(NUMBERS, folds=3).held_out(sample)["held-out rows"] == 90
    assert with_medians(NUMBERS, frame[10:], "t").medians == (frame["age"][10:].median(), 0.0)


def test_rows_without_a_label_are_left_out_beside_medians():
    frame = with_gaps(TRAIN)
    frame.loc[7, "kind"] = None
    sample = read_sample(frame, NUMBERS, "t")
    assert len(sample) == 89 and "1 row without a label or a number left out" in sample.report.notes


def test_a_column_without_numbers_is_refused_but_a_row_is_answered():
    empty = NEW.assign(crp=np.nan)
    with pytest.raises(DataError, match=r"'crp' of 'new' has no number in any of 30 rows; fill"):
        Gaps.of(empty, NUMBERS, "new").refuse_empty("new", "fill it in")
    Gaps.of(empty[:1], NUMBERS, "new").refuse_empty("new", "fill it in")
    with pytest.raises(DataError, match="no number in any of 30 rows; leave it out of --columns"):
        read_sample(empty, NUMBERS, "new")
    assert len(fitted(NUMBERS).answer_table(empty[:1], "new")) == 1


@pytest.mark.parametrize("cell", ["", "  ", "NA", " n/a ", "nan", "NULL", None])
def test_cells_that_mean_missing(cell):
    """Also as text beside numbers, as JSON lines have it."""
    frame = NEW.astype({"age": object})
    frame.loc[1, "age"] = cell
    assert Gaps.of(frame, NUMBERS, "new") == Gaps.of(NEW, NUMBERS, "new")


@pytest.mark.parametrize("cell", ["12,5x", "-", "?", "old"])
def test_cells_that_are_no_numbers_are_refused(cell):
    frame = NEW.astype({"age": object})
    frame.loc[2, "age"] = cell
    with pytest.raises(DataError) as refused:
        fitted(NUMBERS).answer_table(frame, "new")
    assert all(part in str(refused.value) for part in ("'age'", "'new'", "row 2", repr(cell), "write numbers"))


def test_gaps_of_batches_add_up():
    parts = [Gaps.of(NEW[k : k + 3], NUMBERS, "new") for k in range(0, 30, 3)]
    assert sum(parts, Gaps()) == Gaps.of(NEW, NUMBERS, "new")
    assert Gaps.of(NEW[5:], NUMBERS, "new").said(NUMBERS) == []
    wide = Inputs(("kind",), (), tuple("abcdefg"), medians=(0.5,) * 7)
    told = Gaps.of(pd.DataFrame(np.full((2, 7), np.nan), columns=list("abcdefg")), wide, "t").said(wide)
    assert len(told) == 1 and told[0].endswith("'e' 0.5 in 2 rows and 2 more columns")


def test_folders_of_older_versions_refuse_as_before(tmp_path):
    model = fitted(NUMBERS)
    TableClassifier(model.model, replace(model.inputs, medians=())).save(tmp_path / "old", {})
    old = open_table_model(tmp_path / "old")
    assert len(old.answer_table(NEW[5:], "new")) == 25
    with pytest.raises(DataError, match=r"no number \(NaN\) in 2 of 30 rows, row 1, 4 .* or fit the model again"):
        old.answer_table(NEW, "new")


@pytest.mark.parametrize("kept", [[1.0], [1.0, float("nan")], [1.0, 1e200], ["1", 2.0], [True, 1.0], {}, 3])
def test_medians_that_are_none_are_damage(kept):
    settings = {"target": "kind", "columns": ["age", "crp"], "medians": kept}
    with pytest.raises(DataError, match="damaged"):
        Inputs.from_settings(settings, "m")


def test_raw_arrays_with_nan_stay_refused():
    X = NEW[["age", "crp"]].to_numpy()
    with pytest.raises(VpunnError, match="NaN"):
        fitted(NUMBERS).model.predict(X)
    with pytest.raises(VpunnError, match="NaN"):
        HiPaNClassifier().fit(X, NEW["kind"])
