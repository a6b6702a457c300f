"""`ValuationBias` in a two-layer transformer over GO annotations, and as an edge feature of a graph step over mammals.

    python -m benchmarks.torch.attention [seeds]

*annotations*: the molecular functions of a human protein are tokens; one is hidden, and the model says which of the 200 most
frequent it was. Attention has no bias, bias[head, ν(query, key)], or the same on a tree whose nodes are renamed at random; tokens
are an `nn.Embedding` or a `PadicEmbedding`. Proteins with the same functions are in one part of the split.

*mammals*: a species' log10 body mass from its twelve nearest neighbours by the middle of its range (PanTHERIA), one attention
step: the weight of a neighbour is a soft-max of a learned function of distance plus bias[ν(species, neighbour)]. Neighbours
are training species only. Controls: no bias, the shuffled tree, and the plain mean of the neighbours.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from typing import Any

import numpy as np
import torch
from benchmarks.common import write_results
from torch import Tensor, nn

from vpunn.datasets import load_go, load_pantheria
from vpunn.torch import PadicEmbedding, ValuationBias
from vpunn.tree import Tree

DIM, HEADS, LENGTH, EPOCHS, ANSWERS = 48, 4, 10, 3, 200
NEIGHBOURS = 12


class Layer(nn.Module):
    """One block of a transformer whose attention takes a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.feed = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attention and the two linear maps, both added to ``x``."""
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.feed(self.after(x))


class Reader(nn.Module):
    """Two layers over a set of nodes; the first token, at the root, is the question."""

    def __init__(self, tree: Tree, biased: bool, padic: bool) -> None:
        super().__init__()
        self.tokens = PadicEmbedding(tree, DIM) if padic else nn.Embedding(tree.n_nodes, DIM)
        nn.init.normal_(self.tokens.weight, std=0.1 if padic else 0.3)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.biases = nn.ModuleList(ValuationBias(tree, HEADS) for _ in range(2)) if biased else None
        self.answer = nn.Linear(DIM, ANSWERS)

    def forward(self, nodes: Tensor, padding: Tensor) -> Tensor:
        """Logits of the answers, (rows, answers)."""
        x = self.tokens(nodes)
        for k, layer in enumerate(self.layers):
            if self.biases is None:
                shape = (len(nodes), HEADS, nodes.shape[1], nodes.shape[1])
                bias = torch.zeros(shape).masked_fill(padding[:, None, None, :], -torch.inf)
            else:
                bias = self.biases[k](nodes, padding=padding)
            x = layer(x, bias)
        return self.answer(x[:, 0])


def annotation_rows(seed: int) -> tuple[Tree, dict[str, tuple[Tensor, Tensor, Tensor]]]:
    """Sets of nodes with the question in front, padding, and the number of the hidden answer; for three parts."""
    go = load_go("molecular_function")
    table = go.annotations.drop_duplicates(["protein", "node"])
    common = table["node"].value_counts().index[:ANSWERS].to_numpy()
    number = {int(node): k for k, node in enumerate(common)}
    sets = sorted({tuple(sorted(nodes)) for nodes in table.groupby("protein")["node"].agg(list) if len(nodes) > 1})
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(sets))
    cuts = int(0.7 * len(order)), int(0.8 * len(order))
    parts = {"train": order[: cuts[0]], "validation": order[cuts[0] : cuts[1]], "test": order[cuts[1] :]}
    out = {}
    for part, chosen in parts.items():
        tokens, hidden = [], []
        for i in chosen:
            for node in sets[i]:
                if node in number:
                    rest = [n for n in sets[i] if n != node]
                    rest = rng.permutation(rest)[: LENGTH - 1].tolist()
                    tokens.append([0, *rest, *[-1] * (LENGTH - 1 - len(rest))])
                    hidden.append(number[node])
        rows = torch.tensor(tokens)
        out[part] = rows.clamp(min=0), rows < 0, torch.tensor(hidden)
    return go.tree, out


def annotations(seed: int, name: str) -> dict[str, float]:
    """Scores of one model; the best epoch is chosen on validation rows."""
    tree, parts = annotation_rows(seed)
    order = np.arange(tree.n_nodes)
    if "shuffled" in name:
        order[1:] = 1 + np.random.default_rng(seed).permutation(tree.n_nodes - 1)
    at = torch.from_numpy(order)
    torch.manual_seed(seed)
    model = Reader(tree, "bias" in name, "PadicEmbedding" in name)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    nodes, padding, hidden = parts["train"]
    best: tuple[float, dict[str, float]] = (np.inf, {})
    for _ in range(EPOCHS):
        model.train()
        for rows in torch.randperm(len(nodes)).split(256):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(at[nodes[rows]], padding[rows]), hidden[rows]).backward()
            optimiser.step()
        scores = {part: _scores(model, at, *parts[part]) for part in ("validation", "test")}
        if scores["validation"]["NLL"] < best[0]:
            best = scores["validation"]["NLL"], scores["test"]
    return best[1]


def _scores(model: nn.Module, at: Tensor, nodes: Tensor, padding: Tensor, hidden: Tensor) -> dict[str, float]:
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(at[n], p) for n, p in zip(nodes.split(1024), padding.split(1024), strict=True)])
    top = logits.topk(5, 1).indices
    return {
        "NLL": float(nn.functional.cross_entropy(logits, hidden)),
        "right": float((top[:, 0] == hidden).float().mean()),
        "right in 5": float((top == hidden[:, None]).any(1).float().mean()),
    }


class GraphStep(nn.Module):
    """Mean of neighbours' values with attention from distance and, if there is a tree, valuation."""

    def __init__(self, tree: Tree | None) -> None:
        super().__init__()
        self.bias = None if tree is None else ValuationBias(tree, 1)
        self.scale = nn.Parameter(torch.zeros(2))
        self.line = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, edges: Tensor, distance: Tensor, value: Tensor) -> Tensor:
        """``edges`` (2, rows × neighbours) of tree nodes, neighbours of a row together; their distances and values."""
        score = self.scale[0] * distance + self.scale[1] * distance.square()
        if self.bias is not None:
            score = score + self.bias.edges(edges)[:, 0].view_as(distance)
        weight = torch.softmax(score, 1)
        return self.line[0] * (weight * value).sum(1) + self.line[1]


