"""The classifier's engine, and slow twins of its parts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.svm import LinearSVC

from vpunn.errors import VpunnError
from vpunn.hipan import HiPaNClassifier, heads
from vpunn.hipan.engine import fit
from vpunn.hipan.evidence import Sample, Slots, names
from vpunn.hipan.experts import Rows
from vpunn.hipan.feature_table import FeatureTable, rarest, read_at
from vpunn.hipan.folds import as_asked, equal_rows, folds, joined
from vpunn.hipan.heads import Heads
from vpunn.hipan.nearest import Nearest
from vpunn.hipan.readings import Standard
from vpunn.hipan.slots import Asked, offer, truth
from vpunn.hipan.sums import Sums, block_sums
from vpunn.hipan.tree_arrays import Grown, Occupied
from vpunn.tree import Tree

from .conftest import task_of


def random_tree(seed: int) -> Tree:
    rng = np.random.default_rng(seed)
    return Tree.from_parents([-1, *(int(rng.integers(max(0, i - 5), i)) for i in range(1, int(rng.integers(1, 40))))])


def occupied(tree: Tree, node: np.ndarray) -> tuple[Grown, Occupied, np.ndarray]:
    """Both trees, and the leaf of every row."""
    grown = Grown.of(tree)
    place = grown.place[node]
    small = Occupied.of(grown, np.bincount(place, minlength=grown.blocks) > 0)
    return grown, small, np.searchsorted(small.place, place)


def sample_of(words, n: int = 400) -> Sample:
    grown, small, leaf = occupied(words.tree, words.node[:n])
    return Sample(words.X[:n], leaf, np.ones(n, np.float32), leaf[:, None], small, grown)


@pytest.mark.parametrize("seed", range(15))
def test_every_node_has_a_place_and_occupied_blocks_hold_the_same_rows(seed):
    tree, rng = random_tree(seed), np.random.default_rng(seed)
    grown = Grown.of(tree)
    assert (grown.node[grown.place] == np.arange(tree.n_nodes)).all() and grown.is_place[grown.place].all()
    for v in range(tree.n_nodes):
        ball = grown.place[v] - (tree.size[v] > 1)
        inside = (ball <= grown.place) & (grown.place < ball + grown.size[ball])
        assert inside.tolist() == [v <= u < v + tree.size[v] for u in range(tree.n_nodes)]
    node = rng.integers(0, tree.n_nodes, 5)
    _, small, leaf = occupied(tree, node)
    assert (small.place[leaf] == grown.place[node]).all() and small.blocks <= 2 * len(small.leaf)
    rows = small.sums(np.bincount(leaf, minlength=len(small.leaf)))
    places = grown.place[node]
    for b in range(grown.blocks):
        held = ((b <= places) & (places < b + grown.size[b])).sum()
        if held:
            assert rows[small.of_block[b]] == held  # the same number of nested rows are the same rows


def test_what_is_read_is_a_product(words):
    table = FeatureTable.of(words.X[:300].T.tocsr().T.tocsc())
    blocks = np.random.default_rng(0).permutation(300)[:50].astype(np.int32)
    asked = np.array([0, 20, 50]), blocks
    out = np.zeros((50, 1), np.float32)
    rows = words.X[400:402]
    read_at((rows.indptr.astype(np.int64), rows.indices, rows.data), table.arrays, asked, np.zeros(300, np.int64), out)
    wanted = (rows @ words.X[:300].T).toarray()
    assert np.allclose(out[:, 0], wanted[np.repeat([0, 1], [20, 30]), blocks], atol=1e-6)


def test_a_row_is_cut_to_its_rarest_features(words):
    start = np.concatenate([[0], np.cumsum(np.diff(words.X.tocsc().indptr))])
    indptr, indices, data = rarest(words.X[:5], start, 60)
    assert np.isin(data, words.X[:5].data).all()
    for r in range(5):
        length = np.diff(start)[words.X[r].indices]
        kept = np.isin(words.X[r].indices, indices[indptr[r] : indptr[r + 1]])
        assert length[kept].sum() <= 60 or kept.sum() == 1
        assert length[kept].max() <= length[~kept].min()


def test_the_likelihood_is_a_sum_along_the_path(words):
    sample = sample_of(words)
    tree, sums = sample.tree, Sums.fit(sample, {})
    blocks = np.tile(sample.tree.place, (20, 1)).astype(np.int32)
    slots = Slots(blocks, Asked.of(blocks, sample.grown, tree), np.ones(blocks.shape, bool))
    found = sums.look(words.X[:20]).values(slots)[3]
    total = block_sums(sample).toarray().astype(float)
    news = np.exp(sums.log_news.astype(float))
    p = {0: total[0] / total[0].sum()}
    for b in range(1, tree.blocks):
        p[b] = (1 - news[b]) * total[b] / total[b].sum() + news[b] * p[tree.parent[b]]
    wanted = words.X[:20].toarray() @ np.log(np.array([p[b] for b in tree.leaf]) / p[0]).T
    assert np.allclose(found - found[:, :1], wanted - wanted[:, :1], atol=2e-3)  # the root says the same of all


def test_nearest_items_are_those_of_brute_force(words):
    near = Nearest.fit(sample_of(words), {}).nearest(words.X[400:450])
    alike = (words.X[400:450] @ words.X[:400].T).toarray()
    assert np.allclose(near.alike, -np.sort(-alike, 1)[:, : near.alike.shape[1]], atol=1e-6)
    assert np.allclose(np.take_along_axis(alike, near.item, 1), near.alike, atol=1e-6)


def test_a_head_with_all_rows_is_a_linear_svm(words, monkeypatch):
    sample = sample_of(words)
    fitted = Heads.fit(sample, {})
    b = int(sample.tree.leaf[3])
    y = sample.leaf == 3
    peer = LinearSVC(C=1.0, tol=1e-8, max_iter=20000).fit(sample.rows, y)
    score = sp.csr_matrix(sample.rows) @ np.asarray(_weights(fitted, b)) + fitted.bias[b]
    wanted = peer.decision_function(sample.rows)
    assert np.corrcoef(score, wanted)[0, 1] > 0.99 and (np.sign(score) == np.sign(wanted)).mean() > 0.99


def _weights(fitted: Heads, block: int) -> np.ndarray:
    start, blocks, value = fitted.table.arrays
    out = np.zeros(len(start) - 1)
    for f in range(len(out)):
        here = blocks[start[f] : start[f + 1]] == block
        out[f] = value[start[f] : start[f + 1]][here, 0].sum()
    return out


def test_slots_cover_the_truth_and_a_full_ball_has_no_elsewhere(words):
    grown, small, _ = occupied(words.tree, words.node)
    rng = np.random.default_rng(0)
    ways = [rng.permuted(np.tile(np.arange(24), (50, 1)), axis=1)[:, :5].astype(np.int32) for _ in range(3)]
    slots = offer(ways, grown, small, np.full(grown.blocks, np.inf))
    place = rng.choice(small.place, 50)
    for r, s in enumerate(truth(slots, place, grown)):
        holding = [b for b in slots[r] if 0 <= b <= place[r] < b + grown.size[b]]
        assert slots[r, s] == max(holding, key=lambda b: grown.depth[b])
        assert len(set(slots[r][slots[r] >= 0])) == (slots[r] >= 0).sum()
    everyone = np.arange(24, dtype=np.int32)[None]
    closed = np.bincount(small.place, minlength=grown.blocks).astype(float)
    assert grown.is_place[offer([everyone], grown, small, grown.below(closed))].all()


def test_columns_have_names_and_kinds(model, words):
    seen = model.experts.examine(Rows((words.X[400:],)))
    named = names(model.experts.columns)
    assert seen.evidence.shape[1] == len(named) == len(set(named)) == len(model.combiner.mean)
    elsewhere = np.array([n.startswith("elsewhere") for n in named])
    known = seen.known[seen.slots >= 0]
    assert not seen.evidence[known][:, elsewhere].any() and not seen.evidence[~known][:, ~elsewhere].any()


def test_it_learns_words_numbers_and_both(model, words):
    rows = slice(400, None)
    assert (model.posterior(Rows((words.X[rows],))).best() == words.node[rows]).mean() > 0.85
    rng = np.random.default_rng(0)
    scores = []
    for blocks in ((words.numbers,), (words.X, words.numbers)):
        fitted = fit(task_of(words.tree, tuple(b[:400] for b in blocks), words.node[:400]), "auto", rng)[0]
        scores.append((fitted.posterior(Rows(tuple(b[rows] for b in blocks))).best() == words.node[rows]).mean())
    assert scores[1] >= scores[0] - 0.02 > 0.6


def test_same_seed_same_bytes_in_any_batch_and_order(model, words):
    again = fit(task_of(words.tree, (words.X[:400],), words.node[:400]), "auto", np.random.default_rng(0))[0]
    rows, order = words.X[400:], np.random.default_rng(1).permutation(200)
    p = model.posterior(Rows((rows,))).masses(slice(None))
    assert again.posterior(Rows((rows,))).masses(slice(None)).tobytes() == p.tobytes()
    assert model.posterior(Rows((rows[order],))).masses(slice(None)).tobytes() == p[order].tobytes()
    one = np.concatenate([model.posterior(Rows((rows[r],))).masses(slice(None)) for r in range(20)])
    assert one.tobytes() == p[:20].tobytes()


def test_a_new_class_is_answered_by_its_parent():
    """Many classes of one or two rows: held-out rows often have lost their class, so new ones are expected."""
    rng = np.random.default_rng(0)
    leaf = rng.integers(0, 200, 400)
    own = sp.csr_matrix(np.eye(20, dtype=np.float32)[5 * (leaf // 50) + rng.integers(0, 5, 400)])
    X = sp.hstack([own, sp.csr_matrix(np.eye(200, dtype=np.float32)[leaf])]).tocsr()
    names_ = np.array([f"b{v // 50}l{v}" for v in leaf])
    new = leaf % 4 == 0
    tree = Tree.from_paths(sorted({(n[:2], n) for n in names_[~new].tolist()}), root="all")
    task = task_of(tree, (X[~new],), np.asarray(tree.index(names_[~new])))
    posterior = fit(task, True, np.random.default_rng(0))[0].posterior(Rows((X[new],)))
    answer = tree.labels[posterior.deepest(0.5)]
    assert np.mean([a == n[:2] for a, n in zip(answer, names_[new], strict=True)]) > 0.8
    known = task.node[:100]
    sure = []
    for share in (0.05, 0.9):  # who says that nearly all questions are new hears so
        posterior = fit(task, share, np.random.default_rng(0))[0].posterior(Rows((X[~new][:100],)))
        sure.append(posterior.exact(known).mean())
    assert 1 - sure[1] > 5 * (1 - sure[0])


def test_folds_keep_equal_rows_together_and_last_rows_where_asked():
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(np.repeat(rng.integers(0, 2, (60, 12)), 2, axis=0).astype(np.float32))
    group, leaf = equal_rows([X]), np.repeat(rng.integers(0, 40, 60), 2)
    assert (group[::2] == group[1::2]).all()
    together = joined(group, np.arange(120) // 4)
    assert len(np.unique(together)) <= 30
    for novelty in (True, False):
        for held in folds(group, leaf, np.bincount(leaf), novelty, np.random.default_rng(1)):
            kept = np.setdiff1d(np.arange(120), held)
            assert not set(group[held]) & set(group[kept])
            assert novelty or set(leaf[held]) <= set(leaf[kept])


def test_held_out_rows_lose_the_words_that_only_they_have(words):
    held, kept = words.X[:3], words.X[3:400]
    held = sp.hstack([held, sp.csr_matrix(np.full((3, 1), 0.7, np.float32))]).tocsr()
    kept = sp.hstack([kept, sp.csr_matrix((397, 1), dtype=np.float32)]).tocsr()
    read = as_asked(held, kept)
    assert not read[:, [-1]].nnz and np.allclose(sp.linalg.norm(read, axis=1), sp.linalg.norm(held, axis=1), atol=1e-6)


def test_a_column_without_spread_is_nought_and_tails_are_cut():
    x = np.column_stack([np.full(50, 1e6 + 0.1), np.arange(50.0)])
    x[0, 1] = 1e9
    z = Standard.fit(x).read(x)
    assert not z[:, 0].any() and abs(z[:, 1]).max() < 10


def test_weights_of_two_are_rows_that_stand_twice(words):
    sample = sample_of(words, 100)
    twice = sample._replace(weight=np.full(100, 2, np.float32))
    assert np.allclose(block_sums(twice).toarray(), 2 * block_sums(sample).toarray(), atol=1e-5)
    assert heads.Heads.fit(twice, {}).bias.tobytes() == heads.Heads.fit(sample, {}).bias.tobytes()


def test_questions_may_belong_to_classes_oftener_than_rows(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.1).astype(int)
    X = rng.normal(size=(300, 2)) + y[:, None]
    said = {}
    for prior in ("rows", "uniform", [0.5, 0.5], np.array([0.0, 1.0])):
        model = HiPaNClassifier(class_prior=prior).fit(X, y)
        p = model.predict_proba(X)
        said[str(prior)] = p
        model.save(tmp_path / "m")
        assert HiPaNClassifier.load(tmp_path / "m").predict_proba(X).tobytes() == p.tobytes()
    assert said["uniform"][:, 1].mean() > 2 * said["rows"][:, 1].mean() and (said["[0. 1.]"][:, 1] > 0.999).all()
    odds = [said[k][:, 1] / said[k][:, 0] for k in ("uniform", "rows")]
    sure = said["rows"].min(1) > 1e-3  # the combiner's slots are two places: Bayes' rule is exact
    assert np.allclose((odds[0] / odds[1])[sure], (y == 0).sum() / y.sum(), rtol=1e-3)
    assert np.allclose(said["[0.5, 0.5]"], said["uniform"])
    for wrong in ([1.0], "often", [-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(VpunnError, match="class_prior"):
            HiPaNClassifier(class_prior=wrong).fit(X, y)


def test_a_list_with_one_row_a_class_answers_by_what_is_near(tmp_path):
    rng = np.random.default_rng(0)
    numbers, words = rng.normal(size=(40, 5)), sp.csr_matrix(rng.random((40, 60)) * (rng.random((40, 60)) < 0.1))
    for X in (numbers, words):
        model = HiPaNClassifier(novelty=False).fit(X, np.arange(40))
        assert (model.predict(X + 0.01 * X) == np.arange(40)).mean() > 0.9
        model.save(tmp_path / "m")
        assert (HiPaNClassifier.load(tmp_path / "m").predict_proba(X) == model.predict_proba(X)).all()


def test_experts_are_chosen_by_name_and_may_be_classifiers_of_ones_own(words, tmp_path):
    label = words.tree.labels[words.node]
    y, rows = label[:200], {"words": words.X[:200], "numbers": words.numbers[:200]}
    model = HiPaNClassifier(words.tree, experts=("Sums", "Dictionary", "NearestNumbers")).fit(rows, y)
    spoken = [type(e).__name__ for _, e in model.model_.experts.experts]
    assert spoken == ["Prior", "Sums", "Dictionary", "NearestNumbers"]
    model.save(tmp_path / "m")
    loaded = HiPaNClassifier.load(tmp_path / "m")
    assert loaded.predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
    loaded.partial_fit({"words": words.X[200:210], "numbers": words.numbers[200:210]}, label[200:210])
    assert [type(e).__name__ for _, e in loaded.model_.experts.experts] == spoken
    forest = ExtraTreesClassifier(20)
    own = HiPaNClassifier(words.tree, experts=["Gaussian", forest]).fit(words.numbers[:200], y)
    again = HiPaNClassifier(words.tree, experts=["Gaussian", forest]).fit(words.numbers[:200], y)
    p = own.predict_proba(words.numbers)
    assert p.tobytes() == again.predict_proba(words.numbers).tobytes() and not hasattr(forest, "classes_")
    assert (own.predict(words.numbers[200:]) == label[200:]).mean() > 0.6
    with pytest.raises(VpunnError, match="pickle"):
        own.save(tmp_path / "own")
    for wrong, said in ((["Sum"], "Sum"), ("Sums", "list"), ([], "list"), ([LinearSVC()], "predict_proba")):
        with pytest.raises(VpunnError, match=said):
            HiPaNClassifier(words.tree, experts=wrong).fit(words.X, label)
    with pytest.raises(VpunnError, match="reads block"):
        HiPaNClassifier(words.tree, experts=["Sums"]).fit(words.numbers, label)
    with pytest.raises(VpunnError, match="200 classes"):
        HiPaNClassifier(experts=[ExtraTreesClassifier(5)]).fit(np.arange(500.0)[:, None], np.arange(500) // 2)
