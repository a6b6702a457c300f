"""What is measured: the open tasks, and stress variants made from them by rule, as blocks of features in three parts.

Every rule is fixed by a seed, so a case is the same for every method. Texts become TF-IDF word 1–2-grams whose vocabulary comes
from what is trained on. Dense blocks are what an encoder or a truncated SVD makes of the same texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from vpunn.datasets.fetch import DATA_DIR, data_dir
from vpunn.datasets.tasks import PlacementTask, load_task
from vpunn.errors import DataError
from vpunn.tree import Tree

PARTS = ("train", "validation", "test")
Blocks = dict[str, Any]


@dataclass
class Case:
    """Rows of every part as named blocks, the node of each, descriptions of the nodes per block, and groups of training rows."""

    name: str
    tree: Tree
    X: dict[str, Blocks]
    nodes: dict[str, np.ndarray]
    X_nodes: dict[str, list[Any]] = field(default_factory=dict)
    groups: np.ndarray | None = None
    texts: dict[str, np.ndarray] = field(default_factory=dict)
    options: dict[str, Any] = field(
        default_factory=dict
    )  # of ours: ``novelty`` where the tree was made from the labels


def words(task: PlacementTask) -> tuple[dict[str, Any], list[Any]]:
    """TF-IDF of words and word pairs for every part, and for every kind of description."""
    from vpunn.text import text_features

    features = text_features(characters=None, min_rows=1)
    everything = sparse.csr_matrix(features.fit_transform(np.concatenate([task.texts["train"], *task.descriptions])))
    rows, nodes = len(task.texts["train"]), task.tree.n_nodes
    described = [everything[rows + k * nodes : rows + (k + 1) * nodes] for k in range(len(task.descriptions))]
    parts = {part: sparse.csr_matrix(features.transform(task.texts[part])) for part in PARTS[1:]}
    return {"train": everything[:rows], **parts}, described


def encoded(task: PlacementTask, encoder: str) -> tuple[dict[str, Any], list[Any]]:
    """What a sentence encoder makes of the texts; descriptions that are empty are rows of zeros."""
    from vpunn.text import sentence_features

    features = sentence_features(encoder)
    texts = np.unique(np.concatenate([task.texts[part] for part in PARTS]).astype(str))  # one list, whatever the split
    rows = features.transform(texts)
    parts = {part: rows[np.searchsorted(texts, task.texts[part].astype(str))] for part in PARTS}
    return parts, [features.transform(texts) for texts in task.descriptions]


def _case(name: str, task: PlacementTask, blocks: dict[str, tuple[dict[str, Any], list[Any]]], **more: Any) -> Case:
    return Case(
        name,
        task.tree,
        {part: {block: made[0][part] for block, made in blocks.items()} for part in PARTS},
        task.nodes,
        {block: made[1] for block, made in blocks.items() if made[1]},
        texts=task.texts,
        **more,
    )


def plain(name: str, seed: int) -> Case:
    """An open task as it is."""
    task = load_task(name, seed)
    return _case(name, task, {"words": words(task)})


def with_encoder(name: str, seed: int, encoder: str, *, alone: bool = False) -> Case:
    """An open task with a dense block beside the words, or instead of them."""
    task = load_task(name, seed)
    dense = encoded(task, encoder)
    blocks = {"meaning": dense} if alone else {"words": words(task), "meaning": dense}
    return _case(f"{name} {'by' if alone else 'and'} {encoder}", task, blocks)


def _kept(task: PlacementTask, rows: np.ndarray) -> PlacementTask:
    """The task with some of its training rows."""
    texts, nodes = dict(task.texts), dict(task.nodes)
    texts["train"], nodes["train"] = texts["train"][rows], nodes["train"][rows]
    return PlacementTask(task.name, task.tree, texts, nodes, task.descriptions)


def listed(name: str, seed: int, low: int, high: int) -> Case:
    """naics with so many training rows at most, ``low`` to ``high``, for four classes in five."""
    task, rng = load_task("naics", seed), np.random.default_rng(seed)
    order = rng.permutation(len(task.nodes["train"]))
    node = task.nodes["train"][order]
    classes, size = np.unique(node, return_counts=True)
    rich = rng.permutation(classes)[: len(classes) // 5]
    by_class = np.argsort(node, kind="stable")
    rank = np.empty(len(node), np.int64)
    rank[by_class] = np.arange(len(node)) - np.repeat(np.cumsum(size) - size, size)
    most = rng.integers(low, high + 1, len(classes))
    few = rank < most[np.searchsorted(classes, node)]
    task = _kept(task, np.sort(order[few | np.isin(node, rich)]))
    return _case(name, task, {"words": words(task)})


def two_labels(seed: int) -> Case:
    """naics with a tenth of its texts given a second label, a sibling's; both rows lie in the same part."""
    task, rng = load_task("naics", seed), np.random.default_rng(seed)
    texts, nodes = {}, {}
    for part in PARTS:
        text, node = task.texts[part], task.nodes[part]
        twice = np.flatnonzero(rng.random(len(text)) < 0.1)
        siblings = [task.tree.children(int(task.tree.parent[c])) for c in node[twice]]
        other = np.array(
            [rng.choice(s[s != c]) if len(s) > 1 else c for s, c in zip(siblings, node[twice], strict=True)]
        )
        texts[part] = np.concatenate([text, text[twice]])
        nodes[part] = np.concatenate([node, other.astype(node.dtype)])
    task = PlacementTask(task.name, task.tree, texts, nodes)
    return _case("two labels", task, {"words": words(task)})


