"""The trees of scikit-learn's histogram boosting as plain arrays: the same predictions, and they can be saved without pickle."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from vpunn.errors import VpunnError
from vpunn.store import Draft, Stored


class Forest:
    """``start[t]`` is the root of tree t in the node arrays; ``choice`` is the row of ``bits`` of a split by category, else -1.

    Trees stand round by round, one per class in each (one in all for values and for two classes). ``known`` lists per
    categorical column the values met in training, ascending: a value not among them counts as missing.
    """

    def __init__(self, arrays: dict[str, np.ndarray], known: dict[int, np.ndarray], width: int, classes: int) -> None:
        self.arrays, self.known, self.width, self.classes = arrays, known, width, classes

    @classmethod
    def of(cls, model: Any, categorical: list[int], features: np.ndarray, classes: int) -> Forest:
        """The trees of a fitted model; its answers on the first training rows are compared with ours."""
        trees = [tree for each in model._predictors for tree in each]
        nodes = [tree.nodes for tree in trees]
        sizes = np.array([len(each) for each in nodes])
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        flat = np.concatenate(nodes)
        offset = np.repeat(start, sizes)
        bits = [tree.raw_left_cat_bitsets for tree in trees] + [
            np.zeros((1, 8), np.uint32)
        ]  # choice -1 reads the last row
        first = np.repeat(np.concatenate([[0], np.cumsum([len(b) for b in bits])[:-2]]), sizes)
        leaf, split = flat["is_leaf"] == 1, flat["is_categorical"] == 1
        here = np.arange(len(flat))
        arrays = {
            "start": start,
            "value": flat["value"].astype(np.float64),
            "feature": np.where(leaf, 0, flat["feature_idx"]).astype(np.int64),
            "threshold": flat["num_threshold"].astype(np.float64),
            "left": np.where(leaf, here, flat["left"] + offset).astype(np.int64),
            "right": np.where(leaf, here, flat["right"] + offset).astype(np.int64),
            "choice": np.where(split & ~leaf, flat["bitset_idx"] + first, -1).astype(np.int64),
            "missing_left": flat["missing_go_to_left"].astype(np.uint8),
            "bits": np.unpackbits(np.concatenate(bits).view(np.uint8), axis=1, bitorder="little").reshape(-1, 256),
            "base": np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        }
        known = {j: np.unique(features[~np.isnan(features[:, j]), j]) for j in sorted(categorical)}
        found = cls(arrays, known, features.shape[1], classes)
        sample = features[:200]
        theirs = model.predict_proba(sample) if classes else model.predict(sample)
        if not np.allclose(found.predict(sample), theirs, rtol=1e-9, atol=1e-12):
            raise VpunnError(
                "this version of scikit-learn keeps its boosted trees in a form not known here; install LightGBM."
            )
        return found

    def _inputs(self, features: np.ndarray) -> np.ndarray:
        """The columns as the trees know them: categories first, as places among the known values."""
        if features.ndim != 2 or features.shape[1] != self.width:
            raise VpunnError(
                f"the predictor was fitted on {self.width} columns; got an array of shape {features.shape}."
            )
        columns = []
        for j, values in self.known.items():
            place = np.minimum(np.searchsorted(values, features[:, j]), max(len(values) - 1, 0))
            same = values[place] == features[:, j] if len(values) else np.zeros(len(features), bool)
            columns.append(np.where(same, place.astype(np.float64), np.nan))
        columns += [features[:, j] for j in range(self.width) if j not in self.known]
        return np.column_stack(columns).astype(np.float64)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Values, or one probability per class; cost: rows × trees × depth."""
        x, a = self._inputs(np.asarray(features)), self.arrays
        outputs = len(a["base"])
        raw = np.tile(a["base"], (len(x), 1))
        rows = np.arange(len(x))
        for t, root in enumerate(a["start"]):
            node = np.full(len(x), root)
            while True:
                value = x[rows, a["feature"][node]]
                choice = a["choice"][node]
                place = np.where(np.isnan(value) | (choice < 0), 0, value).astype(np.int64)
                with np.errstate(invalid="ignore"):
                    left = np.where(choice >= 0, a["bits"][choice, place] == 1, value <= a["threshold"][node])
                left = np.where(np.isnan(value), a["missing_left"][node] == 1, left)
                below = np.where(left, a["left"][node], a["right"][node])
                if np.array_equal(below, node):
                    break
                node = below
            raw[:, t % outputs] += a["value"][node]
        if not self.classes:
            return raw[:, 0]
        if self.classes == 2:
            found = expit(raw[:, 0])
            return np.column_stack([1.0 - found, found])
        return np.asarray(softmax(raw, axis=1))

    def put(self, draft: Draft) -> None:
        """Write the arrays into a draft."""
        for name, values in self.arrays.items():
            draft.array(f"forest.{name}", values)
        for j, values in self.known.items():
            draft.array(f"forest.known{j}", values)

    @classmethod
    def get(cls, stored: Stored, width: int, categorical: list[int], classes: int) -> Forest:
        """The forest of `put`; every index is checked before use."""
        n = len(stored.array("forest.value", dtype="f8", shape=(None,)))
        arrays = {"value": stored.array("forest.value", dtype="f8", shape=(n,))}
        arrays["bits"] = stored.array("forest.bits", dtype="u1", shape=(None, 256))
        if not len(arrays["bits"]):
            raise VpunnError("the categories of the boosted trees' splits are missing.")
        outputs = classes if classes > 2 else 1
        arrays["base"] = stored.array("forest.base", dtype="f8", shape=(outputs,))
        arrays["start"] = stored.array("forest.start", dtype="i8", shape=(None,), low=0, high=n)
        arrays["feature"] = stored.array("forest.feature", dtype="i8", shape=(n,), low=0, high=width)
        arrays["threshold"] = stored.array("forest.threshold", dtype="f8", shape=(n,), finite=False)
        here = np.arange(n)
        for name in ("left", "right"):
            arrays[name] = stored.array(f"forest.{name}", dtype="i8", shape=(n,), low=0, high=n)
        inner = (arrays["left"] != here) | (arrays["right"] != here)
        if ((arrays["left"] <= here) | (arrays["right"] <= here))[inner].any():
            raise VpunnError("a boosted tree's branch does not lead down.")
        arrays["choice"] = stored.array("forest.choice", dtype="i8", shape=(n,), low=-1, high=len(arrays["bits"]))
        arrays["missing_left"] = stored.array("forest.missing_left", dtype="u1", shape=(n,), low=0, high=2)
        if len(arrays["start"]) % outputs:
            raise VpunnError(f"{len(arrays['start'])} trees are no whole number of rounds over {outputs} outputs.")
        known = {j: stored.array(f"forest.known{j}", dtype="f8", shape=(None,)) for j in sorted(categorical)}
        if any(len(values) > 256 or (np.diff(values) <= 0).any() for values in known.values()):
            raise VpunnError("the categories of a boosted column are not up to 256 ascending values.")
        return cls(arrays, known, width, classes)
