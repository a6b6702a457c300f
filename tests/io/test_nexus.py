"""NEXUS files, and files of several trees."""

import gzip

import numpy as np
import pytest

from vpunn import VpunnError, read_tree
from vpunn.io import read_trees

FILE = """#NEXUS
[a comment; with a mark]
Begin taxa; dimensions ntax=3; taxlabels A 'B;b' C; end;
BEGIN TREES;
  Translate 1 Homo_sapiens, 2 'Pan; ''b''', 3 Dall's_C;
  tree * best [&lnP=-1,x={1;2}] = [&R] ((1:[&rate=1]1,2:2)100:[&rate=0.5]3,3:5e0);
  UTREE 'the other' = (1,(2,3)7);
  tree best = (1,2);
END;
begin characters; matrix A 0; end;
"""


def test_names_lengths_and_comments_of_a_nexus_file(tmp_path):
    path = tmp_path / "t.nex.gz"
    path.write_bytes(gzip.compress(FILE.encode()))
    tree = read_tree(path)
    assert tree.labels[tree.leaves].tolist() == ["Homo_sapiens", "Pan; 'b'", "Dall's_C"]
    assert tree.labels[1] == "100"  # the support of an inner node is no key
    np.testing.assert_array_equal(tree.columns["length"], [np.nan, 3, 1, 2, 5])
    assert "2 more trees" in tree.report[-1]
    trees = read_trees(path)
    assert list(trees) == ["best", "the other", "best (2)"] and trees["best (2)"].n_leaves == 2
    assert read_tree(path, tree_name="the other") == trees["the other"]


def test_endings_are_shared_with_newick_which_may_hold_several_trees(tmp_path):
    path = tmp_path / "t.tre"
    path.write_text(FILE)
    assert read_tree(path).n_leaves == 3
    path = tmp_path / "t.trees"
    path.write_text("((a,b),c);\n[two] ('d;e',f);\n")
    trees = read_trees(path)
    assert {name: tree.labels[tree.leaves].tolist() for name, tree in trees.items()} == {
        "tree 1": ["a", "b", "c"],
        "tree 2": ["d;e", "f"],
    }
    assert read_tree(path) == trees["tree 1"] and "1 more tree ('tree 2')" in read_tree(path).report[-1]
    assert read_tree(path, tree_name="tree 2") == trees["tree 2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#NEXUS\nbegin trees;\nend;", "no tree"),
        ("#NEXUS\nbegin trees;\n\ntree a = ((b,c);\nend;", "line 4"),
        ("#NEXUS\nbegin trees;\ntranslate 1 a b;\ntree a = (1,2);", "not one key and one name"),
        ("#NEXUS\nbegin trees;\ntranslate 1 a, 1 b;\ntree a = (1,2);", "translated twice"),
    ],
)
def test_what_is_wrong_in_a_nexus_file_is_said_with_its_line(text, words, tmp_path):
    path = tmp_path / "t.nex"
    path.write_text(text)
    with pytest.raises(VpunnError, match=words):
        read_tree(path)
    path.write_text(FILE)
    with pytest.raises(VpunnError, match="no tree 'x'"):
        read_tree(path, tree_name="x")