def near_copies(seed: int) -> Case:
    """300 classes of 8 originals; an original is 40 texts of any class joined, each row a copy without 60 % of its words."""
    source, rng = load_task("naics", seed), np.random.default_rng(seed)
    vocabulary = [" ".join(t.split()) for t in source.texts["train"]]
    tree = Tree.from_paths([(f"g{c // 10}", f"c{c}") for c in range(300)], root="all")
    texts: dict[str, list[str]] = {part: [] for part in PARTS}
    nodes: dict[str, list[int]] = {part: [] for part in PARTS}
    for c in range(300):
        node = int(np.asarray(tree.index([f"c{c}"]))[0])
        for _ in range(8):
            original = " ".join(vocabulary[i] for i in rng.integers(0, len(vocabulary), 40)).split()
            for part in ("train", "train", "validation", "test"):
                texts[part].append(" ".join(w for w in original if rng.random() > 0.6))
                nodes[part].append(node)
    task = PlacementTask(
        "near copies",
        tree,
        {part: np.array(texts[part], object) for part in PARTS},
        {part: np.array(nodes[part]) for part in PARTS},
    )
    return _case("near copies", task, {"words": words(task)})


def grouped(seed: int) -> Case:
    """headlines in sources of five rows of one class that share six words of the source's own; new rows are of new sources."""
    task, rng = load_task("headlines", seed), np.random.default_rng(seed)
    pool = np.unique(" ".join(task.texts["train"]).lower().split())
    texts, groups = {}, np.zeros(0, np.int64)
    for part in PARTS:
        text, node = task.texts[part], task.nodes[part]
        order = np.lexsort((rng.random(len(text)), node))
        group = np.empty(len(text), np.int64)
        start = np.concatenate([[0], np.flatnonzero(np.diff(node[order])) + 1])
        rank = np.arange(len(text)) - np.repeat(start, np.diff(np.append(start, len(text))))
        group[order] = np.cumsum((rank % 5 == 0).astype(np.int64)) - 1
        house = rng.choice(pool, (group.max() + 1, 6))
        texts[part] = np.array([f"{t} {' '.join(house[g])}" for t, g in zip(text, group, strict=True)], object)
        if part == "train":
            groups = group
    task = PlacementTask(task.name, task.tree, texts, task.nodes)
    return _case("grouped", task, {"words": words(task)}, groups=groups)


