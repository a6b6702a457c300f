"""T15 by a classifier that sees features: its numbers by independent code, on a small task, and the figures made from them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from commands import run
from vpunn import HiPaNClassifier, Tree
from vpunn.cli import app
from vpunn.datasets import load_ncbi, tasks
from vpunn.errors import DataError
from vpunn.paper import reproduce
from vpunn.paper.reports import calibration


def hints(seed: int = 0) -> tasks.PlacementTask:
    """Texts whose words hint at a node of a little tree, some of them wrongly."""
    tree = Tree.from_paths([f"{a}/{a}{b}" for a in "abcd" for b in "xyz"], sep="/", root="all")
    rng = np.random.default_rng(0)
    nodes = rng.choice(tree.leaves, 700)
    said = np.where(rng.uniform(size=700) < 0.7, nodes, rng.choice(tree.leaves, 700))
    noise = rng.integers(0, 60, (700, 3)).tolist()  # equal rows would be held out together
    texts = [
        f"word{tree.labels[n]} kin{str(tree.labels[n])[0]} a{x} b{y} c{z}"
        for n, (x, y, z) in zip(said, noise, strict=True)
    ]
    texts = np.array(texts, object)
    cut = {"train": slice(0, 400), "validation": slice(400, 450), "test": slice(450, 700)}
    return tasks.PlacementTask(
        "hints", tree, {k: texts[v] for k, v in cut.items()}, {k: nodes[v] for k, v in cut.items()}
    )


def test_label_level_numbers_are_those_of_the_whole_distribution():
    task = hints()
    found = calibration.measure(task, 1)
    train, test, _ = calibration.features(task)
    posterior = HiPaNClassifier(task.tree, random_state=1).fit(train, task.labels("train")).posterior(test)
    p = posterior.masses(slice(0, len(posterior)))
    assert np.allclose(p.sum(axis=1), 1)
    true = np.zeros_like(p)
    true[np.arange(len(p)), task.nodes["test"]] = 1
    assert found["brier"] == pytest.approx(((p - true) ** 2).sum(axis=1).mean())
    assert found["accuracy"] == pytest.approx((p.argmax(axis=1) == task.nodes["test"]).mean())
    assert 0.5 < found["accuracy"] < 0.9
    assert found["brier"] >= found["brier bound"]
    top = p.max(axis=1)
    bins = np.minimum((top * 15).astype(int), 14)
    right = p.argmax(axis=1) == task.nodes["test"]
    error = sum(abs(right[bins == b].sum() - top[bins == b].sum()) for b in range(15)) / len(p)
    assert found["ece"] == pytest.approx(error, abs=2e-3)
    curves = calibration.curves_of(json.loads(json.dumps(found)))
    assert set(curves) == {1, 2}
    assert curves[1].n_items.sum() == len(p)


def test_a_truth_without_probability_is_counted_apart():
    tree = Tree.from_parents([-1, 0, 0])
    path = np.array([[0.9], [0.9], [0.9]])
    answers = calibration.Answers(
        [np.array([1, 1, 1])], [path[:, 0]], [np.array([np.log(0.9), np.log(0.1), -np.inf])], [np.full(3, 0.82)], [path]
    )
    found = answers.judged(tree, np.array([1, 2, 2]))
    assert found["nll"] == pytest.approx(-np.log([0.9, 0.1]).mean())
    assert found["zero"] == pytest.approx(1 / 3)


def test_figures_of_a_report_are_about_its_rows_and_its_release(tmp_path):
    only = ["T15", "F10"]
    for target, data in (("wordnet", load_ncbi("Primates")), ("ncbi", load_ncbi("Mammalia"))):
        reproduce(target, 1, only=only, out=tmp_path / target, data=data, work={"task": hints})
    said = run(app, "figures", "F10", "F19", "--from", tmp_path / "ncbi", "--out", tmp_path / "drawn")
    assert said.count("HiPaNClassifier (hints) on 250 held-out rows") == 2
    assert said.count("HiPaN, nothing shown on 1,000 held-out rows") == 2
    assert (tmp_path / "drawn" / "F19.png").is_file()


def test_fungi_are_read_from_the_folder_of_data_or_asked_for(tmp_path, monkeypatch):
    folder = tmp_path / "public" / "its" / "fold1"
    folder.mkdir(parents=True)
    monkeypatch.setenv("VPUNN_DATA_DIR", str(tmp_path))
    with pytest.raises(DataError, match="the fungi need the tables public/its/fold1/train"):
        tasks.load_task("fungi", 1)
    lines = ["id,sequence,taxonomy", "1,ACGTACGTAC,k__F;p__A;s__x", "2,ACGTTCGTAC,k__F;p__B;s__"]
    import pandas as pd

    for part in ("train", "test"):
        rows = [line.split(",") for line in (*lines[1:], "3,ACGTACGTAA,k__F;p__A;s__new")[: 2 + (part == "test")]]
        pd.DataFrame(rows, columns=lines[0].split(",")).to_csv(folder / f"{part}.csv.gz", index=False)
    task = tasks.load_task("fungi", 1)
    assert task.sequences
    assert task.tree.labels.tolist() == ["life", "k__F", "k__F; p__A", "k__F; p__A; s__x", "k__F; p__B"]
    assert task.labels("test").tolist() == ["k__F; p__A; s__x", "k__F; p__B", "k__F; p__A"]
