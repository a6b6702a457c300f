"""A table that was written several times is learned as if it had been written once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from vpunn.hipan import HiPaNClassifier
from vpunn.hipan._copies import written_once
from vpunn.hipan._holdout import in_halves
from vpunn.hipan._views import Rows


def noisy(seed: int, rows: int = 300) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Words of eight classes among many that say nothing, so that a nearest row tells little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 8, rows)
    X = (rng.random((rows, 200)) < 0.05).astype(float)
    X[np.arange(rows), y] += rng.random(rows) < 0.5
    return sparse.csr_matrix(X), y


def test_a_table_joined_with_itself_is_answered_as_before():
    X, y = noisy(0, 900)
    once = HiPaNClassifier(random_state=0).fit(X[:500], y[:500])
    many = HiPaNClassifier(random_state=0).fit(sparse.vstack([X[:500]] * 6).tocsr(), np.tile(y[:500], 6))
    assert np.array_equal(once.predict_proba(X[500:]), many.predict_proba(X[500:]))


def test_copies_of_another_group_are_other_rows():
    X, y = noisy(5, 40)
    rows, node = Rows(sparse.vstack([X, X]).tocsr(), {}), np.tile(y, 2)
    assert written_once(rows, node, np.arange(80)) is None
    assert len(written_once(rows, node, np.tile(np.arange(40), 2))) == 40


@pytest.mark.parametrize("dense", [False, True])
def test_copies_of_copies(dense):
    X, y = noisy(1, 60)
    X = X.toarray()
    X[::2] = X[1::2]  # rows that were twice in the table before
    y[::2] = y[1::2]
    at = np.random.default_rng(0).permutation(np.tile(np.arange(60), 4))
    table = np.asarray(X[at], np.float32)
    rows = Rows(sparse.csr_matrix((240, 0)), {"a": table}) if dense else Rows(sparse.csr_matrix(table), {})
    kept = written_once(rows, y[at])
    assert kept is not None and len(kept) == 30  # 8 times each
    assert len(np.unique(np.column_stack([table[kept], y[at][kept]]), axis=0)) == 30


def test_rows_that_repeat_by_themselves_stay():
    rng = np.random.default_rng(2)
    table = rng.integers(0, 2, (2000, 5)).astype(np.float32)  # 32 kinds of rows, some 30 of each class
    assert written_once(Rows(sparse.csr_matrix(table), {}), rng.integers(0, 2, 2000)) is None
    few = sparse.csr_matrix(np.tile(np.eye(4), (2, 1)))  # two rows of a kind may be chance
    assert written_once(Rows(few, {}), np.tile(np.arange(4), 2)) is None
    X, y = noisy(3)
    one_more = sparse.vstack([X, X, X[:1]]).tocsr()
    assert written_once(Rows(one_more, {}), np.concatenate([y, y, y[:1]])) is None


def test_copies_of_a_text_never_judge_each_other():
    """With copies of held-out rows among those a combiner had learned from, its temperature was that of rows it knew."""
    together = np.repeat(np.arange(40), 5)
    halves = in_halves(together, np.random.default_rng(0))
    assert not set(together[halves[0]]) & set(together[halves[1]])
    assert sorted(np.concatenate(halves).tolist()) == list(range(200))
    alone = in_halves(np.arange(201), np.random.default_rng(0))
    expected = np.array_split(np.random.default_rng(0).permutation(201), 2)  # as without copies
    assert all(np.array_equal(*pair) for pair in zip(alone, expected, strict=True))


def test_rows_in_groups_of_copies_are_covered():
    X, y = noisy(4, 1500)
    model = HiPaNClassifier(random_state=0)
    some = np.append(np.tile(np.arange(300), 8), 0)  # not a table that was multiplied
    model.fit(X[some], y[some], groups=some)
    answer = model.predict(X[300:], stop="risk", alpha=0.1)
    root = model.tree_.labels[0]
    assert ((answer == y[300:]) | (answer == root)).mean() > 0.85
