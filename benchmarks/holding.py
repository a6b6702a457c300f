"""What a model loses that is saved without its rows: ``python -m benchmarks.holding isco,headlines`` (test rows, defaults)."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import write_results
from vpunn import HiPaNClassifier
from vpunn.datasets.tasks import load_task
from vpunn.text import text_features


def main(names: str = "isco,headlines") -> None:
    """Exact answers on test rows, what the model itself expected, size of the folder, CPU seconds."""
    rows = []
    for name in names.split(","):
        task = load_task(name, 0)
        features = text_features(characters=None, min_rows=1, mixed="cut")
        X, asked = features.fit_transform(task.texts["train"]), features.transform(task.texts["test"])
        start = time.process_time()
        model = HiPaNClassifier(task.tree).fit(X, task.labels("train"))
        fitted = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            for keep in ("rows", "sums"):
                path = model.save(Path(folder) / keep, keep=keep)
                saved = time.process_time()
                opened = HiPaNClassifier.load(path)
                row = {
                    "task": name,
                    "keep": keep,
                    "exact": opened.score(asked, task.labels("test")),
                    "expected": opened.held_out_exact_,
                    "MB": sum(f.stat().st_size for f in path.iterdir()) / 1e6,
                    "CPU s": fitted - start if keep == "rows" else saved - fitted,
                }
                rows.append(row)
                print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    write_results("holding", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
