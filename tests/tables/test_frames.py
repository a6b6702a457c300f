"""`vpunn.fit` of a data frame as people have them: text, numbers, categories, blanks, ids; and values of the target back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import vpunn
from vpunn.errors import DataWarning, VpunnError
from vpunn.tables.answers import called
from vpunn.tables.guess import guess_columns, guess_target

KINDS = {"coffee": "drinks", "tea": "drinks", "bread": "bakery", "cake": "bakery"}
WORDS = {
    "coffee": "dark roast beans",
    "tea": "green leaves cup",
    "bread": "rye loaf sliced",
    "cake": "cream chocolate slice",
}


def shop(rows=160, seed=0):
    """Products whose kind is told half by a text, half by price and colour; some cells are blank."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list(KINDS), rows)
    frame = pd.DataFrame({"sku": [f"a{i}" for i in range(rows)], "kind": kind})
    frame["department"] = frame["kind"].map(KINDS)
    extra = rng.choice(["fresh", "large", "small", "cheap", "organic", "new"], (rows, 2))
    frame["text"] = [f"{WORDS[k]} {a} {b} {i}" for i, (k, (a, b)) in enumerate(zip(kind, extra, strict=True))]
    frame["price"] = (
        frame["kind"].map({"coffee": 9.0, "tea": 4.0, "bread": 3.0, "cake": 12.0}) + rng.normal(0, 1, rows)
    ).round(2)
    frame["colour"] = np.where(frame["department"] == "drinks", "brown", "white")
    frame.loc[frame.index % 9 == 0, "colour"] = None
    frame.loc[frame.index % 7 == 0, "price"] = np.nan
    return frame


TRAIN, TEST = shop(), shop(60, 1)


def test_columns_are_guessed():
    frame = TRAIN.assign(bought=pd.Timestamp("2026-01-01"), one=1, none=None, tags=[["a", "b"]] * len(TRAIN))
    kinds = {name: guess.kind for name, guess in guess_columns(frame).items()}
    assert kinds == {
        "sku": "id", "kind": "category", "department": "category", "text": "text", "price": "number", "colour": "category",
        "bought": "date", "one": "constant", "none": "empty", "tags": "list",
    }  # fmt: skip
    assert guess_target(TRAIN, guess_columns(TRAIN)) == ("department", "kind")
    assert {g.kind for g in guess_columns(pd.DataFrame({"n": range(9)})).values()} == {"id"}


