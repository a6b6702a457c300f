"""One answer: what `predict` says is the first of `top_k`, what the command line prints, scores and explains."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

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


def test_the_command_line_predicts_scores_and_explains_that_answer(tmp_path):
    rng = np.random.default_rng(0)
    kinds = np.array(["bird/owl", "bird/robin", "fish/cod", "fish/eel"])
    label = rng.choice(kinds, 200)
    text = [" ".join(rng.choice(WORDS[10 * i : 10 * i + 14], 3)) for i in pd.Series(label).map(list(kinds).index)]
    frame = pd.DataFrame(
        {"text": text, "kind": [k.split("/")[0] for k in label], "name": [k.split("/")[1] for k in label]}
    )
    frame[:150].to_csv(tmp_path / "train.csv", index=False)
    frame[150:].to_csv(tmp_path / "test.csv", index=False)
    app, model = predict_app(), tmp_path / "model"
    run(app, "fit", tmp_path / "train.csv", "--target", "kind,name", "--text", "text", "--out", model)
    said = json.loads(run(app, "predict", model, tmp_path / "test.csv", "--json"))
    right = np.mean([row["label"] == name for row, name in zip(said, frame["name"][150:], strict=True)])
    scored = json.loads(run(app, "evaluate", model, tmp_path / "test.csv", "--json"))
    assert scored["exact"] == pytest.approx(right)
    [shared] = json.loads(run(app, "predict", model, "--ask", "w1", "--rule", "path", "--json"))
    assert shared["label"] in ("owl", "robin", "cod", "eel")
    with pytest.raises(VpunnError, match="leave --stop and --top out"):
        run(app, "predict", model, "--ask", "w1", "--rule", "path", "--top", 3)
    for ask in ("", "w1 w2", "unknown"):
        [place] = json.loads(run(app, "predict", model, "--ask", ask, "--json"))
        assert json.loads(run(app, "explain", model, "--ask", ask, "--json"))["label"] == place["label"]


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
