"""Files: which format it is, streams, failed writes, and errors that name the file."""

import gzip
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from shapes import from_text as text
from vpunn.errors import DataError, TreeError, VpunnError
from vpunn.io import read_tree, write_tree
from vpunn.tree import Tree
from vpunn.tree.build import tree_from_edges


@pytest.mark.parametrize("ending", ["nwk", "newick.gz", "json.bz2", "csv.xz", "tsv.gz", "parquet", "tab", "tre", "pq"])
def test_endings_tell_the_format(ending, tmp_path):
    tree = tree_from_edges([("life", "birds"), ("life", "fish")])
    path = tmp_path / f"a.{ending}"
    write_tree(tree, path)
    assert read_tree(path) == tree
    before = path.read_bytes()
    write_tree(tree, path)
    assert path.read_bytes() == before  # the same tree gives the same bytes
    assert os.listdir(tmp_path) == [path.name]


def test_contents_tell_the_format():
    assert text(" (a,b)c;").labels.tolist() == ["c", "a", "b"]
    assert text("[&R] (a,b)c;").labels.tolist() == ["c", "a", "b"]
    assert text("only;").labels.tolist() == ["only"]
    assert text('{"name": "r"}').labels.tolist() == ["r"]
    assert text('[{"name": "r"}]').labels.tolist() == ["r"]
    assert text("format-version: 1.2\n\n[Term]\nid: X:1\n").labels.tolist() == ["X:1"]
    assert text("parent\tchild\nr\ta\n").labels.tolist() == ["r", "a"]
    assert text("parent;child\nr;a\n").labels.tolist() == ["r", "a"]
    assert text("a/b\na/c\n").labels.tolist() == ["a", "b", "c"]
    parquet = io.BytesIO()
    tree = tree_from_edges([("r", "a")])
    tree.to_frame().to_parquet(parquet)
    assert read_tree(io.BytesIO(parquet.getvalue())) == tree
    assert read_tree(io.BytesIO(gzip.compress(b"\xef\xbb\xbf(a,b)c;"))).labels.tolist() == ["c", "a", "b"]
    with pytest.raises(DataError, match="cannot tell the format of <stream>.*newick, nexus, obo, json"):
        text("what is this")


def test_standard_streams(monkeypatch, capfdbinary):
    class Stdin:
        buffer = io.BytesIO(b"(owl,wren)bird;")

    monkeypatch.setattr(sys, "stdin", Stdin)
    tree = read_tree("-")
    write_tree(tree, "-", format="newick")
    assert capfdbinary.readouterr().out == b"(owl,wren)bird;\n"


