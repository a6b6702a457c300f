"""Nearest dense items: exact blocked products and our cells beside approximate indices, one thread, in the space of a dense block.

    python -m benchmarks.ann --case wordnet-texts-words-light --items 0,300000,1000000

Items and questions are those of a case of `benchmarks.predict`; where more items are asked for than it has, further ones are items
of it moved by half as much as rows of one class differ. For every index: CPU seconds to build, megabytes with the items in it, CPU
microseconds a question (all at once, and one by one), and the share of the 16 and 32 truly nearest items that it finds. Libraries
that are not installed are left out (usearch, faiss-cpu).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import write_results
from benchmarks.predict.cases import CASES
from vpunn.cli.common import JsonFlag, emit
from vpunn.hipan._balls import Items
from vpunn.hipan._cells import MOST_CELLS, ONE_IN, Cells
from vpunn.hipan._dense import Dense
from vpunn.hipan._directions import exactly, padded
from vpunn.hipan.kernels.products import best_in_cells, best_products

clock = time.process_time
FOUND = 32
#: Questions that are asked one by one.
ALONE = 32
Search = Callable[[np.ndarray, int], np.ndarray]
Index = Iterator[tuple[str, Callable[[], int], Search]]  #: what it is called, its bytes, and how it is asked


def directions(case: str, items: int, questions: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions of items and of validation rows in the space of the case's dense block."""
    made = CASES[case](1)
    name = next(block for block, rows in made.X["train"].items() if isinstance(rows, np.ndarray))
    X, node = [made.X["train"][name]], [made.nodes["train"]]
    for table in made.X_nodes.get(name, []):
        node.append(np.flatnonzero(table.any(1)))
        X.append(table[node[-1]])
    whole, nodes = np.concatenate(X).astype(np.float32), np.concatenate(node).astype(np.int32)
    given = Items(whole, nodes, np.ones(len(nodes), np.float32), np.zeros(len(nodes), np.int8))
    block = Dense(name, made.tree, given, in_cells=False)
    assert block.space is not None
    asked = block.space.read(made.X["validation"][name][:questions])[0]
    unit, length = block.space.read(whole)
    if items > len(unit):
        rng = np.random.default_rng(0)
        away = np.sqrt((block.space.turn**2).sum(0) / (block.space.turn**2).sum())  # as rows of a class spread
        more = rng.integers(0, len(unit), items - len(unit))
        moved = unit[more] * length[more, None]
        moved += rng.normal(size=moved.shape).astype(np.float32) * away * np.sqrt(moved.shape[1]) * 0.5
        unit = np.concatenate([unit, exactly(moved / np.linalg.norm(moved, axis=1, keepdims=True))])
    return np.ascontiguousarray(unit), asked


def exact(items: np.ndarray) -> Index:
    """All products, a block at a time."""
    columns = padded(items)
    yield "exact", lambda: columns.nbytes, lambda asked, k: best_products(padded(asked), columns, k)[0]


