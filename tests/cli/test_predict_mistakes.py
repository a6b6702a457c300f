"""``vpunn fit | predict | evaluate | explain`` under odd input: one clear sentence, and nothing silently wrong."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from commands import predict_app, run
from strategies import KINDS, LIFE
from vpunn.datasets.tasks import PlacementTask
from vpunn.errors import VpunnError

WORDS = {
    "owl": "night bird hoots",
    "robin": "small bird breast",
    "carp": "pond fish scales",
    "eel": "slippery fish snake",
}


@pytest.fixture(scope="module")
def app():
    return predict_app()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, app):
    here = tmp_path_factory.mktemp("review")
    frame = pd.DataFrame(
        {"gloss": [f"{text} {word}" for word in "abcdefgh" for text in WORDS.values()], "kind": list(WORDS) * 8}
    )
    frame["group"], frame["sub"] = np.repeat(["bird", "fish"], 2).tolist() * 8, ["a", "b"] * 16
    frame["code"], frame["size"] = [1, 2, 3, 4] * 8, np.random.default_rng(0).normal(size=32)
    frame.to_csv(here / "table.csv", index=False)
    frame.assign(kind=frame["kind"].mask(frame.index == 2), size=frame["size"].mask(frame.index == 2)).to_csv(
        here / "gaps.csv"
    )
    frame.assign(sub=frame["sub"].mask(frame.index == 2)).to_csv(here / "levels.csv")
    frame.assign(gloss="").to_csv(here / "silent.csv")
    frame.iloc[:0].to_csv(here / "head.csv")
    (here / "empty.csv").write_text("")
    (here / "bytes.csv").write_bytes(b"\xff\xfe\x00\x81\n")
    (here / "broken.parquet").write_text("no")
    run(app, "fit", here / "table.csv", "--out", here / "text", "--target", "code", "--text", "gloss")
    run(app, "fit", here / "levels.csv", "--out", here / "levels", "--target", "group,sub", "--text", "gloss")
    run(app, "fit", here / "table.csv", "--out", here / "numeric", "--target", "kind", "--columns", "size")
    return here


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *[
            ((*command, f"{{}}/{table}"), "is empty|no rows|not utf-16 text|cannot be read as Parquet")
            for table in ("empty.csv", "head.csv", "bytes.csv", "broken.parquet")
            for command in (
                ("predict", "{}/text"),
                ("evaluate", "{}/numeric"),
                ("fit", "--out", "{}/new", "--text", "gloss", "--target", "kind"),
            )
        ],
        (
            ("fit", "{}/gaps.csv", "--out", "{}/new", "--text", "gloss", "--target", "kind", "--missing", "error"),
            "no label",
        ),
        (("fit", "{}/silent.csv", "--out", "{}/new", "--text", "gloss", "--target", "kind"), "hold no word"),
        (("fit", "{}/table.csv", "--out", "{}/new", "--text", ",", "--target", "kind"), "at least one column"),
        (("fit", "{}/table.csv", "--out", "{}/new", "--text", "gloss", "--target", ","), "at least one column"),
        (("fit", "{}/table.csv", "--out", "{}/new", "--text", "gloss", "--target", "size"), "holds numbers such as"),
        (("fit", "{}/table.csv", "--out", "{}/table.csv", "--text", "gloss", "--target", "kind"), "it is a file"),
        (("predict", "{}/text", "{}/table.csv", "--ask", "x"), "either a table or --ask"),
        (("evaluate", "{}/text"), "give a table"),
        (("explain", "{}/text", "--ask", "", "--node", "unicorn"), "no node is labelled"),
        (("explain", "{}/levels", "--ask", "", "--node", "a"), "names 2 nodes"),
    ],
)
def test_mistakes_are_one_sentence(app, folder, words, message):
    with pytest.raises(VpunnError, match=message):
        run(app, *(word.format(folder) for word in words))
    assert not (folder / "new").exists()


def test_namesakes_and_missing_levels(app, folder):
    rows = json.loads(run(app, "predict", folder / "levels", folder / "levels.csv", "--json"))
    assert rows[3]["path"] == "root / fish / b"
    assert json.loads(run(app, "evaluate", folder / "levels", folder / "levels.csv", "--json"))["rows"] == 32
    found = json.loads(run(app, "explain", folder / "levels", "--ask", "fish", "--node", "root / fish / b", "--json"))
    assert [ball["label"] for ball in found["balls"]] == ["root", "fish", "b"]


def test_numbers_as_labels_can_be_asked_for(app, folder):
    assert run(app, "explain", folder / "text", "--ask", "", "--node", "3").startswith("3: probability")


def test_another_model_in_the_same_folder_leaves_nothing_behind(app, folder):
    run(app, "fit", folder / "table.csv", "--out", folder / "twice", "--target", "kind", "--text", "gloss")
    run(app, "fit", folder / "table.csv", "--out", folder / "twice", "--target", "kind", "--columns", "size")
    assert not [path.name for path in (folder / "twice").iterdir() if path.name.startswith("features.")]
    assert "probability" in run(app, "explain", folder / "twice", folder / "table.csv")


@pytest.mark.parametrize("name", ["model.json", "features.words.idf.npy", "combiner.linear.npy"])
def test_damaged_folders(app, folder, tmp_path, name):
    for data in (b"", b"[]", (folder / "text" / name).read_bytes()[:-9]):
        for path in (folder / "text").iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / name).write_bytes(data)
        with pytest.raises(VpunnError):
            run(app, "predict", tmp_path, "--ask", "fish")


def test_a_task_brings_its_own_test_rows(app, tmp_path, monkeypatch):
    texts = np.array(["a bird", "a fish", "a tree", "a fern"] * 5, object)
    nodes = LIFE.index(list(KINDS) * 5)
    task = PlacementTask("toy", LIFE, dict.fromkeys(("train", "test"), texts), dict.fromkeys(("train", "test"), nodes))
    monkeypatch.setattr("vpunn.datasets.tasks.TASKS", {"toy": lambda seed: task})
    run(app, "fit", "toy", "--out", tmp_path / "m")
    assert json.loads(run(app, "evaluate", tmp_path / "m", "--json"))["rows"] == 20
    with pytest.raises(VpunnError, match="either a table or --ask"):
        run(app, "predict", tmp_path / "m")
