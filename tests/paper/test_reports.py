"""The hierarchy reports: every section on the primates of the NCBI taxonomy, single tables on all mammals, and without training."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vpunn
from commands import run
from strategies import random_tree
from vpunn import HiPaN, write_tree
from vpunn.cli import app
from vpunn.datasets import load_ncbi
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError, VpunnError
from vpunn.paper import reproduce
from vpunn.paper.reports import _run, hierarchy, hipan_tables, training
from vpunn.report import Report
from vpunn.tree import Tree


@pytest.fixture(scope="module")
def primates(tmp_path_factory):
    """The whole report on 1,000 real species, with its folder."""
    folder = tmp_path_factory.mktemp("reports") / "ncbi"
    report = reproduce("ncbi", 2, out=folder, data=load_ncbi("Primates"), work={"task": absent})
    report.write(folder)
    return folder, json.loads((folder / "report.json").read_text())


def absent(seed: int) -> Any:
    """The fungi of somebody who does not have them."""
    raise DataError("the fungi need a table.")


def table(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return next(b["rows"] for b in document["blocks"] if b["kind"] == "table" and b["name"] == name)


def test_the_papers_layout_with_its_protocols_and_controls(primates):
    _, document = primates
    rows = table(document, "T12")
    assert [row["model"] for row in rows[::6][:2]] == ["HiPaN-DS", "HiPaN"]
    assert rows[0]["LeafAcc %"] == "91.5 ± 0.4"
    assert {row["protocol"] for row in rows if row["model"] == "HiPaN"} == {
        "as printed in the paper",
        *(asked.text for asked in hipan_tables.PROTOCOLS.values()),
    }
    by = {(row["model"], row["protocol"]): row for row in rows}
    tree = load_ncbi("Primates").tree
    last = [tree.children(int(tree.parent[leaf])).tolist().index(leaf) for leaf in tree.leaves.tolist()]
    zero = np.mean(
        [
            tree.depth[leaf] < tree.max_depth or index == 0
            for leaf, index in zip(tree.leaves.tolist(), last, strict=True)
        ]
    )
    assert by["control", "always the digit 0"]["LeafAcc %"] == f"{100 * zero:.2f}"
    assert by["HiPaN", "shown the digit"]["LeafAcc %"] == "100.00 ± 0.00"
    assert by["HiPaN", "nothing shown"]["ρ of the codes"] == "undefined"
    assert by["control", "HiPaN after 0 epochs, shown the digit"]["LeafAcc %"] == f"{100 * zero:.2f}"
    assert len(table(document, "T8")) == len(table(document, "T13")) == 12
    assert all(row["why"] for name in ("T8", "T12", "T13") for row in table(document, name))


def test_digit_accuracy_has_every_position_and_a_file_of_its_own(primates):
    folder, document = primates
    rows = table(document, "T21")
    tree = load_ncbi("Primates").tree
    assert [row["k"] for row in rows] == list(range(tree.max_depth))
    depth = tree.depth[tree.leaves]
    assert [row["padding"] for row in rows] == [100 * float((depth <= k).mean()) for k in range(tree.max_depth)]
    for k, row in enumerate(rows):  # the ceiling, by hand: the commonest next digit of each parent digit
        laws: dict[int, list[int]] = {}
        for leaf in tree.leaves.tolist():
            z = [max(int(d) - 1, 0) for d in tree.digit[tree.ancestors(leaf)[1:]]] + [0] * tree.max_depth
            laws.setdefault(z[k - 1] if k else 0, []).append(z[k])
        best = sum(max(map(seen.count, set(seen))) for seen in laws.values())
        assert np.isclose(row["ceiling"], 100 * best / tree.n_leaves)
    with (folder / "results" / "ncbi_digit_accuracy.csv").open() as file:
        assert [list(row.values()) for row in csv.DictReader(file)] == [
            ["" if v is None else str(v) for v in row.values()] for row in rows
        ]


def test_every_table_is_a_csv_and_every_code_is_explained(primates):
    folder, document = primates
    tables = [block for block in document["blocks"] if block["kind"] == "table"]
    for block in tables:
        with (folder / "tables" / f"{block['name']}.csv").open() as file:
            assert next(csv.reader(file)) == block["columns"]
    assert {"T7", "T8", "T12", "T13", "T21", "leak", "pruning", "epochs", "algorithms"} <= {
        block["name"] for block in tables
    }
    said = {row["code"] for row in table(document, "codes")}
    assert {"E-43", "E-47", "T21", "T12"} <= said
    assert {"machine", "libraries", "cpu_seconds", "command"} <= set(document)


def test_the_same_numbers_again_without_training(primates, tmp_path, monkeypatch):
    folder, document = primates

    def never(*args, **kwargs):
        raise AssertionError("an optimiser was called")

    for where, name in (
        (vpunn.vapo, "minimize"),
        (vpunn.vapo, "drive"),
        (training, "_epoch_seconds"),
        (HiPaN, "fit"),
        (hierarchy, "release_counts"),
    ):
        monkeypatch.setattr(where, name, never)
    report = reproduce("ncbi", source=folder, out=tmp_path / "again", data=load_ncbi("Primates"), work={"task": absent})
    report.write(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "report.json").read_text())
    for one, two in zip(document["blocks"], again["blocks"], strict=True):
        if one.get("name") == "resources" or one.get("name", "").startswith("Approximation"):  # times of this run
            continue
        assert one == two
    for figure in folder.glob("figure-*.png"):
        assert figure.read_bytes() == (tmp_path / "again" / figure.name).read_bytes()


def test_going_on_after_kill_9_equals_a_run_without_break(tmp_path):
    """A process of its own is killed once the first model stands; what --resume writes is what an unbroken run writes."""
    small = (
        "import sys; from vpunn.datasets import load_ncbi; from vpunn.paper import reproduce; "
        "out = sys.argv[1] + '/ncbi'; "
        "reproduce('ncbi', 1, only=['T12'], out=out, resume='--resume' in sys.argv, data=load_ncbi('Primates')).write(out)"
    )
    words = [sys.executable, "-c", small]
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    process = subprocess.Popen([*words, str(broken)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while not (broken / "ncbi" / "checkpoints" / "hipan-ds" / "model.json").is_file():
        assert process.poll() is None, "the report ended before it could be killed"
        assert time.monotonic() - began < 120
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (broken / "ncbi" / "report.json").exists()
    kept = (broken / "ncbi" / "checkpoints" / "hipan-ds" / "model.json").read_bytes()
    subprocess.run([*words, str(broken), "--resume"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*words, str(whole)], check=True, stdout=subprocess.DEVNULL)
    assert (broken / "ncbi" / "checkpoints" / "hipan-ds" / "model.json").read_bytes() == kept
    # a folder that was being written when the kill came stays hidden beside the others until it is old enough to be swept
    models = sorted(path.parent.name for path in (whole / "ncbi" / "checkpoints").glob("[!.]*/model.json"))
    assert sorted(path.parent.name for path in (broken / "ncbi" / "checkpoints").glob("[!.]*/model.json")) == models
    for name in models:
        one, two = (folder / "ncbi" / "checkpoints" / name for folder in (broken, whole))
        for array in one.glob("*.npy"):
            assert array.read_bytes() == (two / array.name).read_bytes()
    one, two = (json.loads((folder / "ncbi" / "report.json").read_text()) for folder in (broken, whole))
    for mine, yours in zip(table(one, "T12"), table(two, "T12"), strict=True):
        assert {k: v for k, v in mine.items() if k not in ("CPU s", "peak MB")} == {
            k: v for k, v in yours.items() if k not in ("CPU s", "peak MB")
        }
    with pytest.raises(DataError, match="begun with --seeds 1"):
        reproduce("ncbi", 3, out=broken / "ncbi", resume=True, data=load_ncbi("Primates"))


def test_the_kept_models_open_as_models(primates):
    folder, _ = primates
    model = vpunn.load(folder / "checkpoints" / "hipan")
    assert isinstance(model, HiPaN)
    assert model.score(rule="paper").leaf == 1
    assert vpunn.load(folder / "checkpoints" / "hipan.seed1").method == "adam"
    assert model.tree.fingerprint == load_ncbi("Primates").tree.fingerprint


def test_models_of_another_tree_or_report_are_refused(primates, tmp_path):
    folder, _ = primates
    primate, rodent = load_ncbi("Primates"), load_ncbi("Rodentia")
    with pytest.raises(DataError, match="holds the models of 'ncbi', not of 'go'"):
        reproduce("go", source=folder)
    with pytest.raises(DataError, match=r"plan\.json.*without --from"):
        reproduce("ncbi", source=tmp_path, data=primate)
    with pytest.raises(DataError, match="trained on another tree"):
        reproduce("ncbi", source=folder, data=rodent)


def test_hipan_itself_has_its_probabilities_judged(primates):
    _, document = primates
    rows = table(document, "T15-HiPaN")
    assert rows[0]["ECE %"] == "0.52 %"
    assert [row["model"] for row in rows[1:]] == ["HiPaN-DS"] * 6 + ["HiPaN"] * 6
    by = {row["protocol"]: row for row in rows if row["model"] == "HiPaN"}
    number = {key: float(row["NLL"].split()[0]) for key, row in by.items()}
    assert number["shown the digit, held-out leaves"] < number["nothing shown, held-out leaves"]
    assert number["nothing shown, held-out leaves, calibrated"] < number["nothing shown, held-out leaves"]
    assert all(" ± " in row["ECE %"] and row["note"] for row in by.values())
    assert "features is left out: mammals have names only" in json.dumps(document, ensure_ascii=False)


def test_the_heads_without_input(primates):
    _, document = primates
    assert {row["paper"] for row in table(document, "heads-accuracy")} == {
        "91.5 ± 0.4 %",
        "95.8 ± 0.2 %",
        "99.3 ± 0.1 %",
        "",
    }
    assert [row["seeds"] for row in table(document, "heads-training")] == [2] * 10
    rows = {row["α"]: row for row in table(document, "Ablation")}
    assert rows[0.0]["RMSE of prediction, without it"] < 1e-3
    best = rows[0.0]["RMSE of prediction, without it"]
    assert all(row["RMSE of prediction, without it"] > 10 * best for alpha, row in rows.items() if alpha)


def test_the_leak_has_a_verdict(primates):
    _, document = primates
    rows = table(document, "leak")
    assert [(row["optimiser"], row["α"]) for row in rows] == [(o, a) for o in ("gist", "adam") for a in training.LEAKS]
    assert rows[0]["until nothing moved"] in ("yes", f"no, stopped at {training.MAX_SWEEPS}")
    verdict = training.leak_verdict(rows)
    assert verdict in json.dumps(document, ensure_ascii=False)
    assert verdict.startswith("Verdict: GIST does not stall below")


def test_files_are_whole_and_the_page_needs_no_network(primates):
    folder, document = primates
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page.replace("http-equiv", "")
    assert not list(folder.glob(".*"))
    assert {block["kind"] for block in document["blocks"]} == {"text", "table", "figure", "heading"}


# ---- single tables on the command line ---------------------------------------------------------------------------------


def test_a_tree_of_ones_own_gets_every_table_without_the_papers_numbers_and_its_figures(tmp_path):
    write_tree(random_tree(150, 2, 15), tmp_path / "mine.json")
    run(app, "reproduce", tmp_path / "mine.json", "--seeds", 1, "--out", tmp_path, *OWN)
    document = json.loads((tmp_path / "mine" / "report.json").read_text())
    names = {block["name"] for block in document["blocks"] if block["kind"] == "table"}
    assert names >= {"T7", "T8", "T9", "T10", "T13", "T15-HiPaN", "T16", "E-43"}
    assert not any(
        "paper" in block.get("columns", ()) for block in document["blocks"] if block.get("name") in ("T9", "T8")
    )
    assert {row["quantity"]: row["ours"] for row in table(document, "T9")}["leaves"] == random_tree(150, 2, 15).n_leaves
    assert not (tmp_path / "mine" / "figures").exists()  # single tables were asked for


OWN = [word for name in ("T7", "T8", "T9", "T10", "T13", "T15", "T16", "E-43") for word in ("--only", name)]


def test_single_tables_of_all_mammals(tmp_path):
    run(
        app,
        "reproduce",
        "ncbi",
        "--seeds",
        1,
        "--only",
        "isometry",
        "--only",
        "E-47",
        "--only",
        "algorithms",
        "--out",
        tmp_path,
    )
    document = json.loads((tmp_path / "ncbi" / "report.json").read_text())
    ours = {row["quantity"]: row["ours"] for row in table(document, "isometry")}
    assert ours["isometry defects"] == "0 of 1,000,000 pairs"
    assert ours["collisions"] == "0"
    assert ours["Spearman ρ(distance, LCA depth)"] == -1
    shares = [round(row["ceiling %, padding counted"], 1) for row in table(document, "E-47")]
    assert shares[1] == 71.3  # AUDIT E-47: NCBI, true parent digit
    facts = [row["ours"] for row in table(document, "algorithms")]
    assert facts[:2] == ["+0.022", "-1.000"]  # the paper: −0.94 … −0.96
    assert not (tmp_path / "ncbi" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ncbi", "--only", "T10"], "the report on ncbi has no 'T10'; it has T9, T19, releases, T12"),
        (["ncbi-2020"], "no release '2020' of 'ncbi'"),
        (["ncbi", "--policy", "deepest"], "a tree already"),
        (["hipaq", "--only", "T17"], "the report on hipaq has no 'T17'; it has T16, T20"),
        (["hipaq", "--policy", "first"], "--policy is for wordnet, go, ncbi and trees; leave it out for hipaq"),
        (["hipaq-2"], "there is no file 'hipaq-2'"),
        (["hipaq", "--hour"], "--hour and --minutes are the time of each baseline"),
        (["baselines", "--hour", "--minutes", "3"], "--hour is --minutes 60"),
        ([], "say which report to make"),
        (["all", "--only", "T16"], "--only names tables of one report"),
        (["ncbi", "--resume", "--from", "x"], "give one of them"),
        (["wordnet-9"], "no WordNet version '9'"),
        (["fungi"], "there is no file 'fungi'"),
        (["{tmp}/one.json"], "'one' is a tree of one node, which has no digits"),
    ],
)
def test_wrong_words_get_one_sentence(words, message, tmp_path):
    write_tree(Tree.from_parents([-1]), tmp_path / "one.json")
    with pytest.raises(VpunnError, match=message):
        run(app, "reproduce", *(word.format(tmp=tmp_path) for word in words), "--out", tmp_path)


def test_the_folder_is_checked_before_any_work(tmp_path):
    (tmp_path / "file").write_text("taken")
    with pytest.raises(VpunnError, match="cannot write into the folder"):
        run(app, "reproduce", "ncbi", "--out", tmp_path / "file")


# ---- the parts ---------------------------------------------------------------------------------------------------------


def test_optimisers_reach_the_closed_form_from_random_starts():
    bench = _run.Bench("random", 2, given=Hierarchy(random_tree(3000, reach=300), "random", "", "", "", "first"))
    runs = {found.label: found for found in training.optimise(bench)}
    assert (runs["Fisher"].gap < 1e-6).all()
    assert (runs["Fisher"].epochs <= 30).all()
    assert (runs["Adam, auto schedule"].gap < 1e-6).all()
    assert (runs["GIST, all digits"].gap == 0).all()
    assert (runs["GIST, ±1 (paper)"].gap > 0).all()
    assert (runs["Adam, paper-appendix (20/20/20)"].gap > 1e-3).all()


def test_pruning_drops_every_depth_of_a_complete_tree_and_none_where_a_digit_is_new():
    ternary = Tree.from_paths(
        [f"{a}/{a}{b}/{a}{b}{c}" for a in "abc" for b in "abc" for c in "abc"], sep="/", root="all"
    )
    assert np.allclose(training.divergences(ternary), 0)
    assert training.divergences(Tree.from_parents([-1, 0, 0, 0, 1, 1]))[0] == np.inf


def test_memory_is_that_of_the_block():
    with _run.measured() as spent:
        block = np.ones(40_000_000)
    assert block.all()
    assert spent.peak_mb is None or 250 < spent.peak_mb < 400
    assert spent.seconds > 0


def test_a_report_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("taken")
    with pytest.raises(VpunnError, match="cannot be written"):
        Report("Title", "vpunn").write(tmp_path / "file" / "ncbi")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(VpunnError, match="cannot be written"):
        Report("Title", "vpunn").write(tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_tables_of_one_title_get_names_of_their_own(tmp_path):
    report = Report("Title", "vpunn")
    for value in (1, 2):
        report.table("Sizes: all", [{"a": value, "b": None}])
    report.write(tmp_path)
    assert [Path(tmp_path / "tables" / name).read_text() for name in ("Sizes.csv", "Sizes-2.csv")] == [
        "a,b\n1,\n",
        "a,b\n2,\n",
    ]


def test_report_prints_brackets_as_they_are(capsys):
    report = Report("Title [1]", "vpunn")
    report.table("T [x]", [{"a": "v[parent, c]", "b": 1}])
    report.text("see [E-43]")
    report.print()
    said = capsys.readouterr().out
    assert "v[parent, c]" in said
    assert "T [x]" in said
    assert "[E-43]" in said