def mammals(seed: int) -> dict[str, float]:
    """RMSE of log10 body mass of held-out species."""
    from sklearn.neighbors import BallTree

    frame = load_pantheria()
    mass = next(c for c in frame.columns if "AdultBodyMass_g" in c)
    places = [next(c for c in frame.columns if name in c) for name in ("GR_MidRangeLat", "GR_MidRangeLong")]
    frame = frame[(frame[mass] > 0) & (frame[places] > -900).all(axis=1) & frame[places].notna().all(axis=1)]
    levels = [next(c for c in frame.columns if c.endswith(name)) for name in ("Order", "Family", "Genus", "Species")]
    tree = Tree.from_levels(frame, levels)
    node = tree.locate(frame[levels]).nodes
    y, where = np.log10(frame[mass].to_numpy(float)), np.radians(frame[places].to_numpy(float))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    known, asked = np.sort(order[len(y) // 5 :]), order[: len(y) // 5]
    distance, near = BallTree(where[known], metric="haversine").query(where, k=NEIGHBOURS + 1)
    near, own = known[near], known[near] == np.arange(len(y))[:, None]
    keep = np.argsort(own, axis=1, kind="stable")[:, :NEIGHBOURS]  # a species is no neighbour of itself
    near, distance = np.take_along_axis(near, keep, 1), np.take_along_axis(distance, keep, 1)
    shuffled = rng.permutation(tree.leaves)[np.searchsorted(tree.leaves, node)]
    value, far = (torch.from_numpy(a.astype(np.float32)) for a in (y[near] - y[known].mean(), distance))
    target = torch.from_numpy((y - y[known].mean()).astype(np.float32))
    found = {
        "mean of the neighbours": float(np.sqrt(((y[near[asked]].mean(1) - y[asked]) ** 2).mean())),
        "mean of all": float(np.sqrt(((y[known].mean() - y[asked]) ** 2).mean())),
    }
    for name, at in (("attention", None), ("attention + ValuationBias", node), ("shuffled tree", shuffled)):
        torch.manual_seed(seed)
        ends = node if at is None else at
        edges = torch.from_numpy(np.stack([np.repeat(ends, NEIGHBOURS), ends[near].ravel()]).astype(np.int64))
        edges = edges.view(2, len(y), NEIGHBOURS)
        model = GraphStep(None if at is None else tree)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        rows = torch.from_numpy(known)
        for _ in range(150):
            optimiser.zero_grad()
            (model(edges[:, rows].flatten(1), far[rows], value[rows]) - target[rows]).square().mean().backward()
            optimiser.step()
        with torch.no_grad():
            said = model(edges[:, asked].flatten(1), far[asked], value[asked]).numpy()
        found[name] = float(np.sqrt(((said - target.numpy()[asked]) ** 2).mean()))
    return found


def main(seeds: int = 3) -> None:
    """Run, print and write both tables."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    names = ("plain", "bias", "bias, shuffled tree", "PadicEmbedding + bias", "PadicEmbedding + bias, shuffled tree")
    for name in names:
        runs = [annotations(seed, name) for seed in range(1, seeds + 1)]
        rows.append({"task": "annotations", "model": name, **_mean(runs)})
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    runs = [mammals(seed) for seed in range(1, seeds + 3)]
    for name in runs[0]:
        rows.append({"task": "mammals", "model": name, **_mean([{"RMSE": run[name]} for run in runs])})
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    write_results("torch-attention", rows)


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    found = {}
    for key in runs[0]:
        values = np.array([run[key] for run in runs])
        found |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1)) if len(runs) > 1 else 0.0}
    return found


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
