"""Two rules for the one answer of `HiPaNClassifier`, on validation rows: the most probable node, or the one that shares most of
its path with all likely ones. ``python -m benchmarks.answers [TASK …]`` prints the table of docs/prediction.md.
"""

from __future__ import annotations

import sys

import numpy as np

from vpunn import metrics
from vpunn.datasets.tasks import TASKS, load_task
from vpunn.hipan import HiPaNClassifier
from vpunn.text import text_features


def compare(name: str) -> None:
    """Fit one task on its training rows and print both rules' scores on its validation rows."""
    task = load_task(name)
    tree, given = task.tree, task.texts["train"]
    features = text_features(characters=None, min_rows=1)
    everything = features.fit_transform(np.concatenate([given, *task.descriptions]))
    blocks = np.split(np.arange(len(given), everything.shape[0]), max(len(task.descriptions), 1))
    described = [everything[block] for block in blocks] if task.descriptions else None
    model = HiPaNClassifier(tree).fit(everything[: len(given)], task.labels("train"), X_nodes=described)
    posterior, truth = model.posterior(features.transform(task.texts["validation"])), task.nodes["validation"]
    for rule in ("node", "path"):
        answer = posterior.best(rule)
        exact, first = np.mean(answer == truth), metrics.root_accuracy(tree, truth, answer)
        print(f"| {name} | {rule} | {exact:.4f} | {metrics.wu_palmer(tree, truth, answer).mean():.4f} | {first:.4f} |")


if __name__ == "__main__":
    print("| task | rule | exact | Wu–Palmer | depth 1 |\n|---|---|---:|---:|---:|")
    for chosen in sys.argv[1:] or TASKS:
        compare(chosen)
