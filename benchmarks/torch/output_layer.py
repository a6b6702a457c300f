"""`PathHead` as the output layer of a small network beside a flat soft-max, `HierarchicalHead` and a shuffled tree.

    python -m benchmarks.torch.output_layer [--task isco naics go] [--share 1 4] [--seeds 5]

Text → TF-IDF → 256 dimensions (SVD of the training rows) → a hidden layer of 128 with dropout 0.3 → the output layer; AdamW,
batches of 256. *go*: a synonym of a molecular function, answer its term among 11,113, inner ones too (*go-component*: of a
cellular component, 4,206); names and definitions are training rows. *naics*, *isco*: an entry or a job title, answer its code.
``--share 4`` trains on every fourth row. Training stops when the validation rows have had neither more exact answers nor a
higher likelihood for three passes, and the pass of the most exact answers counts. Weight decays are chosen by the likelihood of
the validation rows of split 0 with as many rows, from 3 up or down by factors of about three while it gains: first the flat
soft-max its own, then `PathHead` the shared one beside it (for *go* those of *go-component*). The other splits are
reported, and their test rows are read once. The control is `PathHead` on the same tree with its leaves, and its inner nodes,
dealt at random. Differences are those of the same splits, ± their standard error. Fits are kept one by one: an interrupted
command goes on where it stopped.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.common import Runs, write_results
from torch import nn

from vpunn.datasets.tasks import load_task
from vpunn.torch import HierarchicalHead, PathHead
from vpunn.tree import Tree

BATCH, FEATURES, HIDDEN, RATE, PATIENCE, EPOCHS = 256, 256, 128, 2e-3, 3, 40
FLAT, BALLS, PATH, SHUFFLED = "flat soft-max", "HierarchicalHead", "PathHead", "PathHead, shuffled tree"
#: Whose validation rows choose the decays of a task: a fit on the molecular functions costs ten times one on the components.
CHOSEN_ON = {"isco": "isco", "naics": "naics", "go-component": "go-component", "go": "go-component"}
#: Decays to choose from; the search begins in the middle.
LADDER = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SCORES = ("exact", "depth 1", "NLL")


class Rows(NamedTuple):
    """One split of a task: vectors and nodes of every part."""

    tree: Tree
    x: dict[str, torch.Tensor]
    node: dict[str, np.ndarray]
    inner: bool  # whether inner nodes are answers


def load(name: str, seed: int, share: int) -> Rows:
    """Read a task; the vectors are made from the training rows alone."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    task = load_task(name, seed)
    text = {part: [str(t) for t in rows] for part, rows in task.texts.items()}
    node = {part: np.asarray(rows, np.int64) for part, rows in task.nodes.items()}
    for about in task.descriptions:
        has = np.flatnonzero([bool(t) for t in about])
        text["train"] += [str(about[i]) for i in has]
        node["train"] = np.concatenate([node["train"], has])
    kept = np.random.default_rng(seed).permutation(len(text["train"]))[: len(text["train"]) // share]
    text["train"], node["train"] = [text["train"][i] for i in kept], node["train"][kept]
    words = TfidfVectorizer(sublinear_tf=True).fit(text["train"])
    axes = TruncatedSVD(FEATURES, random_state=0).fit(words.transform(text["train"]))
    x = {part: normalize(axes.transform(words.transform(rows))) * np.sqrt(FEATURES) for part, rows in text.items()}
    vectors = {part: torch.from_numpy(rows.astype(np.float32)) for part, rows in x.items()}
    return Rows(task.tree, vectors, node, any((~task.tree.is_leaf[rows]).any() for rows in node.values()))


def later(name: str, seed: int, share: int) -> Callable[[], Rows]:
    """`load` when it is needed, once."""
    return functools.lru_cache(1)(lambda: load(name, seed, share))


class Network(nn.Module):
    """A hidden layer and one of the output layers; `at` is where the nodes of the task stand in the head's tree."""

    def __init__(self, name: str, rows: Rows, decay: tuple[float, float], seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        tree, rng = rows.tree, np.random.default_rng(seed)
        self.body = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Dropout(0.3))
        self.head: Any = (HierarchicalHead if name == BALLS else PathHead)(tree, HIDDEN, inner_answers=rows.inner)
        at = np.arange(tree.n_nodes)
        if name == SHUFFLED:
            for same in (tree.is_leaf, ~tree.is_leaf):
                at[same] = rng.permutation(at[same])
        self.at, self.back = torch.from_numpy(at), np.argsort(at)
        own, shared = decay
        if name == BALLS:
            groups = [{"params": self.head.parameters(), "weight_decay": shared}]
        else:
            groups = self.head.groups(own=own, shared=shared)
            if name == FLAT:  # the same code with nothing shared
                self.head.shared.requires_grad_(False), self.head.shared_bias.requires_grad_(False)
        self.optimiser = torch.optim.AdamW([{"params": self.body.parameters(), "weight_decay": 0.01}, *groups], lr=RATE)

    def epoch(self, x: torch.Tensor, node: torch.Tensor) -> None:
        """One pass over the training rows."""
        self.train()
        for batch in torch.randperm(len(x)).split(BATCH):
            self.optimiser.zero_grad()
            self.head.loss(self.body(x[batch]), self.at[node[batch]]).backward()
            self.optimiser.step()

    @torch.no_grad()
    def judge(self, tree: Tree, x: torch.Tensor, node: np.ndarray) -> dict[str, float]:
        """Scores on rows, in the task's own tree."""
        self.eval()
        answers, best, cost = self.head.answers.numpy(), [], 0.0
        for rows in torch.arange(len(x)).split(512):
            log_p = self.head.log_prob(self.body(x[rows]), "answers")
            truth = np.searchsorted(answers, self.at[node[rows]].numpy())
            cost -= float(log_p[torch.arange(len(rows)), torch.from_numpy(truth)].sum())
            best.append(self.back[answers[log_p.argmax(1).numpy()]])
        found = np.concatenate(best)
        first = [tree.ancestor_at(ids, np.minimum(tree.depth[ids], 1)) for ids in (found, node)]
        return {
            "exact": float((found == node).mean()),
            "depth 1": float((first[0] == first[1]).mean()),
            "NLL": cost / len(x),
        }


def fit(name: str, rows: Rows, decay: tuple[float, float], seed: int) -> tuple[Network, dict[str, float]]:
    """The network of the best pass and its scores on the validation rows."""
    network, node = Network(name, rows, decay, seed), torch.from_numpy(rows.node["train"])
    best, kept = {"exact": -1.0, "NLL": np.inf}, network.state_dict()
    lowest, waited = np.inf, 0
    for _ in range(EPOCHS):
        network.epoch(rows.x["train"], node)
        scores = network.judge(rows.tree, rows.x["validation"], rows.node["validation"])
        waited += 1
        if scores["NLL"] < lowest:
            lowest, waited = scores["NLL"], 0
        if scores["exact"] > best["exact"]:
            best, kept, waited = scores, copy.deepcopy(network.state_dict()), 0
        if waited == PATIENCE:
            break
    network.load_state_dict(kept)
    return network, best


def climb(cost: Callable[[float], float]) -> float:
    """The rung of the ladder from which neither neighbour costs less, from 3 on."""
    at = LADDER.index(3.0)
    for step in (1, -1):
        while 0 <= at + step < len(LADDER) and cost(LADDER[at + step]) < cost(LADDER[at]):
            at += step
    return LADDER[at]


def chosen_decays(task: str, share: int) -> dict[str, tuple[float, float]]:
    """The decays of every model, by the likelihood of validation rows; the control takes those of `PathHead`."""
    rows, runs = later(task, 0, share), Runs("torch-output-layer-decays")

    def nll(name: str, own: float, shared: float) -> float:
        key = {"task": task, "share": share, "model": name, "decay": (own, shared)}
        return float(runs(lambda: fit(name, rows(), (own, shared), 0)[1]["NLL"], **key))

    own = climb(lambda decay: nll(FLAT, decay, 0.0))
    decay = {
        FLAT: (own, 0.0),
        BALLS: (0.0, climb(lambda decay: nll(BALLS, 0.0, decay))),
        PATH: (own, climb(lambda decay: nll(PATH, own, decay))),
    }
    print(task, share, decay, flush=True)
    return decay | {SHUFFLED: decay[PATH]}


def run(task: str, share: int, seeds: int, decay: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """The table of one task."""
    table = []
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in decay}
    kept = Runs("torch-output-layer")

    def judged(name: str, rows: Rows, seed: int) -> dict[str, float]:
        network, _ = fit(name, rows, decay[name], seed)
        return network.judge(rows.tree, rows.x["test"], rows.node["test"])

    for seed in range(1, seeds + 1):
        rows = later(task, seed, share)
        for name, found in runs.items():
            key = {"task": task, "share": share, "seed": seed, "model": name, "decay": decay[name]}
            found.append(kept(lambda: judged(name, rows(), seed), **key))  # noqa: B023
            print(task, share, seed, name, {k: round(v, 4) for k, v in found[-1].items()}, flush=True)
    for name, found in runs.items():
        row: dict[str, Any] = {"task": task, "rows": f"1/{share}", "model": name, "decay": decay[name]}
        for key in SCORES:
            values = np.array([one[key] for one in found])
            more = values - [one[key] for one in runs[FLAT]]
            error = [float(v.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0 for v in (values, more)]
            row |= {key: float(values.mean()), f"{key} se": error[0]}
            row |= {f"{key} − flat": float(more.mean()), f"{key} − flat se": error[1]}
        table.append(row)
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    return table


def main() -> None:
    """Run, print and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=list(CHOSEN_ON))
    parser.add_argument("--share", nargs="*", type=int, default=[1, 4])
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for task in chosen.task:
        for share in chosen.share:
            decays = chosen_decays(CHOSEN_ON[task], share)
            write_results(f"torch-output-layer-{task}-{share}", run(task, share, chosen.seeds, decays))


if __name__ == "__main__":
    main()
