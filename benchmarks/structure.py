"""Tree structure at speed: build, index, LCA depth, leaf counts, distance matrix; peers and limits in the same run.

    python -m benchmarks.structure [wordnet] [ncbi] [random]

One thread. ``sparse table`` is the strong opponent: preorder depths with a branch-free range minimum in numba;
``gather limit`` only reads one word per node of each pair and xors them, which no code can beat. Slow peers answer
fewer queries and the rate is what is compared. A tree is measured in a process of its own so that peak memory means
something.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.common import best_seconds, peak_rss_mb, write_results
from vpunn.cli.common import emit
from vpunn.tree import Tree

PAIRS = 1_000_000
MATRIX_LEAVES = 5_000
RANDOM_LEAVES = 10_000_000
TREES = ("wordnet", "ncbi", "random")


def parent_pointers(name: str) -> np.ndarray:
    """Parent pointers of a benchmark tree, in its source's own order."""
    if name == "random":  # uniform attachment: half of the nodes are leaves
        n = 2 * RANDOM_LEAVES
        rng = np.random.default_rng(0)
        parent = np.empty(n, np.int64)
        parent[0] = -1
        parent[1:] = rng.random(n - 1) * np.arange(1, n)
        return parent
    from vpunn import datasets

    tree = (datasets.load_wordnet() if name == "wordnet" else datasets.load_ncbi(root=None)).tree
    # Forget the preorder: peers and we start from the same shuffled pointers.
    shuffle = np.random.default_rng(0).permutation(tree.n_nodes)
    place = np.argsort(shuffle)
    parent = np.append(place, -1)[tree.parent]  # the root's −1 reads the appended −1
    return parent[shuffle]


# ---- the opponents ---------------------------------------------------------------------------------------------------


@njit
def build_sparse_table(depth, levels):  # type: ignore[no-untyped-def]
    """table[j, i] = smallest depth in positions i .. i + 2**j - 1."""
    n = len(depth)
    table = np.empty((levels, n), depth.dtype)
    table[0] = depth
    for j in range(1, levels):
        half = 1 << (j - 1)
        for i in range(n - 2 * half + 1):
            table[j, i] = min(table[j - 1, i], table[j - 1, i + half])
    return table


@njit
def sparse_table_lca(table, depth, log2, u, v, out):  # type: ignore[no-untyped-def]
    """LCA depth of u < v is the smallest depth in (u, v] minus one; equal nodes give their own depth."""
    for i in range(len(u)):
        low, high = min(u[i], v[i]), max(u[i], v[i])
        span = high - low
        j = log2[span]
        smallest = min(table[j, low + 1 - (span == 0)], table[j, high + 1 - (1 << j)])
        out[i] = smallest - (span != 0)


@njit
def gather_limit(words, u, v, out):  # type: ignore[no-untyped-def]
    """The least any word-based answer must do: read a word per node and combine them."""
    for i in range(len(u)):
        out[i] = words[u[i]] ^ words[v[i]]


