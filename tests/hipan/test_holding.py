"""Whose rows a model holds: what is forgotten is nowhere in its folder, and what is saved without rows has none."""

from hashlib import blake2b

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import vpunn
from vpunn import HiPaNClassifier, Tree
from vpunn.errors import VpunnError
from vpunn.store import Stored
from vpunn.text import text_features

TREE = Tree.from_paths(
    [("animal", k) for k in ("owl", "dog", "cat")] + [("plant", k) for k in ("oak", "fern")], root="life"
)
LEAVES = ("owl", "dog", "cat", "oak", "fern")
#: What is said of no other row.
SECRET = "zyxgramophone quinquereme"


def texts(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    y = [LEAVES[k] for k in rng.integers(0, 5, n)]
    words = [f"w{k}" for k in range(30)]
    return [f"{label[:2]}{rng.integers(3)} {' '.join(rng.choice(words, 3))}" for label in y], y


def files_of(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sums_of(folder) -> dict[str, bytes]:
    """Everything that the experts of all rows consist of."""
    return {
        name: held
        for name, held in files_of(folder).items()
        if name.startswith(("expert.", "row.", "words.", "numbers."))
    }


@pytest.mark.parametrize("kind", ["words", "numbers", "sets"])
def test_a_forgotten_row_is_nowhere_and_all_sums_are_those_of_a_fit_without_it(kind, tmp_path):
    said, y = texts(60)
    said[17] += f" {SECRET}"
    features = text_features(characters=None, min_rows=1)
    X = features.fit_transform(said)
    if kind == "numbers":
        X = np.random.default_rng(1).normal(size=(60, 4)) + np.array([LEAVES.index(label) for label in y])[:, None]
    if kind == "sets":
        y = [{label} | ({"dog"} if i % 3 == 0 else set()) for i, label in enumerate(y)]
    rest = np.setdiff1d(np.arange(60), [17, 40])
    model = HiPaNClassifier(TREE).fit(X, y).save(tmp_path / "before")
    before = files_of(tmp_path / "before")
    model = HiPaNClassifier.load(tmp_path / "before").forget([40, 17])
    assert model.changed_rows_ == 2
    model.save(tmp_path / "after")
    fresh = HiPaNClassifier(TREE).fit(X[rest], [y[i] for i in rest])
    fresh.save(tmp_path / "fresh")
    if kind != "sets":  # its networks are drawn
        assert sums_of(tmp_path / "after") == sums_of(tmp_path / "fresh")
    # the row: its numbers or words as they stand, its hash, and what only it had
    read = model.layout_.read({"": X}).take([17]).blocks[0]
    row = read.data.tobytes() if sparse.issparse(read) else read.tobytes()
    told = [row, blake2b(row, digest_size=8).digest(), *SECRET.encode().split()]
    after = files_of(tmp_path / "after")
    assert any(row in held for held in before.values()) and not any(t in held for t in told for held in after.values())
    if kind != "numbers":
        own = [i for i, name in enumerate(features.get_feature_names_out()) if any(w in name for w in SECRET.split())]
        assert set(own) <= set(model.unheard()) and own
        features.forget(model.unheard()).save(tmp_path / "words")
        assert not any(
            word in held for word in SECRET.encode().split() for held in files_of(tmp_path / "words").values()
        )
        again = type(features).load(tmp_path / "words")
        assert (again.transform(said[:3]) != features.transform(said[:3])).nnz == 0
        assert features.transform([SECRET]).nnz == 0
    model.refresh().save(tmp_path / "renewed")
    renewed, fresh = files_of(tmp_path / "renewed"), files_of(tmp_path / "fresh")
    assert model.changed_rows_ == 0
    assert {k: v for k, v in renewed.items() if k != "model.json"} == {
        k: v for k, v in fresh.items() if k != "model.json"
    }


def test_a_model_saved_without_rows_has_none_and_knows_how_good_it_is(tmp_path):
    said, y = texts(300)
    X = text_features(characters=None, min_rows=1).fit_transform(said)
    blocks = {
        "words": X,
        "size": np.random.default_rng(1).normal(size=(300, 2)) + np.array([LEAVES.index(v) for v in y])[:, None],
    }
    model = HiPaNClassifier(TREE).fit(blocks, y)
    model.save(tmp_path / "rows")
    model.save(tmp_path / "sums", keep="sums")
    rows = model.layout_.read(blocks)
    told = [rows.blocks[0][i].data.tobytes() for i in range(300)] + [rows.blocks[1][i].tobytes() for i in range(300)]
    held = {kind: b"".join(files_of(tmp_path / kind).values()) for kind in ("rows", "sums")}
    assert all(row in held["rows"] for row in told) and not any(row in held["sums"] for row in told)
    assert len(held["sums"]) < len(held["rows"]) and len(model.task_.rows) == 300
    assert Stored.open(tmp_path / "rows").facts()["holds"] == "300 training rows; their texts: no"
    assert Stored.open(tmp_path / "sums").facts()["holds"] == "no training row, only sums of 300"
    assert Stored.open(tmp_path / "sums").facts()["settings"]["experts"] == [
        "Prior",
        "Sums",
        "Heads",
        "Gaussian",
        "LinearNumbers",
    ]
    sums = HiPaNClassifier.load(tmp_path / "sums")
    asked, truth = texts(500, seed=5)
    vectors = text_features(characters=None, min_rows=1).fit(said).transform(asked)
    new = {
        "words": vectors,
        "size": np.random.default_rng(2).normal(size=(500, 2)) + np.array([LEAVES.index(v) for v in truth])[:, None],
    }
    assert abs(sums.held_out_exact_ - sums.score(new, truth)) < 0.06 and sums.held_out_exact_ > 0.7
    assert "cosine" in "".join(sums.explain({"words": vectors[0], "size": new["size"][:1]}).evidence)
    sums.save(tmp_path / "again")
    assert {k: v for k, v in files_of(tmp_path / "again").items()} == files_of(tmp_path / "sums")
    for use in (lambda: sums.forget([0]), sums.refresh, sums.unheard, lambda: sums.partial_fit(new, truth)):
        with pytest.raises(VpunnError, match="saved without its rows"):
            use()
    with pytest.raises(VpunnError, match="keep"):
        model.save(tmp_path / "x", keep="none")


def test_rows_that_are_not_there_are_refused_and_nothing_changes(tmp_path):
    said, y = texts(60)
    X = text_features(characters=None, min_rows=1).fit_transform(said)
    model = HiPaNClassifier().fit(X, y, groups=np.arange(60) // 2)
    before = model.predict_proba(X)
    for rows, told in (
        ([60], "0 to 59"),
        ([-1], "0 to 59"),
        (range(60), "at least one has to stay"),
        ("17", "numbers"),
        ([True], "numbers"),
    ):
        with pytest.raises(VpunnError, match=told):
            model.forget(rows)
    assert np.array_equal(model.predict_proba(X), before) and model.changed_rows_ == 0
    model.partial_fit(X[:3], y[:3]).forget(np.array([3, 3, 62]))
    assert model.changed_rows_ == 5 and len(model.task_.groups) == len(model.task_.rows) == 61
    model.save(tmp_path / "m")
    assert np.array_equal(model.task_.groups, HiPaNClassifier.load(tmp_path / "m").task_.groups)
    sets = HiPaNClassifier(TREE).fit(X, [{a, b} for a, b in zip(y, y[::-1], strict=True)])
    with pytest.raises(VpunnError, match="answers from its rows"):
        sets.save(tmp_path / "sets", keep="sums")
    assert not (tmp_path / "sets").exists()


def test_a_model_of_a_table_forgets_words_and_categories_of_its_own(tmp_path):
    said, y = texts(60)
    said[17] += f" {SECRET}"
    table = pd.DataFrame({"text": said, "colour": ["red", "blue", "green"] * 20, "kind": y})
    table.loc[17, "colour"] = "heliotrope"
    model = vpunn.fit(table, target="kind")
    model.save(tmp_path / "before")
    vpunn.load(tmp_path / "before").forget([17]).save(tmp_path / "after")
    found = {kind: b"".join(files_of(tmp_path / kind).values()) for kind in ("before", "after")}
    for word in (*SECRET.encode().split(), b"heliotrope"):
        assert word in found["before"] and word not in found["after"], word
    opened = vpunn.load(tmp_path / "after")
    assert opened.refresh().model.changed_rows_ == 0 and len(opened.predict(table[:5])) == 5
    opened.save(tmp_path / "sums", keep="sums")
    assert vpunn.load(tmp_path / "sums").model.task_ is None
