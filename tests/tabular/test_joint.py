"""`joint_tree`: J beside a twin that refits without each row, steps that never raise it, and capacities that are kept."""

import numpy as np
import pytest

from vpunn.codes import PadicCode
from vpunn.errors import VpunnError
from vpunn.tabular import joint, joint_tree
from vpunn.tabular.refine import planted_rows
from vpunn.tree import Tree


def planted(seed, noise=0.5):
    rows, tree, leaf = planted_rows(noise, seed, spreads=(4.0, 2.0), per_leaf=4, columns=5)
    names = [f"c{i}" if end else f"b{i}" for i, end in enumerate(tree.is_leaf)]
    tree = Tree.from_parents(tree.parent, names)
    return rows, tree.labels[leaf], tree


def twin(tree, heads, rows, leaf, x, truth):
    """log P(truth | x), walking down with the means of ``rows``."""
    mean, log_p = rows.mean(0), 0.0
    for at in tree.ancestors(int(truth)).tolist()[1:]:
        parent, scores, means = tree.parent[at], [], {}
        for child in tree.children(int(parent)).tolist():
            own = rows[(leaf >= child) & (leaf < child + tree.size[child])]
            means[child] = (own.sum(0) + heads.kappa * mean) / (len(own) + heads.kappa)
            scores.append(
                np.log(len(own) + 0.5) - ((x - means[child]) ** 2).sum() / (2 * heads.scale[tree.depth[child]])
            )
        log_p += scores[tree.children(int(parent)).tolist().index(at)] - np.log(np.exp(scores).sum())
        mean = means[at]
    return log_p


def test_left_out_and_probabilities_equal_the_twin():
    rows, y, _ = planted(0)
    tree = Tree.from_paths(
        [("a", "c2"), ("a", "c3"), ("b", "x", "c4"), ("b", "x", "c6"), ("b", "c7"), ("c8",)], root="all"
    )
    kept = np.isin(y, tree.labels[tree.leaves])
    rows, y = rows[kept], y[kept]
    model = joint_tree(rows, y, tree, learn=False)
    leaf = tree.index(y.tolist())
    others = ~np.eye(len(rows), dtype=bool)
    wanted = [-twin(tree, model.heads, rows[o], leaf[o], x, t) for x, t, o in zip(rows, leaf, others, strict=True)]
    assert np.isclose(model.history[-1], np.mean(wanted))
    found = model.log_proba(rows[:3] + 1)
    for i, classes in enumerate(found):
        assert np.allclose(classes, [twin(tree, model.heads, rows, leaf, rows[i] + 1, t) for t in tree.leaves])
    assert np.allclose(np.exp(found).sum(1), 1)


def test_a_planted_tree_is_found_again_and_every_step_is_a_tree_with_exact_codes(monkeypatch):
    rows, y, tree = planted(1)
    labels = tree.labels.copy()
    labels[tree.leaves] = np.random.default_rng(0).permutation(labels[tree.leaves])
    start = Tree.from_parents(tree.parent, labels.tolist())
    taken, offer = [], joint._Search._offer

    def watched(search, kind, proposal, fit):
        accepted = offer(search, kind, proposal, fit)
        code, nodes = PadicCode(search.tree), np.arange(search.tree.n_nodes)
        assert code.decode(code.encode()).tolist() == nodes.tolist()
        assert sorted(search.tree.labels[search.tree.leaves]) == sorted(tree.labels[tree.leaves])
        assert search.tree.max_branching <= tree.max_branching
        taken.append(accepted)
        return accepted

    monkeypatch.setattr(joint._Search, "_offer", watched)
    model = joint_tree(rows, y, start)
    assert any(taken) and (np.diff(model.history) < 0).all() and model.history[0] > model.history[-1]
    together = model.tree.lca_depth(
        *(model.tree.index(tree.labels[tree.leaves[i]].tolist()) for i in ([0, 3, 6], [1, 4, 7]))
    )
    assert (together == 1).all()
    assert (model.predict(rows) == y).mean() > 0.9 and "nats a row" in str(model)


def test_transport_keeps_capacities_and_is_nearly_the_cheapest():
    from scipy.optimize import linear_sum_assignment

    for seed in range(5):
        cost = np.random.default_rng(seed).random((30, 4))
        room = np.array([10, 10, 10, 5])
        found = joint.transport(cost, room)
        assert (np.bincount(found, minlength=4) <= room).all()
        column = np.repeat(np.arange(4), room)
        best = linear_sum_assignment(cost[:, column])
        assert cost[np.arange(30), found].sum() <= 1.05 * cost[best[0], column[best[1]]].sum() + 1e-9
    assert joint.transport(np.zeros((2, 2)), np.array([1, 1])).tolist() == [0, 1]
    assert joint.transport(np.array([[0.0, 1.0]]), np.array([0, 1])).tolist() == [1]


def test_what_cannot_be_used_is_refused():
    rows, y, tree = planted(2)
    for call, words in (
        (lambda: joint_tree(rows[:-4], y[:-4], tree), "1 leaves have none"),
        (lambda: joint_tree(rows, y[:-1], tree), "one label each"),
        (lambda: joint_tree(rows * np.nan, y, tree), "finite table"),
        (lambda: joint_tree(rows, y, tree, capacity=1), "capacity=1 is below"),
        (lambda: joint.transport(np.zeros((3, 1)), np.array([2])), "3 children do not fit"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
