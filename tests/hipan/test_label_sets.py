"""Rows with several labels: what goes in, what comes out, and what must hold of every marginal."""

import numpy as np
import pytest
from scipy import sparse

from vpunn import Tree
from vpunn.errors import DataError, VpunnError
from vpunn.explanations import explain
from vpunn.hipan.classifier import HiPaNClassifier
from vpunn.hipan.label_sets import true_marginals
from vpunn.hipan.set_calibration import risk_threshold
from vpunn.hipan.set_words import agreement, weighed
from vpunn.metrics import sets as scores

EDGES = [
    ("thing", "animal"), ("thing", "pet"), ("thing", "plant"), ("animal", "dog"), ("animal", "cat"), ("animal", "owl"),
    ("plant", "tree"), ("plant", "fern"), ("pet", "dog"), ("pet", "cat"), ("plant", "palm"), ("tree", "oak"),
]  # fmt: skip
TREE = Tree.from_edges(EDGES)
LEAVES = ("dog", "cat", "owl", "fern", "palm", "oak")


def sample(n: int, seed: int = 0):
    """Rows whose words are those of their labels, and a few of others."""
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(len(LEAVES), 40)) > 0.8
    X, Y = np.zeros((n, 40)), []
    for i in range(n):
        labels = rng.choice(len(LEAVES), size=rng.integers(0, 4), replace=False)
        X[i] = (words[labels].any(0) & (rng.random(40) > 0.25)) | (rng.random(40) > 0.95)
        Y.append({LEAVES[k] for k in labels})
    return sparse.csr_matrix(X), Y


@pytest.fixture(scope="module")
def fitted():
    X, Y = sample(400)
    return HiPaNClassifier(TREE, random_state=0).fit(X, Y), X, Y


def test_sets_are_learned(fitted):
    model, *_ = fitted
    X, Y = sample(600)[0][400:], sample(600)[1][400:]
    assert model.multilabel_ and set(model.classes_) == set(LEAVES)
    truth = scores.with_ancestors(TREE, scores.table_of(TREE, [TREE.index(sorted(y)) if y else [] for y in Y]))
    assert scores.f_max(truth, model.posterior(X).node_proba() * (np.arange(TREE.n_nodes) > 0)).value > 0.85
    assert model.score(X, Y) > 0.8
    found = model.predict(X)
    assert isinstance(found, list) and all(isinstance(row, set) for row in found)
    assert sum(a == b for a, b in zip(found, Y, strict=True)) > 0.4 * len(Y)


def test_marginals_are_bounded_and_monotone_on_every_edge(fitted):
    model, X, _ = fitted
    p = model.predict_node_proba(X)
    start, up = TREE.all_parents
    child = np.repeat(np.arange(TREE.n_nodes), np.diff(start))
    assert TREE.n_extra == 2 and (p[:, child] <= p[:, up]).all()
    assert (p >= 0).all() and (p <= 1).all() and (p[:, 0] == 1).all()
    assert np.array_equal(model.predict_proba(X), p[:, model.class_nodes_])
    labels, q = model.top_k(X, 3)
    assert (np.diff(q, axis=1) <= 0).all() and np.array_equal(q[:, 0], model.predict_proba(X).max(1))
    assert set(labels.ravel()) <= set(LEAVES)


def test_sets_are_the_most_specific_balls_above_the_threshold(fitted):
    model, X, _ = fitted
    p = model.predict_node_proba(X[:50])
    start, up = TREE.all_parents
    for row, found in zip(p, model.predict_sets(X[:50], threshold=0.3), strict=True):
        inside = {i for i in range(1, TREE.n_nodes) if row[i] >= 0.3}
        inner = {int(u) for i in inside for u in up[start[i] : start[i + 1]]}
        assert found == set(TREE.labels[sorted(inside - inner)].tolist())
    assert all(len(row) <= 2 for row in model.predict_sets(X, "size", size=2))


