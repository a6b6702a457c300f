"""Any classifier of scikit-learn as an expert of a dense block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from vpunn.errors import VpunnError
from vpunn.hipan.evidence import Column, Look, Sample, Slots
from vpunn.hipan.gaussian import Gaussian, highest
from vpunn.hipan.readings import Standard
from vpunn.hipan.tree_arrays import Occupied

#: Classes up to which it is asked: a classifier of one model per class would take hours.
MOST_CLASSES = 200
#: A class has at least this probability, so that one that errs surely is no proof.
LEAST = 1e-4


@dataclass(frozen=True)
class OwnClassifier:
    """log P(class | standardised row) by a copy of the classifier, fitted on the same rows as the others."""

    reading: Standard
    classifier: Any
    tree: Occupied

    @property
    def columns(self) -> Sequence[Column]:
        """One, called like the classifier."""
        return (Column(type(self.classifier).__name__, kinds="known", decides=True, usual=1.0),)

    @classmethod
    def fit(cls, sample: Sample, earlier: dict[str, object], classifier: Any) -> OwnClassifier:
        """``classifier`` stays as it is; the copy of one that draws numbers and has no seed gets one."""
        from sklearn.base import clone

        if len(sample.tree.leaf) > MOST_CLASSES:
            raise VpunnError(
                f"{type(classifier).__name__} is asked for up to {MOST_CLASSES} classes, these are {len(sample.tree.leaf):,}; "
                "leave it out of experts."
            )
        reading = cast(Gaussian, earlier["Gaussian"]).reading.standard
        own = clone(classifier)
        seeds = {k: 0 for k, v in own.get_params().items() if k.rpartition("__")[2] == "random_state" and v is None}
        own.set_params(**seeds)
        return cls(reading, own.fit(reading.read(sample.rows), sample.leaf), sample.tree)

    def look(self, rows: np.ndarray) -> Look:
        """The likeliest classes propose."""
        p = np.full((len(rows), len(self.tree.leaf)), LEAST)
        p[:, self.classifier.classes_] = self.classifier.predict_proba(self.reading.read(rows))
        score = np.log(np.maximum(p, LEAST))

        def values(slots: Slots) -> list[np.ndarray]:
            leaf = self.tree.first_leaf[slots.asked.block[slots.asked.own]]
            return [score[np.arange(len(score))[:, None], np.minimum(leaf, len(self.tree.leaf) - 1)]]

        return Look(lambda k: [highest(score, k)[0]], values)


def check_experts(given: Any, names: Sequence[str]) -> None:
    """``experts=`` of the classifier: names of experts, and classifiers that have probabilities."""
    if given is None:
        return
    if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
        raise VpunnError(f"experts is a list of names ({', '.join(names)}) or classifiers, got {repr(given)[:60]}.")
    for one in given:
        if isinstance(one, str) and one not in names:
            raise VpunnError(f"experts names {one!r}; there are {', '.join(names)}.")
        if not isinstance(one, str) and (isinstance(one, type) or not hasattr(one, "predict_proba")):
            raise VpunnError(f"an expert of one's own is a classifier with predict_proba, got {repr(one)[:60]}.")
