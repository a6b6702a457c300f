"""Semantic ids beside a small RQ-VAE: collisions, invertibility, and neighbours found by prefix, on text vectors of GO terms.

    python -m benchmarks.torch.ids

Vectors: TF-IDF of the names and definitions of GO's cellular components, cut to 32 dimensions. Both get three digits below 16. The
RQ-VAE is a linear autoencoder with three residual codebooks of 15 codes (straight-through, commitment ¼, codes
that die are moved to random rows), 600 steps of Adam; its collisions get no extra digit, since the model gives none. 3 seeds.
*recall*: share of a vector's 10 nearest neighbours that share its first two digits, beside how many vectors share them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from benchmarks.common import write_results
from benchmarks.torch.placement import vectors
from sklearn.neighbors import NearestNeighbors
from torch import nn

from vpunn.datasets.tasks import load_task
from vpunn.tabular import semantic_ids

P, LEVELS, STEPS = 16, 3, 600


class ResidualQuantiser(nn.Module):
    """A linear autoencoder whose middle is a sum of one code per level."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.codes = nn.Parameter(torch.randn(LEVELS, P - 1, dim))

    def digits(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Nearest code of every level to what the levels above left over, and the sum of these codes."""
        rest, total, found = z, torch.zeros_like(z), []
        for table in self.codes:
            nearest = torch.cdist(rest.detach(), table.detach()).argmin(1)
            found.append(nearest)
            total, rest = total + table[nearest], rest - table[nearest].detach()
        return torch.stack(found, 1), total


def residual_ids(x: torch.Tensor, seed: int) -> np.ndarray:
    """Ids of a trained RQ-VAE."""
    torch.manual_seed(seed)
    model = ResidualQuantiser(x.shape[1])
    with torch.no_grad():
        for k in range(LEVELS):
            model.codes[k] = x[torch.randperm(len(x))[: P - 1]] / 2**k
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        rows = x[torch.randint(len(x), (512,))]
        z = model.encode(rows)
        digits, total = model.digits(z)
        through = z + (total - z).detach()
        loss = (model.decode(through) - rows).square().mean()
        loss = loss + (total - z.detach()).square().mean() + 0.25 * (z - total.detach()).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 100 == 50:
            with torch.no_grad():
                for k in range(LEVELS):
                    dead = torch.bincount(digits[:, k], minlength=P - 1) == 0
                    model.codes[k, dead] = z[torch.randint(len(z), (int(dead.sum()),))] / 2**k
    with torch.no_grad():
        return model.digits(model.encode(x))[0].numpy() + 1


def judge(name: str, digits: np.ndarray, near: np.ndarray, invertible: float) -> dict[str, float | str]:
    """Collisions and recall by the first two digits."""
    prefix = digits[:, 0] * 1000 + digits[:, 1]
    same = (prefix[near] == prefix[:, None]).mean()
    _, place, count = np.unique(prefix, return_inverse=True, return_counts=True)
    _, times = np.unique(digits, axis=0, return_counts=True)
    return {
        "ids": name,
        "vectors without an id of their own": float(times[times > 1].sum() / len(digits)),
        "invertible": invertible,
        "recall of 10 neighbours": float(same),
        "candidates": float(count[place].mean() - 1),
    }


def main() -> None:
    """Run, print and write the table."""
    torch.set_num_threads(1)
    task = load_task("go-component", 0)
    texts = [f"{name} {definition}" for name, definition in zip(*task.descriptions, strict=True)]
    x = vectors({"train": texts}, "svd")["train"][:, :32].contiguous()
    near = NearestNeighbors(n_neighbors=11).fit(x.numpy()).kneighbors(return_distance=False)[:, :10]
    rows = []
    for seed in range(1, 4):
        ours = semantic_ids(x.numpy(), p=P, K=LEVELS, random_state=seed)
        rows.append(
            judge("semantic_ids", ours.digits, near, float((ours.index(ours.digits) == np.arange(len(x))).mean()))
        )
        digits = residual_ids(x, seed)
        _, first = np.unique(digits, axis=0, return_index=True)
        rows.append(judge("RQ-VAE", digits, near, len(first) / len(x)))
    table = []
    for name in ("semantic_ids", "RQ-VAE"):
        mine = [row for row in rows if row["ids"] == name]
        row = {"ids": name, "vectors": len(x)}
        for key in mine[0]:
            if key != "ids":
                values = np.array([float(r[key]) for r in mine])
                row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1))}
        table.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-ids", table)


if __name__ == "__main__":
    main()
