"""Model folders keep what takes long to derive; older ones without it are read as well; edited ones are refused."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from stores import write_head
from vpunn.errors import DataError, VpunnError
from vpunn.hipan import HiPaNClassifier, _balls
from vpunn.hipan._answering import Answering
from vpunn.hipan._combiner import LATER
from vpunn.hipan._store import _DERIVED, _HEADS
from vpunn.tree import Tree

TREE = Tree.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f", "g"), ("f", "h")], root="all")
RNG = np.random.default_rng(2)
X = sparse.csr_matrix(RNG.poisson(0.5, (90, 20)).astype(float))
Y = np.array(["c", "d", "e", "g", "h", "b"] * 15)


@pytest.fixture(scope="module")
def model():
    return HiPaNClassifier(TREE, epochs=2).fit(X, Y)


@pytest.fixture
def folder(model, tmp_path):
    return model.save(tmp_path / "model")


def sealed(folder, change):
    """Change what model.json says and the arrays, then make the checksums fit."""
    head = json.loads((folder / "model.json").read_text())
    change(head)
    for name, about in head["arrays"].items():
        array = np.load(folder / f"{name}.npy")
        about |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    write_head(folder, head)
    return folder


def test_a_folder_of_an_older_version_is_read(model, folder):
    """Without derived arrays, with half-precision heads and without the setting that names silent blocks."""

    def older(head):
        del head["settings"]["silent"]
        for name in set(_DERIVED.values()) - {"head.feature_start", "head.block", "head.sum"}:
            del head["arrays"][name]
            (folder / f"{name}.npy").unlink()
        for name in _HEADS.values():
            np.save(folder / f"{name}.npy", np.load(folder / f"{name}.npy").astype(np.float16))

    loaded = HiPaNClassifier.load(sealed(folder, older), verify=False)
    assert np.array_equal(loaded.predict_node_proba(X), model.predict_node_proba(X))
    again = HiPaNClassifier.load(loaded.save(folder.parent / "again"))
    for name, values in model.balls_.derived().items():
        assert np.array_equal(again.balls_.derived()[name], values), name


def test_a_combiner_that_knows_less_evidence_is_read(model, folder):
    """Folders that do not list their evidence are older than `LATER`: what they do not know counts for nothing."""
    names = model.experts_.names()
    known = [k for k, name in enumerate(names) if name not in LATER]
    assert len(known) == len(names) - len(LATER)

    def older(head):
        del head["settings"]["evidence"], head["settings"]["by_likelihood"]
        for name in ("centre", "scale", "least", "most", "linear", "hidden"):
            values = np.load(folder / f"combiner.{name}.npy")
            np.save(folder / f"combiner.{name}.npy", values[..., known])

    loaded = HiPaNClassifier.load(sealed(folder, older), verify=False)
    assert not loaded.balls_.by_likelihood
    knows_less = pickle.loads(pickle.dumps(model))
    for weights in (knows_less.combiner_.linear, knows_less.combiner_.hidden):
        weights[..., [k for k in range(len(names)) if k not in known]] = 0
    assert not np.array_equal(knows_less.predict_node_proba(X), model.predict_node_proba(X))
    np.testing.assert_allclose(loaded.predict_node_proba(X), knows_less.predict_node_proba(X), atol=1e-6)
    again = HiPaNClassifier.load(loaded.save(folder.parent / "again"))
    assert np.array_equal(again.predict_node_proba(X), loaded.predict_node_proba(X))


@pytest.mark.parametrize("listed", [["depth", "wisdom"], ["depth", "depth"], "depth", [1]])
def test_a_combiner_of_unknown_evidence_is_refused(folder, listed):
    def edited(head):
        head["settings"]["evidence"] = listed

    with pytest.raises(DataError, match="evidence"):
        HiPaNClassifier.load(sealed(folder, edited), verify=False)


def test_a_dense_block_of_an_older_version_is_read(tmp_path):
    """Its axes are alike and its rows have their own length, as when its combiner was fitted."""
    numbers = RNG.normal(size=(90, 70)) + np.unique(Y, return_inverse=True)[1][:, None]
    folder = HiPaNClassifier(TREE, epochs=2).fit({"numbers": numbers}, Y).save(tmp_path / "dense")

    def older(head):
        about = head["parts"]["dense0"]
        for name in ("usual", "penalty", "own_length"):
            del about["settings"][name]
        for name in ("pull", "metric"):
            (folder / f"dense0.{name}.npy").unlink()
            for arrays in (head["arrays"], about.get("arrays", {})):
                arrays.pop(name, None), arrays.pop(f"dense0.{name}", None)

    loaded = HiPaNClassifier.load(sealed(folder, older), verify=False)
    block = loaded.dense_["numbers"]
    assert block.penalty is None and block.own_length
    assert block.space.usual == 0 and (block.space.pull == 1).all() and (block.space.metric == 1).all()
    np.testing.assert_allclose(loaded.predict_node_proba({"numbers": numbers})[:, 0], 1)


@pytest.mark.parametrize("usual", [-1.0, float("inf"), "1", None])
def test_the_usual_length_of_a_dense_block_is_checked(tmp_path, usual):
    folder = HiPaNClassifier(TREE, epochs=2).fit({"numbers": RNG.normal(size=(90, 3))}, Y).save(tmp_path / "dense")

    def edited(head):
        head["parts"]["dense0"]["settings"]["usual"] = usual

    with pytest.raises(DataError):
        HiPaNClassifier.load(sealed(folder, edited), verify=False)


def test_neither_loading_nor_unpickling_derives_anything(model, folder, monkeypatch):
    def refuse(*_):
        raise AssertionError("derived again")

    for made in ("_sums", "learn_dictionary"):
        monkeypatch.setattr(_balls, made, refuse)
    for copy in (HiPaNClassifier.load(folder), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.predict_node_proba(X), model.predict_node_proba(X))


def test_the_half_that_answers_gives_the_same_answers(model, folder):
    """`Answering` reads the same folder without what learns, and without scikit-learn."""
    half = Answering.load(folder)
    assert not isinstance(half, BaseEstimator)
    for options in ({}, {"rule": "path"}, {"stop": "threshold"}, {"stop": "depth"}, {"stop": "risk"}):
        assert half.predict(X, **options).tolist() == model.predict(X, **options).tolist()
    assert np.array_equal(half.predict_proba(X), model.predict_proba(X))
    for given in (X.toarray(), X.toarray().tolist(), X.astype(np.float32), X.tocsc()):
        assert np.array_equal(half.predict_node_proba(given), model.predict_node_proba(X))
    for wrong in (X[:, :3], X[:0], np.full((1, X.shape[1]), np.nan), ["text"]):
        with pytest.raises(VpunnError) as of_half:
            half.predict(wrong)
        with pytest.raises(VpunnError) as of_whole:
            model.predict(wrong)
        assert str(of_half.value) == str(of_whole.value)
    with pytest.raises(NotFittedError):
        Answering().predict(X)
    again = half.save(folder.parent / "again")
    assert (again / "model.json").read_bytes() == (folder / "model.json").read_bytes()


def test_the_half_that_answers_reads_blocks_and_sets(tmp_path):
    views = {"words": X, "numbers": RNG.normal(size=(90, 3))}
    both = HiPaNClassifier(TREE, epochs=2).fit(views, Y)
    half = Answering.load(both.save(tmp_path / "both"))
    assert np.array_equal(half.predict_node_proba(views), both.predict_node_proba(views))
    sets = HiPaNClassifier(TREE, epochs=2).fit(X, [{label, "h"} for label in Y])
    half = Answering.load(sets.save(tmp_path / "sets"))
    assert half.predict(X) == sets.predict(X) and np.array_equal(half.predict_proba(X), sets.predict_proba(X))


def test_a_model_that_shares_the_file_does_not_change_it(folder):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    HiPaNClassifier.load(folder).partial_fit(X[:10], Y[:10])
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("head.block", lambda a: np.sort(a)[::-1]),
        ("head.block", lambda a: np.full_like(a, 3)),  # one block many times over: more hits than there is room for
        ("head.block", lambda a: np.where(a == a.max(), 2 * TREE.n_nodes, a)),
        ("head.feature_start", lambda a: np.append(a[:-1], a[-1] - 1)),
        ("head.feature_start", lambda a: a[::-1].copy()),
        ("head.sum", lambda a: np.where(np.arange(len(a)) == 3, np.nan, a).astype("f4")),
        ("ball.norm2", lambda a: a[:-1]),
        ("ball.seen", lambda a: np.full_like(a, np.inf)),
        ("nearest.indices", lambda a: a + 90),
        ("nearest.indices", lambda a: a - 1),
        ("nearest.indptr", lambda a: a + 1),
        ("nearest.indptr", lambda a: a[::-1].copy()),
        ("nearest.data", lambda a: a * 1e30),
        ("dictionary.indices", lambda a: a + 20),
        ("dictionary.indptr", lambda a: np.append(a[:-1], a[-1] + 1)),
        ("dictionary.data", lambda a: np.full_like(a, np.nan)),
    ],
)
def test_derived_arrays_are_checked(folder, name, edit):
    def edited(head):
        np.save(folder / f"{name}.npy", edit(np.load(folder / f"{name}.npy")))

    with pytest.raises(DataError):
        HiPaNClassifier.load(sealed(folder, edited), verify=False)


def test_tables_of_frequent_features_change_no_bit(monkeypatch):
    """Where a block's entry of a frequent feature is found, in a table or by halving, is a matter of time only."""
    rng = np.random.default_rng(0)
    wide = Tree.from_parents(np.concatenate([[-1], np.zeros(30), 1 + np.arange(150) % 30]).astype(int))
    many = sparse.csr_matrix((rng.random((600, 8)) < 0.6) * rng.random((600, 8)))
    label = wide.labels[rng.integers(31, wide.n_nodes, 600)]
    found = []
    for frequent in (0, 10**9):
        monkeypatch.setattr(_balls, "FREQUENT", frequent)
        model = HiPaNClassifier(wide, epochs=1, candidates=3).fit(many, label)
        assert (model.balls_.entries.row >= 0).any() == (frequent == 0)
        found.append(model.predict_proba(many[:50]))
    assert np.array_equal(*found)
