"""The commands, on a real table file, and the evaluation with tiny settings."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from vpunn.cli import tabular
from vpunn.errors import VpunnError
from vpunn.io import read_table, write_table
from vpunn.paper.reports import reproduce
from vpunn.paper.trials import VARIANTS, paired_interval, prediction_trial, split_rows

app = typer.Typer(pretty_exceptions_enable=False)
tabular.register(app)


@pytest.fixture(scope="module")
def iris(tmp_path_factory) -> str:
    data = load_iris(as_frame=True)
    table = data.data.assign(species=data.target_names[data.target], constant=1)
    path = tmp_path_factory.mktemp("iris") / "iris.csv"
    table.to_csv(path, index=False, sep=";")
    return str(path)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception:
        raise result.exception
    return result.stdout


def test_discover_describes_writes_codes_and_draws(iris, tmp_path):
    codes, figure = tmp_path / "codes.csv", tmp_path / "tree.png"
    text = run("discover", iris, "--drop", "species", "--codes", str(codes), "--figure", str(figure))
    assert "150 rows, 5 columns" in text
    assert "left out: constant" in text
    assert "petal length (cm)" in text
    table = pd.read_csv(codes, dtype={"branch": str})
    assert len(table) == 150
    assert (table["branch"].str.split(".").str[0].astype(int) == table["digit1"]).all()
    assert (table["code"] == sum(table[f"digit{k + 1}"] * 3**k for k in range(6))).all()
    assert figure.read_bytes()[:4] == b"\x89PNG"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["codes.csv", "tree.png"]


def test_discover_as_json_with_levels_and_refinement(iris):
    found = json.loads(run("discover", iris, "--levels", "3,9", "--refine", "--json"))
    assert found["rows"] == 150
    assert found["K"] == 2
    top = [b for b in found["balls"] if "." not in b["ball"]]
    assert sum(b["rows"] for b in top) == 150


def test_fit_generate_edit(iris, tmp_path):
    pytest.importorskip("torch.nn", reason="needs torch (extra tab)")
    model, made, twins = (str(tmp_path / name) for name in ("model", "made.parquet", "twins.tsv"))
    small = ("--epochs", "20", "--rounds", "20", "--K", "2")
    text = run("tabular", "fit", iris, "--target", "species", "--out", model, *small, "--json")
    facts = json.loads(text)
    assert {
        "held-out log loss, columns only",
        "held-out log loss, + branches",
        "held-out log loss, + random branches",
    } <= set(facts)
    run("tabular", "generate", model, "-n", "30", "--branch", "1", "--out", made)
    rows = read_table(made)
    assert len(rows) == 30
    assert (rows["constant"] == 1).all()
    text = run("tabular", "edit", model, iris, "--row", "3", "--depth", "1", "--out", twins)
    assert "20 twins" in text
    assert "petal width (cm)" in text
    assert len(read_table(twins)) == 20
    assert json.loads(run("tabular", "edit", model, iris, "--row", "3", "--depth", "1", "--json"))["branch"] in "12"
    with pytest.raises(VpunnError, match="row 500 is outside"):
        run("tabular", "edit", model, iris, "--row", "500")


def test_files_that_cannot_be_read_are_named(iris, tmp_path):
    for arguments, words in (
        (("discover", str(tmp_path / "none.csv")), "there is no file"),
        (("discover", str(tmp_path / "a.ods")), "ending '.ods'"),
        (("discover", iris, "--drop", "colour"), "no column 'colour'"),
        (("discover", iris, "--levels", "5,x"), "such as 5,20,60"),
        (("discover", iris, "--figure", "tree.bmp"), ".png, .svg, .pdf"),
    ):
        with pytest.raises(VpunnError, match=words):
            run(*arguments)
    (tmp_path / "empty.csv").write_text("a,b\n")
    with pytest.raises(VpunnError, match="no rows"):
        read_table(tmp_path / "empty.csv")
    with pytest.raises(VpunnError, match="ending"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "a.doc")


def test_splits_never_part_equal_rows():
    table = pd.DataFrame({"a": np.arange(200) // 4, "b": "x"})
    train, test = split_rows(table, 0)
    assert len(train) + len(test) == 200
    assert not set(table["a"].iloc[train]) & set(table["a"].iloc[test])
    assert len(test) == pytest.approx(50, abs=4)


def test_controls_behave_as_controls_must():
    """The leaked code wins by a wide margin and the random one does not: the harness can see a gain and a non-gain."""
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 4))
    y = x[:, 0] + 3 * random.normal(size=400)
    trials = [prediction_trial(x, y, "regression", seed, rounds=60) for seed in range(3)]
    assert set(trials[0]) == set(VARIANTS)
    change = {v: np.mean([t[v] / t["columns only"] - 1 for t in trials]) for v in VARIANTS}
    assert change["+ leaked balls"] < -0.15
    assert change["+ random balls"] > -0.05
    assert change["+ balls"] > -0.1


def test_paired_interval_is_wider_than_the_naive_one():
    d = np.random.default_rng(0).normal(size=10)
    found = paired_interval(d)
    assert found.low < d.mean() < found.high
    assert found.high - d.mean() > 2.26 * d.std(ddof=1) / np.sqrt(10)
    assert paired_interval(np.array([1.0])).low == float("-inf")


@pytest.mark.slow
def test_the_picture_of_the_wines():
    report = reproduce("tabular", seeds=1, work={"rows": 400}, only=["picture"])
    assert [b["kind"] for b in report.blocks].count("figure") == 1


@pytest.mark.usefixtures("wine")
def test_without_umap_the_picture_uses_principal_components(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "umap" else find(name, *rest))
    report = reproduce("tabular", seeds=1, work={"rows": 400}, only=["picture"])
    assert "principal components" in report.to_json()


@pytest.mark.usefixtures("wine")
def test_the_report_runs_end_to_end(tmp_path):
    pytest.importorskip("torch.nn", reason="needs torch (extra tab)")
    quick = ("prediction", "generation", "edits", "refinement", "ids")  # the picture compiles umap for half a minute
    work = {"epochs": 2, "rounds": 2, "edits": 4, "rows": 400, "permutations": 9}
    report = reproduce("tabular", seeds=2, work=work, only=quick, out=tmp_path / "made")
    titles = [b["title"] for b in report.blocks if b["kind"] == "table"]
    assert any("T17" in t and "prediction" in t for t in titles)
    assert any("T18" in t for t in titles)
    assert sum(b["kind"] == "figure" for b in report.blocks) == 1
    first = next(b for b in report.blocks if "T17" in b.get("title", "") and "prediction" in b["title"])
    change = next(row for row in first["rows"] if row["quantity"].startswith("change of"))
    assert change["paper"] == "−5.3"
    assert "[" in change["ours"]
    assert "leak" in report.to_json().lower()
    assert (report.write(tmp_path / "out") / "report.html").stat().st_size > 10_000
    again = reproduce("tabular", source=tmp_path / "made", work=work, only=quick)
    assert again.blocks == report.blocks


def test_fit_scores_rare_classes_and_writes_nothing_when_it_fails(iris, tmp_path):
    table = pd.read_csv(iris, sep=";").drop(columns="species")
    out = tmp_path / "a.model"
    source = tmp_path / "t.csv"
    table.assign(kind=[f"k{i}" if i % 10 == 0 else "usual" for i in range(len(table))]).to_csv(source, index=False)
    quick = ("--target", "kind", "--out", str(out), "--epochs", "0", "--rounds", "3")
    facts = json.loads(run("tabular", "fit", str(source), *quick, "--json"))
    assert 0 < facts["held-out log loss, columns only"] < 1  # classes without a training row cannot be scored
    shutil.rmtree(out)
    for target, word in ((["x"] * len(table), "two classes"), ([np.inf] + [0.5] * (len(table) - 1), "infinite")):
        table.assign(kind=target).to_csv(source, index=False)
        with pytest.raises(VpunnError, match=word):
            run("tabular", "fit", str(source), *quick)
    table.iloc[:1].assign(kind=1.5).to_csv(source, index=False)
    with pytest.raises(VpunnError, match="3 different rows"):
        run("tabular", "fit", str(source), *quick)
    assert not out.exists()


def test_outputs_are_checked_before_any_work(iris, tmp_path):
    codes = tmp_path / "codes.csv"
    with pytest.raises(VpunnError, match=r"ending '\.foo'"):
        run("discover", iris, "--codes", str(codes), "--figure", str(tmp_path / "x.foo"))
    assert not codes.exists()
    nowhere = tmp_path / "none"
    for arguments in (
        ("discover", iris, "--codes", str(nowhere / "a.csv")),
        ("tabular", "fit", iris, "--out", str(nowhere / "a.model")),
        ("tabular", "generate", "no.model", "--out", str(nowhere / "a.csv")),
        ("tabular", "edit", "no.model", iris, "--row", "0", "--out", str(nowhere / "a.csv")),
    ):
        with pytest.raises(VpunnError, match="there is no folder"):
            run(*arguments)


def test_the_closing_sentence_says_what_the_intervals_show():
    from vpunn.paper.reports.tabular import gains_sentence

    noise = np.random.default_rng(0).normal(scale=0.001, size=10)
    flat = {name: np.ones(10) + (noise if name != "columns only" else 0) for name in VARIANTS}
    flat["+ random balls"] = flat["+ balls"] = flat["+ digits"] = 1 - noise + noise.mean()
    flat["+ digits, all rows"] = 1 + noise - noise.mean()
    text = gains_sentence({"wine": flat, "images": {**flat, "+ balls": flat["+ balls"] - 0.3}})
    assert (
        "images has one with “+ balls”, not with “+ digits” and “+ digits, all rows”, and the random control does not"
        in text
    )
    assert "wine: none with any form of the code" in text
    shared = {**flat, "+ balls": flat["+ balls"] - 0.3, "+ random balls": flat["+ balls"] - 0.3}
    assert "and so does the random control" in gains_sentence({"images": shared})
