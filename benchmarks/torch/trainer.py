"""`HierarchicalHead` inside `transformers.Trainer`: a small encoder and a head on the Gene Ontology, learned together.

    python -m benchmarks.torch.trainer [steps]

A two-layer BERT with random weights reads names, definitions and synonyms of cellular components word by word; the head
places them on the tree. Nothing is needed beyond a module whose ``forward`` returns a loss. The control is the same training
on a tree whose nodes are renamed at random. Needs transformers and accelerate.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import re
import sys
import tempfile
from typing import Any

import numpy as np
import torch
from benchmarks.common import write_results
from torch import Tensor, nn
from transformers import BertConfig, BertModel, Trainer, TrainingArguments

from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.torch import HierarchicalHead
from vpunn.tree import Tree

LENGTH, WIDTH = 24, 96


class PlacedText(nn.Module):
    """An encoder of words and a head; the loss is the head's."""

    def __init__(self, tree: Tree, n_words: int) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=n_words + 1,
            hidden_size=WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=2 * WIDTH,
            max_position_embeddings=LENGTH,
            pad_token_id=0,
        )
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.head = HierarchicalHead(tree, WIDTH, inner_answers=True)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        """Trainer wants a dictionary: the loss if there are labels, and what predictions are made of."""
        mask = (input_ids != 0).long()
        states = self.encoder(input_ids=input_ids, attention_mask=mask).last_hidden_state
        x = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        found = {"vectors": x}
        return found if labels is None else {"loss": self.head.loss(x, labels), **found}


def words_of(text: str) -> list[str]:
    """Words in lower case."""
    return re.findall(r"[a-z]+|\d", text.lower())


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Texts as padded rows of word numbers (unknown words are left out), with their nodes."""

    def __init__(self, texts: Any, nodes: Any, vocabulary: dict[str, int]) -> None:
        known = [[vocabulary[w] for w in words_of(str(t)) if w in vocabulary][:LENGTH] for t in texts]
        self.ids = torch.tensor([row + [0] * (LENGTH - len(row)) for row in known])
        self.nodes = torch.from_numpy(np.asarray(nodes, np.int64))

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {"input_ids": self.ids[i], "labels": self.nodes[i]}


def rows_of(task: PlacementTask, order: np.ndarray) -> dict[str, Rows]:
    """Training rows (texts of the nodes among them) and test rows; node i is called ``order[i]``."""
    texts, nodes = list(task.texts["train"]), list(task.nodes["train"])
    for description in task.descriptions:
        has = [i for i, text in enumerate(description) if text]
        texts, nodes = texts + [description[i] for i in has], nodes + has
    vocabulary: dict[str, int] = {}
    for text in texts:
        for word in words_of(str(text)):
            vocabulary.setdefault(word, len(vocabulary) + 1)
    rows = {
        "train": Rows(texts, order[np.asarray(nodes)], vocabulary),
        "test": Rows(task.texts["test"], order[task.nodes["test"]], vocabulary),
    }
    rows["train"].n_words = len(vocabulary)  # type: ignore[attr-defined]
    return rows


def train(tree: Tree, rows: dict[str, Rows], order: np.ndarray, steps: int, seed: int) -> dict[str, float]:
    """Loss, and accuracies on the real tree, of test rows after ``steps`` steps of `Trainer`."""
    torch.manual_seed(seed)
    model = PlacedText(tree, rows["train"].n_words)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        plan = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=64,
            per_device_eval_batch_size=256,
            learning_rate=2e-3,
            seed=seed,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
        )
        trainer = Trainer(model=model, args=plan, train_dataset=rows["train"])
        trainer.train()
        vectors = trainer.predict(rows["test"]).predictions  # type: ignore[arg-type]
    x, truth = torch.from_numpy(np.asarray(vectors)), rows["test"].nodes
    back = np.argsort(order)
    best, real = back[model.head.posterior(x).best()], back[truth.numpy()]
    first = tree.ancestor_at(best, np.minimum(tree.depth[best], 1))
    with torch.no_grad():
        loss = float(model.head.loss(x, truth))
    return {
        "loss": loss,
        "exact": float((best == real).mean()),
        "depth 1": float((first == tree.ancestor_at(real, np.minimum(tree.depth[real], 1))).mean()),
    }


def main(steps: int = 100, seeds: int = 3) -> list[dict[str, Any]]:
    """Run, print and write the table."""
    torch.set_num_threads(1)
    runs: dict[str, list[dict[str, float]]] = {}
    for seed in range(1, seeds + 1):
        task = load_task("go-component", seed)
        for name in ("GO", "shuffled tree"):
            n = task.tree.n_nodes
            order = np.arange(n) if name == "GO" else np.random.default_rng(seed).permutation(n)
            runs.setdefault(name, []).append(train(task.tree, rows_of(task, order), order, steps, seed))
    rows = []
    for name, found in runs.items():
        row: dict[str, Any] = {"tree": name, "steps": steps}
        for key in found[0]:
            values = np.array([run[key] for run in found])
            row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1)) if seeds > 1 else 0.0}
        rows.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-trainer", rows)
    return rows


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
