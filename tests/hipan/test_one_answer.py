"""One answer: what `predict` says is the first of `top_k`, what the command line prints, scores and explains."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import vpunn
from commands import predict_app, run
from strategies import random_tree
from vpunn.errors import VpunnError
from vpunn.explain import explain
from vpunn.hipan import HiPaNClassifier
from vpunn.tree import Tree

WORDS = [f"w{i}" for i in range(40)]


def random_rows(seed, rows=120):
    """A random tree, and rows whose features lean towards their node, some without any feature at all."""
    rng = np.random.default_rng(seed)
    shape = random_tree(int(rng.integers(5, 30)), seed)
    tree = Tree.from_parents(shape.parent, [f"n{i}" for i in range(shape.n_nodes)])
    nodes = rng.choice(np.arange(1, tree.n_nodes), rows)
    X = rng.random((rows, 12)) * (rng.random((rows, 12)) < 0.3)
    X[np.arange(rows), nodes % 12] += 0.4
    X[rng.random(rows) < 0.1] = 0.0
    return tree, X, nodes


@pytest.mark.parametrize("seed", range(8))
def test_every_way_to_ask_gives_the_same_node(seed):
    tree, X, nodes = random_rows(seed)
    model = HiPaNClassifier(tree, epochs=1, random_state=seed).fit(X[:80], tree.labels[nodes[:80]])
    rows = X[80:]
    answer = model.predict(rows)
    assert np.array_equal(answer, model.top_k(rows, 1)[0][:, 0])
    assert np.array_equal(answer, tree.labels[model.locate(rows)])
    assert [path[-1] for path in model.predict_path(rows)] == answer.tolist()
    assert [explain(model, rows[[i]]).label for i in range(5)] == answer[:5].tolist()
    proba = model.predict_proba(rows)
    assert np.array_equal(answer, model.classes_[proba.argmax(1)])
    stopped = model.predict(rows, stop="depth", depth=tree.max_depth)
    assert np.array_equal(stopped, answer)


def placed_texts(seed, rows):
    """Texts that lean towards their node in a random tree of names, most of them unsure: there the two rules part."""
    tree, _, _ = random_rows(seed)
    rng = np.random.default_rng(seed)
    nodes = rng.choice(np.arange(1, tree.n_nodes), rows)
    text = [
        " ".join([*rng.choice(WORDS, 2), *rng.choice([f"v{ball}" for ball in tree.ancestors(n)], 2)])
        for n in nodes.tolist()
    ]
    return tree, pd.DataFrame({"text": text, "name": tree.labels[nodes]})


def test_the_command_line_predicts_scores_and_explains_that_answer(tmp_path):
    tree, frame = placed_texts(4, rows=500)
    vpunn.write_tree(tree, tmp_path / "tree.csv")
    frame[:180].to_csv(tmp_path / "train.csv", index=False)
    frame[180:].to_csv(tmp_path / "test.csv", index=False)
    app, model, new = predict_app(), tmp_path / "model", tmp_path / "test.csv"
    words = ("--target", "name", "--text", "text", "--tree", tmp_path / "tree.csv")
    run(app, "fit", tmp_path / "train.csv", *words, "--out", model)

    said = [row["label"] for row in json.loads(run(app, "predict", model, new, "--json"))]
    by_path = [row["label"] for row in json.loads(run(app, "predict", model, new, "--rule", "path", "--json"))]
    assert sum(a != b for a, b in zip(said, by_path, strict=True)) > 3  # else nothing below could fail
    first = [
        row["label"] for row in json.loads(run(app, "predict", model, new, "--top", 2, "--json")) if row["rank"] == 1
    ]
    assert said == first
    run(app, "predict", model, new, "--out", tmp_path / "out.csv")
    assert said == pd.read_csv(tmp_path / "out.csv", dtype=str)["label"].tolist()

    right = np.mean([label == name for label, name in zip(said, frame["name"][180:], strict=True)])
    other = np.mean([label == name for label, name in zip(by_path, frame["name"][180:], strict=True)])
    assert right != other
    (tmp_path / "parts").mkdir()
    frame[180:220].to_csv(tmp_path / "parts" / "a.csv", index=False)
    frame[220:].to_csv(tmp_path / "parts" / "b.csv", index=False)
    for asked in (new, tmp_path / "parts"):  # a table, and files that are streamed
        assert json.loads(run(app, "evaluate", model, asked, "--json"))["exact"] == pytest.approx(right)
    for row in [i for i, (a, b) in enumerate(zip(said, by_path, strict=True)) if a != b][:3]:
        assert json.loads(run(app, "explain", model, new, "--row", row, "--json"))["label"] == said[row]

    for ask in ("", "w1 w2", "unknown"):
        [place] = json.loads(run(app, "predict", model, "--ask", ask, "--json"))
        assert json.loads(run(app, "explain", model, "--ask", ask, "--json"))["label"] == place["label"]
    with pytest.raises(VpunnError, match="leave --stop and --top out"):
        run(app, "predict", model, "--ask", "w1", "--rule", "path", "--top", 3)


def test_the_rule_that_weighs_paths_is_asked_for_by_name():
    tree, X, nodes = random_rows(3)
    model = HiPaNClassifier(tree, epochs=1).fit(X, tree.labels[nodes])
    by_path = model.posterior(X).best("path")
    assert np.array_equal(model.predict(X, rule="path"), tree.labels[by_path])
    assert (by_path != model.locate(X)).any()  # it is another rule
    dense = model.posterior(X).masses(slice(0, len(X)))
    assert np.array_equal(model.posterior(X).exact(by_path), dense[np.arange(len(X)), by_path])
    with pytest.raises(VpunnError, match="rule='wide' is unknown"):
        model.predict(X, rule="wide")
    with pytest.raises(VpunnError, match="give one of them"):
        model.predict(X, rule="path", stop="risk")