def test_a_frame_as_it_is(capsys, tmp_path):
    """Words, numbers and categories are read, blanks filled, ids left out, and all of it is said."""
    model = vpunn.fit(TRAIN.drop(columns="department"), target="kind")
    said = capsys.readouterr().out
    for part in (
        "as words: text; as numbers: price; as categories: colour",
        "left out: sku",
        "23 of 160 rows lack numbers",
    ):
        assert part in said, said
    assert isinstance(model, vpunn.TableClassifier)
    assert "'kind' from words of 'text'" in str(model) and "lack numbers" in model._repr_html_()
    right = np.mean(model.predict(TEST) == TEST["kind"])
    assert right > 0.9 and model.evaluate(TEST).scores["exact"] == pytest.approx(right)
    p = model.predict_proba(TEST)
    assert p.shape == (60, 4) and np.allclose(p.sum(1), 1) and set(model.classes_) == set(KINDS)
    told = model.explain(TEST, row=3)
    names = {name.partition("=")[0] for ball in told.balls for name, _ in ball.features}
    assert names & set(TEST["text"][3].split()) and names & {"price", "colour"}
    again = vpunn.load(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(again.predict_proba(TEST), p)


def test_a_category_that_is_blank_or_new_is_as_if_nobody_had_asked():
    model = vpunn.fit(TRAIN[["colour", "price", "kind"]], "kind", verbose=False)
    rows = pd.DataFrame({"colour": ["brown", None, "violet"], "price": [4.0, 4.0, 4.0]})
    p = model.predict_proba(rows)
    np.testing.assert_array_equal(p[1], p[2])
    assert not np.allclose(p[0], p[1])
    assert model.answer_table(rows.assign(price=np.nan))["known"].tolist() == [True, False, False]


@pytest.mark.parametrize("kind", ["series", "levels", "frame", "paths", "bool", "whole", "lists"])
def test_values_come_back_as_they_are_written(kind):
    frame = TRAIN[["text", "price"]]
    target, read = {
        "series": lambda: (TRAIN["kind"], frame),
        "levels": lambda: (["department", "kind"], TRAIN),
        "frame": lambda: (TRAIN[["department", "kind"]], frame),
        "paths": lambda: ((TRAIN["department"] + " > " + TRAIN["kind"]).rename("path"), frame),
        "bool": lambda: (TRAIN["kind"] == "tea", frame),
        "whole": lambda: (TRAIN["kind"].map({k: i for i, k in enumerate(KINDS)}).rename("n"), frame),
        "lists": lambda: ([["food", k] if k == "cake" else [k] for k in TRAIN["kind"]], frame),
    }[kind]()
    how = {"path_sep": " > "} if kind == "paths" else {}
    model = vpunn.fit(read, target, verbose=False, **how)
    found = model.predict(read)
    if kind in ("levels", "frame"):
        truth = TRAIN[["department", "kind"]]
        assert list(found.columns) == list(truth.columns)
        assert (found.to_numpy() == truth.to_numpy()).all(1).mean() > 0.9
    elif kind == "lists":
        assert np.mean([set(a) == set(b) for a, b in zip(found, target, strict=True)]) > 0.9
    else:
        assert np.mean(np.asarray(found) == target.to_numpy()) > 0.9


def test_a_number_is_predicted_from_level_columns(capsys):
    frame = TRAIN.dropna(subset="price").drop(columns="text")
    model = vpunn.fit(frame, "price")
    assert "levels of price: department > kind" in capsys.readouterr().out
    mean, sd = model.predict(TEST, return_std=True)
    assert isinstance(model, vpunn.TableRegressor) and (sd > 0).all()
    assert np.nanmean((mean - TEST["price"]) ** 2) < 2 and "the sum of" in str(model.explain(TEST))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: vpunn.fit(TRAIN, "kinds"), "did you mean"),
        (
            lambda: vpunn.fit(TRAIN),
            "say which column to predict: vpunn.fit.df, target=.'department', 'kind'..; the frame has 'sku'",
        ),
        (lambda: vpunn.fit(TRAIN, [1, 2, 3]), "the target has 3 rows and the frame 160"),
        (lambda: vpunn.fit(TRAIN, TRAIN["kind"]), "is also a column of the frame"),
        (lambda: vpunn.fit(TRAIN.to_numpy(), "kind"), "HiPaNClassifier"),
        (lambda: vpunn.fit(TRAIN, "kind", kinds={"sku": "key"}), "choose one of text, number, category, skip"),
        (lambda: vpunn.fit(TRAIN[["sku", "kind"]], "kind"), "no column is left to predict 'kind' from"),
        (lambda: vpunn.fit(TRAIN[["price", "text"]], "price"), "name them in levels="),
    ],
)
def test_what_cannot_be_fitted_is_said(call, said):
    with pytest.raises(VpunnError, match=said):
        call()


LISTS = [["a", "b"], ["b"], ["a"], ["a", "c"]] * 10


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (TRAIN, TRAIN["kind"], "no numbers: 'sku', 'kind', .* and blanks in 'price'; vpunn.fit"),
        (np.eye(40), LISTS, "write a set for each, or pass multilabel=True"),
        (np.eye(40), np.eye(40)[:, :3], "pass multilabel=True and the names of its columns as classes="),
    ],
)
def test_a_classifier_names_the_way_out(X, y, said):
    with pytest.raises(VpunnError, match=said):
        vpunn.HiPaNClassifier().fit(X, y)


