"""``vpunn fit --label-sep``: several labels in a cell, through fit, predict, evaluate and explain."""

import csv
import json
import random

import pytest
from typer.testing import CliRunner

from vpunn.cli import app

WORDS = {
    "red": ("crimson", "scarlet"),
    "round": ("ball", "circle"),
    "sweet": ("sugar", "honey"),
    "sour": ("lemon", "acid"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where, rng = tmp_path_factory.mktemp("sets"), random.Random(0)
    with (where / "things.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "tags"])
        for i in range(160):
            tags = rng.sample(sorted(WORDS), rng.randint(0, 3))
            rows.writerow([" ".join(rng.choice(WORDS[t]) for t in tags) + f" thing {i % 7}", " ; ".join(tags)])
    return where


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_table_with_several_labels_in_a_cell(folder):
    table, model = folder / "things.csv", folder / "model"
    run("fit", table, "--text", "text", "--target", "tags", "--label-sep", ";", "--out", model)
    (answer,) = json.loads(run("predict", model, "--ask", "lemon honey", "--json"))
    assert answer["label"] == "sour; sweet" or answer["label"] == "sweet; sour"
    scores = json.loads(run("evaluate", model, table, "--json"))
    assert scores["rows"] == 160 and scores["F1 by rows"] > 0.9 and scores["Fmax"] > 0.9
    assert scores["missed at risk 0.1"] <= 0.12
    assert "scarlet" in run("explain", model, "--ask", "scarlet ball", "--node", "red")
    result = CliRunner().invoke(app, ["predict", str(model), "--ask", "lemon", "--rule", "path"])
    assert result.exit_code != 0


def test_parts_of_mixed_words_tell_the_family(folder):
    rows = [f"SLC{k}A{k % 5},carrier" for k in range(20, 60)] + [f"KRT{k}P,hair" for k in range(20, 60)]
    (folder / "genes.csv").write_text("\n".join(["symbol,kind", *rows]) + "\n")
    options = ["--text", "symbol", "--target", "kind", "--no-characters", "--out"]
    told = {}
    for name, more in (("whole", ["--mixed", "whole"]), ("starts", ["--mixed", "starts"]), ("cut", [])):
        run("fit", folder / "genes.csv", *options, folder / name, *more)
        told[name] = json.loads(run("predict", folder / name, "--ask", "KRT99X", "--json"))[0]
    for name in ("starts", "cut"):
        assert told[name]["label"] == "hair" and told[name]["probability"] > 0.9 > told["whole"]["probability"]
    refused = CliRunner().invoke(app, ["fit", "isco", "--mixed", "cut", "--out", str(folder / "no")])
    assert refused.exit_code != 0
    refused = CliRunner().invoke(app, ["fit", "none.csv", "--text", "x", "--mixed", "", "--out", str(folder / "no")])
    assert "--mixed='' is unknown" in str(refused.exception)
