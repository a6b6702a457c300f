"""The expert of docs/classifier.md: a class and a line make it fitted, weighed, explained and saved like the others."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from vpunn import HiPaNClassifier
from vpunn.hipan import experts, schema

PAGE = Path(__file__).parents[2] / "docs" / "classifier.md"


@pytest.fixture
def rarest(monkeypatch):
    own, listed = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[1:]
    monkeypatch.setattr(experts, "WORDS", experts.WORDS)
    monkeypatch.setattr(schema, "SCHEMA", dict(schema.SCHEMA))
    space: dict = {"__name__": "own"}
    exec(compile(own, "own", "exec", dont_inherit=True), space)
    exec(listed, space)
    return space["Rarest"]


def test_an_expert_is_a_class_and_a_line(rarest, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 30, 300)
    X = sp.csr_matrix(np.eye(90)[3 * y + rng.integers(0, 3, 300)] + (rng.random((300, 90)) < 0.002))
    model = HiPaNClassifier(random_state=0).fit(X[:200], y[:200])
    assert rarest in {type(expert) for _, expert in model.model_.experts.experts}
    assert np.mean(model.predict(X[200:]) == y[200:]) > 0.8
    found = model.explain(X[[200]])
    assert found.spoke["Rarest"] and "share of the rows with the rarest word" in found.evidence
    together = model.predict_node_proba(X[200:220])
    assert all(np.array_equal(model.predict_node_proba(X[[200 + i]])[0], row) for i, row in enumerate(together))
    again = HiPaNClassifier.load(model.save(tmp_path / "m"))
    assert np.array_equal(again.predict_node_proba(X[200:220]), together)
