"""Prediction tasks whose rows have several labels on a graph: the same split, texts and label sets for every method compared.

Splits depend on the seed only. Label sets are given as they are annotated; methods that know no hierarchy are trained on
`SetTask.closed`, the sets with all ancestors by any path (without the root), on which all methods are scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from vpunn.errors import VpunnError
from vpunn.tree import Tree

if TYPE_CHECKING:
    from scipy import sparse

Part = Literal["train", "validation", "test"]
#: A function that so many proteins have because they were looked for in one assay: it says next to nothing.
PROTEIN_BINDING = "GO:0005515"


@dataclass(frozen=True)
class SetTask:
    """Texts with sets of node ids on a tree with extra parents; ``evidence`` names how each label is known, if anybody noted it."""

    name: str
    tree: Tree
    texts: dict[str, np.ndarray]
    nodes: dict[str, list[np.ndarray]]
    evidence: dict[str, list[tuple[str, ...]]] | None = None

    def labels(self, part: Part) -> list[set[object]]:
        """Label sets of a part, as `HiPaNClassifier.fit` takes them."""
        return [set(self.tree.labels[row].tolist()) for row in self.nodes[part]]

    def closed(self, part: Part) -> sparse.csr_matrix:
        """The sets with all ancestors by any path but the root, (rows × nodes) of 0 and 1."""
        from vpunn.metrics.sets import table_of, with_ancestors

        return with_ancestors(self.tree, table_of(self.tree, self.nodes[part]))


def protein_functions(seed: int = 0) -> SetTask:
    """Human proteins and their molecular functions: text = name, symbol and synonyms; split by protein, 80/10/10.

    From the annotations of `load_go`: statements with the qualifier NOT are no annotations, *protein binding* and the root say
    nothing and are left out, and so are proteins that have no other function. ``evidence`` keeps GO's codes (IEA…).
    """
    from vpunn.datasets import load_go

    go = load_go("molecular_function")
    table = go.annotations
    table = table[(table["node"] > 0) & (table["term"] != PROTEIN_BINDING)]
    first = table.drop_duplicates("protein").sort_values("protein")
    text = (first["name"] + " " + first["symbol"] + " " + first["synonyms"].str.replace("|", " ")).to_numpy(object)
    said = table[["protein", "node", "evidence"]].drop_duplicates().sort_values(["protein", "node", "evidence"])
    protein, node = said["protein"].to_numpy(object), said["node"].to_numpy(np.int64)
    new = np.append(True, protein[1:] != protein[:-1])
    pair = np.flatnonzero(new | np.append(True, node[1:] != node[:-1]))  # where a protein's next function begins
    code = ["|".join(found) for found in np.split(said["evidence"].to_numpy(object), pair[1:])]
    cuts = np.flatnonzero(new[pair])[1:]
    nodes, codes = np.split(node[pair], cuts), [tuple(part) for part in np.split(np.array(code, object), cuts)]
    return _split("proteins to molecular functions", go.tree, text, nodes, seed, codes)


def term_parents(
    seed: int = 0, *, namespace: Literal["molecular_function", "biological_process"] = "molecular_function"
) -> SetTask:
    """GO terms and *all* their ``is_a`` parents: text = name and definition, 80/10/10 of the terms without children.

    The graph of answers is the ontology without those leaves.
    """
    from vpunn.datasets import load_go

    tree = load_go(namespace).tree
    names = tree.columns["name"].astype(object) + " " + np.array([d or "" for d in tree.columns["definition"]], object)
    return _leaves_below(f"GO {namespace.replace('_', ' ')} terms to all parents", tree, names, seed)


def synset_hypernyms(seed: int = 0, *, several: bool = True) -> SetTask:
    """WordNet synsets and all their hypernyms: text = words and gloss, 80/10/10 of the synsets without hyponyms.

    With ``several`` the test and validation parts keep only synsets that have more than one hypernym; all teach.
    """
    from vpunn.datasets import load_wordnet

    tree = load_wordnet("3.0").tree
    texts = tree.columns["lemmas"].astype(object) + " " + tree.columns["gloss"].astype(object)
    task = _leaves_below("WordNet synsets to all hypernyms", tree, texts, seed)
    if not several:
        return task
    keep = {part: [len(row) > 1 or part == "train" for row in rows] for part, rows in task.nodes.items()}
    return SetTask(
        task.name,
        task.tree,
        {part: texts[np.array(keep[part])] for part, texts in task.texts.items()},
        {part: [row for row, ok in zip(rows, keep[part], strict=True) if ok] for part, rows in task.nodes.items()},
    )


def _leaves_below(name: str, tree: Tree, texts: np.ndarray, seed: int) -> SetTask:
    """Nodes without children of any kind, to be placed below all their parents in the graph of the others."""
    inner = ~tree.is_leaf | (np.diff(tree.extra_children[0]) > 0)
    kept, leaves = np.flatnonzero(inner), np.flatnonzero(~inner)
    place = np.full(tree.n_nodes, -1, np.int64)
    place[kept] = np.arange(len(kept))
    parent = np.where(tree.parent[kept] >= 0, place[tree.parent[kept]], -1)
    part = tree.replace(columns={}, report=()).take(parent, kept).replace(report=())
    order = part.index(tree.labels[kept]) if part.n_nodes == len(kept) else kept  # preorder stays preorder
    start, up = tree.all_parents
    nodes = [np.sort(order[place[up[start[i] : start[i + 1]]]]) for i in leaves.tolist()]
    return _split(name, part, texts[leaves], nodes, seed)


def _split(
    name: str,
    tree: Tree,
    text: np.ndarray,
    nodes: list[np.ndarray],
    seed: int,
    codes: list[tuple[str, ...]] | None = None,
) -> SetTask:
    """80 % to learn from, 10 % to choose by, 10 % to quote."""
    order = np.random.default_rng(seed).permutation(len(text))
    cuts = len(order) // 10, 2 * (len(order) // 10)
    rows = {"test": order[: cuts[0]], "validation": order[cuts[0] : cuts[1]], "train": order[cuts[1] :]}
    return SetTask(
        name,
        tree,
        {part: text[pick] for part, pick in rows.items()},
        {part: [nodes[i] for i in pick] for part, pick in rows.items()},
        None if codes is None else {part: [codes[i] for i in pick] for part, pick in rows.items()},
    )


SET_TASKS: dict[str, Callable[[int], SetTask]] = {
    "proteins": lambda seed: protein_functions(seed),
    "go-parents": lambda seed: term_parents(seed),
    "hypernyms": lambda seed: synset_hypernyms(seed),
}


def load_set_task(name: str, seed: int = 0) -> SetTask:
    """A task of label sets by its short name, one of `SET_TASKS`."""
    if name not in SET_TASKS:
        raise VpunnError(f"there is no task of label sets {name!r}; choose one of {', '.join(SET_TASKS)}.")
    return SET_TASKS[name](seed)
