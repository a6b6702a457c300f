"""Saved estimators answer with the same bits, damaged ones are refused, and every number names its balls."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import vpunn
from stores import edit_array, write_head
from vpunn import PadicEncoder, PadicTargetEncoder, Tree, VPuNNClassifier, VPuNNRegressor
from vpunn.errors import DataError, VpunnError
from vpunn.explanations import explain

RANDOM = np.random.default_rng(0)
N = 120
TABLE = pd.DataFrame(
    {
        "order": RANDOM.choice(["Rodentia", "Cetacea", "Carnivora"], N),
        "genus": [f"g{k}" for k in RANDOM.integers(0, 12, N)],
        "mass": RANDOM.normal(size=N),
    }
)
NEW = pd.DataFrame({"order": ["Rodentia", "Primates", "Cetacea"], "genus": ["g1", "x", None], "mass": [0.3, -1.0, 2.0]})
Y = RANDOM.normal(size=N) + (TABLE["order"] == "Cetacea") * 3 + TABLE["mass"]
KINDS = np.where(Y > 2, "large", np.where(Y > 0, "middle", "small"))
PLAIN = ["order", "genus"]

MODELS = {
    "regressor": lambda: VPuNNRegressor(covariates=["mass"]).fit(TABLE, Y),
    "several targets": lambda: VPuNNRegressor(penalty=[1.0, 2.0]).fit(TABLE[PLAIN], np.column_stack([Y, -Y, Y**2])),
    "constant target": lambda: VPuNNRegressor().fit(TABLE[PLAIN].to_numpy(), np.ones(N)),
    "labels of a tree": lambda: VPuNNRegressor(Tree.from_levels(TABLE[PLAIN].drop_duplicates("genus"))).fit(
        TABLE[["genus"]], Y
    ),
    "classifier": lambda: VPuNNClassifier().fit(TABLE[PLAIN], KINDS),
    "classifier with covariates": lambda: VPuNNClassifier(covariates=[-1]).fit(TABLE, Y > 0),
    "digits": lambda: PadicEncoder().fit(TABLE[PLAIN]),
    "balls": lambda: PadicEncoder(output="balls", sparse_output=False).fit(TABLE[PLAIN]),
    "target": lambda: PadicTargetEncoder(random_state=0).fit(TABLE[PLAIN], Y),
    "target of classes": lambda: PadicTargetEncoder(cv=KFold(3), per_depth=True).fit(TABLE[PLAIN], KINDS),
}


def answers(model):
    X = NEW[list(model.feature_names_in_)] if hasattr(model, "feature_names_in_") else NEW[PLAIN].to_numpy()
    if isinstance(model, VPuNNRegressor):
        return model.predict(X, return_std=True)
    if isinstance(model, VPuNNClassifier):
        return model.predict_proba(X), model.predict(X)
    return model.transform(X), model.get_feature_names_out()


@pytest.mark.parametrize("name", MODELS)
def test_loaded_models_answer_with_the_same_bits(tmp_path, name):
    model = MODELS[name]()
    again = vpunn.load(model.save(tmp_path / "m", provenance={"data": "toy"}), verify=True)
    assert type(again) is type(model)
    for one, other in zip(answers(model), answers(again), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert again.tree_ == model.tree_
    assert (again.tree is None) == (model.tree is None)
    again.save(tmp_path / "n", provenance={"data": "toy"})
    kept = {f.name: f.read_bytes() for f in (tmp_path / "m").iterdir()}
    if name != "target of classes":  # its splitter is not kept, which the second folder no longer says
        assert kept == {f.name: f.read_bytes() for f in (tmp_path / "n").iterdir()}


def test_what_cannot_be_kept_is_named(tmp_path):
    path = MODELS["target of classes"]().save(tmp_path / "m")
    assert json.loads((path / "model.json").read_text())["settings"]["params_left_out"] == ["cv"]


def test_unfitted_models_are_not_saved(tmp_path):
    for model in (VPuNNRegressor(), VPuNNClassifier(), PadicEncoder(), PadicTargetEncoder()):
        with pytest.raises(NotFittedError):
            model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "array", "change", "said"),
    [
        ("regressor", "fit0.values", lambda a: a[1:], "shape"),
        ("regressor", "fit0.values", lambda a: a * np.nan, "not finite"),
        ("regressor", "fit0.beta", lambda a: a.astype("f4"), "float32"),
        ("regressor", "fit0.converged", lambda a: a.astype("i8"), "int64"),
        ("regressor", "fit0.beta_covariance", lambda a: -a, "no covariance"),
        ("regressor", "fit0.ratios", lambda a: a[1:], "shape"),
        ("classifier", "node_proba", lambda a: a - 1, "below 0"),
        ("classifier with covariates", "softmax.gamma", lambda a: a[1:], "shape"),
        ("target", "node_values", lambda a: a[1:], "shape"),
    ],
)
def test_edited_arrays_are_refused(tmp_path, name, array, change, said):
    path = MODELS[name]().save(tmp_path / "m")
    edit_array(path, array, change)
    with pytest.raises(DataError, match=said):
        vpunn.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"covariate_columns": [0, 1, 2]},
        {"covariate_columns": [7]},
        {"covariate_columns": "no"},
        {"params": {"colour": 1}},
        {"n_features": None},
        {"by_label": True},
        {"one_target": "yes"},
        {"targets": 2},
        {"targets": 0},
    ],
)
def test_edited_settings_are_refused(tmp_path, change):
    path = MODELS["regressor"]().save(tmp_path / "m")
    head = json.loads((path / "model.json").read_text())
    head["settings"] |= change
    write_head(path, head)
    with pytest.raises(DataError):
        vpunn.load(path)


def test_sample_weight_is_a_keyword():
    for model in (VPuNNRegressor(), VPuNNClassifier()):
        with pytest.raises(TypeError, match="positional"):
            model.fit(TABLE[PLAIN], KINDS, np.ones(N))


# ---- which balls made this number --------------------------------------------------------------------------------------


def test_a_prediction_is_the_sum_of_its_balls():
    model = MODELS["regressor"]()
    for i in range(len(NEW)):
        row = NEW.iloc[[i]]
        found = explain(model, row)
        assert found.prediction == model.predict(row)[0]
        node = found.balls[-1].node
        assert found.balls[-1].total == model._fits[0].values[node]
        assert [ball.node for ball in found.balls] == model.tree_.ancestors(node).tolist()
        assert [ball.coefficient for ball in found.balls] == model.coef_[model.tree_.ancestors(node)].tolist()
        parts = [ball.coefficient for ball in found.balls] + [value for _, value in found.covariates]
        assert math.isclose(math.fsum(parts), found.prediction, rel_tol=1e-12, abs_tol=1e-12)
    assert found.covariates[0][0].startswith("mass = 2 ×")
    assert "moves it most" in found.verdict


def test_unseen_levels_add_nothing_and_are_counted():
    model = MODELS["several targets"]()
    found = model.explain(NEW[PLAIN].iloc[[1]], target=2)
    assert found.unseen == 2
    assert str(found).endswith("2 levels below 'root' are unseen: their balls add 0")
    assert found.prediction == model.predict(NEW[PLAIN].iloc[[1]])[0, 2]
    assert "alone" in found.verdict


def test_a_probability_is_the_sum_of_its_balls():
    model = MODELS["classifier with covariates"]()
    row = NEW.iloc[[0]]
    for label in (True, False):
        found = explain(model, row, label)
        assert found.prediction == model.predict_proba(row)[0, int(label)]
        parts = [ball.coefficient for ball in found.balls] + [value for _, value in found.covariates]
        assert math.isclose(math.fsum(parts), found.prediction, rel_tol=1e-12)
    assert str(explain(model, row)).startswith(f"P({model.predict(row)[0]}) = ")


def test_explain_refuses_what_it_cannot_explain():
    model = MODELS["several targets"]()
    with pytest.raises(VpunnError, match="takes one row, got 3"):
        model.explain(NEW[PLAIN])
    with pytest.raises(VpunnError, match="target 3 is no column"):
        model.explain(NEW[PLAIN].iloc[[0]], target=3)
    with pytest.raises(VpunnError, match="not a node"):
        explain(model, NEW[PLAIN].iloc[[0]], "g1")
    with pytest.raises(VpunnError, match="no class"):
        MODELS["classifier"]().explain(NEW[PLAIN].iloc[[0]], "huge")
