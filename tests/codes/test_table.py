"""The codes table: keys sort as the tree does, prefixes are balls, keys survive insertion; columns of labels become nodes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import random_tree, trees
from vpunn import Tree
from vpunn.codes import codes_table, path_key
from vpunn.codes._table import key_lengths
from vpunn.errors import CodeError, TreeError


@given(trees())
def test_a_ball_is_a_range_of_positions_and_a_prefix_of_keys(tree):
    rows = codes_table(tree).to_pylist()
    keys = [row["path_key"] for row in rows]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    for ball in rows:
        inside = [ball["node"] <= row["node"] <= ball["last"] for row in rows]
        assert inside == [bool(tree.is_ancestor(ball["node"], row["node"])) for row in rows]
        assert inside == [row["path_key"].startswith(ball["path_key"]) for row in rows]
        assert inside == [ball["path_key"] <= row["path_key"] < ball["path_key"] + b"\xff" for row in rows]
        assert ball["path_key"] == path_key(tree, ball["node"])


@pytest.mark.filterwarnings("ignore::vpunn.CodeChangeWarning")
@given(trees(20), st.data())
def test_keys_survive_insertion(tree, data):
    parents = data.draw(st.lists(st.integers(0, tree.n_nodes - 1), min_size=1, max_size=5))
    named = tree.relabel([f"n{i}" for i in range(tree.n_nodes)])
    grown = named.insert(parents, [f"new{i}" for i in range(len(parents))])
    tables = [codes_table(t).select(["label", "path_key"]).to_pydict() for t in (named, grown)]
    before, after = (dict(zip(*table.values(), strict=True)) for table in tables)
    assert {label: after[label] for label in before} == before


def test_digits_of_every_length_keep_their_order():
    edges = [1, 127, 128, 16_383, 16_384, (1 << 21) - 1, 1 << 21, (1 << 28) - 1, 1 << 28, (1 << 31) - 1]
    assert key_lengths(np.array(edges)).tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    wide = Tree.from_parents([-1] + [0] * 20_000)
    keys = codes_table(wide)["path_key"].to_pylist()
    assert keys == sorted(keys) and max(map(len, keys)) == 3
    assert not any(b.startswith(a) for a, b in pairwise(keys[1:]))


def test_a_chain_too_deep_for_keys_is_refused():
    with pytest.raises(CodeError, match="use node and last"):
        codes_table(Tree.from_parents(np.arange(-1, 199_999)))


@pytest.mark.parametrize("kind", ["text", "dictionary", "large", "numbers", "chunks", "list"])
def test_columns_of_labels_become_nodes(kind):
    tree = random_tree(500, 1)
    if kind != "numbers":
        tree = tree.relabel([f"näme {i}" for i in range(500)])
    nodes = np.random.default_rng(0).integers(0, 500, 2000)
    cells = tree.labels[nodes].tolist()
    cells[7] = None
    column = {
        "text": pa.array(cells).slice(3),
        "dictionary": pa.array(cells).dictionary_encode(),
        "large": pa.array(cells, pa.large_string() if kind != "numbers" else None),
        "numbers": pa.array(cells),
        "chunks": pa.chunked_array([cells[:100], cells[100:]]),
        "list": cells,
    }[kind]
    found = tree.encode_column(column)
    first = 3 if kind == "text" else 0
    assert found.type == pa.int32() and found.null_count == 1
    assert found.to_pylist() == [None if i == 7 else int(nodes[i]) for i in range(first, 2000)]


def test_unseen_labels_are_refused_or_null():
    tree = Tree.from_parents([-1, 0, 0], labels=["all", "a", "b"])
    for column in (pa.array(["a", "z", None]), pa.array(["a", "z", None]).dictionary_encode()):
        assert tree.encode_column(column, unseen="null").to_pylist() == [1, None, None]
        with pytest.raises(TreeError, match="not in the tree: 'z'"):
            tree.encode_column(column)
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "z"]))
    assert tree.encode_column(unused).to_pylist() == [1, 1]
    twice = Tree.from_parents([-1, 0, 0], labels=["all", "a", "a"])
    with pytest.raises(TreeError, match="names 2 nodes"):
        twice.encode_column(["a"])
    mixed = Tree.from_parents([-1, 0, 0], labels=["all", 1, ("x", 2)])
    assert mixed.encode_column(pa.array([1, 1])).to_pylist() == [1, 1]
