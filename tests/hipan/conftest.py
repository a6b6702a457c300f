"""Two levels, 24 leaves; a row has words of its leaf, of its branch and of anything."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from vpunn.hipan.engine import Model, Task, fit
from vpunn.hipan.experts import Rows
from vpunn.tree import Tree


class Words(NamedTuple):
    tree: Tree
    X: sp.csr_matrix
    node: np.ndarray
    numbers: np.ndarray


@pytest.fixture(scope="session")
def words() -> Words:
    rng = np.random.default_rng(0)
    paths = [(f"b{b}", f"b{b}l{i}") for b in range(4) for i in range(6)]
    tree = Tree.from_paths(paths, root="all")
    leaf = rng.integers(0, 24, 600)
    X = np.zeros((600, 24 * 4 + 4 * 5 + 40), np.float32)
    for r, v in enumerate(leaf):
        X[r, 4 * v + rng.integers(0, 4, 2)] += 1
        X[r, 96 + 5 * (v // 6) + rng.integers(0, 5, 2)] += 1
        X[r, 116 + rng.integers(0, 40, 4)] += 1
    node = np.asarray(tree.index([paths[v][1] for v in leaf]))
    numbers = np.column_stack([leaf // 6, leaf % 6]) + rng.normal(0, 0.3, (600, 2))
    return Words(tree, sp.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32), node, numbers)


def task_of(tree: Tree, blocks: tuple, node: np.ndarray, **more: object) -> Task:
    return Task(tree, Rows(blocks), node, np.ones(len(node), np.float32), len(node), **more)


@pytest.fixture(scope="session")
def model(words) -> Model:
    return fit(task_of(words.tree, (words.X[:400],), words.node[:400]), "auto", np.random.default_rng(0))[0]
