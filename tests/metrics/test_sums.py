"""Scores of parts add up to the scores of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import trees
from vpunn import metrics
from vpunn.errors import VpunnError
from vpunn.metrics import CalibrationSums, HierarchicalSums


@given(trees(12), st.data())
def test_parts_score_as_the_whole(tree, data):
    nodes = st.lists(st.integers(0, tree.n_nodes - 1), min_size=1, max_size=20)
    true = data.draw(nodes)
    said = data.draw(st.lists(st.integers(0, tree.n_nodes - 1), min_size=len(true), max_size=len(true)))
    cut = data.draw(st.integers(1, len(true)))
    parts = [(true[:cut], said[:cut])] + ([(true[cut:], said[cut:])] if cut < len(true) else [])
    found = sum(HierarchicalSums.of(tree, *part) for part in parts).scores()
    for name, value in metrics.hierarchical_summary(tree, true, said).items():
        assert found[name] == pytest.approx(value, rel=1e-12), name
    one_by_one = {
        "root_accuracy": metrics.root_accuracy(tree, true, said),
        "leaf_accuracy": metrics.leaf_accuracy(tree, true, said),
        "wu_palmer": metrics.wu_palmer(tree, true, said).mean(),
        "mean_lca_depth": metrics.mean_lca_depth(tree, true, said),
        "ultrametric_loss": metrics.ultrametric_loss(tree, true, said).mean(),
        "hierarchical_f1": metrics.hierarchical_scores(tree, true, said).f1,
    }
    assert {name: found[name] for name in one_by_one} == pytest.approx(one_by_one)


def test_calibration_of_parts():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=500)
    right = rng.uniform(size=500) < confidence
    both = CalibrationSums.of(confidence[:200], right[:200]) + CalibrationSums.of(confidence[200:], right[200:])
    assert both.n == 500 and CalibrationSums.of([], []).n == 0
    assert both.interval() == pytest.approx(metrics.calibration_error_interval(confidence, right))
    found = both.scores()
    assert found["ECE"] == pytest.approx(metrics.calibration_error(confidence, right))
    assert (found["right"], found["said"]) == pytest.approx((right.mean(), confidence.mean()))


def test_nothing_and_other_things_are_no_scores():
    for empty in (HierarchicalSums(), CalibrationSums()):
        with pytest.raises(VpunnError, match="no rows to score"):
            empty.scores()
    with pytest.raises(TypeError):
        HierarchicalSums() + CalibrationSums()
