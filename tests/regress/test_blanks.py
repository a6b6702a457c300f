"""A path that ends at an inner node is a row of that ball, somewhere below: less is known of it, so its interval is wider."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inputs import run_here
from strategies import trees
from vpunn import Tree, VPuNNClassifier, VPuNNRegressor
from vpunn.errors import VpunnError
from vpunn.explanations import explain
from vpunn.regress.shrinkage import fit_shrinkage
from vpunn.scale import BallSums, Predictor

LEVELS = ["order", "family", "genus", "species"]
NORMAL = 1.6449  # half the width of a 90 % interval, in standard deviations

SALES = pd.DataFrame(
    {
        "department": ["drinks", "drinks", "drinks", "drinks", "bakery", "bakery", "bakery", "drinks"],
        "category": ["coffee", "coffee", "tea", "tea", "bread", "bread", "cake", None],
    }
)
PRICES = [4.0, 4.4, 2.9, 3.1, 1.9, 2.1, 3.0, 3.4]


def specimens(seed, n, popular):
    """Rows of a made-up tree, children taken evenly or by 1/rank, and the sum of their balls' effects."""
    random = np.random.default_rng(seed)
    taken = np.zeros(n, np.int64)
    columns, effect, width = {}, np.zeros(n), 1
    for name, children, spread in zip(LEVELS, (12, 5, 4, 4), (1.5, 0.8, 0.6, 0.4), strict=True):
        chance = 1.0 / np.arange(1, children + 1) if popular else np.ones(children)
        width *= children
        taken = taken * children + random.choice(children, n, p=chance / chance.sum())
        columns[name] = [f"{name}{k}" for k in taken]
        effect += random.normal(0, spread, width)[taken]
    return pd.DataFrame(columns, dtype=object), effect, random


def without(table, kept):
    """The first ``kept`` levels."""
    cut = table.copy()
    cut[LEVELS[kept:]] = None
    return cut


@pytest.mark.parametrize("popular", [False, True])
def test_intervals_of_rows_with_blanked_levels_hold_as_many_as_they_say(popular):
    inside = np.zeros(5)
    for seed in range(12):
        X, effect, random = specimens(seed, 1200, popular)
        y = effect + random.normal(0, 0.3, len(X))
        model = VPuNNRegressor().fit(X[:600], y[:600])
        for kept in range(5):
            mean, sd = model.predict(without(X[600:], kept), return_std=True)
            inside[kept] += np.mean(np.abs(y[600:] - mean) < NORMAL * sd) / 12
    assert (np.abs(inside - 0.9) < 0.025).all(), inside  # 0.36 to 0.84 of those with blanks, before


def test_the_less_is_known_the_wider():
    model = VPuNNRegressor().fit(SALES, PRICES)
    asked = [("drinks", "coffee"), ("drinks", None), ("drinks", "cocoa"), (None, None), ("garden", "rose")]
    mean, sd = model.predict(pd.DataFrame(asked, columns=SALES.columns), return_std=True)
    assert (np.diff(sd) > 0.05).all(), sd
    assert mean[1] == mean[2] and mean[3] == mean[4]  # the answer is the ball's, as before
    for empty in ("", np.nan):
        frame = pd.DataFrame([("drinks", empty)], columns=SALES.columns)
        assert model.predict(frame, return_std=True)[1][0] == sd[1]
    found = model.explain(pd.DataFrame(asked[1:2], columns=SALES.columns))
    assert found.prediction == mean[1] and found.unseen == 0


@st.composite
def fits(draw):
    tree = draw(trees(25))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(6, 20))
    nodes, X = random.integers(tree.n_nodes, size=n), random.normal(size=(n, draw(st.integers(0, 2)))) * 10
    weight, ratios = random.integers(1, 4, size=n).astype(float), random.uniform(0.05, 3.0, size=tree.max_depth)
    y = 100 + X.sum(axis=1) + random.normal(size=n) + random.normal(size=tree.n_nodes)[nodes]
    return tree, nodes, weight, fit_shrinkage(tree, nodes, y, covariates=X, weight=weight, ratios=ratios)


