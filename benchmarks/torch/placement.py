"""Frozen sentence vectors to nodes of WordNet and the Gene Ontology: flat soft-max, hierarchical cross-entropy, `HierarchicalHead`.

    python -m benchmarks.torch.placement [--task wordnet|go-component …] [--encoder svd|light|minilm]

Every model is one linear layer on the same frozen vectors, Adagrad, the same rows and passes; answers are all nodes, inner ones
too. *wordnet*: a new synset's words and gloss, answer its parent (16,458 balls). *go-component*: a synonym, answer its term; names
and definitions of the terms are training rows too. Vectors are those of the ``light`` encoder (512 numbers) or of another;
``svd`` is TF-IDF cut to 96 dimensions. The few-shot curve trains on a share of the rows (of GO's synonyms). The control is the
head on the same tree with its nodes renamed at random. Learning rates are chosen on validation rows of split 0 at the middle
share; three other splits are reported.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from typing import Any

import numpy as np
import torch
from benchmarks.common import write_results
from torch import nn

from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.metrics import calibration_error, mistakes
from vpunn.torch import HierarchicalCrossEntropy, HierarchicalHead
from vpunn.tree import Tree

BATCH, DIM = 256, 96
RATES = (0.01, 0.03, 0.1)
#: Task → passes over the rows, and the shares of the rows that are used: one in so many.
TASKS = {"wordnet": (3, (64, 16, 4)), "go-component": (6, (16, 4, 1))}
MODELS = ("flat soft-max", "flat logits + HXE", "HierarchicalHead", "HierarchicalHead, shuffled tree")


def vectors(texts: dict[str, list[str]], encoder: str) -> dict[str, torch.Tensor]:
    """Frozen vectors of every part. A sentence encoder is fitted to nothing; ``svd`` sees training texts only."""
    if encoder != "svd":
        from vpunn.text import sentence_features

        every = sorted({text for rows in texts.values() for text in rows})
        made = sentence_features(encoder).transform(every)  # kept in the user's cache
        made = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9) * np.sqrt(made.shape[1])
        place = {text: i for i, text in enumerate(every)}
        return {
            part: torch.from_numpy(made[[place[t] for t in rows]].astype(np.float32)) for part, rows in texts.items()
        }
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, StandardScaler

    pipe = make_pipeline(
        TfidfVectorizer(sublinear_tf=True), TruncatedSVD(DIM, random_state=0), Normalizer(), StandardScaler()
    ).fit(texts["train"])
    return {part: torch.from_numpy(pipe.transform(rows).astype(np.float32)) for part, rows in texts.items()}


def fit(name: str, tree: Tree, x: torch.Tensor, node: torch.Tensor, rate: float, seed: int, epochs: int) -> Any:
    """A function from vectors to log-probabilities of all nodes."""
    torch.manual_seed(seed)
    shuffle = np.random.default_rng(seed).permutation(tree.n_nodes) if "shuffled" in name else np.arange(tree.n_nodes)
    at = torch.from_numpy(shuffle)
    if name.startswith("flat"):
        module: nn.Module = nn.Linear(x.shape[1], tree.n_nodes)
        nn.init.zeros_(module.weight)
        criterion = HierarchicalCrossEntropy(tree, np.arange(tree.n_nodes), alpha=0.1)
        if name == "flat soft-max":
            criterion = nn.CrossEntropyLoss()  # type: ignore[assignment]

        def loss(rows: torch.Tensor) -> torch.Tensor:
            return criterion(module(x[rows]), node[rows])
    else:
        module = HierarchicalHead(tree, x.shape[1], inner_answers=True, sparse=True)

        def loss(rows: torch.Tensor) -> torch.Tensor:
            return module.loss(x[rows], at[node[rows]])

    optimiser = torch.optim.Adagrad(module.parameters(), lr=rate)
    with torch.sparse.check_sparse_tensor_invariants(False):
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(BATCH):
                optimiser.zero_grad()
                loss(batch).backward()
                optimiser.step()

    def log_prob(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            if isinstance(module, HierarchicalHead):  # all nodes are answers, in the order of their ids
                return torch.cat([module.log_prob(part, "answers")[:, at] for part in rows.split(512)])
            return torch.log_softmax(module(rows), 1)

    return log_prob


def judge(tree: Tree, log_p: torch.Tensor, truth: np.ndarray) -> dict[str, float]:
    """Scores on held-out rows."""
    ranked = log_p.topk(5, 1).indices.numpy()
    found = mistakes(tree, truth, ranked, at=(5,))
    top = tree.ancestor_at(ranked[:, 0], np.minimum(tree.depth[ranked[:, 0]], 1))
    return {
        "exact": found.accuracy,
        "depth 1": float((top == tree.ancestor_at(truth, np.minimum(tree.depth[truth], 1))).mean()),
        "digits a mistake shares": found.depth,
        "NLL": float(-log_p.numpy()[np.arange(len(truth)), truth].mean()),
        "ECE": calibration_error(log_p.max(1).values.exp().numpy(), ranked[:, 0] == truth),
    }


def split(task: PlacementTask, encoder: str) -> tuple[dict[str, torch.Tensor], dict[str, np.ndarray]]:
    """Vectors and nodes of the parts of one split, and of what is known of the nodes themselves (``about``)."""
    texts = {part: [str(text) for text in rows] for part, rows in task.texts.items()}
    nodes = {part: np.asarray(rows, np.int64) for part, rows in task.nodes.items()}
    about: list[tuple[int, str]] = []
    for description in task.descriptions:
        about += [(i, str(text)) for i, text in enumerate(description) if text]
    if about:
        texts["about"], nodes["about"] = [text for _, text in about], np.array([i for i, _ in about])
    for part in ("validation", "test"):  # as many rows tell the models apart
        texts[part], nodes[part] = texts[part][:1000], nodes[part][:1000]
    return vectors(texts, encoder), nodes


def training(x: dict[str, torch.Tensor], node: dict[str, np.ndarray], share: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Every ``share``-th training row, and all that is known of the nodes."""
    parts = [(x["train"][::share], node["train"][::share])] + ([(x["about"], node["about"])] if "about" in x else [])
    return torch.cat([rows for rows, _ in parts]), torch.from_numpy(np.concatenate([nodes for _, nodes in parts]))


