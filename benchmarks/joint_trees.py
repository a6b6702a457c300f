"""`joint_tree` on WordNet's mammals: held-out synsets by heads on the true, the learned and a random tree; planted trees; POT.

    python -m benchmarks.joint_trees [mammals] [planted] [transport] [--seeds 5]

*mammals*: classes are the mammals of WordNet 3.0 with at least four leaf synsets below them directly, rows are those leaves by the
64 strongest dimensions (SVD) of the words of their glosses; a row is placed at its class. 70 % of the rows of a class are training
rows, the others test rows. The true tree is WordNet's above the classes (a class that is above another one becomes a leaf of its
own ball), the random tree the same with its classes dealt at random, the learned ones are `joint_tree` from the random tree and
from a tree of Ward linkage of the class means; *flat* is a star. Heads are fitted alike. Depth 1 is judged in the true tree.
*planted*: rows of a known tree; classes are its leaves, the start is the tree with a share of them dealt anew; triplets are judged.
*transport*: Sinkhorn with capacities beside POT's `ot.sinkhorn` and the exact `ot.emd`, on random costs.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.common import write_results
from vpunn.tabular import joint_tree, refine_tree, triplet_accuracy
from vpunn.tabular.joint import transport
from vpunn.tabular.refine import planted_rows
from vpunn.tree import Tree

LEAVES, DIM = 4, 64


def mammals() -> tuple[Tree, np.ndarray, np.ndarray]:
    """The true tree of classes, vectors of the rows, and their classes."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    from vpunn.datasets import load_wordnet

    whole = load_wordnet("3.0").tree
    top = int(whole.index("mammal.n.01")) if "mammal.n.01" in set(whole.labels.tolist()) else _mammal(whole)
    inside = np.arange(top, top + whole.size[top])
    rows = inside[whole.is_leaf[inside]]
    many = np.bincount(whole.parent[rows], minlength=whole.n_nodes)
    rows = rows[many[whole.parent[rows]] >= LEAVES]
    classes = np.unique(whole.parent[rows])
    paths = []
    for node in classes.tolist():
        chain = whole.ancestors(node)
        path = [f"above {i}" for i in chain[chain >= top].tolist()]
        paths.append((*path, f"class {node}"))
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english").fit_transform(
        whole.columns["gloss"][rows].tolist()
    )
    x = normalize(TruncatedSVD(DIM, random_state=0).fit_transform(words))
    return (
        _without_chains(Tree.from_paths([p[1:] for p in paths], root="mammal")),
        x,
        np.array([f"class {i}" for i in whole.parent[rows]]),
    )


def _mammal(whole: Tree) -> int:
    lemmas = [str(words).split(",")[0] for words in whole.columns["lemmas"].tolist()]
    return lemmas.index("mammal")


def _without_chains(tree: Tree) -> Tree:
    """Balls of a single child are left out."""
    kept = (tree.n_children != 1) | (np.arange(tree.n_nodes) == 0)
    up = tree.parent.copy()
    for node in range(1, tree.n_nodes):  # in preorder a parent comes first
        if up[node] >= 0 and not kept[up[node]]:
            up[node] = up[up[node]]
    place = np.cumsum(kept) - 1
    return Tree.from_parents(np.where(up[kept] >= 0, place[up[kept]], -1), tree.labels[kept].tolist())