@given(fits())
@settings(max_examples=60, deadline=None)
def test_the_variance_of_a_ball_is_the_mean_over_its_rows(case):
    tree, nodes, weight, fit = case
    steps = fit.ratios * fit.noise
    reach = [weight[tree.depth[nodes] >= k].sum() for k in range(tree.max_depth + 1)]
    below = np.zeros(tree.max_depth + 1)
    for depth in range(tree.max_depth):  # the chance to get as far, times what is added there
        for k in range(depth + 1, tree.max_depth + 1):
            chance = np.prod([reach[j + 1] / reach[j] if reach[j] else 1.0 for j in range(depth, k)])
            below[depth] += chance * steps[k - 1]
    np.testing.assert_allclose(fit.open_variance, below, atol=1e-12)
    for ball in range(tree.n_nodes):
        twin = fit.variance[ball]
        if not tree.is_leaf[ball]:
            inside = (nodes >= ball) & (nodes < ball + tree.size[ball])
            squares = (fit.values[nodes] - fit.values[ball]) ** 2 + fit.variance[nodes]
            total = weight[inside] @ squares[inside] + fit.variance[ball] + below[tree.depth[ball]]
            twin = total / (weight[inside].sum() + 1)
        assert fit.ball_variance[ball] == pytest.approx(twin, rel=1e-6, abs=1e-9)
        found = fit.predictive_variance(tree, np.array([ball]), tree.depth[[ball]])
        assert found[0] == pytest.approx(fit.ball_variance[ball] + fit.noise)


def test_rows_that_ended_there_say_that_rows_do():
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")], root="r")
    random = np.random.default_rng(0)
    value = {"a": 0.0, "x": 3.0, "y": -3.0, "b": 1.0, "z": 4.0, "w": -2.0}

    def spread(ended):
        labels = ["a"] * ended + ["x", "y", "z", "w"] * 10
        y = [value[label] + random.normal(0, 0.1) for label in labels]
        return VPuNNRegressor(tree).fit([[label] for label in labels], y).predict([["a"]], return_std=True)[1][0]

    few, some, many = (spread(ended) for ended in (0, 20, 2000))
    assert few > 2.5 and 0.6 < some / few < 0.8 and many < 0.5  # half of the ball's 40 rows end there: √½


def test_a_new_name_with_blanks_below_it():
    X, effect, random = specimens(0, 600, True)
    model = VPuNNRegressor().fit(X, effect + random.normal(0, 0.3, len(X)))
    one = X.iloc[0].tolist()
    new = [[*one[:2], "?", None], [*one[:2], "?", "?"], [*one[:2], None, None]]
    sd = model.predict(pd.DataFrame(new, columns=LEVELS), return_std=True)[1]
    assert sd[0] == pytest.approx(sd[1])  # all rows have species, so a new genus has one too
    short = X.copy()
    short.loc[::2, "species"] = None  # every other row ends at its genus
    model = VPuNNRegressor().fit(short, effect)
    sd = model.predict(pd.DataFrame(new, columns=LEVELS), return_std=True)[1]
    assert sd[0] ** 2 == pytest.approx(sd[1] ** 2 - model.depth_variance_[3] / 2)


def test_leaves_are_whole_names():
    """A leaf above the deepest one, in a given tree or a grown one, has nothing below it."""
    grown = VPuNNRegressor().fit([["a", "x"], ["a", "y"], ["misc", None], ["misc", None]], [1.0, 2.0, 5.0, 5.5])
    node = grown.tree_.index(["misc"])
    sd = grown.predict(np.array([["misc", None]], object), return_std=True)[1]
    assert sd[0] == np.sqrt(grown._fits[0].variance[node[0]] + grown.noise_variance_)


