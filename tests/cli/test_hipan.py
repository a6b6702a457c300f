"""``vpunn hipan``: the commands say what the library says, on a tree from a file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vpunn
from commands import run
from strategies import random_tree
from vpunn import HiPaN, HiPaNClassifier, Tree, VpunnError, write_tree
from vpunn.cli import app

TREE = random_tree(120, 4, 12)


def run_json(*words):
    return json.loads(run(app, "hipan", *words, "--json"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("hipan")
    write_tree(TREE, here / "tree.json")
    write_tree(Tree.from_parents([-1]), here / "one.json")
    facts = run_json("fit", here / "tree.json", "--out", here / "m", "--hidden", "0.25", "--seed", "1")
    assert (facts["leaves"], facts["hidden"]) == (TREE.n_leaves, int(0.25 * TREE.n_leaves))
    return here


def test_a_model_is_that_of_the_library_with_temperatures_of_hidden_leaves(folder):
    model = vpunn.load(folder / "m")
    order = np.random.default_rng(1).permutation(TREE.leaves)
    cut = int(0.25 * TREE.n_leaves)
    twin = HiPaN(TREE, seed=1).fit(np.sort(order[cut:])).calibrate(order[:cut], "given").calibrate(order[:cut])
    assert np.array_equal(model.theta_, twin.theta_)
    labels = [str(label) for label in TREE.labels[TREE.leaves[:3]]]
    for rule in ("given", "predicted"):
        rows = run_json("proba", folder / "m", *labels, "--rule", rule, "--top", TREE.n_leaves)
        proba = twin.predict_proba(TREE.leaves[:3], rule)
        assert [row["item"] for row in rows[:: TREE.n_leaves]] == TREE.labels[TREE.leaves[:3]].tolist()
        assert np.allclose([row["probability"] for row in rows], -np.sort(-proba, axis=1).ravel())
        digits = run_json("digits", folder / "m", *labels, "--rule", rule)
        assert [row["predicted"] for row in digits] == [
            ".".join(map(str, d)) for d in twin.predict_digits(TREE.leaves[:3], rule).tolist()
        ]
    scores = run_json("score", folder / "m")
    assert [row["whole paths"] for row in scores] == [twin.score(rule=r).path for r in ("given", "predicted")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "{}/one.json", "--out", "{}/x"], "single node"),
        (["fit", "{}/tree.json", "--out", "{}/x", "--optimizer", "sgd"], "choose one of adam, gist"),
        (["digits", "{}/m", "zebra"], "no node is labelled 'zebra'"),
        (["digits", "{}/m", "0"], "is no leaf, and HiPaN's items are leaves"),
        (["proba", "{}/m", "--rule", "told"], "choose one of given, predicted"),
        (["score", "{}/other"], "holds a HiPaNClassifier, not a HiPaN"),
    ],
)
def test_wrong_words_get_one_sentence(folder, words, message):
    if not (folder / "other").exists():
        HiPaNClassifier(TREE).fit(np.eye(4), TREE.labels[TREE.leaves[:4]]).save(folder / "other")
    with pytest.raises(VpunnError, match=message):
        run(app, "hipan", *(word.format(folder) for word in words))
