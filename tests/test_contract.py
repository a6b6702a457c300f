"""One contract: what every estimator takes, saves and explains; the table of docs/api/index.md is checked against the code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pkgutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import vpunn
from vpunn.errors import VpunnError
from vpunn.hipan import HiPaNClassifier
from vpunn.regress import (
    PadicEncoder,
    PadicTargetEncoder,
    TreeEffects,
    TreeSampleRegressor,
    VPuNNClassifier,
    VPuNNRegressor,
)
from vpunn.tabular.encoder import LatentTreeEncoder
from vpunn.tabular.tabhipan import TabHiPaN
from vpunn.tree import Tree

#: Estimators that stand outside the contract, each with its reason.
OUTSIDE = {
    "SentenceFeatures": "learns nothing",
    "TextFeatures": "counts words; it is saved inside the models it serves",
    "BackOffMeans": "a rival in a report",
    "AsCategories": "a rival in a report",
    "HierarchicalInput": "what the estimators of a room share",
}
#: Columns of the table in docs/api/index.md, in order.
CLAUSES = ("sample_weight", "groups", "X_nodes", "random_state", "n_jobs", "explain")

N = 90
RANDOM = np.random.default_rng(0)
TREE = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")], root="r")
PLACE = RANDOM.integers(0, 4, N)
KINDS = np.array(["x", "y", "z", "w"])[PLACE]
LEVELS = np.array([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")], dtype=object)[PLACE]
NUMBERS = RANDOM.normal(size=(N, 4)) + 2 * np.eye(4)[PLACE]
VALUES = RANDOM.normal(size=N) + PLACE


def head(**params):
    """The estimator of vpunn.torch, where torch is installed."""
    pytest.importorskip("torch", reason="needs torch (extra torch)")
    from vpunn.torch import HeadClassifier

    return HeadClassifier(TREE, epochs=2, **params)


#: Estimator → how it is made, its X and its y (None: it takes none).
ESTIMATORS = {
    "HiPaNClassifier": (lambda **p: HiPaNClassifier(TREE, **p), NUMBERS, KINDS),
    "VPuNNRegressor": (VPuNNRegressor, LEVELS, VALUES),
    "TreeSampleRegressor": (
        lambda **p: TreeSampleRegressor(
            [TREE, Tree.from_paths([("a", "x"), ("b", "y"), ("b", "z"), ("a", "w")], root="r")], **p
        ),
        KINDS.astype(object)[:, None],
        VALUES,
    ),
    "VPuNNClassifier": (VPuNNClassifier, LEVELS, KINDS),
    "TreeEffects": (lambda **p: TreeEffects(effects=[(0, 1)], **p), LEVELS, VALUES),
    "PadicEncoder": (PadicEncoder, LEVELS, None),
    "PadicTargetEncoder": (PadicTargetEncoder, LEVELS, VALUES),
    "LatentTreeEncoder": (lambda **p: LatentTreeEncoder("kmeans", K=2, **{"random_state": 0} | p), NUMBERS, None),
    "TabHiPaN": (lambda **p: TabHiPaN(LatentTreeEncoder(K=2), rounds=5, **p), NUMBERS, VALUES),
    "HeadClassifier": (head, NUMBERS, KINDS),
}


def fitted(name, params=None, **options):
    make, X, y = ESTIMATORS[name]
    model = make(**(params or {}))
    return model.fit(X, **options) if y is None else model.fit(X, y, **options)


def answer(name, model):
    X = ESTIMATORS[name][1]
    made = model.predict_proba(X) if hasattr(model, "classes_") else None
    made = made if made is not None else model.predict(X) if hasattr(model, "predict") else model.transform(X)
    return np.asarray(made.toarray() if hasattr(made, "toarray") else made)


def method_with(model, clause):
    """The method that takes a clause of the contract: `fit`, or `fit_transform` where rows are only then kept apart."""
    for method in ("fit", "fit_transform"):
        found = getattr(type(model), method, None)
        if found is not None and clause in inspect.signature(found).parameters:
            return found
    return None


def has(model, clause):
    if clause == "explain":
        return hasattr(model, "explain")
    if clause in ("random_state", "n_jobs"):
        return clause in model.get_params(deep=False)
    return method_with(model, clause) is not None


def table():
    """The table of docs/api/index.md: estimator → clause → whether the cell says yes."""
    page = (Path(__file__).parents[1] / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    contract = page.partition("## One contract")[2].splitlines()
    lines = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in contract if line[:1] == "|"]
    assert [cell.strip("`") for cell in lines[0][1:]] == list(CLAUSES)
    return {row[0].strip("`"): dict(zip(CLAUSES, [c == "yes" for c in row[1:]], strict=True)) for row in lines[2:]}


def test_every_estimator_of_the_package_is_in_the_table():
    rooms = ["vpunn.regress", "vpunn.hipan", "vpunn.tabular", "vpunn.text"]
    if importlib.util.find_spec("torch"):
        rooms.append("vpunn.torch")
    for room in rooms:
        module = importlib.import_module(room)
        for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
            if not found.name.startswith("_"):
                importlib.import_module(f"{room}.{found.name}")

    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    ours = {kind.__name__ for kind in below(BaseEstimator) if kind.__module__.startswith("vpunn.")}
    assert ours - set(OUTSIDE) <= set(ESTIMATORS)
    assert set(table()) == set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_table_says_what_the_code_takes(name):
    model = ESTIMATORS[name][0]()
    assert {clause: has(model, clause) for clause in CLAUSES} == table()[name]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_said_of_rows_is_said_by_name(name):
    model = ESTIMATORS[name][0]()
    for clause in ("sample_weight", "groups", "X_nodes"):
        method = method_with(model, clause)
        if method is not None:
            given = inspect.signature(method).parameters[clause]
            assert given.kind is inspect.Parameter.KEYWORD_ONLY and given.default is None
    places = [p.kind for p in inspect.signature(type(model)).parameters.values()]
    assert places.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 1  # all settings but the first are named


@pytest.mark.parametrize("name", [name for name, row in table().items() if row["sample_weight"]])
def test_weights_count(name):
    plain, ones = fitted(name), fitted(name, sample_weight=np.ones(N))
    np.testing.assert_array_equal(answer(name, plain), answer(name, ones))
    weight = np.where(PLACE == 0, 0.0, 1.0)
    without = answer(name, fitted(name, sample_weight=weight))
    assert not np.array_equal(without, answer(name, plain))
    for wrong in (np.ones(N - 1), np.full(N, -1.0), np.full(N, np.nan), np.zeros(N), ["a"] * N):
        with pytest.raises(VpunnError, match="weight"):
            fitted(name, sample_weight=wrong)


@pytest.mark.parametrize("name", [name for name, row in table().items() if row["random_state"]])
def test_a_seed_means_the_same_everywhere(name):
    def with_seed(seed):
        return answer(name, fitted(name, {"random_state": seed}))

    np.testing.assert_array_equal(with_seed(3), with_seed(3))
    np.testing.assert_array_equal(with_seed(np.int64(3)), with_seed(3))
    np.testing.assert_array_equal(with_seed(np.random.RandomState(3)), with_seed(np.random.RandomState(3)))
    with_seed(None)
    for wrong in (-1, "no"):
        if name != "PadicTargetEncoder":  # its seed only shuffles the folds of fit_transform
            with pytest.raises(VpunnError, match="random_state"):
                with_seed(wrong)


@pytest.mark.parametrize("name", [name for name, row in table().items() if row["n_jobs"]])
def test_threads_never_change_the_bits(name):
    one, two = fitted(name, {"n_jobs": 1}), fitted(name, {"n_jobs": 2})
    np.testing.assert_array_equal(answer(name, one), answer(name, two))
    with pytest.raises(VpunnError, match="n_jobs"):
        fitted(name, {"n_jobs": 0})


@pytest.mark.parametrize("name", ESTIMATORS)
def test_models_come_back_from_plain_files(tmp_path, name):
    model = fitted(name)
    path = model.save(tmp_path / "m", provenance={"data": "toy"})
    assert {f.suffix for f in path.iterdir()} <= {".npy", ".json", ".safetensors"}
    about = json.loads((path / "model.json").read_text())
    assert (about["kind"], about["version"], about["provenance"]["data"]) == (name, vpunn.__version__, "toy")
    for again in (vpunn.load(path, verify=True), type(model).load(path)):
        assert type(again) is type(model)
        np.testing.assert_array_equal(answer(name, again), answer(name, model))
        for setting, value in model.get_params(deep=False).items():
            if isinstance(value, int | float | str | None):
                assert getattr(again, setting) == value
    unfitted = clone(model)
    with pytest.raises(Exception, match="not fitted"):
        unfitted.save(tmp_path / "n")


@pytest.mark.parametrize("name", [name for name, row in table().items() if row["explain"]])
def test_every_answer_can_be_asked_why(name):
    model, row = fitted(name), ESTIMATORS[name][1][:1]
    found = model.explain(row)
    assert str(found) and found.balls
    if hasattr(found, "label"):
        assert found.label == model.predict(row)[0]
        assert np.isclose(np.exp(found.log_probability), answer(name, model)[0].max())
    else:
        assert np.isclose(found.prediction, answer(name, model)[0].max())


@pytest.mark.parametrize("name", ["HiPaNClassifier", "HeadClassifier"])
def test_the_answer_is_the_first_of_the_ranking(name):
    model = fitted(name)
    X, given = ESTIMATORS[name][1], model.predict(ESTIMATORS[name][1])
    np.testing.assert_array_equal(given, model.top_k(X, 1)[0][:, 0])
    np.testing.assert_array_equal(given, model.classes_[answer(name, model).argmax(1)])


@pytest.mark.parametrize("name", ["HiPaNClassifier", "HeadClassifier"])
def test_groups_are_held_out_together(name):
    model = fitted(name, groups=np.arange(N) % 5)
    assert answer(name, model).shape[0] == N
    with pytest.raises(VpunnError, match="groups needs one entry per row"):
        fitted(name, groups=PLACE[:-1])


def test_groups_share_a_fold():
    encoder = PadicTargetEncoder(random_state=0, cv=2)
    group = np.arange(N) % 2
    found = encoder.fit_transform(LEVELS, VALUES, groups=group)
    for inside in (group == 0, group == 1):  # each half is encoded by the other half alone
        other = PadicTargetEncoder(encoder.tree_).fit(LEVELS[~inside, 1:], VALUES[~inside])
        np.testing.assert_allclose(found[inside], other.transform(LEVELS[inside, 1:]))
    with pytest.raises(VpunnError, match="at least 2 groups"):
        encoder.fit_transform(LEVELS, VALUES, groups=np.zeros(N))
