"""Pages about trees and models: self-contained, with contents and the numbers they claim; nothing that a phone cannot show."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from commands import run
from shapes import AWKWARD
from strategies import random_tree
from vpunn import HiPaNClassifier, VpunnError, write_tree
from vpunn.cli import app
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
    assert headings == ["Summary", "The tree", "Codes", "Structure"]
    assert [f'href="#{h.lower().replace(" ", "-")}"' in page for h in headings] == [True] * 4
    assert f"{tree.n_nodes:,} nodes" in page and 'name="viewport"' in page
    assert page.count("<div class=scroll><table>") == page.count("<table>")  # wide tables scroll on a phone
    counts = next(block for block in report.blocks if block.get("title") == "Counts")
    assert {row["quantity"]: row["value"] for row in counts["rows"]}["leaves"] == tree.n_leaves


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_trees_get_a_page(name):
    assert "Summary" in report_tree(AWKWARD[name], name).to_html()


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
    assert sum("The balls around the answer" in block.get("caption", "") for block in report.blocks) == 4
    with pytest.raises(VpunnError, match="classifier with posterior"):
        report_model(object(), X, y, "no")


def test_command_on_a_tree_file(tmp_path):
    write_tree(random_tree(60, 1), tmp_path / "t.json")
    said = run(app, "report", tmp_path / "t.json", "--out", tmp_path / "page.html")
    assert "A tree of 60 nodes" in said and (tmp_path / "page.html").stat().st_size > 50_000
    with pytest.raises(VpunnError, match="is a tree"):
        run(app, "report", tmp_path / "t.json", "--test", tmp_path / "t.json", "--out", tmp_path / "no.html")
    assert not (tmp_path / "no.html").exists()
    document = json.loads(run(app, "report", tmp_path / "t.json", "--out", tmp_path / "page.html", "--json"))
    assert document["blocks"][0]["text"] == "Summary"


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
    with pytest.raises(VpunnError, match="--test"):
        run(app, "report", tmp_path / "model", "--out", tmp_path / "page.html")
    said = run(app, "report", tmp_path / "model", "--test", tmp_path / "test.csv", "--out", tmp_path / "page.html")
    assert "30 rows are right" in said
    assert "Where it goes wrong" in (tmp_path / "page.html").read_text(encoding="utf-8")