@pytest.mark.parametrize("name", ["t.csv", "t.paths", "t.json", "t.nwk"])
def test_small_files_are_read_without_pandas(name, tmp_path):
    """Importing it would take a quarter of a second of every short command."""
    texts = {"csv": "parent,child\n,r\nr,a\nr,b\n", "paths": "r/a\nr/b\n", "nwk": "(a,b)r;"}
    texts["json"] = '{"name": "r", "children": [{"name": "a"}, {"name": "b"}]}'
    path = tmp_path / name
    path.write_text(texts[name.split(".")[1]])
    script = f"import sys, vpunn; print(vpunn.read_tree({str(path)!r}).labels.tolist(), 'pandas' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "['r', 'a', 'b'] False\n"


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    tree = tree_from_edges([("r", "a")])
    path = tmp_path / "t.nwk"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DataError, match=r"cannot write '.*t\.nwk': No space left on device"):
        write_tree(tree, path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("t.nwk", "old")]
    with pytest.raises(TreeError, match=r"the seen \{2\} is a set, which JSON cannot hold"):
        write_tree(Tree.from_parents([-1], columns={"seen": np.array([{2}], object)}), tmp_path / "t.json")
    with pytest.raises(TreeError, match="Parquet cannot hold the column 'label'"):
        write_tree(Tree.from_parents([-1, 0], labels=["a", 1]), tmp_path / "t.parquet")
    with pytest.raises(TreeError, match="unmatched bracket"):
        Tree.from_parents([-1], columns={"comment": np.array(["a]"], object)}).to_newick()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: read_tree(d / "no.csv"), "there is no file or folder '.*no.csv'"),
        (lambda d: read_tree(d / "no.csv", format="xml"), "format='xml' is unknown; choose one of csv, tsv"),
        (
            lambda d: text("(a)b;", colour="red"),
            "format 'newick' has no option 'colour'; its options are: encoding, numbers",
        ),
        (
            lambda d: text("a,b\n", format="csv", relations=["x"]),
            "no option 'relations'; its options are: add_root, child,",
        ),
        (lambda d: text("x", format="ncbi"), "format 'ncbi' needs a path"),
        (lambda d: write_tree(Tree.from_parents([-1]), d / "x.doc"), "cannot tell the format of '.*x.doc'"),
        (
            lambda d: write_tree(Tree.from_parents([-1]), d / "x", format="ncbi"),
            "format='ncbi' is unknown; choose one of csv",
        ),
        (
            lambda d: write_tree(Tree.from_parents([-1]), d / "no" / "x.csv"),
            "there is no folder '.*no'; create it first",
        ),
        (lambda d: write_tree(Tree.from_parents([-1]), d, format="csv"), "it is a folder; name a file in it"),
        (lambda d: read_tree(io.BytesIO(b"\x1f\x8bnonsense")), "looks compressed but cannot be unpacked"),
        (
            lambda d: read_tree(io.BytesIO(b"parent,child\na,\xff\n"), encoding="utf-8"),
            "line 2, column 3: byte 0xff is not utf-8 text; pass enc",
        ),
        (
            lambda d: write_tree(Tree.from_parents([-1], ["a\0b"]), d / "x.csv"),
            "holds the character .0, which no text table does",
        ),
        (lambda d: read_tree(io.BytesIO(b"(a,\xff)b;")), "line 1, column 4: byte 0xff is not utf-8 text"),
        (lambda d: text("a,b\n", format="csv", encoding="klingon"), "there is no encoding 'klingon'"),
        (lambda d: text("a,b\n", format="csv", encoding=5), "there is no encoding 5"),
        (lambda d: read_tree(5), "named by text or a pathlib.Path .*, got 5"),
        (lambda d: read_tree(None), "named by text or a pathlib.Path .*, got None"),
        (lambda d: read_tree(b"tree.csv"), "named by text or a pathlib.Path .*, got b'tree.csv'"),
        (lambda d: write_tree(None, d / "x.csv"), "takes a tree and then a path, got None as the tree"),
        (lambda d: write_tree(Tree.from_parents([-1]), 5, format="csv"), "named by text or a pathlib.Path .*, got 5"),
        (lambda d: write_tree(Tree.from_parents([-1]), io.BytesIO(), format="csv"), "named by text or a pathlib.Path"),
    ],
)
def test_files_that_cannot_be_used(call, message, tmp_path):
    with pytest.raises(VpunnError, match=message):
        call(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "content",
    ["parent,child\nr,ä\n", "(ä)r;", '{"name": "r", "children": [{"name": "ä"}]}', "r/ä\n", "[Term]\nid: r\n"],
)
def test_utf_16_is_recognised(content, encoding):
    format = {"p": "csv", "(": "newick", "{": "json", "r": "paths", "[": "obo"}[content[0]]
    data = content.encode(encoding)
    if format in ("csv", "paths"):
        assert read_tree(io.BytesIO(data)) == text(content)
    else:
        with pytest.raises(
            DataError, match="^<stream> is UTF-16 text, not UTF-8; pass encoding='utf-16', or save it as UTF-8.$"
        ):
            read_tree(io.BytesIO(data), format=format)
    assert read_tree(io.BytesIO(data), format=format, encoding=encoding) == text(content, format=format)