def test_every_way_to_ask_gives_the_same_bits(tmp_path):
    tree = Tree.from_levels(SALES.drop_duplicates())
    labels = SALES["category"].fillna(SALES["department"])
    sums = BallSums.from_rows(tree, tree.index(labels.tolist()), PRICES)
    model = VPuNNRegressor.from_sums(sums)
    asked = ["coffee", "drinks", None, "rose"]
    sd = model.predict(np.array(asked, object)[:, None], return_std=True)[1]
    fitted = VPuNNRegressor(tree).fit(labels.to_numpy(object)[:, None], PRICES)
    np.testing.assert_allclose(fitted.predict(np.array(asked, object)[:, None], return_std=True)[1], sd)
    nodes = np.append(tree.index(["coffee", "drinks"]), [0, 0])
    assert model.predict_nodes(nodes, known=np.arange(4) < 3)[1].tolist() == sd.tolist()
    assert model.predict_nodes(nodes[:3])[1].tolist() == sd[:3].tolist()
    model.save(tmp_path / "m")
    answers = Predictor(tmp_path / "m", columns=["k"])(pd.DataFrame({"k": asked}))
    assert answers["sd"].to_pylist() == sd.tolist()
    assert answers["known"].to_pylist() == [True, True, False, False]


def test_probabilities_are_less_sure_where_levels_are_blank():
    """Classes have no such fault: a ball's distribution is that of its rows, so nothing is added for what lies below."""
    sure, gap = np.zeros(5), np.zeros(5)
    for seed in range(4):
        X, effect, random = specimens(seed, 4000, True)
        y = random.uniform(size=len(X)) < 1 / (1 + np.exp(-1.2 * effect))
        model = VPuNNClassifier().fit(X[:2000], y[:2000])
        for kept in range(5):
            proba = model.predict_proba(without(X[2000:], kept))
            sure[kept] += proba.max(axis=1).mean() / 4
            gap[kept] += (proba.max(axis=1) - (proba.argmax(axis=1) == y[2000:])).mean() / 4
    assert (np.diff(sure) > 0.005).all(), sure
    assert (gap < 0.05).all(), gap


# ---- the command line ----------------------------------------------------------------------------------------------------

MASSES = "species,length,mass\nMus,7.5,1.3\nMus,8,1.2\nRattus,20,2.3\nOrcinus,600,6.5\nTursiops,250,5.2\n"


def done(*words):
    found = run_here(list(map(str, words)))
    assert found.code == 0, found.err
    return found.out


def test_an_empty_label_of_a_given_tree_is_not_known(tmp_path):
    (tmp_path / "tree.nwk").write_text("((Mus,Rattus)Rodentia,(Orcinus,Tursiops)Cetacea)Mammalia;")
    (tmp_path / "t.csv").write_text(MASSES)
    (tmp_path / "new.csv").write_text("species,length\nMus,8\n,8\nGlis,8\nRodentia,8\n")
    how = ("--regress", "mass", "--levels", "species", "--tree", tmp_path / "tree.nwk")
    done("fit", tmp_path / "t.csv", *how, "--out", tmp_path / "m")
    rows = json.loads(done("predict", tmp_path / "m", tmp_path / "new.csv", "--json"))
    assert [row["known"] for row in rows] == [True, False, False, True]
    assert rows[0]["sd"] < rows[3]["sd"] < rows[1]["sd"]


def test_covariates_are_explained_by_their_names(tmp_path):
    (tmp_path / "t.csv").write_text(MASSES)
    how = ("--regress", "mass", "--levels", "species", "--columns", "length")
    done("fit", tmp_path / "t.csv", *how, "--out", tmp_path / "m")
    assert "  length = 20 × " in done("explain", tmp_path / "m", tmp_path / "t.csv", "--row", 2)


def test_names_of_columns_and_the_way_to_one_row():
    model = VPuNNRegressor(covariates=[1]).fit([["a", 1.0], ["b", 2.0], ["b", 4.0]], [1.0, 2.0, 3.0])
    row = np.array([["a", 1.0]], object)
    assert model.explain(row).covariates[0][0].startswith("x1 = 1 ×")
    assert explain(model, row, feature_names=["kind", "size"]).covariates[0][0].startswith("size = 1 ×")
    with pytest.raises(VpunnError, match="needs 2 names, got 1"):
        model.explain(row, feature_names=["size"])
    several = VPuNNRegressor().fit(SALES, PRICES)
    with pytest.raises(VpunnError, match=r"got 8; pass X\.iloc\[\[i\]\] to keep"):
        several.explain(SALES)
    with pytest.raises(VpunnError, match=r"got 8; pass X\[\[i\]\] to keep"):
        VPuNNRegressor().fit(SALES.to_numpy(), PRICES).explain(SALES.to_numpy())
