"""Tasks that no setting was chosen on: other features, trees and labels than those of `cases`, from the open tasks or by rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.predict.cases import PARTS, Case, words
from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.tree import Tree

#: Share of labels that are wrong among copies, and copies of each text.
WRONG, COPIES = 0.3, 5


def _vectorized(name: str, task: PlacementTask, vectorizer: Any) -> Case:
    """A task by a vectorizer of scikit-learn that learns from what is trained on."""
    X = {"train": vectorizer.fit_transform(task.texts["train"])}
    X |= {part: vectorizer.transform(task.texts[part]) for part in PARTS[1:]}
    return Case(name, task.tree, {part: {"words": sparse.csr_matrix(X[part])} for part in PARTS}, task.nodes)


def _of_words(name: str, tree: Tree, texts: dict[str, np.ndarray], nodes: dict[str, np.ndarray]) -> Case:
    task = PlacementTask(name, tree, texts, nodes)
    X = words(task)[0]
    return Case(name, tree, {part: {"words": X[part]} for part in PARTS}, nodes, texts=texts)


def raw_counts(name: str, seed: int) -> Case:
    """Counts of words as they are: no weights, no unit length."""
    from sklearn.feature_extraction.text import CountVectorizer

    return _vectorized(f"{name}, raw counts", load_task(name, seed), CountVectorizer())


def signed_hashes(name: str, seed: int) -> Case:
    """4,096 hashed columns of either sign."""
    from sklearn.feature_extraction.text import HashingVectorizer

    return _vectorized(f"{name}, signed hashes", load_task(name, seed), HashingVectorizer(n_features=4096))


def at_the_parent(seed: int) -> Case:
    """naics with a third of the rows labelled with the code above theirs."""
    task, rng = load_task("naics", seed), np.random.default_rng(seed)
    nodes = {p: np.where(rng.random(len(n)) < 1 / 3, task.tree.parent[n], n) for p, n in task.nodes.items()}
    return _of_words("naics, a third at the parent", task.tree, task.texts, nodes)


def star(seed: int) -> Case:
    """300 codes of naics with ten training rows and more, on a tree that knows nothing of them."""
    task, rng = load_task("naics", seed), np.random.default_rng(seed)
    often = np.flatnonzero(np.bincount(task.nodes["train"], minlength=task.tree.n_nodes) >= 10)
    chosen = np.sort(rng.permutation(often)[:300])
    tree = Tree.from_paths([(f"code {c}",) for c in chosen], root="all")
    at = np.asarray(tree.index([f"code {c}" for c in chosen]))
    keep = {part: np.flatnonzero(np.isin(task.nodes[part], chosen)) for part in PARTS}
    nodes = {part: at[np.searchsorted(chosen, task.nodes[part][keep[part]])] for part in PARTS}
    return _of_words("300 codes on a star", tree, {part: task.texts[part][keep[part]] for part in PARTS}, nodes)


def two_rows_each(seed: int) -> Case:
    """2,000 synsets of WordNet with two training rows each, and one row each to choose by and to be asked."""
    task, rng = load_task("wordnet", seed), np.random.default_rng(seed)
    text = np.concatenate([task.texts[part] for part in PARTS])
    node = np.concatenate([task.nodes[part] for part in PARTS])
    order = rng.permutation(len(node))
    order = order[np.argsort(node[order], kind="stable")]
    classes, start, count = np.unique(node[order], return_index=True, return_counts=True)
    some = np.sort(rng.permutation(np.flatnonzero(count >= 4))[:2000])
    tree = Tree.from_paths([task.tree.path(int(c))[1:] for c in classes[some]], root="entity")
    at = np.asarray(tree.index(task.tree.labels[classes[some]]))
    rows = {"train": np.concatenate([start[some], start[some] + 1])}
    rows |= {"validation": start[some] + 2, "test": start[some] + 3}
    nodes = {part: np.tile(at, len(where) // len(at)) for part, where in rows.items()}
    return _of_words("2,000 classes of two rows", tree, {p: text[order[w]] for p, w in rows.items()}, nodes)


def wrong_copies(seed: int) -> Case:
    """Five copies of 900 texts of naics, three labels in ten wrong; asked are further copies, labelled as carelessly."""
    task, rng = load_task("naics", seed), np.random.default_rng(seed)
    codes = rng.permutation(np.unique(task.nodes["train"]))[:200]
    known = np.flatnonzero(np.isin(task.nodes["train"], codes))
    known = rng.permutation(known[np.unique(task.texts["train"][known], return_index=True)[1]])[:900]
    rows = {"train": np.repeat(known, COPIES), "validation": rng.choice(known, 1500), "test": rng.choice(known, 1500)}
    nodes = {part: task.nodes["train"][where].copy() for part, where in rows.items()}
    for node in nodes.values():
        wrong = np.flatnonzero(rng.random(len(node)) < WRONG)
        node[wrong] = rng.choice(codes, len(wrong))
    return _of_words("copies, 30 % wrong", task.tree, {p: task.texts["train"][w] for p, w in rows.items()}, nodes)


def _drawn(name: str, X: np.ndarray | sparse.csr_matrix, y: np.ndarray, branch: int, train: int) -> Case:
    """A table in three parts, its classes ``branch`` by ``branch`` below a node."""
    labels = [f"class {k}" for k in range(y.max() + 1)]
    tree = Tree.from_paths([(f"ball {k // branch}", label) for k, label in enumerate(labels)], root="all")
    node = np.asarray(tree.index(labels))[y]
    cuts = dict(zip(PARTS, np.split(np.arange(len(y)), [train, (train + len(y)) // 2]), strict=True))
    return Case(name, tree, {p: {"numbers": X[r]} for p, r in cuts.items()}, {p: node[r] for p, r in cuts.items()})


def binary(seed: int) -> Case:
    """40 columns of zeros and ones, each by itself a little commoner in some of 20 classes."""
    rng = np.random.default_rng(seed)
    share, y = 0.5 + 0.6 * (rng.beta(0.8, 0.8, (20, 40)) - 0.5), rng.integers(0, 20, 4200)
    return _drawn("40 binary columns", (rng.random((4200, 40)) < share[y]).astype(float), y, 5, 1200)


def scales(seed: int) -> Case:
    """100 classes by 12 numbers whose units differ by twelve orders of magnitude, twelve training rows each."""
    rng = np.random.default_rng(seed)
    centre, y = rng.normal(size=(100, 12)), rng.integers(0, 100, 4200)
    X = (centre[y] + 0.6 * rng.normal(size=(4200, 12))) * 10.0 ** rng.uniform(-6, 6, 12)
    return _drawn("numbers of all scales", X, y, 10, 1200)


def sparse_table(seed: int) -> Case:
    """50 classes, 40 training rows each, six numbers from 0 to 1 beside four one-hot columns of eight kinds, a sparse matrix."""
    rng = np.random.default_rng(seed)
    centre, y = rng.normal(size=(50, 6)), rng.integers(0, 50, 5000)
    numbers = centre[y] + 0.7 * rng.normal(size=(5000, 6))
    numbers = (numbers - numbers.min(0)) / np.ptp(numbers, axis=0)
    usual = rng.integers(0, 8, (50, 4))
    kind = np.where(rng.random((5000, 4)) < 0.5, usual[y], rng.integers(0, 8, (5000, 4)))
    table = sparse.csr_matrix(np.hstack([numbers, np.eye(8)[kind].reshape(5000, 32)]))
    return _drawn("numbers and kinds in a sparse table", table, y, 10, 2000)


def spreads(seed: int) -> Case:
    """Twelve classes by ten numbers, two and two around one centre, one of them three times as wide as the other."""
    rng = np.random.default_rng(seed)
    centre, y = 1.5 * rng.normal(size=(6, 10)), rng.integers(0, 12, 5000)
    X = centre[y // 2] + rng.normal(size=(5000, 10)) * (1.0 + 2.0 * (y % 2))[:, None]
    return _drawn("classes inside others", X, y, 4, 2000)


def arbitrary_parents(seed: int) -> Case:
    """150 classes by 2,000 columns of yes and no, of which each class has 40 more often than others; the tree says nothing."""
    rng = np.random.default_rng(seed)
    share = np.tile(rng.beta(0.5, 20.0, 2000), (150, 1))
    for own in share:
        some = rng.permutation(2000)[:40]
        own[some] += 0.2 * rng.random(40)
    y = rng.integers(0, 150, 6000)
    table = sparse.csr_matrix((rng.random((6000, 2000)) < share[y]).astype(np.float32))
    return _drawn("150 classes under arbitrary parents", table, y, 10, 3000)


def conjunction(seed: int) -> Case:
    """300 keys, each of which has other classes, of 40, from year to year: key and year tell nothing apart from each other."""
    rng = np.random.default_rng(seed)
    key, year = rng.integers(0, 300, 8000), rng.uniform(1950, 2020, 8000)
    turn = np.sort(rng.uniform(1950, 2020, (300, 2)), 1)
    y = rng.integers(0, 40, (300, 3))[key, (year[:, None] > turn[key]).sum(1)]
    table = sparse.csr_matrix(np.column_stack([np.eye(300)[key], year]))
    return _drawn("key and year together", table, y, 5, 4000)


def places(seed: int) -> Case:
    """500 places by latitude and longitude, each of one class of 30 by lot, met six times in the mean and asked about again."""
    rng = np.random.default_rng(seed)
    at, where, of_place = rng.integers(0, 500, 6000), rng.uniform(-90, 90, (500, 2)), rng.integers(0, 30, 500)
    return _drawn("places met again", where[at], of_place[at], 5, 3000)


def rings(seed: int) -> Case:
    """Three rings around one centre in four dimensions, turned into 100 columns with a little noise."""
    rng = np.random.default_rng(seed)
    y, Z = rng.integers(0, 3, 4000), rng.normal(size=(4000, 4))
    Z *= ((1 + y) / np.linalg.norm(Z, axis=1))[:, None]
    turn = np.linalg.qr(rng.normal(size=(100, 100)))[0][:4]
    return _drawn("rings in 100 columns", 10 * Z @ turn + 0.3 * rng.normal(size=(4000, 100)), y, 2, 1500)


OTHER: dict[str, Callable[[int], Case]] = {
    "naics-counts": partial(raw_counts, "naics"),
    "headlines-counts": partial(raw_counts, "headlines"),
    "naics-hashes": partial(signed_hashes, "naics"),
    "headlines-hashes": partial(signed_hashes, "headlines"),
    "at-parent": at_the_parent,
    "star": star,
    "two-rows": two_rows_each,
    "wrong-copies": wrong_copies,
    "binary": binary,
    "scales": scales,
    "sparse-table": sparse_table,
    "spreads": spreads,
    "arbitrary-parents": arbitrary_parents,
    "conjunction": conjunction,
    "places": places,
    "rings": rings,
}
