"""Pages about trees and models: self-contained, with contents and the numbers they claim; nothing that a phone cannot show."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from commands import run
from shapes import AWKWARD
from strategies import random_tree
from vpunn import HiPaNClassifier, VPuNNClassifier, VpunnError, VPuNNRegressor, write_tree
from vpunn.cli import app
from vpunn.metrics import sets
from vpunn.report import report_model, report_tree, triage


def outside(page: str) -> list[str]:
    """What a page would fetch from elsewhere."""
    return re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page)


def test_page_about_a_tree():
    tree = random_tree(500, 2)
    report = report_tree(tree, "a <random> tree")
    page = report.to_html()
    assert outside(page) == [] and "a &lt;random&gt; tree" in page
    headings = [block["text"] for block in report.blocks if block["kind"] == "heading"]
    assert headings == ["The tree", "Codes", "Structure"]
    assert [f'href="#{h.lower().replace(" ", "-")}"' in page for h in headings] == [True] * 3
    assert f"{tree.n_nodes:,} nodes" in page and 'name="viewport"' in page
    assert page.count("<div class=scroll><table>") == page.count("<table>")  # wide tables scroll on a phone
    counts = next(block for block in report.blocks if block.get("title") == "Counts")
    assert {row["quantity"]: row["value"] for row in counts["rows"]}["leaves"] == tree.n_leaves


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_trees_get_a_page(name):
    assert "The tree" in report_tree(AWKWARD[name], name).to_html()


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    tree = random_tree(40, 4)
    centre = rng.normal(size=(tree.n_nodes, 8)) * 1.5
    y = rng.choice(tree.leaves, 500)
    X = centre[y] + rng.normal(size=(500, 8))
    model = HiPaNClassifier(tree, random_state=0).fit(X[:350], tree.labels[y[:350]])
    return model, X[350:], tree.labels[y[350:]]


def test_page_about_a_model(fitted):
    model, X, y = fitted
    report = report_model(model, X, y, "a classifier", texts=[f"row <{i}>" for i in range(len(y))])
    page = report.to_html()
    assert outside(page) == [] and "<0>" not in page
    scores = next(block for block in report.blocks if block.get("title") == "Scores")["rows"]
    value = {row["score"]: row["value"] for row in scores}
    assert value["exactly right"] == pytest.approx((model.predict(X) == y).mean()) and value["rows"] == len(y)
    hardest = next(block for block in report.blocks if "Hardest" in block.get("title", ""))["rows"]
    assert [row["mistakes"] for row in hardest] == [ball["mistakes"] for ball in triage(model, X, y).hardest(15)]
    assert sum("The branches around the answer" in block.get("caption", "") for block in report.blocks) == 4
    with pytest.raises(VpunnError, match="classifier with posterior"):
        report_model(object(), X, y, "no")


def test_command_on_a_tree_file(tmp_path):
    write_tree(random_tree(60, 1), tmp_path / "t.json")
    said = run(app, "report", tmp_path / "t.json", "--out", tmp_path / "page.html")
    assert "A tree of 60 nodes" in said and (tmp_path / "page.html").stat().st_size > 50_000
    with pytest.raises(VpunnError, match="is a tree"):
        run(app, "report", tmp_path / "t.json", tmp_path / "t.json", "--out", tmp_path / "no.html")
    assert not (tmp_path / "no.html").exists()
    document = json.loads(run(app, "report", tmp_path / "t.json", "--out", tmp_path / "page.html", "--json"))
    assert document["blocks"][0]["text"] == "The tree"


def test_command_on_a_model_and_a_table(tmp_path):
    words = {
        "cat": "purr meow whiskers",
        "dog": "bark wag fetch",
        "rose": "petal thorn scent",
        "oak": "acorn leaf trunk",
    }
    rng = np.random.default_rng(0)
    rows = [{"text": " ".join(rng.choice(words[k].split(), 4)), "kind": k} for k in list(words) * 30]
    pd.DataFrame(rows[:90]).to_csv(tmp_path / "train.csv", index=False)
    pd.DataFrame(rows[90:]).to_csv(tmp_path / "test.csv", index=False)
    run(app, "fit", tmp_path / "train.csv", "--target", "kind", "--text", "text", "--out", tmp_path / "model")
    with pytest.raises(VpunnError, match="needs a table"):
        run(app, "report", tmp_path / "model", "--out", tmp_path / "page.html")
    said = run(app, "report", tmp_path / "model", tmp_path / "test.csv", "--out", tmp_path / "page.html")
    assert "30 rows are right" in said
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Where it goes wrong" in page
    scored = json.loads(run(app, "evaluate", tmp_path / "model", tmp_path / "test.csv", "--json"))["by depth"][0]
    assert f"{scored['ECE']:.4g}" in page and f"{scored['by chance']:.4g}" in page  # one name, one number


def block(report, title):
    """The rows of the table of a title."""
    return next(block["rows"] for block in report.blocks if block.get("title", "").startswith(title))


def test_page_about_numbers_has_the_errors_and_finds_the_ball_that_is_off():
    rng = np.random.default_rng(0)
    levels = np.array([[f"o{i % 4}", f"g{i % 12}"] for i in range(600)], object)
    y = 5.0 * (levels[:, 0] == "o1") + rng.normal(size=600)
    model = VPuNNRegressor().fit(levels[:400], y[:400])
    X, truth = levels[400:], y[400:].copy()
    truth[X[:, 1] == "g5"] += 3.0  # what the model could not know
    report = report_model(model, X, truth, "numbers")
    assert outside(report.to_html()) == []
    value = {row["score"]: row["value"] for row in block(report, "Scores")}
    mean, sd = model.predict(X, return_std=True)
    assert value["rows"] == 200 and value["root mean squared error"] == pytest.approx(
        np.sqrt(np.mean((truth - mean) ** 2))
    )
    held = {row["should hold"]: row["hold"] for row in block(report, "Intervals")}
    assert held[0.9] == pytest.approx(np.mean(np.abs(truth - mean) <= 1.6448536 * sd))
    off = block(report, "Branches that are off")
    assert off[0]["branch"] == "g5" and off[0]["mean error"] == pytest.approx((truth - mean)[X[:, 1] == "g5"].mean())
    assert sum(b["kind"] == "figure" and "branches around row" in b["caption"] for b in report.blocks) == 4
    for rows, numbers in ((X, truth[:5]), (X[:0], truth[:0]), (X, np.full(200, np.nan))):
        with pytest.raises(VpunnError):
            report_model(model, rows, numbers, "no")
    with pytest.raises(VpunnError, match="one target"):
        report_model(VPuNNRegressor().fit(levels, np.column_stack([y, y])), X, truth, "no")


def test_page_about_honest_numbers_accuses_nobody():
    rng = np.random.default_rng(1)
    levels = np.array([[f"o{i % 4}", f"g{i % 12}"] for i in range(900)], object)
    y = rng.normal(size=900)
    report = report_model(VPuNNRegressor().fit(levels[:450], y[:450]), levels[450:], y[450:], "numbers")
    assert "No branch is off" in report.to_html()


def test_page_about_classes_from_levels_has_the_scores_and_finds_the_branch_that_is_off():
    rng = np.random.default_rng(0)
    levels = np.array([[f"o{i % 4}", f"g{i % 12}"] for i in range(600)], object)
    y = np.where((levels[:, 0] == "o1") ^ (rng.random(600) < 0.1), "meat", "plants")
    X, truth = levels[400:], y[400:].copy()
    truth[X[:, 1] == "g5"] = "plants"  # what the model could not know
    truth[0] = "stones"
    model = VPuNNClassifier().fit(levels[:400], y[:400])
    report = report_model(model, X, truth, "classes")
    assert outside(report.to_html()) == []
    value = {row["score"]: row["value"] for row in block(report, "Scores")}
    assert value["rows"] == 200 and value["class right"] == pytest.approx((model.predict(X) == truth).mean())
    p = model.predict_proba(X)[np.arange(200), (truth != "meat").astype(int)] * (truth != "stones")
    assert value["log loss"] == pytest.approx(-np.log(np.maximum(p, 1e-9)).mean())
    taken = block(report, "What is taken for what")
    assert sum(row["rows"] for row in taken) == (model.predict(X) != truth).sum()
    assert "(never seen)" in {row["truth"] for row in taken}
    assert "g5" in {row["branch"] for row in block(report, "Branches whose answers")}
    for rows, classes in ((X, truth[:5]), (X[:0], truth[:0])):
        with pytest.raises(VpunnError):
            report_model(model, rows, classes, "no")


def test_page_about_numbers_along_branches_says_the_model_and_has_no_empty_column():
    tree = random_tree(60, 2)
    tree = tree.replace(columns={"length": np.ones(len(tree))})
    X = tree.labels[tree.leaves].astype(object)[:, None]
    model = VPuNNRegressor(tree, evolution="lambda").fit(X, np.random.default_rng(0).normal(size=len(X)))
    report = report_model(model, X, np.zeros(len(X)), "numbers")
    said = [b["text"] for b in report.blocks if b["kind"] == "text"]
    assert any("by the model 'lambda'" in text for text in said)
    assert "nan" not in str(block(report, "Standard deviation of"))
    assert any(row["part"].startswith("λ") for row in block(report, "Beside the tree"))


def test_page_about_label_sets_has_the_scores_of_the_metrics():
    rng = np.random.default_rng(0)
    tree = random_tree(30, 3)
    leaves = tree.leaves[:6]
    Y = rng.uniform(size=(300, 6)) < 0.3
    X = sparse.csr_matrix(
        np.maximum(Y @ rng.normal(size=(6, 20)) + 0.3 * rng.normal(size=(300, 20)), 0)
    )  # as words are
    labels = [{tree.labels[leaf] for leaf in leaves[row]} for row in Y]
    model = HiPaNClassifier(tree, random_state=0).fit(X[:200], labels[:200])
    names = [f"words__w{j}" for j in range(20)]
    report = report_model(model, X[200:], labels[200:], "sets", feature_names=names)
    assert outside(report.to_html()) == []
    value = {row["score"]: row["value"] for row in block(report, "Sets with their ancestors")}
    ids = [tree.index(sorted(row)).tolist() if row else [] for row in labels[200:]]
    truth = sets.with_ancestors(tree, sets.table_of(tree, ids))
    posterior = model.posterior(X[200:])
    said, every = posterior.above(0.5), posterior.node_proba()
    every[:, 0] = 0.0
    assert value["F1 by rows"] == pytest.approx(sets.example_f1(truth, said))
    assert value["Fmax"] == pytest.approx(sets.f_max(truth, every).value)
    assert value["sets exactly right"] == pytest.approx(np.mean(np.asarray((truth != said).sum(1)).ravel() == 0))
    by_depth = block(report, "By depth")
    assert sum(row["labels that rows have"] for row in by_depth) == truth.sum()
    at_half = next(row for row in block(report, "Other thresholds") if row["threshold"] == 0.5)
    assert at_half["precision"] == pytest.approx(sets.precision_recall(truth, said).precision)
    assert any(
        "w1" in row["speaks for it"]
        for b in report.blocks
        if "Labels of row" in b.get("title", "")
        for row in b["rows"]
    )
    for X_, y_ in ((X, labels[:5]), (X[:0], [])):
        with pytest.raises(VpunnError):
            report_model(model, X_, y_, "no")
    with pytest.raises(VpunnError):
        report_model(model, X[:1], [{"no such label"}], "no")