def ward(x: np.ndarray, y: np.ndarray, depth: int, widest: int) -> Tree:
    """Ward linkage of the class means, cut into ``depth`` levels of growing numbers of groups."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    names, at = np.unique(y, return_inverse=True)
    means = np.stack([x[at == k].mean(0) for k in range(len(names))])
    counts = np.unique(np.round(np.geomspace(2, len(names), depth + 1)).astype(int))[:-1]
    cuts = cut_tree(linkage(means, "ward"), counts)
    paths = [(*(f"{k}:{cuts[i, k]}" for k in range(len(counts))), str(name)) for i, name in enumerate(names)]
    return _without_chains(Tree.from_paths([(*(f"{p}" for p in path[:-1]), path[-1]) for path in paths], root="all"))


def dealt(tree: Tree, seed: int) -> Tree:
    """The same tree with its leaves dealt at random."""
    labels = tree.labels.copy()
    labels[tree.leaves] = np.random.default_rng(seed).permutation(labels[tree.leaves])
    return Tree.from_parents(tree.parent, labels.tolist())


def mammal_table(seeds: int) -> list[dict[str, Any]]:
    """Held-out placement by tree."""
    true, x, y = mammals()
    print(true, len(x), "rows", flush=True)
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(1, seeds + 1):
        rng = np.random.default_rng(seed)
        test = np.zeros(len(x), bool)
        for name in np.unique(y):
            at = rng.permutation(np.flatnonzero(y == name))
            test[at[: round(0.3 * len(at))]] = True
        random, started = dealt(true, seed), ward(x[~test], y[~test], 4, int(true.max_branching))
        star = Tree.from_paths([(str(name),) for name in np.unique(y)], root="all")
        for name, tree, learn in (
            ("flat", star, False),
            ("true", true, False),
            ("random", random, False),
            ("learned from random", random, True),
            ("Ward", started, False),
            ("learned from Ward", started, True),
            ("learned from true", true, True),
        ):
            begin = time.process_time()
            model = joint_tree(
                x[~test], y[~test], tree, learn=learn, capacity=max(int(tree.max_branching), 12) if learn else None
            )
            log_p = model.log_proba(x[test])
            classes = model.tree.labels[model.tree.leaves]
            truth = np.array([{c: k for k, c in enumerate(classes)}[label] for label in y[test]])
            answer = true.index(classes[log_p.argmax(1)].tolist())
            shared = true.lca_depth(answer, true.index(y[test].tolist()))
            found.setdefault(name, []).append(
                {
                    "exact": float((log_p.argmax(1) == truth).mean()),
                    "shared true levels": float(shared.mean()),
                    "NLL": float(-log_p[np.arange(len(truth)), truth].mean()),
                    "left-out NLL": model.history[-1],
                    "CPU s": time.process_time() - begin,
                    "steps": float(sum(model.moves.values())),
                }
            )
            print(seed, name, {k: round(v, 3) for k, v in found[name][-1].items()}, model, flush=True)
    return [{"what": "mammals", "tree": name} | _mean(runs) for name, runs in found.items()]


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    row = {}
    for key in runs[0]:
        values = np.array([run[key] for run in runs])
        row |= {
            key: float(values.mean()),
            f"{key} se": float(values.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else 0.0,
        }
    return row


def planted_table(seeds: int) -> list[dict[str, Any]]:
    """Triplets of planted trees before and after, by `joint_tree` and by `refine_tree`'s moves of balls alone."""
    rows = []
    for share in (0.2, 0.5, 1.0):
        runs = []
        for seed in range(1, seeds + 1):
            x, tree, leaf = planted_rows(1.0, seed, per_leaf=6)
            names = np.array([f"c{i}" for i in leaf])
            labels = np.array([f"ball {i}" for i in range(tree.n_nodes)], object)
            rng = np.random.default_rng(seed)
            at = rng.permutation(tree.leaves)[: round(share * tree.n_leaves)]
            labels[tree.leaves] = [f"c{i}" for i in tree.leaves]
            labels[at] = labels[rng.permutation(at)]
            start = Tree.from_parents(tree.parent, labels.tolist())
            begun = start.index(names.tolist())
            model = joint_tree(x, names, start)
            kinds = ("re-attachments", "exchanges")
            moved = refine_tree(x, start, begun, kinds=kinds, max_children=start.max_branching, verbose=False)
            runs.append(
                {
                    "before": triplet_accuracy(start, begun, tree, leaf),
                    "joint_tree": triplet_accuracy(model.tree, model.tree.index(names.tolist()), tree, leaf),
                    "refine_tree": triplet_accuracy(moved.tree, moved.leaf, tree, leaf),
                }
            )
        rows.append({"what": "planted", "dealt anew": share} | _mean(runs))
        print(rows[-1], flush=True)
    return rows


def transport_table(seeds: int) -> list[dict[str, Any]]:
    """Cost of the assignments and CPU time, ours and POT's."""
    import ot

    rows = []
    for n, m in ((60, 8), (600, 40), (3000, 100)):
        runs = []
        for seed in range(1, seeds + 1):
            cost = np.random.default_rng(seed).random((n, m))
            room = np.full(m, int(np.ceil(1.2 * n / m)))
            padded = np.vstack([cost, np.zeros(m)])
            weight = np.append(np.ones(n), room.sum() - n)
            run = {}
            begin = time.process_time()
            run["ours"] = float(cost[np.arange(n), transport(cost, room)].mean())
            run["ours s"], begin = time.process_time() - begin, time.process_time()
            plan = ot.sinkhorn(
                weight / weight.sum(),
                room / room.sum(),
                padded,
                1 / 50,
                method="sinkhorn_log",
                numItermax=200,
                warn=False,
            )
            run["POT sinkhorn, plan"] = float((plan[:n] * cost).sum() / plan[:n].sum())
            run["POT sinkhorn s"], begin = time.process_time() - begin, time.process_time()
            plan = ot.emd(weight, room.astype(float), padded)
            run["POT emd (exact)"] = float((plan[:n] * cost).sum() / n)
            run["POT emd s"] = time.process_time() - begin
            runs.append(run)
        rows.append({"what": "transport", "children": n, "parents": m} | _mean(runs))
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run, print and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="*", default=["mammals", "planted", "transport"])
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    tables = {"mammals": mammal_table, "planted": planted_table, "transport": transport_table}
    for part in chosen.part:
        write_results(f"joint-trees-{part}", tables[part](chosen.seeds))


if __name__ == "__main__":
    main()
