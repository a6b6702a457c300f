"""``vpunn fit | predict | evaluate | explain`` on tables, as a user would type them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import predict_app, run
from vpunn.errors import VpunnError

WORDS = {
    "owl": "night bird hoots mice",
    "robin": "small bird red breast",
    "carp": "pond fish scales",
    "eel": "slippery fish snake",
}


@pytest.fixture(scope="module")
def app():
    return predict_app()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, app):
    here = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(0)
    rows = [
        {
            "gloss": " ".join(rng.permutation(WORDS[name].split())[:3]),
            "kind": name,
            "group": "bird" if "bird" in WORDS[name] else "fish",
        }
        for name in list(WORDS) * 25
    ]
    frame = pd.DataFrame(rows)
    frame["size"], frame["weight"] = rng.normal(size=100) + 5 * (frame["group"] == "bird"), rng.normal(size=100)
    frame.to_csv(here / "train.csv", index=False)
    frame.iloc[::3].to_parquet(here / "test.parquet")
    parents, children = (
        ["bird", "bird", "fish", "fish", "animal", "animal"],
        ["owl", "robin", "carp", "eel", "bird", "fish"],
    )
    pd.DataFrame({"parent": parents, "child": children}).to_csv(here / "tree.csv", index=False)
    inputs = ("--target", "kind", "--text", "gloss", "--tree", here / "tree.csv")
    run(app, "fit", here / "train.csv", "--out", here / "model", *inputs)
    return here


def test_predict_a_text_of_your_own(app, folder):
    rows = json.loads(run(app, "predict", folder / "model", "--ask", "a bird of the night", "--top", 2, "--json"))
    assert rows[0]["label"] == "owl"
    assert rows[0]["path"] == "animal / bird / owl"
    assert rows[0]["probability"] >= rows[1]["probability"]


def test_predict_a_table(app, folder):
    run(app, "predict", folder / "model", folder / "test.parquet", "--out", folder / "answers.csv")
    answers = pd.read_csv(folder / "answers.csv")
    truth = pd.read_parquet(folder / "test.parquet")["kind"].to_numpy()
    assert np.mean(answers["label"].to_numpy() == truth) > 0.9
    depth = json.loads(
        run(app, "predict", folder / "model", folder / "test.parquet", "--stop", "depth", "--depth", 1, "--json")
    )
    assert {row["label"] for row in depth} == {"bird", "fish"}
    with pytest.raises(VpunnError, match="--top 2 does not go with it"):
        run(app, "predict", folder / "model", folder / "test.parquet", "--stop", "depth", "--top", 2)


def test_evaluate(app, folder):
    found = json.loads(run(app, "evaluate", folder / "model", folder / "test.parquet", "--json"))
    assert found["exact"] > 0.9
    assert found["rows"] == 34
    assert 0 <= found["ECE"] <= 1
    group, kind = found["by depth"]
    assert (group["depth"], kind["depth"], kind["rows"]) == (1, 2, 34)
    assert kind["right"] == found["exact"]
    assert group["right"] >= kind["right"]
    assert group["said"] >= kind["said"]
    assert "How often the answer's branch is right" in run(app, "evaluate", folder / "model", folder / "test.parquet")


def test_explain(app, folder):
    found = json.loads(run(app, "explain", folder / "model", "--ask", "slippery snake", "--json"))
    assert found["label"] == "eel"
    assert found["score"] == pytest.approx(sum(ball["head"] for ball in found["balls"]))
    assert "eel: probability" in run(
        app, "explain", folder / "model", folder / "test.parquet", "--row", 1, "--node", "eel"
    )


def test_numeric_columns_and_levels(app, folder):
    run(
        app,
        "fit",
        folder / "train.csv",
        "--out",
        folder / "numeric",
        "--target",
        "group,kind",
        "--columns",
        "size,weight",
    )
    found = json.loads(run(app, "evaluate", folder / "numeric", folder / "test.parquet", "--json"))
    assert found["rows"] == 34
    with pytest.raises(VpunnError, match="numeric columns"):
        run(app, "predict", folder / "numeric", "--ask", "owl")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "{}/model"), "either a table or --ask"),
        (("predict", "{}/nowhere", "--ask", "x"), "there is no model folder"),
        (("predict", "{}/model", "{}/none.csv"), "no file"),
        (("predict", "{}/model", "{}/tree.csv"), "no column 'gloss'"),
        (("explain", "{}/model", "{}/test.parquet", "--row", "99"), "no row 99"),
        (
            ("fit", "{}/train.csv", "--text", "gloss", "--label-sep", "", "--out", "{}/x"),
            "needs the text between two labels",
        ),
        (("fit", "{}/train.csv", "--out", "{}/x", "--columns", "gloss", "--target", "kind"), "not numeric"),
    ],
)
def test_mistakes_are_one_sentence(app, folder, words, message):
    with pytest.raises(VpunnError, match=message):
        run(app, *(word.format(folder) for word in words))
