"""Code lists with one to four texts for most codes: what is held out looks like what is asked, by code."""

import json
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from stores import write_head
from vpunn.hipan import HiPaNClassifier, _lists, _teaching, _training
from vpunn.hipan._holdout import Round, in_halves, plan_holdout
from vpunn.hipan._lists import CodeList, as_asked, cut_down, question
from vpunn.tree import Tree


def listed(low: int, high: int, classes: int = 300, larger: int = 60, seed: int = 0):
    """Texts of codes, most of which have ``low`` to ``high`` of them and the others twenty, and as many new texts of every code."""
    rng = np.random.default_rng(seed)
    tree = Tree.from_paths([(f"family {k // 10}", f"code {k}") for k in range(classes)], root="all")
    rows = rng.integers(low, high + 1, classes)
    rows[rng.permutation(classes)[:larger]] = 20
    code = np.concatenate([np.repeat(np.arange(classes), rows), np.repeat(np.arange(classes), 4)])
    words = [
        rng.integers(0, 200, (len(code), 3)),
        200 + 30 * (code // 10)[:, None] + rng.integers(0, 30, (len(code), 2)),
    ]
    words.append(1200 + 12 * code[:, None] + rng.integers(0, 12, (len(code), 2)))
    columns = np.concatenate(words, 1)
    X = sparse.csr_matrix(
        (np.ones(columns.size, np.float32), columns.ravel(), np.arange(0, columns.size + 1, columns.shape[1])),
        shape=(len(code), 1200 + 12 * classes),
    )
    X.sum_duplicates()
    learned = int(rows.sum())
    return tree, X[:learned], code[:learned], X[learned:], code[learned:]


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 2), (2, 4)])
def test_classes_are_cut_down_to_as_many_rows_as_listed_ones_have(low, high):
    _, _, code, _, _ = listed(low, high)
    few = np.bincount(code) <= high
    left = []
    for one in plan_holdout(code, np.arange(len(code)), 0, 0.1, np.random.default_rng(0)):
        assert not few[code[one.out]].any()  # with a row less they would not look like what is asked
        kept = np.setdiff1d(np.arange(len(code)), np.concatenate([one.out, one.dropped]))
        cut = one.cut()
        left.append(np.bincount(code[kept], minlength=300)[np.unique(code[cut])])
        share = one.weight[len(one.out) - one.n_cut :].sum() / one.weight.sum()
        assert 0.7 < share < 0.9  # asked by code: four in five
    assert set(np.concatenate(left).tolist()) == set(range(low, high + 1))


@pytest.mark.parametrize("empty", [5, 60, 200])
def test_a_list_in_which_codes_have_no_text_is_a_list(empty):
    """Three single rows for each code without any may have been met by chance, but not if there are hardly any of two and three."""
    _, _, code, _, _ = listed(1, 1)
    rounds = plan_holdout(code, np.arange(len(code)), empty, 0.1, np.random.default_rng(0))
    assert all(one.weight[len(one.out) - one.n_cut :].sum() > 0.7 * one.weight.sum() for one in rounds)


def test_codes_of_a_list_are_expected_alike_before_a_row_is_read(tmp_path):
    tree, X, code, _, _ = listed(1, 1)
    y = np.char.add("code ", code.astype(str))
    model = HiPaNClassifier(tree, random_state=0).fit(X, y)
    leaves = tree.index(np.char.add("code ", np.arange(300).astype(str)))
    prior, many = model.prior_[leaves], np.bincount(code) > 1
    assert prior[many].sum() == pytest.approx(0.2, abs=1e-3) and np.ptp(prior[~many]) == 0

    folder = model.save(tmp_path / "older")
    head = json.loads((folder / "model.json").read_text())
    del head["settings"]["asked_by_code"]
    write_head(folder, head)
    before = HiPaNClassifier.load(folder, verify=False).prior_[leaves]
    np.testing.assert_allclose(before, (np.bincount(code) + 0.5) / (len(code) + 150), rtol=1e-3)
    assert HiPaNClassifier.load(folder, verify=False).fit(X, y).by_code_
    again = HiPaNClassifier.load(model.save(tmp_path / "present"))
    assert np.array_equal(again.prior_, model.prior_)
    del vars(model)["by_code_"]  # as if it had been pickled before
    model.prior_ = HiPaNClassifier.load(folder, verify=False).prior_
    again = HiPaNClassifier.load(model.save(tmp_path / "pickled"))
    assert np.array_equal(again.prior_, model.prior_)


def test_a_list_is_told_better_by_rows_that_look_like_it():
    """Of rows held out at random most are of the codes with twenty texts: a combiner of those hardly answers others."""
    tree, X, code, new, truth = listed(2, 2)
    y, right = np.char.add("code ", code.astype(str)), []
    for sizes in (_lists.sizes_of_list, lambda met, single: []):
        with patch.object(_lists, "sizes_of_list", sizes):
            model = HiPaNClassifier(tree, random_state=0).fit(X, y)
        answer = model.predict(new)
        right.append(float((answer == np.char.add("code ", truth.astype(str))).mean()))
    assert right[0] > right[1] + 0.03, right


