"""``vpunn fit`` with text and numeric columns together, and rows of one source held out together: on PanTHERIA's mammals."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vpunn
from inputs import run_here
from vpunn.errors import VpunnError
from vpunn.io import read_table
from vpunn.tables.inputs import Inputs
from vpunn.tables.models import open_table_model
from vpunn.tables.samples import read_sample
from vpunn.text import by_word

PANTHERIA = Path(os.environ.get("VPUNN_DATA_DIR", "")) / "PanTHERIA_1-0_WR05_Aug2008.txt"
NAMES = {
    "MSW05_Order": "order",
    "MSW05_Family": "family",
    "MSW05_Genus": "genus",
    "MSW05_Species": "species",
    "5-1_AdultBodyMass_g": "mass",
    "26-4_GR_MidRangeLat_dd": "latitude",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Mammals of the four largest orders: the epithet says a little, the mass and the latitude something else."""
    if not PANTHERIA.is_file():
        pytest.skip("needs PanTHERIA_1-0_WR05_Aug2008.txt in the folder VPUNN_DATA_DIR")
    folder = tmp_path_factory.mktemp("mammals")
    frame = read_table(PANTHERIA)[list(NAMES)].rename(columns=NAMES).replace(-999, np.nan).dropna()
    frame = frame[frame["order"].isin(["Rodentia", "Chiroptera", "Carnivora", "Primates"])]
    frame["mass"] = np.log10(frame["mass"])
    frame = frame.sample(frac=1, random_state=0)
    frame[:500].to_csv(folder / "train.csv", index=False)
    frame[500:1100].to_csv(folder / "test.csv", index=False)
    for name, columns in {"words": [], "both": ["--columns", "mass,latitude"]}.items():
        where = ["--target", "order", "--text", "species", "--no-characters", *columns]
        done = run_here(["fit", str(folder / "train.csv"), "--out", str(folder / name), "--groups", "genus", *where])
        assert done.code == 0 and "groups in 'genus', whose rows are held out together" in done.out, done.err
    return folder


def words(folder, *command):
    """What a command prints as JSON."""
    done = run_here([*map(str, command), "--json"])
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_numbers_help_where_words_are_new(here):
    scores = [words(here, "evaluate", here / name, here / "test.csv") for name in ("words", "both")]
    assert scores[0]["rows"] == scores[1]["rows"] == 600
    assert scores[1]["exact"] > scores[0]["exact"] + 0.1


def test_the_same_answers_by_every_door(here):
    """Printed, written in batches, loaded as a library model, asked over the explorer's API."""
    printed = pd.DataFrame(words(here, "predict", here / "both", here / "test.csv", "--keep", "genus"))
    assert run_here(["predict", str(here / "both"), str(here / "test.csv"), "--out", str(here / "o.csv")]).code == 0
    written = pd.read_csv(here / "o.csv")
    assert written["label"].tolist() == printed["label"].tolist() and written["known"].all()
    frame = read_table(here / "test.csv")
    table = open_table_model(here / "both")
    X = table.rows(frame, "t")
    assert list(X) == ["words", "numbers"]
    assert vpunn.load(here / "both").predict(frame).tolist() == printed["label"].tolist()
    assert table.known(X).all()

    from vpunn.web.opening import open_model
    from vpunn.web.replies import ApiError

    believer = open_model(here / "both").answers
    assert believer.summary()["input"] == "columns" and believer.summary()["numeric"] == ["mass", "latitude"]
    rows = frame[["species", "mass", "latitude"]][:3].to_dict("records")
    asks = [believer.read_ask({"rows": [row], "explain": True}, 10) for row in rows]
    answers = [one["answers"][0] for one in believer.answer(asks)]
    assert [one["label"] for one in answers] == printed["label"][:3].tolist()
    for row, one in enumerate(answers):
        told = words(here, "explain", here / "both", here / "test.csv", "--row", row)["balls"]
        for turn, ball in zip(one["turns"], told, strict=True):
            assert turn["spoke"][:5] == ball["features"]  # words and numbers, not their n-grams
    assert f"mass={rows[0]['mass']:.4g}" in {name for turn in answers[0]["turns"] for name, _ in turn["spoke"]}
    for body, said in (
        ({"texts": ["Mus musculus"]}, "ask with rows"),
        ({"rows": [{**rows[0], "mass": "heavy"}]}, "features are numbers"),
        ({"rows": [{**row, "mass": None} for row in rows]}, "'mass' of 'rows' has no number in any of 3 rows"),
        ({"rows": [{"species": "musculus"}]}, "missing: 'mass', 'latitude'"),
    ):
        with pytest.raises((ApiError, VpunnError), match=said):
            believer.read_ask(body, 10)
    gap = [{**rows[0], "mass": None}, *rows[1:]]
    (found,) = believer.answer([believer.read_ask({"rows": gap}, 10)])
    same = believer.model.posterior(table.rows(pd.DataFrame(gap), "t")).best()
    assert [one["node"] for one in found["answers"]] == same.tolist()
    assert "1 of 3 rows lacks a number, read as the median" in found["notes"][0]