def test_a_row_gets_the_same_bits_alone_and_in_a_batch_and_a_seed_the_same_bytes(fitted):
    model, X, Y = fitted
    p = model.predict_node_proba(X[:60])
    assert np.array_equal(p[7:8], model.predict_node_proba(X[7]))
    again = HiPaNClassifier(TREE, random_state=0).fit(X, [frozenset(row) for row in Y])
    assert np.array_equal(again.predict_node_proba(X[:60]), p)


def test_one_label_per_row_gives_the_plain_model():
    X, Y = sample(120, seed=3)
    y = [min(row) if row else "owl" for row in Y]
    plain = HiPaNClassifier(TREE, random_state=0).fit(X, y)
    for form in ([{label} for label in y], [[label] for label in y]):
        model = HiPaNClassifier(TREE, random_state=0).fit(X, form, multilabel=isinstance(form[0], list))
        assert not model.multilabel_
        assert np.array_equal(model.predict_proba(X), plain.predict_proba(X))
    flat = HiPaNClassifier(random_state=0).fit(X, [{label} for label in y])
    assert flat.classes_.dtype == HiPaNClassifier(random_state=0).fit(X, y).classes_.dtype


def test_forms_of_label_sets_agree(fitted):
    model, X, Y = fitted
    table = np.array([[label in row for label in LEAVES] for row in Y])
    p = model.predict_node_proba(X[:30])
    for given, options in (
        (sparse.csr_matrix(table), {"classes": LEAVES}),
        (table.astype(int), {"classes": LEAVES, "multilabel": True}),
        ([sorted(row) for row in Y], {"multilabel": True}),
    ):
        other = HiPaNClassifier(TREE, random_state=0).fit(X, given, **options)
        assert other.multilabel_ and np.array_equal(other.predict_node_proba(X[:30]), p)


def test_implied_labels_add_nothing(fitted):
    model, X, Y = fitted
    more = [row | ({"animal", "thing"} if "owl" in row else set()) for row in Y]
    other = HiPaNClassifier(TREE, random_state=0).fit(X, more)
    assert np.array_equal(other.predict_node_proba(X[:30]), model.predict_node_proba(X[:30]))


def test_flat_labels_without_a_tree():
    X, Y = sample(200, seed=5)
    model = HiPaNClassifier(random_state=0).fit(X, Y)
    assert model.multilabel_ and sorted(model.classes_) == sorted(LEAVES)
    assert model.predict_proba(X).shape == (200, 6)
    assert set().union(*model.predict(X)) <= set(LEAVES)


def test_save_and_load(fitted, tmp_path):
    model, X, _ = fitted
    model.save(tmp_path / "model")
    again = HiPaNClassifier.load(tmp_path / "model")
    assert again.multilabel_ and np.array_equal(again.predict_node_proba(X), model.predict_node_proba(X))
    assert again.predict_sets(X, "risk") == model.predict_sets(X, "risk")
    assert again.predict(X) == model.predict(X)
    np.save(tmp_path / "model" / "nodes.npy", model.sets_.ball[::-1].astype(np.int32))
    with pytest.raises(DataError):
        HiPaNClassifier.load(tmp_path / "model")
    with pytest.raises(DataError, match="not in order"):
        HiPaNClassifier.load(tmp_path / "model", verify=False)


