"""Modules as model folders, the estimator, and the explorer and report on a head as on any other model."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch

import vpunn
from strategies import random_tree
from vpunn.errors import DataError, VpunnError
from vpunn.report import triage
from vpunn.store import Stored
from vpunn.store._head import seal
from vpunn.torch import HeadClassifier, HierarchicalHead, PadicEmbedding, ValuationBias
from vpunn.tree import Tree, sweep_down


def test_modules_come_back_from_their_folders(tmp_path):
    tree = random_tree(40, seed=1, reach=7)
    torch.manual_seed(0)
    head = HierarchicalHead(tree, 3, inner_answers=[0, 2], rank=2, sparse=True)
    torch.nn.init.normal_(head.weight)
    x = torch.randn(30, 3)
    head.calibrate(x, np.resize(head.answers.numpy(), 30))
    for module in (
        head,
        head.__class__(tree, 3, bias=False, dtype=torch.bfloat16),
        PadicEmbedding(tree, 4, items=tree.leaves[::-1], padding_idx=0),
        PadicEmbedding(tree, 4),
        ValuationBias(tree, 2),
    ):
        folder = tmp_path / "model"
        module.save_pretrained(folder, provenance={"data": "random"})
        for back in (vpunn.load(folder, verify=True), type(module).from_pretrained(folder)):
            assert type(back) is type(module) and back.tree == tree
            assert back._options() == module._options()
            for name, value in module.state_dict().items():
                assert torch.equal(back.state_dict()[name], value) and back.state_dict()[name].dtype == value.dtype
    head.save(folder)
    back = vpunn.load(folder)
    assert back.predict(x, stop="risk", alpha=0.2).tolist() == head.predict(x, stop="risk", alpha=0.2).tolist()
    assert sorted(p.suffix for p in folder.iterdir()).count(".safetensors") == 1
    facts = Stored.open(folder).facts()
    assert facts["kind"] == "HierarchicalHead" and facts["settings"]["parameters"] == sum(
        p.numel() for p in head.parameters()
    )


def test_damaged_folders_are_refused(tmp_path):
    tree = random_tree(20, seed=1)
    folder = HierarchicalHead(tree, 3).save(tmp_path / "model")
    weights = folder / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-4])
    with pytest.raises(DataError, match="cut short|checksum differs"):
        vpunn.load(folder)
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match="checksum differs"):
        vpunn.load(folder, verify=True)
    weights.write_bytes(b"\0" * len(whole))
    with pytest.raises(DataError, match="does not fit this model|checksum differs"):
        vpunn.load(folder)
    other = HierarchicalHead(random_tree(20, seed=2), 3).save(tmp_path / "other")
    shutil.copy(other / "weights.safetensors", weights)
    settings = json.loads((folder / "model.json").read_text())
    entry = settings["files"]["weights.safetensors"]
    entry["bytes"], entry["sha256"] = weights.stat().st_size, hashlib.sha256(weights.read_bytes()).hexdigest()
    settings["sha256"] = seal(settings)
    (folder / "model.json").write_text(json.dumps(settings))
    with pytest.raises(DataError, match="another tree"):
        vpunn.load(folder)


@pytest.fixture(scope="module")
def fitted():
    tree = random_tree(80, seed=7, reach=20)
    labels = [f"n{i}" for i in range(80)]
    tree = Tree(tree.parent, tree.depth, tree.size, tree.digit, np.array(labels, object))
    rng = np.random.default_rng(0)
    node = rng.choice(tree.leaves, 900)
    X = sweep_down(tree, rng.normal(size=(80, 6)))[node] + 0.7 * rng.normal(size=(900, 6))
    model = HeadClassifier(tree, epochs=8).fit(X[:600], tree.labels[node[:600]])
    return model, X[600:], tree.labels[node[600:]]


def test_estimator(fitted, tmp_path):
    model, X, y = fitted
    tree = model.tree_
    answer = model.predict(X)
    assert (answer == model.top_k(X, 1)[0][:, 0]).all() and (answer == y).mean() > 0.5
    assert np.allclose(model.predict_proba(X[:5]).sum(1), 1, atol=0.2)
    again = HeadClassifier(tree, epochs=8).fit(X[:50], y[:50])
    twin = HeadClassifier(tree, epochs=8).fit(X[:50], y[:50])
    assert torch.equal(again.head_.weight, twin.head_.weight)
    back = vpunn.load(model.save(tmp_path / "model"))
    assert (back.predict(X) == answer).all() and (back.predict(X, "risk") == model.predict(X, "risk")).all()
    covered = tree.is_ancestor(tree.index(model.predict(X, "risk", alpha=0.2)), tree.index(y)).mean()
    assert covered > 0.7
    flat = HeadClassifier(epochs=3, ridge=1e-3, rank=2).fit(X, y)
    assert set(flat.predict(X)) <= set(y)
    for call, words in (
        (lambda: HeadClassifier(tree).fit(X, y[:-1]), "one label per row"),
        (lambda: HeadClassifier(tree, epochs=0).fit(X, y), "epochs must be"),
        (lambda: HeadClassifier(tree, holdout=1).fit(X, y), "holdout is a share"),
        (lambda: HeadClassifier(tree, holdout="a tenth").fit(X, y), "holdout is a share"),
        (lambda: HeadClassifier(tree, learning_rate=-1).fit(X, y), "learning_rate is a positive"),
        (lambda: HeadClassifier().fit(X[:2], np.array(["a", None], object)), "no label in rows 1;"),
        (lambda: HeadClassifier(tree).fit(X, np.full(len(X), "nowhere")), "nowhere"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()


def test_explorer_and_report_take_a_head(fitted):
    from vpunn.explanations import explain
    from vpunn.web.beliefs import Ask
    from vpunn.web.opening import as_subject

    model, X, y = fitted
    rows = ((X - model.centre_) / model.scale_).astype(np.float32)
    for source, given in ((model, X), (model.head_, rows)):
        found = triage(source, given, y)
        assert len(str(found)) > 20
        believer = as_subject(source).answers
        believer.warm()
        ask = believer.read_ask({"X": [given[0].tolist()], "top": 3, "risk": 0.1, "explain": True, "beliefs": True}, 10)
        assert isinstance(ask, Ask)
        answer = believer.answer([ask])[0]["answers"][0]
        assert answer["label"] == model.predict(X[:1])[0] and len(answer["top"]) == 3
        assert {"stop", "beliefs", "turns"} <= set(answer)
        assert believer.describe(1) is not None
        why = explain(source, given[:1])
        assert np.isclose(np.exp(why.log_probability), answer["path"][-1]["probability"], rtol=1e-4)