def run(name: str, encoder: str, seeds: int) -> list[dict[str, Any]]:
    """The table of one task."""
    epochs, shares = TASKS[name]
    task = load_task(name, 0)
    tree = task.tree
    x, node = split(task, encoder)
    rates = {}
    for model in MODELS:
        scores = {}
        for rate in RATES:
            log_prob = fit(model, tree, *training(x, node, shares[1]), rate, 0, epochs)
            scores[rate] = judge(tree, log_prob(x["validation"]), node["validation"])["exact"]
        rates[model] = max(RATES, key=scores.__getitem__)
    runs: dict[tuple[int, str], list[dict[str, float]]] = {}
    for seed in range(1, seeds + 1):
        x, node = split(load_task(name, seed), encoder)
        for share in shares:
            for model in MODELS:
                log_prob = fit(model, tree, *training(x, node, share), rates[model], seed, epochs)
                runs.setdefault((share, model), []).append(judge(tree, log_prob(x["test"]), node["test"]))
    rows = []
    for (share, model), found in sorted(runs.items(), key=lambda item: (-item[0][0], MODELS.index(item[0][1]))):
        row: dict[str, Any] = {"task": name, "share": f"1/{share}", "model": model, "rate": rates[model]}
        for key in found[0]:
            values = np.array([one[key] for one in found])
            row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1)) if seeds > 1 else 0.0}
        rows.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return rows


def main() -> None:
    """Run, print and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--encoder", default="light", choices=("svd", "light", "minilm"))
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for name in chosen.task:
        write_results(f"torch-placement-{name}", run(name, chosen.encoder, chosen.seeds))


if __name__ == "__main__":
    main()
