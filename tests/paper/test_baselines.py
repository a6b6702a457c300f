"""The held-out table of the baselines: all methods are averaged over the same splits, as many as fit into a task's time."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from vpunn.paper.reports import baselines


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(baselines, "METHODS", ("nearest", "centroid"))
    monkeypatch.setattr(baselines, "CONTROL", "linear-svm")
    baselines.harness()
    monkeypatch.setattr(importlib.import_module("benchmarks.predict.matrix"), "RESULTS", tmp_path)


def test_a_split_that_would_not_fit_is_left_out_for_all(small, monkeypatch):
    whole = baselines._place("iris", [1, 2])
    assert whole["splits"] == 2
    assert all("± exact" in row for row in whole["rows"] if row["method"] in baselines.METHODS)
    clock = iter(range(0, 10_000, 10))  # every look at the clock finds it ten seconds on
    monkeypatch.setattr(baselines, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(baselines, "TASK", 90.0)
    short = baselines._place("iris", [1, 2])
    assert short["splits"] == 1
    assert {row["method"]: row["exact"] for row in short["rows"]}.keys() >= {"nearest", "centroid"}
    assert not any("± exact" in row for row in short["rows"])
