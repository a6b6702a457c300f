"""The hierarchy reports, on the real mammals."""

import json

import numpy as np
import pytest

from strategies import random_tree
from vpunn.errors import VpunnError
from vpunn.paper.reports import hierarchies
from vpunn.paper.reports._holdout import digit_predictions
from vpunn.report import Report


@pytest.fixture(scope="module")
def mammals(tmp_path_factory):
    report = hierarchies.reproduce("ncbi", seeds=2)
    folder = report.write(tmp_path_factory.mktemp("ncbi"))
    return folder, json.loads((folder / "report.json").read_text())


def table(document, start):
    return next(
        block["rows"] for block in document["blocks"] if block["kind"] == "table" and block["title"].startswith(start)
    )


def test_the_code_is_exact(mammals):
    _, document = mammals
    ours = {row["quantity"]: row["ours"] for row in table(document, "T10–T12")}
    assert ours["isometry defects"] == "0 of 1,000,000 pairs"
    assert ours["failed round trips"].startswith("0 of")
    assert ours["collisions"] == "0"
    assert ours["Spearman ρ(distance, LCA depth)"] == -1
    assert {row["quantity"]: row["ours"] for row in table(document, "Approximation")}[
        "wrong leaves, van der Put gauge"
    ].startswith("0 with")


def test_the_ceilings_are_the_audits(mammals):
    _, document = mammals
    shares = [round(row["ceiling %, padding counted"], 1) for row in table(document, "E-47")]
    assert shares[1] == 71.3  # AUDIT E-47: NCBI, true parent digit
    leak = table(document, "Exhibit")
    assert leak[0]["whole path %"] == 100
    assert leak[1]["whole path %"] < 1


def test_files_are_whole_and_the_page_needs_no_network(mammals):
    folder, document = mammals
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page.replace("http-equiv", "")
    assert not list(folder.glob(".*"))
    assert {block["kind"] for block in document["blocks"]} == {"text", "table", "figure"}


def test_optimisers_reach_the_closed_form_from_random_starts():
    runs = {run.label: run for run in hierarchies.optimise(random_tree(3000, reach=300), seeds=2)}
    assert (runs["Fisher"].gap < 1e-6).all()
    assert (runs["Fisher"].epochs <= 30).all()
    assert (runs["Adam, auto schedule"].gap < 1e-6).all()
    assert (runs["GIST, all digits"].gap == 0).all()
    assert (runs["GIST, ±1 (paper)"].gap > 0).all()
    assert (runs["Adam, paper-appendix (20/20/20)"].gap > 1e-3).all()


def test_every_accuracy_of_the_paper_stands_beside_ours_with_its_protocol(mammals):
    _, document = mammals
    rows = {row["quantity"]: row for row in table(document, "T8, T10–T13: what")}
    assert {row["paper"] for row in rows.values()} == {"91.5 ± 0.4 %", "95.8 ± 0.2 %", "99.3 ± 0.1 %", ""}
    assert rows["GIST, all digits: whole path right"]["paper"] == "91.5 ± 0.4 %"
    assert rows["Adam, auto schedule: first digit right"]["ours"] == "99.87 ± 0 %"
    assert all(row["protocol"] and row["note"] for row in rows.values())
    assert [row["seeds"] for row in table(document, "T8, T10–T13: training")] == [2] * 6


def test_the_leak_is_ablated_by_training(mammals):
    _, document = mammals
    rows = {row["α"]: row for row in table(document, "Ablation: leak")}
    assert rows[0.0]["RMSE of prediction, without it"] < 1e-3
    assert all(row["RMSE of prediction, without it"] > 0.1 for alpha, row in rows.items() if alpha)


def test_a_report_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("taken")
    with pytest.raises(VpunnError, match="cannot be written"):
        Report("Title", "vpunn").write(tmp_path / "file" / "ncbi")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(VpunnError, match="cannot be written"):
        Report("Title", "vpunn").write(tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_held_out_digits_are_counted_one_by_one():
    tree = random_tree(60)
    order = np.random.default_rng(0).permutation(tree.leaves)
    train, test = order[8:], order[:8]
    confidence, right, weight = digit_predictions(tree, train, test, strength=1.0)
    expected = []
    for leaf in test:
        for ball, child in zip(tree.ancestors(leaf)[:-1], tree.ancestors(leaf)[1:], strict=True):
            children = tree.children(ball)
            seen = np.array([tree.is_ancestor(np.full(len(train), c), train).sum() for c in children])
            law = (seen + 1 / len(children)) / (seen.sum() + 1)
            expected.append((round(law.max(), 9), float(children[law.argmax()] == child)))
    got = [pair for pair, n in zip(zip(confidence.round(9), right, strict=True), weight, strict=True) for _ in range(n)]
    assert sorted(got) == sorted(expected)


def test_unknown_hierarchy():
    with pytest.raises(VpunnError, match="no hierarchy 'fungi'"):
        hierarchies.reproduce("fungi")


def test_report_prints_brackets_as_they_are(capsys):
    report = Report("Title [1]", "vpunn")
    report.table("T [x]", [{"a": "v[parent, c]", "b": 1}])
    report.text("see [E-43]")
    report.print()
    said = capsys.readouterr().out
    assert "v[parent, c]" in said
    assert "T [x]" in said
    assert "[E-43]" in said
