"""Prediction tasks on real hierarchies: the same split, texts and labels for every method that is compared.

A task has texts and node ids for training, validation and test, and the tree of possible answers. Splits depend on the seed
only. Settings are chosen on the validation part of split 0 of the tuning tasks; results are quoted from the test parts of the
other splits (which redraw the same items). `UNTOUCHED` was kept out of all tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vpunn.datasets.fetch import DATA_DIR, data_dir
from vpunn.errors import DataError, VpunnError
from vpunn.tree import Tree

Part = Literal["train", "validation", "test"]
Namespace = Literal["molecular_function", "biological_process", "cellular_component"]


@dataclass(frozen=True)
class PlacementTask:
    """Texts to be placed on a tree; ``descriptions`` are arrays of one text per node ("" for none) that every method may use."""

    name: str
    tree: Tree
    texts: dict[str, np.ndarray]
    nodes: dict[str, np.ndarray]
    descriptions: tuple[np.ndarray, ...] = ()
    #: Whether the texts are sequences of letters and not words.
    sequences: bool = False

    def labels(self, part: Part) -> np.ndarray:
        """Node labels of a part."""
        return np.asarray(self.tree.labels[self.nodes[part]])

    def empty(self, part: Part = "test") -> np.ndarray:
        """Which rows of a part belong to a node without any training row."""
        return ~np.isin(self.nodes[part], self.nodes["train"])


def wordnet_placement(seed: int = 0, *, descriptions: bool = False) -> PlacementTask:
    """Place a leaf synset under its parent: text = words and gloss, label = parent synset, 80/10/10.

    The tree of answers is WordNet without its leaves. With ``descriptions`` the texts of those answers are given too.
    """
    from vpunn.datasets import load_wordnet

    whole = load_wordnet("3.0").tree
    kept = np.flatnonzero(~whole.is_leaf)
    place = np.full(whole.n_nodes + 1, -1, np.int64)
    place[kept] = np.arange(len(kept))
    told = {name: whole.columns[name][kept] for name in ("name", "gloss")}
    tree = Tree.from_parents(place[whole.parent[kept]], whole.labels[kept], columns=told)
    words, glosses = whole.columns["lemmas"].astype(object), whole.columns["gloss"].astype(object)
    texts = words + " " + glosses
    leaves = whole.leaves
    order = np.random.default_rng(seed).permutation(len(leaves))
    cuts = int(0.8 * len(order)), int(0.9 * len(order))
    rows = {"train": order[: cuts[0]], "validation": order[cuts[0] : cuts[1]], "test": order[cuts[1] :]}
    return PlacementTask(
        "WordNet placement" + (" with node texts" if descriptions else ""),
        tree,
        {part: texts[leaves[pick]] for part, pick in rows.items()},
        {part: place[whole.parent[leaves[pick]]] for part, pick in rows.items()},
        (words[kept], glosses[kept]) if descriptions else (),
    )


def go_synonyms(seed: int = 0, *, namespace: Namespace = "molecular_function") -> PlacementTask:
    """Link a synonym to its Gene Ontology term: trained on names, definitions and half of the synonyms.

    Half of the synonyms are training rows, names and definitions are the nodes' descriptions (methods that know no
    descriptions get them as further rows); the other half of the synonyms is validation and test, a quarter each.
    """
    from vpunn.datasets import load_go

    go = load_go(namespace)
    tree = go.tree
    table = go.synonyms.drop_duplicates(["term", "synonym"])
    text, node = table["synonym"].to_numpy(object), np.asarray(tree.index(table["term"].to_numpy(object)))
    order = np.random.default_rng(seed).permutation(len(text))
    half, three = len(order) // 2, 3 * len(order) // 4
    rows = {"train": order[:half], "validation": order[half:three], "test": order[three:]}
    texts = {part: text[pick] for part, pick in rows.items()}
    nodes = {part: node[pick] for part, pick in rows.items()}
    definitions = np.array([d or "" for d in tree.columns["definition"]], dtype=object)
    names = tree.columns["name"].astype(object)
    return PlacementTask(f"GO {namespace.replace('_', ' ')} synonyms", tree, texts, nodes, (names, definitions))


def coded_texts(name: str, seed: int = 0) -> PlacementTask:
    """Texts and the code of a classification each belongs to, from the folder ``tasks/<name>`` under ``VPUNN_DATA_DIR``.

    ``nodes.csv`` has the columns node, parent, code, name, and ``rows.csv`` text, node, split. Seed 0 is the split of the
    file; others redraw the same rows into parts of the same sizes. No registry carries these tables, so without the folder
    there is one sentence that says what is missing.
    """
    import pandas as pd

    folder = data_dir()
    where = None if folder is None else folder / "tasks" / name
    if where is None or not (where / "rows.csv").is_file():
        raise DataError(
            f"task {name!r} needs the tables tasks/{name}/nodes.csv and rows.csv in the folder that {DATA_DIR} names, "
            f"which is {str(folder) if folder else 'not set'}."
        )
    nodes = pd.read_csv(where / "nodes.csv", dtype={"code": str, "name": str}, keep_default_na=False)
    rows = pd.read_csv(where / "rows.csv", keep_default_na=False)
    code = dict(zip(nodes["node"], nodes["code"], strict=True))
    above = [code[int(parent)] if parent != "" else None for parent in nodes["parent"]]
    edges = [(up, name) for up, name in zip(above, nodes["code"], strict=True) if up is not None]
    tree = Tree.from_edges(edges)
    called = dict(zip(nodes["code"], nodes["name"], strict=True))
    tree = tree.replace(columns={"name": [called[label] for label in tree.labels.tolist()]})
    split, node = rows["split"].to_numpy(str), np.asarray(tree.index(rows["node"].map(code).to_numpy(object)))
    if seed:
        split = np.random.default_rng(seed).permutation(split)
    text = rows["text"].to_numpy(object)
    parts = ("train", "validation", "test")
    return PlacementTask(
        name, tree, {part: text[split == part] for part in parts}, {part: node[split == part] for part in parts}
    )


def fungal_sequences(seed: int = 0) -> PlacementTask:
    """Fungal ITS sequences and the UNITE lineage of each, from ``public/its`` under ``VPUNN_DATA_DIR``; the seed is the fold.

    Two queries in three are of a species that the references have not; their answer is the deepest node that the references have.
    """
    import pandas as pd

    folder = data_dir()
    where = None if folder is None else folder / "public" / "its" / f"fold{seed % 3}"
    if where is None or not (where / "train.csv.gz").is_file():
        raise DataError(
            f"the fungi need the tables public/its/fold{seed % 3}/train.csv.gz and test.csv.gz in the folder that {DATA_DIR} "
            f"names, which is {str(folder) if folder else 'not set'}."
        )
    tables = {part: pd.read_csv(where / f"{part}.csv.gz", dtype=str) for part in ("train", "test")}
    lines = {part: [_lineage(text) for text in table["taxonomy"]] for part, table in tables.items()}
    known = {path[:k] for path in lines["train"] for k in range(len(path) + 1)}
    tree = Tree.from_edges([("; ".join(path[:-1]) or "life", "; ".join(path)) for path in sorted(known - {()})])
    nodes = {}
    for part, paths in lines.items():
        deepest = [next(path[:k] for k in range(len(path), -1, -1) if path[:k] in known) for path in paths]
        nodes[part] = np.asarray(tree.index(["; ".join(path) or "life" for path in deepest]))
    texts = {part: table["sequence"].to_numpy(object) for part, table in tables.items()}
    none = {"validation": texts["test"][:0]}, {"validation": nodes["test"][:0]}
    return PlacementTask(f"fungal ITS, fold {seed % 3}", tree, texts | none[0], nodes | none[1], sequences=True)


def _lineage(text: str) -> tuple[str, ...]:
    """Ranks up to the first empty one."""
    ranks = [rank.strip() for rank in text.split(";")]
    empty = next((i for i, rank in enumerate(ranks) if not rank or rank.endswith("__")), len(ranks))
    return tuple(ranks[:empty])


TASKS = {
    "fungi": lambda seed: fungal_sequences(seed),
    "wordnet": lambda seed: wordnet_placement(seed),
    "wordnet-texts": lambda seed: wordnet_placement(seed, descriptions=True),
    "go": lambda seed: go_synonyms(seed),
    "go-process": lambda seed: go_synonyms(seed, namespace="biological_process"),
    "go-component": lambda seed: go_synonyms(seed, namespace="cellular_component"),
    "naics": lambda seed: coded_texts("naics", seed),
    "isco": lambda seed: coded_texts("isco", seed),
    "headlines": lambda seed: coded_texts("headlines", seed),
}
#: The task no setting was chosen on.
UNTOUCHED = "go-component"


def load_task(name: str, seed: int = 0) -> PlacementTask:
    """A task by its short name, one of `TASKS`; go-component is the one kept out of all tuning of its settings."""
    if name not in TASKS:
        raise VpunnError(f"there is no task {name!r}; choose one of {', '.join(TASKS)}.")
    return TASKS[name](seed)
