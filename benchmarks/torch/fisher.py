"""`FisherBlocks` beside Adam and L-BFGS on held-out text: the same `HierarchicalHead`, the same CPU seconds.

    python -m benchmarks.torch.fisher [--task naics go] [--seconds 8] [--seeds 5]

One linear head on frozen vectors (TF-IDF cut to 64 dimensions by an SVD of the training rows), batches of 512; L-BFGS takes all
rows. Every optimiser gets the same CPU seconds, and the validation likelihood is read, off the clock, at each quarter of the
budget and more often early; the parameters of the best reading are judged on the test rows. Rates (and the damping of Fisher)
are chosen on the validation rows of split 0 by the best reading. *go* is the molecular functions; names and definitions are
training rows too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import copy
import functools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from benchmarks.common import Runs, write_results
from benchmarks.torch import output_layer

from vpunn.torch import FisherBlocks, HierarchicalHead

BATCH, FEATURES = 512, 64
#: Optimiser → settings to choose from: rate, and damping of Fisher.
CHOICES: dict[str, list[tuple[float, float]]] = {
    "Adam": [(0.001, 0.0), (0.003, 0.0), (0.01, 0.0), (0.03, 0.0)],
    "L-BFGS": [(1.0, 0.0)],
    "FisherBlocks": [(1.0, 1e-3), (0.3, 1e-3), (0.1, 1e-3)],
}
READINGS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)


def steps(
    name: str, setting: tuple[float, float], head: HierarchicalHead, x: torch.Tensor, node: torch.Tensor
) -> Iterator[None]:
    """Endless training; one step each time it is asked."""
    rate, damping = setting
    if name == "L-BFGS":
        lbfgs = torch.optim.LBFGS(head.parameters(), lr=rate, max_iter=1, history_size=10)

        def closure() -> torch.Tensor:
            lbfgs.zero_grad()
            loss = head.loss(x, node)
            loss.backward()
            return loss

        while True:
            lbfgs.step(closure)  # type: ignore[arg-type]
            yield
    optimiser: Any = (
        FisherBlocks(head, rate, damping=damping)
        if name == "FisherBlocks"
        else torch.optim.Adam(head.parameters(), lr=rate)
    )
    while True:
        for batch in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            head.loss(x[batch], node[batch]).backward()
            optimiser.step(*((x[batch], node[batch]) if name == "FisherBlocks" else ()))
            yield


def train(name: str, setting: tuple[float, float], rows: Any, seconds: float, seed: int) -> dict[str, float]:
    """Validation likelihood at each reading, and the test scores of the best one."""
    torch.manual_seed(seed)
    head = HierarchicalHead(rows.tree, FEATURES, inner_answers=rows.inner)
    node = {part: torch.from_numpy(ids) for part, ids in rows.node.items()}

    def nll(part: str) -> float:
        with torch.no_grad():
            return float(
                torch.cat(
                    [
                        head.loss(x, t, reduction="none")
                        for x, t in zip(rows.x[part].split(512), node[part].split(512), strict=True)
                    ]
                ).mean()
            )

    training = steps(name, setting, head, rows.x["train"], node["train"])
    used, best, kept, found, many = 0.0, np.inf, head.state_dict(), {}, 0
    for reading in READINGS:
        while used < reading * seconds:
            begin = time.process_time()
            next(training)
            used, many = used + time.process_time() - begin, many + 1
        value = nll("validation")
        found[f"NLL at {reading:g}"] = value
        if value < best:
            best, kept = value, copy.deepcopy(head.state_dict())
    head.load_state_dict(kept)
    answer = head.posterior(rows.x["test"]).best()
    return found | {
        "best": best,
        "test NLL": nll("test"),
        "test exact": float((answer == rows.node["test"]).mean()),
        "steps": many,
    }


@functools.lru_cache(1)
def split(task: str, seed: int) -> output_layer.Rows:
    """One split of a task, all rows."""
    return output_layer.load(task, seed, 1)


def run(task: str, seconds: float, seeds: int) -> list[dict[str, Any]]:
    """The table of one task."""
    kept, chosen = Runs("torch-fisher"), {}

    def trained(name: str, setting: tuple[float, float], seed: int) -> Any:
        def make() -> dict[str, float]:
            rows = split(task, seed)
            train("FisherBlocks", (1.0, 1e-3), rows, 0.1, 0)  # compiles the loops
            return train(name, setting, rows, seconds, seed)

        return kept(make, task=task, optimiser=name, setting=setting, seconds=seconds, seed=seed)

    for name, choices in CHOICES.items():
        value = {choice: trained(name, choice, 0)["best"] if len(choices) > 1 else 0.0 for choice in choices}
        chosen[name] = min(choices, key=value.__getitem__)
        print(task, name, value, flush=True)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CHOICES}
    for seed in range(1, seeds + 1):
        for name, found in runs.items():
            found.append(trained(name, chosen[name], seed))
            print(task, seed, name, {k: round(v, 3) for k, v in found[-1].items()}, flush=True)
    table = []
    for name, found in runs.items():
        row: dict[str, Any] = {"task": task, "optimiser": name, "setting": chosen[name], "seconds": seconds}
        for key in found[0]:
            values = np.array([one[key] for one in found])
            row |= {
                key: float(values.mean()),
                f"{key} se": float(values.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0,
            }
        table.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return table


def main() -> None:
    """Run, print and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=["naics", "go"])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    output_layer.FEATURES = FEATURES
    for task in chosen.task:
        write_results(f"torch-fisher-{task}", run(task, chosen.seconds, chosen.seeds))


if __name__ == "__main__":
    main()
