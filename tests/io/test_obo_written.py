"""OBO files that are written: what `read_obo` reads back is the same tree, extra parents and columns included."""

import numpy as np
import pytest

from vpunn import Tree
from vpunn.errors import DataError, DataWarning
from vpunn.io import read_tree, write_tree

EDGES = [("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("a", "d"), ("c", "e")]


def test_extra_parents_and_columns_come_back(tmp_path):
    tree = Tree.from_edges(EDGES)
    n = tree.n_nodes
    synonyms, xref = np.empty(n, object), np.empty(n, object)
    for i in range(n):
        synonyms[i] = (('a "name"', "EXACT"), ("back\\slash", "RELATED")) if i == 2 else ()
        xref[i] = ("EC:1.2.3.4", "with blank") if i == 3 else ()
    names = np.array([f"node {i}, {{braces}}" for i in range(n)], object)
    said = np.array(['says "so"\nand\tmore' if i == 1 else "" for i in range(n)], object)
    tree = tree.replace(columns={"name": names, "definition": said, "synonyms": synonyms, "xref": xref})
    write_tree(tree, tmp_path / "tree.obo")
    again = read_tree(tmp_path / "tree.obo")
    assert again.n_extra == tree.n_extra == 2
    for mine, theirs in zip(tree.all_parents, again.all_parents, strict=True):
        assert np.array_equal(mine, theirs)
    assert again.labels.tolist() == tree.labels.tolist()
    for name in ("name", "definition", "synonyms", "xref"):
        assert again.columns[name].tolist() == tree.columns[name].tolist()


def test_what_obo_cannot_hold_is_said(tmp_path):
    with pytest.raises(DataError, match="text without blanks"):
        write_tree(Tree.from_edges([("r", "a b")]), tmp_path / "x.obo")
    with pytest.raises(DataError, match="twice"):
        write_tree(Tree.from_parents([-1, 0, 1], labels=["r", "a", "a"]), tmp_path / "x.obo")
    tree = Tree.from_edges([("r", "a")])
    with pytest.warns(DataWarning, match="'wings'"):
        write_tree(tree.replace(columns={"wings": np.arange(2)}), tmp_path / "x.obo")
