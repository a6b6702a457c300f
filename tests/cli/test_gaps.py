"""Tables with a few empty numbers through every command: answered, and told once."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from inputs import run_here
from vpunn.io import texts

TABLE = "id,size,weight,kind\na,4.1,3.9,owl\nb,,0.2,carp\nc,NA,4.2,eel\nd,4.3,  ,robin\n"


@pytest.fixture
def here(tmp_path, models):
    """The table, and its sentence."""
    (tmp_path / "t.csv").write_text(TABLE)
    train = pd.read_csv(models["here"] / "train.csv")
    medians = [f"'{name}' {np.median(train[name]):.4g} in {n}" for name, n in (("size", "2 rows"), ("weight", "1 row"))]
    told = f"3 of 4 rows lack numbers, read as the median of the training rows: {', '.join(medians)}"
    return tmp_path, str(models["num"]), told


def done(*words):
    found = run_here(list(map(str, words)))
    assert found.code == 0, found.err
    return found


def test_predict_answers_every_row_and_says_so_once(here, monkeypatch):
    folder, model, told = here
    printed = done("predict", model, folder / "t.csv", "--json", "--keep", "id")
    assert [row["id"] for row in json.loads(printed.out)] == list("abcd") and printed.err == f"vpunn: {told}.\n"
    monkeypatch.setattr(texts, "BLOCK", 40)
    for out in ("o.csv", "parts/"):
        for _ in range(1 + (out == "parts/")):  # a folder that is whole already is told of as well
            assert (
                done("predict", model, folder / "t.csv", "--out", f"{folder}/{out}", "--keep", "id").err == printed.err
            )
    written = pd.read_csv(folder / "o.csv")
    assert written["label"].tolist() == [row["label"] for row in json.loads(printed.out)]
    assert "known" not in done("predict", model, folder / "t.csv").out  # each row holds a number


def test_evaluate_explain_and_report_say_so(here, monkeypatch):
    folder, model, told = here
    scores = json.loads(done("evaluate", model, folder / "t.csv", "--json").out)
    assert scores["rows"] == 4 and scores["notes"] == [told]
    why = done("explain", model, folder / "t.csv", "--row", 1)
    assert told.split(": ")[1].split(" in ")[0].replace("'", "").replace(" ", "=") in why.out  # size=…
    assert why.err.startswith("vpunn: 1 of 1 row lacks a number")
    assert told in done("report", model, folder / "t.csv", "--out", folder / "r.html").out
    assert told.replace("'", "&#x27;") in (folder / "r.html").read_text()
    assert json.loads(done("evaluate", model, folder / "t.csv", "--json").out)["notes"] == [told]


def test_a_column_without_numbers_is_refused_by_every_door(here):
    folder, model, _ = here
    (folder / "t.csv").write_text("size,weight,kind\n1,,owl\n2,,eel\n")
    for more in (
        ["predict"],
        ["evaluate"],
        ["predict", "--out", f"{folder}/o.csv"],
        *[["predict", "--out", f"{folder}/p/"]] * 2,
    ):
        found = run_here([more[0], model, str(folder / "t.csv"), *more[1:]])
        assert found.code == 1 and "the column 'weight'" in found.err and "in any of 2 rows; fill it in" in found.err
    assert not (folder / "o.csv").exists()


def test_fit_by_medians(here):
    folder, _, _ = here
    (folder / "t.csv").write_text("size;weight;kind\n" + "1,5; ;owl\n;2,5;eel\n2,5;3,5;owl\n4;;\n" * 6)
    fit = ["fit", folder / "t.csv", "--columns", "size,weight", "--target", "kind", "--out", folder / "m"]
    said = done(*fit).out
    assert "18 rows" in said and "6 rows without a label or a number left out" in said
    assert (
        "12 of 18 rows lack numbers, read as the median of the training rows: 'size' 2 in 6 rows, 'weight' 3 in 6 rows"
        in said
    )
    assert "rows of 't.csv'" not in said and done("predict", folder / "m", folder / "t.csv").code == 0
    found = run_here(list(map(str, [*fit, "--missing", "drop"])))
    assert found.code == 0 and "6 rows, 3 columns" in found.out
    assert json.loads((folder / "m" / "model.json").read_text())["settings"]["inputs"]["medians"] == [2.5, 3.5]
