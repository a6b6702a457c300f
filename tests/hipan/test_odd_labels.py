"""Labels that NumPy would take for one another are kept apart or refused; wide tables take time by their columns."""

import time

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from vpunn import HiPaNClassifier
from vpunn.errors import DataError, VpunnError
from vpunn.io import read_table, text_tables, texts

X = np.random.default_rng(0).normal(size=(40, 2)) + np.array([[0, 0], [3, 3]] * 20)


@pytest.mark.parametrize("held", [list, pa.array, pl.Series, lambda y: np.array(y, object)])
def test_a_zero_at_the_end_of_a_text_tells_two_labels_apart(held, tmp_path):
    model = HiPaNClassifier().fit(X, held(["a", "a\0"] * 20))
    model.save(tmp_path / "model")
    assert HiPaNClassifier.load(tmp_path / "model").predict(X[:2]).tolist() == ["a", "a\0"]
    assert model.score(X, held(["a", "a\0"] * 20)) > 0.9


@pytest.mark.parametrize("y", [[1, "1"], [1.0, "1"], [1, True], [{1}, {"1", 1}]])
def test_labels_that_one_array_would_merge_are_refused(y):
    with pytest.raises(VpunnError, match="labels of several types"):
        HiPaNClassifier().fit(X, y * 20)


def test_names_of_columns_are_compared_in_time_by_their_number():
    """Each was once compared with each: a table of 100,000 columns took a minute."""
    names, start = [f"c{i}" for i in range(200_000)], time.process_time()
    text_tables.twice_named(names, "wide.csv")
    with pytest.raises(DataError, match=r"two columns are called 'c7'; rename one"):
        text_tables.twice_named([*names, "c7"], "wide.csv")
    assert time.process_time() - start < 2


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_cell_of_many_letters_is_refused_in_our_words(tmp_path, monkeypatch, quote):
    monkeypatch.setattr(texts, "BLOCK", 1 << 16)
    (tmp_path / "long.csv").write_text(f"a,b\n1,{quote}{'x' * 600_000}{quote}\n")
    with pytest.raises(DataError, match=r"long\.csv, line 2: a cell has more than 65,536 letters; if a quote"):
        read_table(tmp_path / "long.csv")
