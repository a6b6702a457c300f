"""``vpunn info`` on every kind of folder."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import typer

from commands import run
from vpunn import HiPaNClassifier, Tree, VPuNNRegressor
from vpunn.cli import fit, info
from vpunn.errors import DataError
from vpunn.io import write_table

app = typer.Typer(pretty_exceptions_enable=False)
app.command("other")(lambda: None)  # with one command alone there are no subcommands
info.register(app)
fit.register(app)


@pytest.fixture
def model(tmp_path):
    X = [["Rodentia", "Mus"], ["Rodentia", "Mus"], ["Rodentia", "Rattus"], ["Cetacea", "Orcinus"]]
    return VPuNNRegressor().fit(X, [1.2, 1.4, 2.3, 6.5]).save(tmp_path / "m", provenance={"data": "four animals"})


def test_info_says_what_a_model_is(model):
    text = run(app, "info", model)
    for word in ("VPuNNRegressor", "6 nodes", "numbers of branches", "four animals", "all agree"):
        assert word in text
    facts = json.loads(run(app, "info", model, "--json", "--no-verify"))
    assert facts["kind"] == "VPuNNRegressor"
    assert facts["part fit0"]["numbers of balls"] == 18  # value, variance, that of a row in the ball
    assert facts["part fit0"]["numbers of no ball"]["ratios"] == 2
    assert facts["checksums"] == "not compared"


def test_info_says_whose_data_a_model_holds(tmp_path):
    """A classifier remembers its rows; their texts can be read where the words stand beside them."""
    rng = np.random.default_rng(0)
    HiPaNClassifier().fit(rng.normal(size=(30, 3)), np.arange(30) % 3).save(tmp_path / "numbers")
    assert "30 training rows; their texts: no" in run(app, "info", tmp_path / "numbers")
    table = pd.DataFrame({"text": ["small owl", "large fish"] * 6, "label": ["a", "b"] * 6})
    run(app, "fit", write_table(table, tmp_path / "t.csv"), "--text", "text", "--out", tmp_path / "texts")
    assert "12 training rows; their texts: yes" in run(app, "info", tmp_path / "texts")


def test_info_finds_a_changed_array(model):
    values = np.load(model / "fit0.values.npy")
    np.save(model / "fit0.values.npy", values + 1)
    with pytest.raises(DataError, match="'values' is not what was saved: its checksum differs"):
        run(app, "info", model)


def test_info_of_a_tree_and_of_nothing(tmp_path):
    assert "2 nodes" in run(app, "info", Tree.from_parents([-1, 0]).save(tmp_path / "t"))
    with pytest.raises(DataError, match="there is no model folder"):
        run(app, "info", tmp_path / "nothing")