def few_classes(seed: int, rows: int | None = None) -> Case:
    """WordNet glosses labelled by the 50 largest balls of depth 5, everything else left out."""
    task, rng = load_task("wordnet", seed), np.random.default_rng(seed)
    tree = task.tree
    deep = {part: np.flatnonzero(tree.depth[task.nodes[part]] >= 5) for part in PARTS}
    ball = {part: tree.ancestor_at(task.nodes[part][deep[part]], np.full(len(deep[part]), 5)) for part in PARTS}
    largest = np.argsort(-np.bincount(ball["train"], minlength=tree.n_nodes), kind="stable")[:50]
    small = Tree.from_paths([tree.path(int(b))[1:] for b in np.sort(largest)], root="entity")
    texts, nodes = {}, {}
    for part in PARTS:
        keep = np.flatnonzero(np.isin(ball[part], largest))
        if rows is not None:
            keep = np.sort(rng.permutation(keep)[: rows if part == "train" else rows // 4])
        texts[part] = task.texts[part][deep[part][keep]]
        nodes[part] = np.asarray(small.index(tree.labels[ball[part][keep]]))
    task = PlacementTask("few classes", small, texts, nodes)
    return _case("few classes" if rows is None else f"few classes, {rows:,} rows", task, {"words": words(task)})


def reduced(name: str, seed: int, columns: int = 200, *, unit: bool = False) -> Case:
    """An open task by a truncated SVD of its words alone, so many dense numbers a row; ``unit``: rows of length one."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    task = load_task(name, seed)
    X, described = words(task)
    svd = TruncatedSVD(columns, random_state=0).fit(sparse.vstack([X["train"], *described]))
    tables = [*X.values(), *described]
    made = [normalize(svd.transform(t)) if unit else svd.transform(t) for t in tables]
    parts = {part: table.astype(np.float32) for part, table in zip(X, made, strict=False)}
    made = [table.astype(np.float32) for table in made[len(X) :]]
    return _case(f"{name} by SVD", task, {"svd": (parts, made)})


def sequences(fold: int, seed: int, *, inner: bool = False) -> Case:
    """Fungal ITS by character 7-grams; two queries in three are of a species that the reference has not, and ask for its genus.

    ``inner``: of the references only, a tenth for validation and a tenth for test, each by its deepest node that the rest has.
    """
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer

    folder = data_dir()
    where = None if folder is None else folder / "public" / "its" / f"fold{fold}"
    if where is None or not where.is_dir():
        raise DataError(f"the sequences need the folder public/its/fold{fold} in the folder that {DATA_DIR} names.")
    tables = {p: pd.read_csv(where / f"{p}.csv.gz", dtype=str) for p in ("train", "test")}
    if inner:
        cut = np.random.default_rng(seed).choice(PARTS, len(tables["train"]), p=(0.8, 0.1, 0.1))
        tables = {part: tables["train"][cut == part] for part in PARTS}
    else:
        tables["validation"] = tables["test"][:0]
    paths = {part: [_lineage(text) for text in table["taxonomy"]] for part, table in tables.items()}
    known = {path[:k] for path in paths["train"] for k in range(len(path) + 1)}
    tree = Tree.from_edges([("; ".join(p[:-1]) or "life", "; ".join(p)) for p in sorted(known - {()})])
    nodes = {}
    for part, some in paths.items():
        deepest = [next(p[:k] for k in range(len(p), -1, -1) if p[:k] in known) for p in some]
        nodes[part] = np.asarray(tree.index(["; ".join(p) or "life" for p in deepest]), np.int64)
    words = TfidfVectorizer(analyzer="char", ngram_range=(7, 7), sublinear_tf=True, dtype=np.float32)
    X = {"train": sparse.csr_matrix(words.fit_transform(tables["train"]["sequence"]))}
    for part in PARTS[1:]:
        some = tables[part]["sequence"]
        X[part] = sparse.csr_matrix(words.transform(some) if len(some) else X["train"][:0])
    blocks = {part: {"words": X[part]} for part in PARTS}
    return Case(f"ITS fold {fold}", tree, blocks, nodes, options={"novelty": True})


def _lineage(text: str) -> tuple[str, ...]:
    """Up to the first empty rank."""
    ranks = [r.strip() for r in text.split(";")]
    empty = next((i for i, r in enumerate(ranks) if not r or r.endswith("__")), len(ranks))
    return tuple(ranks[:empty])


def table(name: str, seed: int) -> Case:
    """One of scikit-learn's bundled tables; the tree joins classes whose standardised means lie near (Ward's clustering)."""
    from scipy.cluster.hierarchy import linkage, to_tree
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    X, y = data.data.astype(np.float64), data.target
    order = np.random.default_rng(seed).permutation(len(y))
    cuts = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    Z = (X - X[cuts[0]].mean(0)) / np.maximum(X[cuts[0]].std(0), 1e-9)
    means = np.stack([Z[cuts[0]][y[cuts[0]] == c].mean(0) for c in range(y.max() + 1)])
    edges: list[tuple[str, str]] = []

    def grow(ball: Any, above: str) -> None:
        label = f"class {ball.id}" if ball.is_leaf() else f"ball {ball.id}"
        edges.append((above, label))
        for child in () if ball.is_leaf() else (ball.left, ball.right):
            grow(child, label)

    top = to_tree(linkage(means, "ward"))
    for child in (top.left, top.right):
        grow(child, "all")
    tree = Tree.from_edges(edges)
    node = np.asarray(tree.index([f"class {c}" for c in y]))
    parts = dict(zip(PARTS, cuts, strict=True))
    return Case(
        f"{name} table",
        tree,
        {part: {"numbers": X[rows]} for part, rows in parts.items()},
        {part: node[rows] for part, rows in parts.items()},
    )


def text_and_numbers(seed: int) -> Case:
    """isco with eight numbers beside the words: a point of the depth-1 ball plus noise twice as wide as the points' spread."""
    task, rng = load_task("isco", seed), np.random.default_rng(seed)
    tree = task.tree
    branch = {part: tree.ancestor_at(task.nodes[part], np.ones(len(task.nodes[part]), int)) for part in PARTS}
    points = rng.normal(size=(tree.n_nodes, 8))
    numbers = {part: points[branch[part]] + 2.0 * rng.normal(size=(len(branch[part]), 8)) for part in PARTS}
    return _case("text and numbers", task, {"words": words(task), "numbers": (numbers, [])})


def noise_block(seed: int) -> Case:
    """isco with a dense block of 64 random numbers that mean nothing."""
    task, rng = load_task("isco", seed), np.random.default_rng(seed)
    numbers = {part: rng.normal(size=(len(task.nodes[part]), 64)) for part in PARTS}
    return _case("a block of noise", task, {"words": words(task), "noise": (numbers, [])})


#: Small enough for `make bench-quick`.
QUICK: dict[str, Callable[[int], Case]] = {
    "isco": lambda seed: plain("isco", seed),
    "headlines": lambda seed: plain("headlines", seed),
    "go-component": lambda seed: plain("go-component", seed),
    "singles": lambda seed: listed("one row a class", seed, 1, 1),
    "pairs": lambda seed: listed("two rows a class", seed, 2, 2),
    "copies": near_copies,
    "grouped": grouped,
    "headlines-svd": lambda seed: reduced("headlines", seed),
    "component-svd": lambda seed: reduced("go-component", seed),
    "digits": lambda seed: table("digits", seed),
    "wine": lambda seed: table("wine", seed),
    "breast-cancer": lambda seed: table("breast_cancer", seed),
    "iris": lambda seed: table("iris", seed),
    "text-numbers": text_and_numbers,
    "noise": noise_block,
    "few-small": lambda seed: few_classes(seed, 8000),
}
CASES: dict[str, Callable[[int], Case]] = {
    "wordnet": lambda seed: plain("wordnet", seed),
    "wordnet-texts": lambda seed: plain("wordnet-texts", seed),
    "go": lambda seed: plain("go", seed),
    "go-process": lambda seed: plain("go-process", seed),
    "naics": lambda seed: plain("naics", seed),
    **QUICK,
    "two-labels": two_labels,
    "few-each": lambda seed: listed("one to four rows a class", seed, 1, 4),
    "few": few_classes,
    "isco-svd": lambda seed: reduced("isco", seed, 128, unit=True),
    **{f"its{k}": partial(sequences, k) for k in range(3)},
    "its-inner": partial(sequences, 0, inner=True),
    "component-minilm": lambda seed: with_encoder("go-component", seed, "minilm", alone=True),
    "component-words-minilm": lambda seed: with_encoder("go-component", seed, "minilm"),
    "component-words-light": lambda seed: with_encoder("go-component", seed, "light"),
    "go-words-minilm": lambda seed: with_encoder("go", seed, "minilm"),
    "go-words-light": lambda seed: with_encoder("go", seed, "light"),
    "wordnet-words-minilm": lambda seed: with_encoder("wordnet", seed, "minilm"),
    "wordnet-texts-words-minilm": lambda seed: with_encoder("wordnet-texts", seed, "minilm"),
    "wordnet-words-light": lambda seed: with_encoder("wordnet", seed, "light"),
    "wordnet-texts-words-light": lambda seed: with_encoder("wordnet-texts", seed, "light"),
}
#: Tens of thousands of texts to encode, and hundreds of dense columns beside the words of as many rows: hours for the peers.
ENCODED = tuple(name for name in CASES if name.startswith(("go-words-", "wordnet-words-", "wordnet-texts-words-")))
