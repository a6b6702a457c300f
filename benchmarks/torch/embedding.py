"""`PadicEmbedding` beside `nn.Embedding`: traits of PanTHERIA's species, and clicks on items never seen.

    python -m benchmarks.torch.embedding

*species*: log10 body mass from the species alone (embedding → linear), 20 % of the species held out whole, so that only
the tree can say anything about them. *clicks*: 400 users × 600 items of a random tree, a click drawn from
σ(user · item), item vectors summed over ancestors; one item in five is never seen in training, and the two tables are
given the same user side, optimiser and steps. The control is the same tree with its leaves dealt at random. 5 seeds.
The weight decay of both tables is chosen on validation rows of the first seed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from typing import Any

import numpy as np
import torch
from benchmarks.common import write_results
from torch import nn

from vpunn.datasets import load_pantheria
from vpunn.torch import PadicEmbedding
from vpunn.tree import Tree, sweep_down

SEEDS = 5
STEPS = 150
DECAYS = (0.0, 1e-4, 1e-3, 1e-2)


def shuffled(nodes: np.ndarray, leaves: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same rows at leaves dealt at random."""
    return rng.permutation(leaves)[np.searchsorted(leaves, nodes)]


def table(kind: str, tree: Tree, dim: int) -> nn.Module:
    """An embedding of node ids."""
    return PadicEmbedding(tree, dim) if kind == "padic" else nn.Embedding(tree.n_nodes, dim)


def fit_species(
    kind: str, tree: Tree, node: np.ndarray, y: np.ndarray, used: np.ndarray, decay: float, seed: int
) -> Any:
    """Predictions for all rows."""
    torch.manual_seed(seed)
    model = nn.Sequential(table(kind, tree, 8), nn.Linear(8, 1))
    if kind != "padic":
        nn.init.normal_(model[0].weight, std=0.1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=decay / 0.03)
    index, target = torch.from_numpy(node), torch.from_numpy(y.astype(np.float32))
    centre, rows = float(y[used].mean()), torch.from_numpy(used)
    for _ in range(STEPS):
        optimiser.zero_grad()
        (model(index[rows])[:, 0] + centre - target[rows]).square().mean().backward()
        optimiser.step()
    with torch.no_grad():
        return model(index)[:, 0].numpy() + centre


def species(seed: int, decay: dict[str, float] | None, part: str) -> dict[str, float]:
    """RMSE on held-out species; ``part`` is validation or test."""
    frame = load_pantheria()
    mass = next(c for c in frame.columns if "AdultBodyMass_g" in c)
    frame = frame[frame[mass] > 0]
    levels = [next(c for c in frame.columns if c.endswith(name)) for name in ("Order", "Family", "Genus", "Species")]
    tree = Tree.from_levels(frame, levels)
    paths = [tuple(row) for row in frame[levels].to_numpy().tolist()]
    node, y = tree.locate(paths).nodes, np.log10(frame[mass].to_numpy(float))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    cut = len(y) // 10
    parts = {"test": order[: 2 * cut], "validation": order[2 * cut : 3 * cut]}
    used = order[3 * cut :]
    judged = parts[part]
    found = {"mean of the training rows": float(np.sqrt(((y[judged] - y[used].mean()) ** 2).mean()))}
    for name, kind, at in (
        ("PadicEmbedding", "padic", node),
        ("nn.Embedding", "flat", node),
        ("PadicEmbedding, shuffled tree", "padic", shuffled(node, tree.leaves, rng)),
    ):
        rates = DECAYS if decay is None else (decay[name],)
        errors = {
            d: float(np.sqrt(((fit_species(kind, tree, at, y, used, d, seed) - y)[judged] ** 2).mean())) for d in rates
        }
        found[name] = min(errors, key=errors.__getitem__) if decay is None else errors[decay[name]]
    return found


def clicks(seed: int) -> dict[str, float]:
    """AUC on items never seen in training."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    parent = np.array([-1] + [0] * 6 + [1 + i // 6 for i in range(36)] + [7 + i // 17 for i in range(600)])
    tree = Tree.from_parents(np.minimum(parent, 42))
    own = rng.normal(size=(tree.n_nodes, 6)) * np.array([0, 1, 0.7, 0.4])[tree.depth][:, None]
    item, user = sweep_down(tree, own), rng.normal(size=(400, 6))
    node, who = rng.choice(tree.leaves, 20000).astype(np.int64), rng.integers(0, 400, 20000)
    click = rng.random(20000) < 1 / (1 + np.exp(-(item[node] * user[who]).sum(1)))
    unseen = np.isin(node, rng.permutation(tree.leaves)[: tree.n_leaves // 5])
    found = {"the true values": roc_auc_score(click[unseen], (item[node] * user[who]).sum(1)[unseen])}
    for name, kind, at in (
        ("PadicEmbedding", "padic", node),
        ("nn.Embedding", "flat", node),
        ("PadicEmbedding, shuffled tree", "padic", shuffled(node, tree.leaves, rng)),
    ):
        torch.manual_seed(seed)
        items, users = table(kind, tree, 6), nn.Embedding(400, 6)
        optimiser = torch.optim.Adam([*items.parameters(), *users.parameters()], lr=0.02)
        index, people = torch.from_numpy(at), torch.from_numpy(who)
        target, seen = torch.from_numpy(click.astype(np.float32)), torch.from_numpy(np.flatnonzero(~unseen))
        for _ in range(STEPS):
            batch = seen[torch.randint(len(seen), (2048,))]
            optimiser.zero_grad()
            score = (items(index[batch]) * users(people[batch])).sum(1)
            nn.functional.binary_cross_entropy_with_logits(score, target[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            score = (items(index) * users(people)).sum(1).numpy()
        found[name] = float(roc_auc_score(click[unseen], score[unseen]))
    return found


def main() -> None:
    """Run, print and write both tables."""
    torch.set_num_threads(1)
    chosen = species(0, None, "validation")
    runs = {
        "species, RMSE of log10 mass": [species(seed, chosen, "test") for seed in range(1, SEEDS + 1)],
        "clicks, AUC on unseen items": [clicks(seed) for seed in range(1, SEEDS + 1)],
    }
    rows = []
    for task, found in runs.items():
        for name in found[0]:
            values = np.array([run[name] for run in found])
            row = {"task": task, "model": name, "mean": float(values.mean()), "sd": float(values.std(ddof=1))}
            if task.startswith("species"):
                row["weight decay"] = chosen.get(name) if name != "mean of the training rows" else None
            rows.append(row)
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-embedding", rows)


if __name__ == "__main__":
    main()
