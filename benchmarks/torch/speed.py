"""One training step on large trees: `HierarchicalHead` beside a flat soft-max and hierarchicalsoftmax 1.4.4, one thread.

    VPUNN_PEERS="hierarchicalsoftmax=/path/to/python" python -m benchmarks.torch.speed [wordnet] [ncbi]

Forward, backward and the same optimiser on both sides (batch 256, 384 features); median CPU seconds of 20 warm steps (of the
peer as many as a minute holds, at least one), all in one run. The peer needs an environment with hierarchicalsoftmax==1.4.4;
without it its row is left out and said to be.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.common import peak_rss_mb, write_results

from vpunn.datasets import load_ncbi, load_wordnet
from vpunn.torch import HierarchicalHead

BATCH, FEATURES, STEPS, WARM = 256, 384, 20, 3


def median_step(step: Callable[[int], Any], steps: int = STEPS) -> float:
    """Median CPU seconds of warm steps."""
    seconds = []
    for i in range(WARM + steps):
        start = time.process_time()
        step(i)
        seconds.append(time.process_time() - start)
    return float(np.median(seconds[WARM:]))


def stepper(loss: Callable[[int], torch.Tensor], optimiser: torch.optim.Optimizer) -> Callable[[int], float]:
    """One whole training step."""

    def step(i: int) -> float:
        optimiser.zero_grad()
        value = loss(i)
        value.backward()
        optimiser.step()
        return value.item()

    return step


def state_mb(parameters: Any, optimiser: torch.optim.Optimizer) -> float:
    """Memory of weights and of what the optimiser keeps."""
    tensors = [*parameters, *(t for s in optimiser.state.values() for t in s.values() if isinstance(t, torch.Tensor))]
    return sum(t.numel() * t.element_size() for t in tensors) / 2**20


def wordnet() -> list[dict[str, Any]]:
    """WordNet 3.0 nouns: 74,374 nodes, 57,916 leaves."""
    tree = load_wordnet("3.0").tree
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(BATCH, FEATURES)).astype(np.float32))
    column = rng.integers(0, tree.n_leaves, (WARM + STEPS, BATCH))
    node = torch.from_numpy(tree.leaves[column].astype(np.int64))
    rows: list[dict[str, Any]] = []
    target = torch.from_numpy(column)
    for name in ("SGD", "Adagrad"):
        head = HierarchicalHead(tree, FEATURES, sparse=True)
        flat = torch.nn.Linear(FEATURES, tree.n_leaves)
        dense = HierarchicalHead(tree, FEATURES)
        models: list[tuple[str, torch.nn.Module, Callable[[int], torch.Tensor]]] = [
            ("HierarchicalHead, sparse gradients", head, lambda i, h=head: h.loss(x, node[i])),
            (
                "nn.Linear + cross_entropy over leaves",
                flat,
                lambda i, f=flat: torch.nn.functional.cross_entropy(f(x), target[i]),
            ),
            ("HierarchicalHead, dense gradients", dense, lambda i, h=dense: h.loss(x, node[i])),
        ]
        for label, module, loss in models:
            optimiser = getattr(torch.optim, name)(module.parameters(), lr=0.01)
            with torch.sparse.check_sparse_tensor_invariants(False):
                seconds = median_step(stepper(loss, optimiser))
            size = state_mb(module.parameters(), optimiser)
            _report(rows, {"model": label, "optimiser": name, "ms a step": 1000 * seconds, "weights + state MB": size})
        peer = _peer(tree, name, column) if name == "SGD" else None  # a step of the peer takes seconds: once is enough
        if peer:
            _report(rows, {"model": "hierarchicalsoftmax 1.4.4", "optimiser": name, **peer})
    return rows


def _report(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    """Add a row, with how many times our own time it took, and print it at once."""
    ours = next((r for r in rows if r["optimiser"] == row["optimiser"]), row)
    rows.append({**row, "times ours": row["ms a step"] / ours["ms a step"]})
    print("  ".join(f"{k}: {v:,.1f}" if isinstance(v, float) else f"{v}" for k, v in rows[-1].items()), flush=True)


def _peer(tree: Any, optimiser: str, column: np.ndarray) -> dict[str, float] | None:
    peers = dict(pair.split("=", 1) for pair in os.environ.get("VPUNN_PEERS", "").split(",") if "=" in pair)
    if "hierarchicalsoftmax" not in peers:
        print("hierarchicalsoftmax is left out: name an environment that has it in VPUNN_PEERS.", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/task.npz", parent=tree.parent, node=tree.leaves[column])
        script = Path(__file__).with_name("peer_hierarchicalsoftmax.py")
        command = [peers["hierarchicalsoftmax"], str(script), f"{folder}/task.npz", optimiser]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def ncbi() -> list[dict[str, Any]]:
    """All of NCBI's taxonomy with ``rank=32``: does it train, and what does a step cost?"""
    tree = load_ncbi(None).tree
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    head = HierarchicalHead(tree, FEATURES, rank=32, sparse=True)
    optimiser = torch.optim.Adagrad(head.parameters(), lr=0.1)
    node = torch.from_numpy(rng.choice(tree.leaves, BATCH).astype(np.int64))
    x = torch.from_numpy(rng.normal(size=(BATCH, FEATURES)).astype(np.float32))
    losses: list[float] = []
    step = stepper(lambda i: head.loss(x, node), optimiser)
    with torch.sparse.check_sparse_tensor_invariants(False):
        seconds = median_step(lambda i: losses.append(step(i)))
    row = {
        "model": f"HierarchicalHead, rank=32, NCBI: {tree.n_nodes:,} nodes, widest ball {tree.max_branching:,}",
        "optimiser": "Adagrad",
        "ms a step": 1000 * seconds,
        "weights + state MB": state_mb(head.parameters(), optimiser),
        "loss first": losses[0],
        "loss last": losses[-1],
        "peak RSS MB": peak_rss_mb(),
    }
    rows: list[dict[str, Any]] = []
    _report(rows, row)
    return rows


def main() -> None:
    """Run the parts named on the command line (all by default), print them and write benchmarks/results."""
    torch.set_num_threads(1)
    parts = {"wordnet": wordnet, "ncbi": ncbi}
    for name in sys.argv[1:] or list(parts):
        rows = parts[name]()
        write_results(f"torch-speed-{name}", rows)


if __name__ == "__main__":
    main()
