"""T15 at label level: numbers of the section by independent code, on a small task."""

from __future__ import annotations

import json

import numpy as np
import pytest

from commands import run
from vpunn import Tree
from vpunn.cli import app
from vpunn.datasets import load_ncbi, tasks
from vpunn.paper.reports import labels
from vpunn.tables import fits as table_fits


@pytest.fixture
def small(monkeypatch):
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
    task = tasks.PlacementTask(
        "hints", tree, {k: texts[v] for k, v in cut.items()}, {k: nodes[v] for k, v in cut.items()}
    )
    monkeypatch.setitem(tasks.TASKS, "wordnet", lambda seed: task)
    return task


def test_label_level_numbers_are_those_of_the_whole_distribution(small):
    found = labels.measure("wordnet")
    model = table_fits.fit_task("wordnet", characters=False, seed=labels.SPLIT)
    posterior = model.model.posterior(model.features.transform(small.texts["test"]))
    p = posterior.masses(slice(0, len(posterior)))
    assert np.allclose(p.sum(axis=1), 1)
    true = np.zeros_like(p)
    true[np.arange(len(p)), small.nodes["test"]] = 1
    assert found["brier"] == pytest.approx(((p - true) ** 2).sum(axis=1).mean())
    assert found["accuracy"] == pytest.approx((p.argmax(axis=1) == small.nodes["test"]).mean())
    assert 0.5 < found["accuracy"] < 0.9
    assert found["brier"] >= found["brier bound"]
    top = p.max(axis=1)
    bins = np.minimum((top * 15).astype(int), 14)
    right = p.argmax(axis=1) == small.nodes["test"]
    error = sum(abs(right[bins == b].sum() - top[bins == b].sum()) for b in range(15)) / len(p)
    assert found["ece"] == pytest.approx(error, abs=2e-3)
    curves = labels.curves_of(json.loads(json.dumps(found)))
    assert set(curves) == {1, 2}
    assert curves[1].n_items.sum() == len(p)


def test_figures_of_a_report_are_about_its_rows_and_its_release(tmp_path, small, monkeypatch):
    from vpunn.paper.reports import _bench

    monkeypatch.setattr(_bench, "load_hierarchy", lambda *_: load_ncbi("Primates"))
    run(app, "reproduce", "wordnet-3.1", "--only", "F10", "--only", "pruning", "--seeds", 1, "--out", tmp_path)
    folder = tmp_path / "wordnet-3.1"
    said = run(app, "figures", "F10", "F19", "--from", folder, "--out", tmp_path / "drawn")
    assert said.count("HiPaNClassifier on 250 held-out rows (hints)") == 2
    assert (tmp_path / "drawn" / "F19.png").is_file()
