"""Code lists with one to four texts for most codes: what is held out looks like what is asked, by code."""

import json
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from stores import write_head
from vpunn.hipan import HiPaNClassifier, _holdout
from vpunn.hipan._holdout import LARGER, Round, in_halves, plan_holdout
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
    sizes = np.bincount(code)
    few = np.isin(np.arange(300), np.flatnonzero(sizes <= high))
    left = []
    for one in plan_holdout(code, np.arange(len(code)), 0, 0.1, np.random.default_rng(0)):
        assert not few[code[one.out]].any()  # with a row less they would not look like what is asked
        kept = np.setdiff1d(np.arange(len(code)), np.concatenate([one.out, one.dropped]))
        cut = one.out[len(one.out) - one.n_cut :]
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


def test_a_list_is_told_better_by_rows_that_look_like_it():
    """Of rows held out at random most are of the codes with twenty texts: a combiner of those hardly answers others."""
    tree, X, code, new, truth = listed(2, 2)
    y, right = np.char.add("code ", code.astype(str)), []
    for sizes in (_holdout._sizes_of_list, lambda met, unmet: range(0)):
        with patch.object(_holdout, "_sizes_of_list", sizes):
            model = HiPaNClassifier(tree, random_state=0).fit(X, y)
        answer = model.predict(new)
        right.append(float((answer == np.char.add("code ", truth.astype(str))).mean()))
    assert right[0] > right[1] + 0.03, right


def test_natural_sizes_are_no_list():
    rng = np.random.default_rng(0)
    for code in (rng.zipf(1.6, 4000) % 900, rng.integers(0, 400, 2000), np.repeat(np.arange(LARGER), 9)):
        unit = np.arange(len(code))
        assert all(one.n_cut == 0 for one in plan_holdout(code, unit, 400, 0.1, np.random.default_rng(1)))


def test_rows_of_a_class_that_was_cut_down_are_in_one_half():
    node, unit = np.array([7, 7, 3, 3, 3, 5]), np.array([0, 0, 1, 2, 3, 4])
    together = Round(np.arange(5), np.ones(5), np.zeros(0, np.int64), 3).together(node, unit)
    assert together[0] == together[1] and len(set(together[2:].tolist())) == 1 and together[2] not in unit
    halves = in_halves(together, np.random.default_rng(0))
    assert any({2, 3, 4} <= set(half.tolist()) for half in halves)
