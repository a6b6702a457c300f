"""Boosted trees of scikit-learn as plain arrays, so that they are saved without pickle and answer alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpunn.errors import VpunnError
from vpunn.store import Draft, Storable, Stored

FloatArray = np.ndarray
#: What a node holds, by scikit-learn's names.
FIELDS = ("value", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "is_leaf")


class BoostedTrees(Storable):
    """The trees of a fitted `HistGradientBoostingRegressor` on numbers: every node in one row of each array.

    `predict` gives the same numbers as scikit-learn, tree by tree in its order.
    """

    name = "HistGradientBoostingRegressor"  #: what an explanation calls it

    def __init__(self, start: FloatArray, baseline: float, nodes: dict[str, np.ndarray]) -> None:
        self.start, self.baseline, self.nodes = start, baseline, nodes

    @classmethod
    def of(cls, model: Any) -> BoostedTrees:
        """From scikit-learn's estimator."""
        if getattr(model, "is_categorical_", None) is not None or model.loss not in (
            "squared_error",
            "absolute_error",
            "quantile",
        ):
            raise VpunnError(
                "boosting with categorical columns or on another scale has no form without pickle; leave both out."
            )
        trees = [tree.nodes for stage in model._predictors for tree in stage]
        nodes = {name: np.concatenate([tree[name] for tree in trees]) if trees else np.zeros(0) for name in FIELDS}
        start = np.cumsum([0, *(len(tree) for tree in trees)])
        for name in ("left", "right"):
            nodes[name] = nodes[name].astype(np.int64) + np.repeat(start[:-1], np.diff(start))
        nodes |= {"feature_idx": nodes["feature_idx"].astype(np.int64), "value": nodes["value"].astype(float)}
        for name in ("missing_go_to_left", "is_leaf"):
            nodes[name] = nodes[name].astype(bool)
        return cls(start, float(np.ravel(model._baseline_prediction)[0]), nodes)

    @property
    def width(self) -> int:
        """How many columns the trees ask for."""
        return int(self.nodes["feature_idx"].max(initial=-1)) + 1

    def predict(self, X: FloatArray) -> FloatArray:
        """The sum of the trees' answers."""
        from vpunn.regress import _kernels as kernels

        X = np.ascontiguousarray(X, dtype=float)
        return np.asarray(kernels.boosted(X, self.start, self.baseline, *(self.nodes[name] for name in FIELDS)))

    def _to_store(self, draft: Draft) -> None:
        draft.settings["baseline"] = self.baseline
        draft.array("start", self.start)
        for name in FIELDS:
            draft.array(name, self.nodes[name])

    @classmethod
    def _from_store(cls, stored: Stored) -> BoostedTrees:
        start = stored.array("start", dtype="i8", shape=(None,), low=0, monotone=True)
        n = int(start[-1])
        kinds: dict[str, Any] = {
            **{name: {"dtype": "i8", "low": 0} for name in ("feature_idx", "left", "right")},
            **{name: {"dtype": "?"} for name in ("missing_go_to_left", "is_leaf")},
            **{"value": {"dtype": "f8"}, "num_threshold": {"dtype": "f8", "finite": False}},
        }
        nodes = {name: stored.array(name, shape=(n,), **kind) for name, kind in kinds.items()}
        own = np.arange(n)
        inner = ~nodes["is_leaf"]
        end = np.repeat(start[1:], np.diff(start))
        for name in ("left", "right"):
            child = nodes[name][inner]
            if (child <= own[inner]).any() or (child >= end[inner]).any():
                raise VpunnError("the trees have children that are not below their nodes.")
        return cls(start, stored.setting("baseline", float), nodes)
