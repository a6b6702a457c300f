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


def test_a_split_in_which_a_method_had_no_time_is_left_out_for_all(small, monkeypatch):
    over, asked = baselines.harness().OVER, []

    def run(cases, methods, *, seeds, **options):
        asked.append((methods[0], seeds[0]))
        note = {"note": over} if asked[-1] == ("centroid", 2) else {"exact": float(seeds[0])}
        return [{"case": cases[0], "seed": seeds[0], "method": methods[0], **note}]

    monkeypatch.setattr(baselines.harness(), "run", run)
    found = baselines._place("iris", [1, 2])
    assert ("nearest", 2) in asked
    assert found["splits"] == 1
    assert {row["method"]: row["exact"] for row in found["rows"]}["nearest"] == 1.0