def cells(items: np.ndarray) -> Index:
    """Ours: what a dense block does with many items; then with fewer and more cells looked into."""
    made = Cells.of(items)
    order = np.argsort(made.of_item, kind="stable")
    columns, start = padded(items[order]), made.starts(made.of_item[order])
    usual = min(len(made.centre) // ONE_IN, MOST_CELLS)
    for few in (usual, usual // 4, usual // 2, 2 * usual):

        def search(asked: np.ndarray, k: int, few: int = few) -> np.ndarray:
            rows = padded(asked)
            return np.asarray(order[best_in_cells(rows, columns, k, made.asked(rows, few), start)[0]])

        size = columns.nbytes + made.centre.nbytes + made.of_item.nbytes + start.nbytes
        yield f"our cells, {few} of {len(made.centre)}", partial(int, size), search


def usearch(items: np.ndarray) -> Index:
    """A navigable graph (HNSW)."""
    from usearch.index import Index

    index = Index(ndim=items.shape[1], metric="ip", dtype="f32", connectivity=16, expansion_add=64)
    index.add(np.arange(len(items)), items, threads=1)
    for effort in (64, 256):

        def search(asked: np.ndarray, k: int, effort: int = effort) -> np.ndarray:
            index.expansion_search = effort
            return np.asarray(index.search(asked, k, threads=1).keys, np.int64)

        yield f"usearch, effort {effort}", lambda: int(index.memory_usage), search


def faiss_graph(items: np.ndarray) -> Index:
    """The same by faiss."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(items.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 64
    index.add(items)
    for effort in (64, 256):

        def search(asked: np.ndarray, k: int, effort: int = effort) -> np.ndarray:
            index.hnsw.efSearch = effort
            return np.asarray(index.search(asked, k)[1])

        yield f"faiss graph, effort {effort}", lambda: _faiss_bytes(index), search


def faiss_cells(items: np.ndarray) -> Index:
    """Cells of k-means (IVF), some of which are looked at."""
    import faiss

    faiss.omp_set_num_threads(1)
    cells = int(2 * np.sqrt(len(items)))
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(items.shape[1]), items.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.seed = 5, 0
    index.train(items)
    index.add(items)
    for probes in (cells // 64, cells // 16):

        def search(asked: np.ndarray, k: int, probes: int = probes) -> np.ndarray:
            index.nprobe = probes
            return np.asarray(index.search(asked, k)[1])

        yield f"faiss cells, {probes} of {cells}", lambda: _faiss_bytes(index), search


def _faiss_bytes(index: Any) -> int:
    import faiss

    return int(faiss.serialize_index(index).nbytes)


INDICES: dict[str, tuple[str, Callable[[np.ndarray], Index]]] = {
    "exact": ("numpy", exact),
    "cells": ("numpy", cells),
    "usearch": ("usearch", usearch),
    "faiss-graph": ("faiss", faiss_graph),
    "faiss-cells": ("faiss", faiss_cells),
}


def measure(items: np.ndarray, asked: np.ndarray, names: list[str]) -> Iterator[dict[str, Any]]:
    """One row for every index and effort."""
    truth = best_products(padded(asked), padded(items), FOUND)[0]
    for name in names:
        package, build = INDICES[name]
        if importlib.util.find_spec(package) is None:
            continue
        start, built = clock(), None
        for label, size, search in build(items):
            built = clock() - start if built is None else built
            search(asked[:8], FOUND)
            start = clock()
            found = search(asked, FOUND)
            spent = clock() - start
            start = clock()
            for k in range(ALONE):
                search(asked[k : k + 1], FOUND)
            alone = clock() - start
            share = {
                f"recall@{k}": round(
                    float(np.mean([np.isin(t[:k], f[:k]).mean() for t, f in zip(truth, found, strict=True)])), 4
                )
                for k in (16, FOUND)
            }
            yield {
                "index": label,
                "items": len(items),
                "columns": items.shape[1],
                "build s": round(built, 1),
                "MB": round(size() / 1e6, 1),
                "µs a question": round(1e6 * spent / len(asked), 1),
                "asked alone": round(1e6 * alone / ALONE, 1),
                **share,
            }


def main(
    case: Annotated[str, typer.Option(help="A case with a dense block.")] = "wordnet-texts-words-light",
    items: Annotated[str, typer.Option(help="Numbers of items, separated by commas; 0 for those of the case.")] = "0",
    indices: Annotated[str, typer.Option(help="Which, separated by commas.")] = ",".join(INDICES),
    questions: Annotated[int, typer.Option(help="Rows asked about.")] = 1024,
    json: JsonFlag = False,
) -> None:
    """Measure and print a row for each."""
    rows = []
    for number in items.split(","):
        unit, asked = directions(case, int(number), questions)
        for row in measure(unit, asked, indices.split(",")):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    write_results("ann", rows)
    emit(rows, json, f"nearest dense items, {case}")


if __name__ == "__main__":
    typer.run(main)
