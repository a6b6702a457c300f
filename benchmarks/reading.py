"""How much of fitting the estimators of `vpunn.regress` is the fit itself, which threads could share; the rest reads labels.

python -m benchmarks.reading
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import vpunn
from vpunn.regress import encoders, estimators

ROWS, LEAVES = 200_000, 20_000


def timed(work: Callable[..., Any], spent: list[float]) -> Callable[..., Any]:
    """``work``, whose CPU seconds are added to ``spent``."""

    def measured(*given: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return work(*given, **named)
        finally:
            spent.append(time.process_time() - start)

    return measured


def main() -> None:
    """One line per case: CPU seconds in all, those of the fits, and their share."""
    random = np.random.default_rng(0)
    leaf = random.integers(0, LEAVES, ROWS)
    X = pd.DataFrame({name: [f"{name}{v // m}" for v in leaf] for name, m in (("a", 1000), ("b", 50), ("c", 1))})
    y = random.normal(size=ROWS) + leaf // 1000
    kind = np.where(y > 8, "high", np.where(y > 3, "middle", "low"))
    spent: list[float] = []
    for room in (estimators, encoders):
        for name in ("fit_shrinkage", "fit_class_shrinkage"):
            setattr(room, name, timed(getattr(room, name), spent))
    cases: dict[str, Callable[[], Any]] = {
        "VPuNNRegressor.fit": lambda: vpunn.VPuNNRegressor().fit(X, y),
        "VPuNNClassifier.fit": lambda: vpunn.VPuNNClassifier().fit(X, kind),
        "PadicTargetEncoder.fit_transform": lambda: vpunn.PadicTargetEncoder(random_state=0).fit_transform(X, y),
        "the same, three classes": lambda: vpunn.PadicTargetEncoder(random_state=0).fit_transform(X, kind),
    }
    for name, run in cases.items():
        run()  # compile outside the clock
        spent.clear()
        start = time.process_time()
        run()
        whole = time.process_time() - start
        print(f"{name:34} {whole:5.2f} s of CPU, {sum(spent):5.2f} s of it fits ({sum(spent) / whole:.0%})")


if __name__ == "__main__":
    main()
