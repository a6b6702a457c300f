"""Timing, memory and output shared by the benchmarks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vpunn._cost import machine

RESULTS = Path(__file__).parent / "results"


def best_seconds(call: Callable[[], Any], repeats: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Fastest of several runs by a clock: on a shared machine the minimum is the least disturbed one."""
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)


def write_results(name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows with a note of the machine, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    document = {"benchmark": name, "machine": machine(), "rows": rows}
    beside = RESULTS / f".{name}.part"
    beside.write_text(json.dumps(document, indent=1, default=float))
    return beside.replace(RESULTS / f"{name}.json")


class Runs:
    """Runs kept one by one, so that an interrupted benchmark goes on where it stopped: lines of ``results/<name>.jsonl``.

    ``runs(make, **key)`` is what ``make()`` gave under this key before, or gives now; delete the file to measure again.
    """

    def __init__(self, name: str) -> None:
        RESULTS.mkdir(exist_ok=True)
        self.path = RESULTS / f"{name}.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known = {json.dumps(key): value for key, value in map(json.loads, lines)}

    def __call__(self, make: Callable[[], Any], **key: Any) -> Any:
        name = json.dumps(key)
        if name not in self.known:
            line = json.dumps([key, make()], default=float)
            with self.path.open("a") as file:
                file.write(line + "\n")
            self.known[name] = json.loads(line)[1]
        return self.known[name]
