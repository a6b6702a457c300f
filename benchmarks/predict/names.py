"""NCBI species to their family, by the character 3–5-grams of the name: a case of any number of rows, to see how fitting grows."""

from __future__ import annotations

import numpy as np

from benchmarks.predict.cases import PARTS, Case
from vpunn.tree import Tree

#: Rows that are asked, of validation and of test.
ASKED = 2_000


def species(rows: int, seed: int) -> Case:
    """``rows`` training names, drawn from all species that have a family; the tree ends at the families."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from vpunn.datasets import load_ncbi

    whole = load_ncbi(root=None).tree
    rank = np.asarray(whole.columns["rank"], object)
    families = np.flatnonzero(rank == "family")
    size = whole.subtree_sum(np.ones(whole.n_nodes, np.int64))
    nodes = np.flatnonzero(rank == "species")
    family = families[np.maximum(np.searchsorted(families, nodes, side="right") - 1, 0)]  # nodes stand in preorder
    inside = (nodes >= family) & (nodes < family + size[family])
    order = np.random.default_rng(seed).permutation(np.flatnonzero(inside))[: rows + 2 * ASKED]
    kept = np.unique(whole.paths(families))
    kept = kept[kept >= 0]
    up = np.searchsorted(kept, whole.parent[kept])
    tree = Tree.from_parents(np.where(whole.parent[kept] < 0, -1, up))
    cuts = [rows, rows + ASKED]
    at = dict(zip(PARTS, np.split(tree.index(np.searchsorted(kept, family[order])), cuts), strict=True))
    names = np.asarray(whole.columns["name"], object)[nodes[order]].astype(str)
    texts = dict(zip(PARTS, np.split(names, cuts), strict=True))
    features = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=2).fit(texts["train"])
    return Case(f"{rows} names", tree, {part: {"words": features.transform(texts[part])} for part in PARTS}, at)