def sparse_table(tree: Tree) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    depth = tree.depth.astype(np.uint8 if tree.max_depth < 256 else np.int32)
    levels = max(1, int(tree.n_nodes).bit_length())
    table = build_sparse_table(depth, levels)
    log2 = np.zeros(tree.n_nodes + 1, np.uint8)
    log2[1:] = np.log2(np.arange(1, tree.n_nodes + 1)).astype(np.uint8)

    def answer(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = np.empty(len(u), np.int32)
        sparse_table_lca(table, depth, log2, u, v, out)
        return out

    return answer


def tskit_tree(tree: Tree) -> Any:
    """The same tree in tskit (node times must fall towards the leaves)."""
    import tskit

    tables = tskit.TableCollection(sequence_length=1)
    height = (tree.max_depth - tree.depth).astype(float)
    tables.nodes.set_columns(flags=tree.is_leaf.astype(np.uint32), time=height)
    child = np.arange(1, tree.n_nodes, dtype=np.int32)
    zeros = np.zeros(len(child))
    tables.edges.set_columns(left=zeros, right=zeros + 1, parent=tree.parent[1:], child=child)
    tables.sort()
    return tables.tree_sequence().first()


def tskit_lca(tree: Tree) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    ts_tree, depth = tskit_tree(tree), tree.depth

    def answer(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        mrca = ts_tree.mrca
        return depth[[mrca(a, b) for a, b in zip(u.tolist(), v.tolist(), strict=True)]]

    return answer


def networkx_lca(tree: Tree) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import networkx as nx

    graph = nx.DiGraph(zip(tree.parent[1:].tolist(), range(1, tree.n_nodes), strict=True))
    return lambda u, v: tree.depth[
        [nx.lowest_common_ancestor(graph, a, b) for a, b in zip(u.tolist(), v.tolist(), strict=True)]
    ]


def ete4_lca(tree: Tree) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    import ete4

    nodes = [ete4.Tree({"name": "0"})]
    for i, up in enumerate(tree.parent[1:].tolist(), 1):
        nodes.append(nodes[up].add_child(name=str(i)))
    return lambda u, v: tree.depth[
        [int(nodes[0].common_ancestor([nodes[a], nodes[b]]).name) for a, b in zip(u.tolist(), v.tolist(), strict=True)]
    ]


def scikit_bio_lca(tree: Tree) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    from skbio import TreeNode

    nodes = [TreeNode(name="0")]
    for i, up in enumerate(tree.parent[1:].tolist(), 1):
        node = TreeNode(name=str(i))
        nodes[up].append(node, uncache=False)
        nodes.append(node)
    return lambda u, v: tree.depth[
        [int(nodes[0].lca([nodes[a], nodes[b]]).name) for a, b in zip(u.tolist(), v.tolist(), strict=True)]
    ]


#: peer → (what makes its answer function, how many pairs it is asked, on which trees it is feasible)
LCA_PEERS: dict[str, tuple[Callable[[Tree], Any], int, tuple[str, ...]]] = {
    "sparse table": (sparse_table, PAIRS, TREES),
    "tskit": (tskit_lca, 100_000, TREES),
    "ete4": (ete4_lca, 500, ("wordnet",)),
    "scikit-bio": (scikit_bio_lca, 500, ("wordnet",)),
    "networkx": (networkx_lca, 100, ("wordnet",)),
}


# ---- measuring --------------------------------------------------------------------------------------------------------


def warm_up() -> None:
    """Compile every kernel on a tree of three nodes, so that no timing pays for it."""
    tiny = Tree.from_parents(np.array([-1, 0, 0]))
    u = np.array([1, 2])
    tiny.lca_depth(u, u)
    tiny.lca_depth_matrix(u)
    sparse_table(tiny)(u, u)
    gather_limit(tiny.packed.words[0], u, u, np.empty(2, np.uint64))


def measure(name: str) -> list[dict[str, Any]]:
    """All rows of one tree."""
    parent = parent_pointers(name)
    warm_up()
    before = peak_rss_mb()
    start = time.perf_counter()
    tree = Tree.from_parents(parent)
    built = time.perf_counter() - start
    packed = tree.packed
    total = time.perf_counter() - start
    rows: list[dict[str, Any]] = []

    def row(task: str, who: str, seconds: float, count: float = 1, unit: str = "s", **more: Any) -> None:
        value = seconds if unit == "s" else count / seconds / 1e6
        rows.append({"tree": name, "task": task, "who": who, "value": value, "unit": unit, **more})

    row("from_parents", "vpunn", built)
    row("from_parents + packed code", "vpunn", total)
    rows.append(_memory_row(name, "vpunn", peak_rss_mb()))
    rows.append({"tree": name, "task": "memory before building", "who": "vpunn", "value": before, "unit": "MB"})
    rows.append({"tree": name, "task": "code bits", "who": "vpunn", "value": float(packed.bits), "unit": "bits"})

    rng = np.random.default_rng(1)
    u, v = (rng.choice(tree.leaves, PAIRS).astype(np.int64) for _ in range(2))
    truth = tree.lca_depth(u, v)
    for kind in ("int64", "int32"):
        task = "LCA depth, random leaf pairs" + ("" if kind == "int64" else f", {kind} ids")
        ours, limit = beside_the_limit(tree, u.astype(kind), v.astype(kind))
        row(task, "vpunn", ours, PAIRS, "M/s")
        if limit is not None:
            row(task, "gather limit", limit, PAIRS, "M/s")
    near = np.minimum(u + rng.integers(0, 4, PAIRS), tree.n_nodes - 1)
    row("LCA depth, neighbouring nodes", "vpunn", best_seconds(lambda: tree.lca_depth(u, near), 5), PAIRS, "M/s")

    pick = u[: 2 * MATRIX_LEAVES : 2][:MATRIX_LEAVES]
    row(f"{MATRIX_LEAVES:,}-leaf matrix", "vpunn", best_seconds(lambda: tree.lca_depth_matrix(pick), 5))
    row("subtree tests", "vpunn", best_seconds(lambda: tree.is_ancestor(v, u), 9), PAIRS, "M/s")
    leaf = tree.is_leaf
    row("all leaf counts", "vpunn", best_seconds(lambda: tree.subtree_sum(leaf), 3))
    tree.index(tree.labels[:1])
    wanted = tree.labels[u]
    row("labels to ids", "vpunn", best_seconds(lambda: tree.index(wanted), 3), PAIRS, "M/s")

    for peer, (make, pairs, trees) in LCA_PEERS.items():
        if name not in trees:
            continue
        try:
            start = time.perf_counter()
            answer = make(tree)
            prepared = time.perf_counter() - start
        except ImportError as error:
            rows.append(
                {
                    "tree": name,
                    "task": "LCA depth, random leaf pairs",
                    "who": f"{peer}: {error}",
                    "value": None,
                    "unit": "",
                }
            )
            continue
        a, b = u[:pairs], v[:pairs]
        assert (answer(a, b) == truth[:pairs]).all(), f"{peer} disagrees"
        row("build", peer, prepared)
        row(
            "LCA depth, random leaf pairs",
            peer,
            best_seconds(lambda answer=answer, a=a, b=b: answer(a, b), 5 if pairs == PAIRS else 1),
            pairs,
            "M/s",
        )  # type: ignore[misc]
        if peer == "tskit":
            rows.append(_memory_row(name, "tskit (this process)", peak_rss_mb()))
    return rows


def beside_the_limit(tree: Tree, u: np.ndarray, v: np.ndarray) -> tuple[float, float | None]:
    """CPU seconds of `lca_depth` and of `gather_limit` (None: there are no words), in turn, so that both meet the same machine."""
    if tree.packed.layout != "words":
        return best_seconds(lambda: tree.lca_depth(u, v), 15, time.thread_time), None
    first, out = tree.packed.words[0], np.empty(len(u), np.uint64)
    ours = limit = np.inf
    for _ in range(16):  # the first of which compiles
        ours = min(ours, best_seconds(lambda: tree.lca_depth(u, v), 1, time.thread_time))
        limit = min(limit, best_seconds(lambda: gather_limit(first, u, v, out), 1, time.thread_time))
    return ours, limit


def _memory_row(name: str, who: str, megabytes: float) -> dict[str, Any]:
    return {"tree": name, "task": "peak memory", "who": who, "value": megabytes, "unit": "MB"}


def with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add how many times faster vpunn is than each peer at the same task on the same tree."""
    ours = {(r["tree"], r["task"]): r["value"] for r in rows if r["who"] == "vpunn"}
    for r in rows:
        mine = ours.get((r["tree"], r["task"]))
        other = r["who"] != "vpunn" and mine and r["value"]
        r["vpunn is faster ×"] = (mine / r["value"] if r["unit"] == "M/s" else r["value"] / mine) if other else None
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs="*", default=list(TREES), help=f"some of {', '.join(TREES)}")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # measure here, print JSON
    options = parser.parse_args()
    if options.one:
        emit(measure(options.trees[0]), as_json=True)
        return
    import json

    rows: list[dict[str, Any]] = []
    for name in options.trees:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.structure", "--one", name], stdout=subprocess.PIPE, check=True
        )
        rows += json.loads(done.stdout)
    rows = with_ratios(rows)
    emit(rows, as_json=False)
    print(f"written: {write_results('structure', rows)}")


if __name__ == "__main__":
    main()
