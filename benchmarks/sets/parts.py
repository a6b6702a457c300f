"""What the parts of label sets are worth: fitted on training rows without one of them, asked about validation rows.

python -m benchmarks.sets.parts go-parents             # words: Fmax, area below the pooled precision-recall curve, nats, ECE
VPUNN_DATA_DIR=… python -m benchmarks.sets.parts eisen # numbers (benchmarks.sets.genes), and each of their experts alone
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.metrics import average_precision_score

from benchmarks.sets import genes
from benchmarks.sets.tasks import SET_TASKS, load_set_task
from vpunn import HiPaNClassifier
from vpunn.hipan import label_sets, set_combiner, set_words
from vpunn.hipan.set_nodes import Nodes
from vpunn.hipan.set_numbers import NAMES, TRUST
from vpunn.metrics import sets as scores
from vpunn.text import text_features

Part = Callable[[], AbstractContextManager[Any]]


def without(*columns: int) -> Part:
    """Evidence of words that is always 0."""
    examine = set_words.Words.examine

    def silenced(self: Any, *how: Any) -> Any:
        pairs = examine(self, *how)
        pairs.evidence[:, list(columns)] = 0
        return pairs

    return lambda: patch.object(set_words.Words, "examine", silenced)


def never_above_a_parent(self: Nodes, p: np.ndarray) -> np.ndarray:
    """Twice what `Nodes.agreed` gives, less the largest of what is below."""
    return np.asarray(2 * AGREED(self, p) - self.raised(p))


def alike(rows: Any, truth: Any) -> np.ndarray:
    """Every word weighs the same."""
    return (np.bincount(rows.indices, minlength=rows.shape[1]) > 0).astype(np.float32)


AGREED = Nodes.agreed
PARTS: dict[str, Part] = {
    "whole": nullcontext,
    "without linear heads": without(5, 7),
    "without hidden units": lambda: patch.object(set_combiner, "ENOUGH", 1e12),
    "without evidence about parents": without(7, 8, 9),
    "words weighed alike": lambda: patch.object(set_words, "agreement", alike),
    "without shares by words": without(6, 9),
    "one vote of nearest rows instead of four": without(1, 2, 3),
    "without repair by depth": lambda: patch.object(
        label_sets, "fit_repair", lambda p, truth, group, n: (np.ones(n), np.zeros(n))
    ),
    "only the largest of what is below": lambda: patch.object(Nodes, "agreed", Nodes.raised),
    "only the least of what is above": lambda: patch.object(Nodes, "agreed", never_above_a_parent),
}


def words(name: str) -> tuple[Any, ...]:
    """A task of texts: tree, training rows and labels, validation rows and what is true of them."""
    task = load_set_task(name, 0)
    features = text_features(characters=None, min_rows=1, mixed="cut")
    X = features.fit_transform(task.texts["train"])
    asked = features.transform(task.texts["validation"])
    return task.tree, X, task.labels("train"), asked, task.closed("validation")


def numbers(name: str) -> tuple[Any, ...]:
    """The same of a table of genes."""
    table, X, labels, asked = genes.case(name, "valid")
    nodes = [table.tree.index(sorted(row)) for row in table.labels["valid"]]
    return table.tree, X, labels, asked, scores.with_ancestors(table.tree, scores.table_of(table.tree, nodes))


def judged(truth: Any, p: np.ndarray) -> dict[str, float]:
    """Scores of marginals of all nodes."""
    p, true = p[:, 1:], truth.toarray()[:, 1:] > 0
    q, told = np.clip(p, 1e-6, 1 - 1e-6), sparse.csr_matrix(np.where(p >= 0.005, p, 0))
    return {
        "Fmax": scores.f_max(truth[:, 1:], told).value,
        "area": float(average_precision_score(true.ravel(), p.ravel())),
        "nats": float(-np.where(true, np.log(q), np.log1p(-q)).sum() / len(q)),
        "ECE": scores.ball_calibration(truth[:, 1:], told).value,
    }


def main(name: str, *parts: str) -> None:
    """A line for every part, or for those that are named."""
    is_words = name in SET_TASKS
    tree, X, labels, asked, truth = (words if is_words else numbers)(name)
    usual = list(PARTS) if is_words else ["whole", *list(PARTS)[-3:]]
    for part in parts or usual:
        with PARTS[part]():
            model = HiPaNClassifier(tree).fit(X, labels)
            found = judged(truth, model.predict_node_proba(asked))
        print(f"{part:42s}", "  ".join(f"{k} {v:.4f}" for k, v in found.items()), flush=True)
    if is_words:
        return
    sets = model.sets_
    experts = sets.experts.numbers[0].read(np.asarray(asked, np.float64))
    mean = np.tensordot(TRUST.astype(np.float32), experts, 1)
    for expert, p in zip((*NAMES, "their mean"), (*experts, mean), strict=True):
        every = np.zeros((len(p), tree.n_nodes))
        every[:, sets.ball] = sets.nodes.agreed(p)
        print(f"{expert:42s} area {judged(truth, every)['area']:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