@pytest.mark.parametrize(
    ("sizes", "empty", "chance", "listed"),
    [
        ([1] * 60 + [5] * 40, 400, 1.0, ()),  # many answers without a row: as Good and Turing say
        ([1] * 60 + [2] * 20 + [5] * 40, 20, 1.0, ()),  # each stands for three rows at most: still enough
        ([1] * 60 + [2] * 20 + [5] * 40, 0, 0.0, ()),  # a tree of labels that were met does not make a list
        ([1] * 60 + [5] * 40, 0, 0.0, (1,)),  # a list: every code has a text
        ([1] * 60 + [5] * 40, 20, 0.56, (1,)),  # hardly one of two rows: not drawn
        # 200 are surely four times as many as larger ones let expect, 160 are not
        ([1] * 200 + [2] * 20 + [3] * 15 + [4] * 5 + [9] * 10, 110, 1.0, (1,)),
        ([1] * 160 + [2] * 20 + [3] * 15 + [4] * 5 + [9] * 10, 110, 1.0, ()),
        ([1] * 60 + [2] * 20, 10, 0.5, ()),  # no class that could be cut down
        ([1] * 4 + [25] * 40, 0, 0.0, ()),  # a few single rows may be luck
        ([2] * 80 + [16] * 20, 0, 1.0, (2,)),  # every code two texts, some more
        ([3] * 80 + [16] * 20, 0, 1.0, (3,)),
        ([2] * 80 + [3] * 80 + [4] * 80 + [16] * 30, 0, 1.0, (2, 3, 4)),
        ([2] * 80 + [16] * 4, 0, 1.0, ()),  # too few larger ones to learn from
        ([r for r in range(2, 40) for _ in range(600 // r**2)], 0, 1.0, ()),  # by a power law without those of one
        ([1] * 60 + [2] * 80 + [16] * 20, 100, 1.0, ()),  # drawn by chance there would be as many of one
    ],
)
def test_how_often_classes_of_few_rows_are_asked_about(sizes, empty, chance, listed):
    found, codes = question(np.array(sizes), empty, alike=False)
    assert (found == pytest.approx(chance, abs=0.01), tuple(np.flatnonzero(codes.missed))) == (True, listed), found


def test_single_rows_are_held_out_as_often_as_unmet_classes_are_asked_for():
    """Of lists of one to three texts only a fifth of the rows are of larger classes: few single rows stand for what is unmet."""
    sizes = np.repeat([1, 2, 3, 20], [400, 400, 400, 25])
    chance, codes = question(sizes, 2, alike=False)
    unmet = 6 / (500 + 6)  # three rows for each of two classes, beside the rows that were not listed
    assert 400 * chance / (400 * chance + 500) == pytest.approx(min(unmet / (1 - codes.missed.sum()), 0.95), rel=1e-6)


@pytest.mark.parametrize("classes", [300, 1000, 5000])
@pytest.mark.parametrize("tree", ["of all classes", "of those met"])
def test_sizes_that_were_drawn_are_no_list(classes, tree):
    """Equal chances, chances of gamma and lognormal distributions and by power laws, a thin tail beside a popular head."""
    rng = np.random.default_rng(0)
    drawn = [rng.poisson(mean, (10, classes)) for mean in (3, 4, 5, 8)]
    drawn += [rng.poisson(rng.gamma(shape, mean / shape, (10, classes))) for mean, shape in ((4, 1), (4, 4), (10, 1))]
    drawn += [rng.poisson(mean * np.exp(s * rng.standard_normal((10, classes)))) for mean, s in ((2, 1), (1, 2))]
    for power, rows in ((1.0, 3), (1.5, 5), (1.0, 20), (0.8, 2)):
        share = np.arange(1.0, classes + 1) ** -power
        drawn.append(rng.multinomial(rows * classes, share / share.sum(), 10))
    if tree == "of all classes":  # a thin tail of those met is a list for all that can be told
        drawn.append(rng.poisson(np.append(np.full(40, 30.0), np.full(10 * classes, 0.06)), (10, 40 + 10 * classes)))
    for count in (one for some in drawn for one in some):
        n_empty = int((count == 0).sum()) if tree == "of all classes" else 0
        assert not question(count[count > 0], n_empty, False)[1].missed.any(), np.bincount(count)[:9]


def test_a_class_cut_down_counts_by_the_root_of_its_rows():
    node = np.repeat([3, 7, 8], [21, 201, 5])
    codes = CodeList(np.eye(9)[1], 10, 3)
    out, weight, dropped = cut_down(node, np.arange(227), np.array([3, 7]), codes, np.random.default_rng(0))
    assert np.bincount(node[out])[[3, 7]].tolist() == [8, 8] and len(dropped) == 12 + 192
    assert (weight[node[out] == 7] / weight[node[out] == 3]).tolist() == pytest.approx([np.sqrt(10)] * 8)


def test_classes_cut_down_count_as_often_as_they_will_be_asked():
    """Six questions of ten are about 60 classes, four about 40; in a round with 10 of the latter cut down they are 70 and 30."""
    codes = CodeList(0.6 * np.eye(9)[1], 60, 40)
    each = codes.odds(usual=30, out=20, cut=10)
    assert 20 * each / 70 / (30 / 30) == pytest.approx(0.6 / 60 / (0.4 / 40))


def test_all_larger_classes_have_their_turn():
    codes = CodeList(0.8 * np.eye(9)[1], 240, 93)
    node = np.repeat(np.arange(93), 20)
    turns = _lists.turns_of(node, np.full(len(node), 20), codes, 100, np.random.default_rng(0))
    assert sorted(np.concatenate(turns)) == list(range(93)) and max(map(len, turns)) <= 13


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_what_rows_weigh_does_not_make_a_list(weight):
    rows = np.array([0] + [1] * 80 + [21] * 20)
    share = as_asked(weight * rows, rows)
    assert share[1] == pytest.approx(5 * weight) and share[81] == pytest.approx(5 * weight)
    assert share[0] == pytest.approx(5 * weight / 3)


@pytest.mark.parametrize("empty", [0, 30, 150])
def test_one_row_a_class_is_told_by_the_nearest_and_does_not_promise_too_much(empty):
    """No row can be held out and asked about. It was much surer than right, and cautious answers seldom held; beside classes
    without rows it was right less often than the nearest row."""
    tree, X, code, new, truth = listed(1, 1, larger=0)
    known = code >= empty
    X, code = X[known], code[known]
    model = HiPaNClassifier(tree, random_state=0).fit(X, np.char.add("code ", code.astype(str)))
    node = tree.index(np.char.add("code ", truth.astype(str)))
    nearest = code[(new @ X.T).toarray().argmax(1)] == truth
    answer, p = model.posterior(new).top_k(1)
    right = answer[:, 0] == node
    read = np.array(model.experts_.names())[model.combiner_.linear != 0].tolist()
    assert len(read) == 2 and any("nearest" in name for name in read)  # and "none": a guess tells no more
    assert model.first_ is None
    assert right.mean() > nearest.mean() - 0.02
    assert p.mean() - right.mean() < 0.1
    cautious = tree.index(model.predict(new, stop="risk", alpha=0.1))
    assert tree.is_ancestor(cautious, node).mean() > 0.8


def test_a_list_is_told_by_weights_that_make_up_for_its_sizes():
    """Each class weighs the same: a row that a class cut down has kept would weigh a twentieth of one of the list."""
    tree, X, code, new, truth = listed(1, 1)
    y, weight, right = np.char.add("code ", code.astype(str)), 1.0 / np.bincount(code)[code], []
    for learned in (_training._as_listed, lambda sample, kept, asked, one: sample.take(kept)):
        with patch.object(_training, "_as_listed", learned):
            model = HiPaNClassifier(tree, random_state=0).fit(X, y, sample_weight=weight)
        right.append(float((model.predict(new) == np.char.add("code ", truth.astype(str))).mean()))
    assert right[0] > right[1] + 0.03, right


def test_rows_told_by_the_same_few_teach_less_and_groups_do_not():
    tree, X, code, _, _ = listed(1, 1)
    y, worth = np.char.add("code ", code.astype(str)), []

    def fit_combiner(evidence, *args, **more):
        worth.append(more["worth"] / len(evidence))
        return combiner(evidence, *args, **more)

    combiner = _teaching.fit_combiner
    rich = np.flatnonzero(np.bincount(code)[code] == 20)
    with patch.object(_teaching, "fit_combiner", fit_combiner):
        HiPaNClassifier(tree, random_state=0).fit(X, y)
        of_list = worth[0]
        HiPaNClassifier(tree, random_state=0).fit(X[rich], y[rich], groups=np.arange(len(rich)) % 20)
    assert of_list < 0.6 and worth[3] == 1.0


def test_rows_of_a_class_that_was_cut_down_are_in_one_half():
    node, unit = np.array([7, 7, 3, 3, 3, 5]), np.array([0, 0, 1, 2, 3, 4])
    together = Round(np.arange(5), np.ones(5), np.zeros(0, np.int64), 3).together(node, unit)
    assert together[0] == together[1] and len(set(together[2:].tolist())) == 1 and together[2] not in unit
    for seed in range(10):
        assert any({2, 3, 4} <= set(half.tolist()) for half in in_halves(together, np.random.default_rng(seed)))