def test_lists_of_one_length_are_said_to_be_paths():
    """Not silently: rows may have several labels each."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.warns(DataWarning, match="are read as paths, broadest label first; write paths as tuples to say so"):
        vpunn.HiPaNClassifier().fit(X, [["a", "b"], ["b", "c"]] * 20)


def test_scores_say_what_they_mean():
    model = vpunn.fit(TRAIN[["text", "kind"]], "kind", verbose=False)
    found = model.evaluate(TEST)
    rows = found.table()
    assert [row["score"] for row in rows[:3]] == ["exact", "top-5", "coverage at 90 %"]
    assert {row["score"] for row in rows} == set(map(called, found.scores)) and all(row["what it says"] for row in rows)
    assert "placed exactly" in found._repr_html_() and "<td>top-5</td>" in found._repr_html_()


def test_names_that_people_type(tmp_path):
    tree = vpunn.Tree.from_paths(
        [tuple(row) for row in TRAIN[["department", "kind"]].drop_duplicates().to_numpy()], root="shop"
    )
    assert vpunn.load(vpunn.save(tree, tmp_path / "t")).n_leaves == 4
    assert {"drinks", "tea", "cake"} <= {text.get_text() for text in tree.plot().texts}
    with pytest.raises(VpunnError, match="a list is nothing that vpunn saves"):
        vpunn.save([1], tmp_path / "l")


def test_a_level_that_other_rows_tell_is_filled_in(capsys, tmp_path):
    """And one of which nothing is known, or two things are, is no guess."""
    frame = TRAIN[["text", "price", "department", "kind"]].assign(what=TRAIN["kind"] + "s")
    frame = frame.replace({"what": {"cakes": "goods"}})
    frame["what"] = np.where(frame["kind"] == "bread", "goods", frame["what"])
    frame.loc[frame.index[frame["kind"] == "tea"][:3], "kind"] = None
    frame.loc[frame.index[frame["kind"] == "cake"][:2], "kind"] = None
    model = vpunn.fit(frame, target=["department", "kind", "what"])
    said = capsys.readouterr().out
    assert "3 rows lacked a level above a given one, which is filled in as other rows have it" in said
    assert "2 rows have a blank level above a given one, and no other row tells which" in said
    assert set(map(tuple, model.predict(frame).to_numpy())) <= {
        *[("drinks", kind, f"{kind}s") for kind in ("coffee", "tea")],
        *[("bakery", kind, "goods") for kind in ("bread", "cake", None)],
    }
    new = frame[frame["what"] == "teas"].assign(kind=None)
    assert not any("does not know" in note for note in model.evaluate(new).notes)


def test_columns_of_strangers():
    """Numbers that are ids have gaps; quantities come back; names come back in any spelling; many values take no column each."""
    rng = np.random.default_rng(0)
    n = 2400
    frame = pd.DataFrame({
        "order": np.sort(rng.choice(10**6, n, replace=False)),
        "dense": rng.permutation(3 * n)[:n],
        "people": rng.integers(0, 10**5, n),
        "genus": [f"Genus{i}" for i in rng.integers(0, n, n)],
        "dept": [("Garden", " garden", "GARDEN", "Kitchen")[i] for i in rng.integers(0, 4, n)],
    })  # fmt: skip
    guesses = guess_columns(frame)
    assert {name: guess.kind for name, guess in guesses.items()} == {
        "order": "id", "dense": "id", "people": "number", "genus": "category", "dept": "category",
    }  # fmt: skip
    assert guesses["genus"].read_as == "text" and guesses["dept"].why == "2 different values in 4 spellings"


def test_numbers_with_decimal_commas_are_those_numbers(tmp_path):
    """As a sheet or a frame of texts holds them, where they are learned and where they are read; whole numbers stay names."""
    texts = TRAIN["price"].map(lambda price: None if price != price else f"{price:.2f}".replace(".", ","))
    frame = TRAIN.assign(price=texts, zip=[f"{1000 + i // 8}" for i in range(len(TRAIN))])
    frame.to_excel(tmp_path / "shop.xlsx", index=False)
    sheet = vpunn.io.read_table(tmp_path / "shop.xlsx")
    for told in (frame, sheet):
        guesses = guess_columns(told)
        assert (guesses["price"].kind, guesses["zip"].kind) == ("number", "category")
        levels = ["department", "kind", "price"]
        model, plain = (vpunn.fit(rows[levels], "price", verbose=False) for rows in (told, TRAIN))
        assert "the comma in the numbers of 'price' was read as a decimal point" in model.report.notes
        assert np.array_equal(model.predict(told), plain.predict(TRAIN))
    model = vpunn.fit(TRAIN[["price", "kind"]], "kind", verbose=False)
    assert np.array_equal(model.predict(frame[["price"]]), model.predict(TRAIN[["price"]]))
