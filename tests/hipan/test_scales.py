"""How columns of dense blocks count: standardised, as they were measured, or bent, whichever tells rows left out better."""

from __future__ import annotations

import numpy as np
import pytest

import vpunn
from vpunn.hipan import HiPaNClassifier, _scales
from vpunn.hipan._scales import bend, column_scales


def table(seed: int, rows: int = 240, columns: int = 1000, told: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Columns of all scales, four classes told by ``told`` of those that vary most (or, if negative, by any)."""
    rng = np.random.default_rng(seed)
    scale = np.sort(np.exp(rng.normal(0, 1, columns)))[::-1]
    where = np.arange(told) if told > 0 else rng.permutation(columns)[:-told]
    means = np.zeros((4, columns))
    means[:, where] = rng.normal(size=(4, abs(told))) * scale[where]
    y = rng.integers(0, 4, rows)
    return means[y] + rng.normal(size=(rows, columns)) * scale, y


def as_measured(X: np.ndarray, y: np.ndarray) -> bool:
    """Whether all columns have one spread."""
    return bool(np.ptp(column_scales(X, y)[1]) == 0)


def answered(X: np.ndarray, y: np.ndarray, known: int = 60) -> float:
    model = HiPaNClassifier(random_state=0).fit(X[:known], y[:known])
    return float((model.predict(X[known:]) == y[known:]).mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_columns_that_vary_most_are_not_drowned_by_those_that_say_nothing(seed, monkeypatch):
    X, y = table(seed)
    assert as_measured(X[:60], y[:60])
    assert answered(X, y) > 0.95
    monkeypatch.setattr(_scales, "_tell_as_measured", lambda *_: False)
    assert answered(X, y) < 0.85


@pytest.mark.parametrize("seed", [0, 1])
def test_columns_of_other_units_count_alike(seed):
    X, y = table(seed, told=-100)
    units = np.exp(np.random.default_rng(seed).normal(0, 3, X.shape[1]))
    assert not as_measured(X[:60] * units, y[:60])
    assert answered(X * units, y) > 0.9


def test_the_answer_does_not_depend_on_the_unit_of_all_columns():
    X, y = table(0)
    for unit in (1e-9, 1e9):
        assert as_measured(unit * X[:60], y[:60])
        assert answered(unit * X, y) > 0.95


def test_errors_of_rows_left_out_are_those_of_ridge_regressions_without_them():
    rng = np.random.default_rng(0)
    Z, node = rng.normal(size=(20, 7)), rng.integers(0, 3, 20)
    target = np.eye(3)[node]
    expected = []
    for ridge in _scales.RIDGES:
        errors = []
        for left in range(20):
            kept = np.delete(np.arange(20), left)
            unit = np.trace((Z - Z.mean(0)) @ (Z - Z.mean(0)).T) / 20  # of all rows
            centre, mean = Z[kept].mean(0), target[kept].mean(0)
            A, B = Z[kept] - centre, target[kept] - mean
            weight = np.linalg.solve(A.T @ A + ridge * unit * np.eye(7), A.T @ B)
            errors.append(((target[left] - mean - (Z[left] - centre) @ weight) ** 2).sum())
        expected.append(np.array(errors))
    best = min(expected, key=np.mean)
    assert np.allclose(_scales._losses(Z, target), best)


@pytest.mark.parametrize("classes", [1, 3, 40, 5000])
def test_rows_that_tell_are_of_classes_of_several(classes):
    rng = np.random.default_rng(1)
    node = np.concatenate([rng.integers(0, classes, 9000), classes + np.arange(50)])
    some = _scales._some_rows(node)
    assert len(some) <= _scales.ENOUGH and len(np.unique(some)) == len(some)
    if classes == 1:
        assert not len(some)
    else:
        assert (np.unique(node[some], return_counts=True)[1] > 1).all() and len(some) > 300


def test_rows_that_are_all_the_same_say_nothing():
    assert np.array_equal(column_scales(np.ones((8, 70)), np.arange(8) % 2), column_scales(np.ones((8, 70)), None))


def incomes(seed: int, rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Three columns of long tails, one of them told by the class; a few rows make nearly all of their spread."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    told = np.exp(3.0 * rng.normal(size=rows) + 4.0 * y)
    return np.column_stack([told, rng.standard_cauchy(rows), np.exp(3.0 * rng.normal(size=rows))]), y


@pytest.mark.parametrize("seed", [0, 1])
def test_columns_of_long_tails_are_bent(seed, tmp_path, monkeypatch):
    X, y = incomes(seed)
    model = HiPaNClassifier(random_state=0).fit(X[:600], y[:600])
    right = (model.predict(X[600:]) == y[600:]).mean()
    assert right > 0.6  # the best rule has 0.66
    model.save(tmp_path / "model")
    assert np.array_equal(vpunn.load(tmp_path / "model").predict_proba(X[600:]), model.predict_proba(X[600:]))
    monkeypatch.setattr(_scales, "LONG_TAILS", np.inf)
    without = HiPaNClassifier(random_state=0).fit(X[:600], y[:600])
    assert (without.predict(X[600:]) == y[600:]).mean() < right - 0.02


def test_only_columns_of_long_tails_are_bent_and_their_order_stays():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    normal, rare, odds = rng.normal(size=400), rng.random(400) < 0.05, np.exp(2.5 * (rng.normal(size=400) + y))
    X = np.column_stack([normal, rare, odds, np.ones(400), rng.exponential(size=400)])
    scale = column_scales(X, y)
    assert (scale[3] > 0).tolist() == [False, False, True, False, False]
    bent = bend(X, scale)
    assert np.array_equal(np.argsort(bent[:, 2]), np.argsort(X[:, 2])) and np.array_equal(bent[:, :2], X[:, :2])
    assert not column_scales(X, None)[2:].any()


def test_long_tails_that_tell_by_their_size_stay():
    """Far rows of one class, all others alike: what tells is how far, and bent it is less."""
    rng = np.random.default_rng(1)
    y = (rng.random(400) < 0.3).astype(int)
    X = np.column_stack(
        [np.where(y == 1, 1e4 + 10 * rng.normal(size=400), 30 * rng.normal(size=400)), rng.normal(size=400)]
    )
    model = HiPaNClassifier(random_state=0).fit(X[:300], y[:300])
    assert (model.predict(X[300:]) == y[300:]).all()


@pytest.mark.parametrize("far", [1e10, 1e150])
def test_the_longest_tails_are_finite(far):
    rng = np.random.default_rng(2)
    y = np.arange(300) % 2
    X = np.column_stack([rng.normal(size=300) * 1e-200, rng.normal(size=300) + 2 * y])
    X[:5, 0], X[5:9, 1] = far, far
    scale = column_scales(X, y)
    assert np.isfinite(scale).all() and np.isfinite(bend(X, scale)).all() and scale[3, 0] == 0
    model = HiPaNClassifier(random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(np.array([[far, -far], [1e-200, 1.0]]))).all()