def test_risk_is_kept_over_many_calibration_splits(fitted):
    model, *_ = fitted
    X, Y = sample(1400)
    X, Y = X[400:], Y[400:]
    posterior = model.posterior(X)
    truth = scores.with_ancestors(TREE, scores.table_of(TREE, [TREE.index(sorted(y)) if y else [] for y in Y]))
    p, weight, n = true_marginals(posterior, truth)
    row = np.repeat(np.arange(n), np.diff(truth.indptr))
    rng, missed = np.random.default_rng(0), []
    for _ in range(100):
        calibrates = np.zeros(n, bool)
        calibrates[rng.permutation(n)[: n // 2]] = True
        here = calibrates[row]
        t = risk_threshold(p[here], weight[here], n // 2, 0.1)
        missed.append(float((weight[~here] * (p[~here] < t)).sum()) / (n - n // 2))
    assert abs(np.mean(missed) - 0.1) <= 0.01
    model.calibrate(X[:500], Y[:500])
    closed = model.posterior(X[500:]).above(model.sets_.threshold_for(0.2))
    assert abs(scores.missed_share(truth[500:], closed) - 0.2) < 0.05


def test_dense_blocks_groups_descriptions_and_weights():
    X, Y = sample(240, seed=7)
    dense = X.toarray() + np.random.default_rng(0).normal(size=X.shape) * 0.1 - 0.3
    model = HiPaNClassifier(TREE, random_state=0).fit({"words": X, "meaning": dense}, Y, groups=np.arange(240) // 2)
    p = model.predict_node_proba({"words": X[:20], "meaning": dense[:20]})
    assert np.array_equal(p[3:4], model.predict_node_proba({"words": X[3], "meaning": dense[3:4]}))
    alone = HiPaNClassifier(TREE, random_state=0).fit(dense, Y)
    assert alone.score(dense, Y) > 0.6
    texts = sparse.csr_matrix((TREE.n_nodes, 40))
    described = HiPaNClassifier(TREE, random_state=0).fit(X, Y, X_nodes=texts, sample_weight=np.r_[0, np.ones(239)])
    assert len(described.sets_.rows) == 239 and "similarity with description 1" in described.sets_.names()


def test_explanation_of_a_label(fitted):
    model, X, Y = fitted
    i = next(i for i, row in enumerate(Y) if "dog" in row)
    said = explain(model, X[i], "dog")
    assert said.label == "dog" and said.probability == model.predict_node_proba(X[i])[0, TREE.index("dog")]
    words, place = model.sets_.experts.words, np.searchsorted(model.sets_.ball, TREE.index("dog"))
    row = weighed(X[i], words.trust)
    assert np.isclose(said.head, row @ words.heads[:, place].toarray().ravel() + words.offset[place])
    assert said.evidence and "probability" in str(said)


@pytest.mark.parametrize(
    ("y", "options", "said"),
    [
        ([{"a"}, {"b", "c"}, "d"], {}, "some rows have sets"),
        ([set(), set(), set()], {}, "all label sets are empty"),
        (np.array([[0, 1], [1, 1], [2, 0]]), {"multilabel": True, "classes": "ab"}, "holds 0 and 1 only"),
        (sparse.csr_matrix(np.eye(3)[:, :2]), {}, "name the 2 columns"),
        (sparse.csr_matrix(np.eye(3)[:, :2]), {"classes": ["a"]}, "one label per column"),
        ([{"a", None}, {"b"}, set()], {}, "missing label"),
        (["a", "b", "c"], {"classes": ["a"]}, "classes= names the columns"),
        ([{"a"}, {"b", "c"}], {}, "one per row"),
    ],
)
def test_bad_label_sets_are_refused(y, options, said):
    with pytest.raises(VpunnError, match=said):
        HiPaNClassifier().fit(np.eye(3), y, **options)


def test_labels_outside_the_tree_and_plain_models_are_refused(fitted):
    model, X, Y = fitted
    with pytest.raises(VpunnError, match="'yeti'"):
        HiPaNClassifier(TREE).fit(X, [*Y[:-1], {"yeti", "dog"}])
    with pytest.raises(VpunnError, match="'yeti'"):
        model.calibrate(X[:1], [{"yeti"}])
    with pytest.raises(VpunnError, match="'yeti'"):
        model.partial_fit(X[:1], [{"yeti"}])
    with pytest.raises(VpunnError, match="one per row"):
        model.partial_fit(X[:2], [{"dog"}])
    with pytest.raises(VpunnError, match="stop="):
        model.predict_sets(X, "depth")
    plain = HiPaNClassifier(random_state=0).fit(np.eye(4), ["a", "b", "a", "b"])
    with pytest.raises(VpunnError, match="fitted on label sets"):
        plain.predict_sets(np.eye(4))


def test_rows_nothing_is_known_of_get_the_rates(fitted):
    model, *_ = fitted
    p = model.predict_node_proba(sparse.csr_matrix((1, 40)))[0]
    assert (p[TREE.index(list(LEAVES))] < 0.6).all() and p[TREE.index("animal")] > 0.2


def test_trust_is_the_agreement_of_rows_that_share_a_word():
    X = sparse.csr_matrix(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 0, 0]], float))
    Y = sparse.csr_matrix(np.array([[1, 0], [1, 0], [0, 1], [0, 0]], float))
    # word 0: two rows that agree; word 1: three pairs that do not (row 3 has no answer); word 2: one pair; word 3: no row
    found = agreement(X, Y) ** 2
    assert np.allclose(found, [(2 + 4 * 0.25) / (2 + 4), (4 * 0.25) / (6 + 4), (4 * 0.25) / (2 + 4), 0.0])
    lengths = weighed(X, agreement(X, Y)).multiply(weighed(X, agreement(X, Y))).sum(1)
    assert np.allclose(lengths, 1.0)


def test_trust_against_all_pairs():
    X, Y = sample(60, seed=9)
    table = sparse.csr_matrix(np.array([[label in row for label in LEAVES] for row in Y], float))
    bits = np.sqrt(-np.log(np.asarray(table.mean(0)).ravel()))
    u = table.toarray() * bits
    u /= np.maximum(np.linalg.norm(u, axis=1), 1e-12)[:, None]
    for word, weight in enumerate(agreement(X, table)):
        rows = np.flatnonzero(X[:, word].toarray().ravel())
        pairs = [u[i] @ u[j] for i in rows for j in rows if i != j]
        assert np.isclose(weight**2, (sum(pairs) + 4 * 0.25) / (len(pairs) + 4), atol=1e-5)


def texts_of(table: np.ndarray, Y: list) -> np.ndarray:
    """Descriptions of the leaves: words that most of their rows have."""
    texts = np.zeros((TREE.n_nodes, table.shape[1]))
    for leaf in LEAVES:
        texts[TREE.index(leaf)] = table[[leaf in row for row in Y]].mean(0) > 0.5
    return texts


def test_unknown_words_change_nothing_also_beside_descriptions():
    X, Y = sample(240, seed=11)
    table = X.toarray()
    table[:, 39] = 0  # a word that no training row has
    texts = sparse.csr_matrix(texts_of(table, Y))
    model = HiPaNClassifier(TREE, random_state=0).fit(sparse.csr_matrix(table), Y, X_nodes=texts)
    known, more = table[:20], table[:20].copy()
    more[:, 39] = 5.0
    assert np.allclose(model.predict_node_proba(known), model.predict_node_proba(more), atol=1e-5)


def test_a_word_that_only_a_description_has_speaks_for_it(tmp_path):
    X, Y = sample(600, seed=11)
    thin = X.toarray() * (np.random.default_rng(1).random(X.shape) > 0.6)
    table, texts = np.hstack([thin, np.zeros((600, 6))]), np.zeros((TREE.n_nodes, 46))
    for k, leaf in enumerate(LEAVES):
        texts[TREE.index(leaf), 40 + k] = 1
        if leaf != "owl":  # no row of the owl says its name, those of others mostly do
            table[:, 40 + k] = [leaf in row and i % 3 > 0 for i, row in enumerate(Y)]
    fit = HiPaNClassifier(TREE, random_state=0).fit
    model = fit(sparse.csr_matrix(table[:400]), Y[:400], X_nodes=sparse.csr_matrix(texts))
    asked = table[[i for i in range(400, 600) if "owl" in Y[i]]]
    named = asked.copy()
    named[:, 40 + LEAVES.index("owl")] = 1
    before, after = (
        model.predict_node_proba(rows)[:, TREE.index(["owl", "animal"])].mean(0) for rows in (asked, named)
    )
    assert (after > before + 0.1).all()
    names = model.sets_.names()
    assert "share of the words of description 1" in names and len(set(names)) == len(names)
    model.save(tmp_path / "model")
    assert np.array_equal(HiPaNClassifier.load(tmp_path / "model").predict_proba(named), model.predict_proba(named))


@pytest.mark.filterwarnings("error")
def test_a_single_row():
    model = HiPaNClassifier(TREE, random_state=0).fit(np.eye(3)[:1], [{"dog", "oak"}])
    assert np.isfinite(model.predict_node_proba(np.eye(3))).all() and model.predict(np.eye(3)[:1]) == [{"dog", "oak"}]


def test_validation_rows_teach_the_combiner():
    """Rows that are asked about have far fewer words than training rows: their own marginals are honest only if they teach."""
    X, Y = sample(600, seed=3)
    thin = sparse.csr_matrix(X.toarray() * (np.random.default_rng(1).random(X.shape) > 0.6))

    def fit(*rows, **options):
        return HiPaNClassifier(TREE, random_state=0).fit(*rows, **options)

    own, asked = fit(X[:200], Y[:200]), fit(X[:200], Y[:200], validation=(thin[200:400], Y[200:400]))
    truth = scores.with_ancestors(TREE, scores.table_of(TREE, [TREE.index(sorted(y)) if y else [] for y in Y[400:]]))
    kept = np.arange(TREE.n_nodes) > 0
    wrong = [
        scores.ball_calibration(truth, model.predict_node_proba(thin[400:]) * kept).value for model in (own, asked)
    ]
    assert len(asked.sets_.rows) == 200 and wrong[1] < wrong[0]
    again = fit(X[:200], Y[:200], validation=(thin[200:400], Y[200:400]))
    assert np.array_equal(again.predict_proba(thin[400:]), asked.predict_proba(thin[400:]))
    for bad, said in ((X, "a pair"), ((X[:2], [{"dog"}]), "one each"), ((X[:1], [{"yeti"}]), "'yeti'")):
        with pytest.raises(VpunnError, match=said):
            fit(X, Y, validation=bad)
    one = [{"dog"}, {"cat"}] * 20
    with pytest.raises(VpunnError, match="leave it out"):
        fit(X[:40], one, validation=(X[40:42], [{"dog"}, set()]))


def test_more_rows_are_learned_later(tmp_path):
    X, Y = sample(600, seed=5)
    early = [i for i in range(300) if "owl" not in Y[i]]
    model = HiPaNClassifier(TREE, random_state=0).partial_fit(X[early], [Y[i] for i in early])
    assert model.multilabel_ and "owl" not in model.classes_
    before = model.score(X[500:], Y[500:])
    model.save(tmp_path / "model")
    loaded = HiPaNClassifier.load(tmp_path / "model").partial_fit(X[300:500], Y[300:500])
    model.partial_fit(X[300:500], Y[300:500], sample_weight=np.ones(200))
    assert "owl" in model.classes_ and len(model.sets_.rows) == len(early) + 200
    assert model.score(X[500:], Y[500:]) > before
    assert np.array_equal(loaded.predict_proba(X[500:]), model.predict_proba(X[500:]))
    p = model.predict_node_proba(X[500:])
    start, up = TREE.all_parents
    assert (p[:, np.repeat(np.arange(TREE.n_nodes), np.diff(start))] <= p[:, up]).all()
    flat = HiPaNClassifier(random_state=0).partial_fit(X[:100], Y[:100])
    with pytest.raises(VpunnError, match="'yeti'"):
        flat.partial_fit(X[:1], [{"yeti"}])
    assert flat.partial_fit(X[100:200], Y[100:200]).score(X[200:], Y[200:]) > 0.4