def test_what_spoke_is_told_by_block_word_and_number(here):
    done = run_here(["explain", str(here / "both"), str(here / "test.csv"), "--row", "2"])
    row = read_table(here / "test.csv").iloc[2]
    assert (
        re.search("spoke for it: .*words: ", done.out)
        and "by block: words" in done.out
        and f"mass={row['mass']:.4g}" in done.out
    ), done.out
    done = run_here(["explain", str(here / "both"), str(here / "test.csv"), "--node", "Primates"])
    balls = re.findall(r"head ([-+.0-9]+)  (.+)", done.out)
    assert balls and "rest " in done.out, done.out
    for head, listed in balls:  # what is listed, the rest among it, adds up to what the ball contributes
        parts = [float(part.rsplit(" ", 1)[1]) for part in listed.split(", ")]
        assert sum(parts) == pytest.approx(float(head), abs=0.005 * (len(parts) + 1))
    assert by_word("the price", [("words__price", 1.0), ("numbers__price", 2.0)], {"price": 3}) == [
        ("price=3", 2.0),
        ("price", 1.0),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.drop(columns="mass"), "has no column 'mass' (block 'numbers'); it has"),
        (lambda f: f.drop(columns="species"), "has no column 'species' (block 'words'); it has"),
        (lambda f: f.assign(mass="heavy"), "not numeric in row 0, 1, 2"),
    ],
)
def test_other_tables_are_refused_with_block_column_and_row(here, tmp_path, change, said):
    change(read_table(here / "test.csv")).to_csv(tmp_path / "odd.csv", index=False)
    for command in (["predict"], ["evaluate"], ["explain", "--row", "7"]):
        done = run_here([*command, str(here / "both"), str(tmp_path / "odd.csv")])
        assert done.code == 1 and done.err.count("\n") == 1 and "(block '" in done.err
        assert command[0] == "explain" or said in done.err, done.err


def test_groups_and_kinds_in_numbers_are_told():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"text": ["owl", "eel"] * 60, "label": ["bird", "fish"] * 60, "shop": rng.integers(1, 6, 120)})
    frame["from"] = ["a", "b", None] * 40
    inputs = Inputs(("label",), ("text",), ("shop",), groups="from")
    sample = read_sample(frame, inputs, "t")
    assert len(set(sample.groups.tolist())) == 42  # two sources, and forty rows that stand alone
    notes = "; ".join(sample.report.notes)
    assert "2 groups in 'from'" in notes and "40 rows without a group in 'from', each held out alone" in notes
    assert "'shop' holds 5 different whole numbers and is read as a quantity" in notes
    with pytest.raises(VpunnError, match="is the target"):
        Inputs(("label",), ("text",), groups="label")


def test_several_labels_from_words_and_numbers(tmp_path):
    rng = np.random.default_rng(0)
    big = rng.random(160) < 0.5
    frame = pd.DataFrame(
        {"text": rng.choice(["red", "green"], 160), "size": np.where(big, 9.0, 1.0) + rng.normal(size=160)}
    )
    frame["tags"] = frame["text"] + np.where(big, ";big", ";small")
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["--text", "text", "--columns", "size", "--target", "tags", "--label-sep", ";", "--out", str(tmp_path / "m")]
    assert run_here(["fit", str(tmp_path / "t.csv"), *fit]).code == 0
    found = words(tmp_path, "predict", tmp_path / "m", tmp_path / "t.csv")
    right = [set(a["label"].split("; ")) == set(b.split(";")) for a, b in zip(found, frame["tags"], strict=True)]
    assert np.mean(right) > 0.9
