"""Words that mix letters and digits whole, cut where the two meet, or with beginnings, on validation rows.

``python -m benchmarks.mixed TASK SPLITS`` (``go-component 0,1,2,3``) prints, for words and word pairs of each kind, the share of
rows with exactly the right answer (tasks of label sets: Fmax) of `HiPaNClassifier` and its mean over the splits.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys

import numpy as np
from scipy import sparse

from benchmarks.sets.methods import score_vpunn
from benchmarks.sets.tasks import SET_TASKS, load_set_task
from vpunn import HiPaNClassifier
from vpunn.datasets.tasks import load_task
from vpunn.metrics import sets as scores
from vpunn.text import text_features
from vpunn.text.ngrams import MIXED


def scored(name: str, split: int, mixed: str) -> float:
    """The score of one task on validation rows of one split."""
    task = load_set_task(name, split) if name in SET_TASKS else load_task(name, split)
    features = text_features(characters=None, min_rows=1, mixed=mixed)
    X = features.fit_transform(task.texts["train"])
    model = HiPaNClassifier(task.tree, random_state=0).fit(X, task.labels("train"))
    asked = features.transform(task.texts["validation"])
    if name not in SET_TASKS:
        return float(np.mean(np.asarray(model.predict(asked)) == np.asarray(task.labels("validation"))))
    truth, found = task.closed("validation"), score_vpunn(model, asked, 0).tocoo()
    place = found.row, model.sets_.ball[found.col]
    return scores.f_max(truth, sparse.csr_matrix((found.data, place), shape=truth.shape)).value


if __name__ == "__main__":
    name, splits = sys.argv[1], [int(split) for split in sys.argv[2].split(",")]
    for mixed in MIXED:
        found = [scored(name, split, mixed) for split in splits]
        print(f"{name} {mixed}: {np.mean(found):.4f} ({', '.join(f'{value:.4f}' for value in found)})", flush=True)
