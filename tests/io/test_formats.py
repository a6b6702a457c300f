"""Newick, tables, JSON, OBO and NCBI: real dumps in miniature, and errors that name file and place."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes import from_text as text
from vpunn.errors import DataError, VpunnError
from vpunn.io import read_tree
from vpunn.tree import check_tree
from vpunn.tree.build import tree_from_edges
from vpunn.tree.dag import dropped_edges

# ---- Newick ----------------------------------------------------------------------------------------------------------


def test_newick_of_other_hands():
    tree = text(
        "[&R] ( 'it''s' : 1e-3 , "
        '"b ""c""":.5[&&NHX:S=x],\n Homo sapiens:2 , D_e[note]:-1)root:[none];\n [trailing]\n'
    )
    assert tree.labels.tolist() == ["root", "it's", 'b "c"', "Homo sapiens", "D_e"]
    np.testing.assert_array_equal(tree.columns["length"], [np.nan, 0.001, 0.5, 2, -1])
    assert tree.columns["comment"].tolist() == ["&R", None, "&&NHX:S=x", None, "note"]
    assert text("(,(,));").labels.tolist() == ["tip 1 … tip 3", "tip 1", "tip 2 … tip 3", "tip 2", "tip 3"]
    assert text("(,(,));").parent.tolist() == [-1, 0, 0, 2, 2]
    assert text("(O'Brien,b);").labels.tolist() == ["O'Brien … b", "O'Brien", "b"]
    assert "length" not in text("(a,b)c;").columns
    assert text("(7,8)9;").labels.tolist() == ["9", "7", "8"]
    assert text("(7,8)x;", numbers=True).labels.tolist() == ["x", "7", "8"]
    assert text("(7,8);", numbers=True).labels.tolist() == ["7 … 8", "7", "8"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("(a,b))c;", r"line 1, column 6: this '\)' closes nothing"),
        ("(a,\n (b,c;", r"line 2, column 2: this '\(' is never closed"),
        ("(a,(b,c)", r"line 1, column 1: this '\(' is never closed"),
        ("(a,b)c", r"line 1, column 7: the tree does not end with ';'"),
        ("(a,'b)c;", "column 4: this quoted name never ends"),
        ("(a,[b)c;", r"column 4: this comment never ends; add the closing '\]'"),
        ("(a,b)c; d", r"column 9: more text follows the ';' \('d'\)"),
        ("\n(a,(b)c;\n(d,e)f;", "line 2, column 1: this '\\(' is never closed"),
        ("a,b;", "column 2: this ',' is outside all parentheses"),
        ("a(b,c);", r"column 2: this '\(' follows a name"),
        ("(a)(b);", r"column 4: this '\(' follows a name or a '\)'"),
        ("(a:1:2,b);", "column 5: ':2,b\\);' is out of place"),
        ("('a' b);", "column 6: 'b\\);' is out of place"),
        ("(a:1 2,b);", "column 6: '2,b\\);' is out of place"),
        ("(a:1,\nb:long);", "line 2, column 3: the branch length 'long' is not a number; write it like"),
        ("  ", "line 1, column 1: the file is empty"),
    ],
)
def test_malformed_newick_names_the_place(content, message):
    with pytest.raises(DataError, match=f"<stream>, .*{message}"):
        text(content, format="newick")


@settings(max_examples=300)
@given(st.text(st.sampled_from("(),:;'\"[] a1"), max_size=12))
def test_newick_never_fails_otherwise(content):
    try:
        tree = text(content, format="newick")
    except DataError:
        return
    assert text(tree.to_newick(), format="newick") == tree


PIECES = ["a", "b", "1", ",", "\t", "\n", "\r", '"', "/", ";", "parent,child\n", "path", '{"name": ', "[Term]\nid: "]


@settings(max_examples=200)
@given(st.sampled_from(["csv", "tsv", "paths", "json", "obo", None]), st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_text_gives_a_tree_or_one_sentence(format, pieces):
    try:
        reason, tree = "", text("".join(pieces), format=format)
    except VpunnError as error:
        reason = str(error)
    assert check_tree(tree) if not reason else len(reason) > 10 and "\n" not in reason


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_edge_tables_in_many_dresses():
    wanted = tree_from_edges([("r", "a"), ("r", "b"), ("a", "c")])
    body = "r,a\nr,b\na,c\n"
    for content, options in (
        ("parent,child\n" + body, {}),
        ("PARENT,Child\n" + body, {}),
        ("child,parent\na,r\nb,r\nc,a\n", {}),
        ("id,parent\nr,\na,r\nb,r\nc,a\n", {}),
        ('id,parent\n"r",""\n"a","r"\n"b","r"\n"c","a"\n', {}),
        ("id,parent\nr,none\na,r\nb,r\nc,a\n", {"no_parent": ["none"]}),
        ("source;target\n" + body.replace(",", ";"), {}),
        ("x,y\n" + body, {}),  # two columns: parents, then children
        (body, {}),  # no header: its cells are labels further down
        (body, {"header": False}),
        ("\n" + body.replace("\n", "\r\n\r\n"), {}),
        ("hyper,n,hypo\nr,1,a\nr,2,b\na,3,c\n", {"parent": "hyper", "child": "hypo"}),
        (body.replace(",", "|"), {"delimiter": "|"}),
    ):
        assert text(content, format="csv", **options) == wanted, content
    assert text(body, format="csv").report == (
        "the first line was read as data, because it does not look like a header",
    )
    assert text("parent\tchild\nr\ta,b\n", format="tsv").labels.tolist() == ["r", "a,b"]
    assert text("id,parent,label\n1,,x\n2,1,x\n3,1,y\n", format="csv").labels.tolist() == ["x", "x", "y"]
    assert text("id,parent,label\n2,1,x\n3,1,y\n", format="csv").labels.tolist() == [1, "x", "y"]


def test_table_values_are_typed_with_care():
    content = "parent,child,n,x,code,ok,note\n,1,5,0.5,007,true,\n1,2,,,12,false,a\n1,3,7,1e3,3,TRUE,\n"
    tree = text(content, format="csv")
    assert tree.labels.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(tree.columns["n"], [5, np.nan, 7])
    np.testing.assert_array_equal(tree.columns["x"], [0.5, np.nan, 1000])
    assert tree.columns["code"].tolist() == ["007", "12", "3"]
    assert tree.columns["ok"].tolist() == [True, False, True]
    assert tree.columns["note"].tolist() == [None, "a", None]
    assert text(content.replace("TRUE", "yes"), format="csv").columns["ok"].tolist() == ["true", "false", "yes"]
    assert text(content, format="csv", numbers=False).labels.tolist() == ["1", "2", "3"]
    assert text("parent,child\n,01\n01,2\n", format="csv").labels.tolist() == ["01", "2"]
    assert text("parent,child\n,7\n", format="csv").labels.tolist() == [7]


def test_path_and_level_tables():
    wanted = [("a", "b"), ("a", "c", "d")]
    for content, options in (
        ("path,n\na/b,1\na/c/d,2\n", {}),
        ("taxonomy\na>b\na>c>d\n", {"paths": "taxonomy", "sep": ">"}),
        ("a/b\na/c/d\n", {}),
        ("x,y,z\na,b,\na,c,d\n", {"levels": ["x", "y", "z"], "root": None}),
    ):
        tree = text(content, format="csv", **options)
        assert [tree.path(i) for i in tree.leaves] == wanted, content
    tree = text("path,n\na/b,1\na/c/d,2\n", format="csv")
    np.testing.assert_array_equal(tree.columns["n"], [np.nan, 1, np.nan, 2])
    assert text("x,y\na,b\nc,d\n", format="csv", levels=["x", "y"]).labels.tolist() == ["root", "a", "b", "c", "d"]
    assert text("a\tb\n\na\tc\r\n", format="paths").labels.tolist() == ["a", "b", "c"]
    assert text("a.b\nc.d", format="paths", sep=".", root="r").n_nodes == 5


def test_policies_and_reports_come_through():
    content = "parent,child\nr,a\nr,b\na,c\nb,c\na,b\n"
    tree = text(content, format="csv", policy="deepest")
    assert tree.path(tree.index("c")) == ("r", "a", "b", "c")
    assert dropped_edges(tree).values.tolist() == [["r", "b", "policy 'deepest'"], ["a", "c", "policy 'deepest'"]]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            "parent,child\nr,a\nr,b,c\n",
            {},
            "<stream>, line 3: 3 cells where the first line has 2; quote cells that contain ','",
        ),
        ("parent,child\n\nr,a\n\nr\n", {}, "line 5: 1 cell where the first line has 2"),
        ('parent,child\nr,"a\n\nb"\n\nr\n', {}, "line 6: 1 cell where the first line has 2"),
        ('parent,child\n\nr,a\nr,"b\nr,c\n', {}, "line 4: the quote .* is never closed"),
        ("parent,child\n\nr,a\n\nr,r\n", {}, r"'r' is its own parent \(line 5\)"),
        ("r,a\nr,b\n\na,a\n", {}, r"'a' is its own parent \(line 4\)"),
        ("parent,child\nr,a\n\nr,a\n", {"duplicates": "error"}, r"repeated \('r' → 'a'; line 4\)"),
        ("", {}, "'<stream>' is empty; a table begins with a line of column names"),
        (
            "parent,child\n",
            {},
            "'<stream>' has no rows below its column names, 'parent', 'child'; add them, or pass header=False",
        ),
        (
            "parent,child",
            {},
            "'<stream>' has no rows below its column names, 'parent', 'child'; add them, or pass header=False",
        ),
        ("a,b", {"header": True}, "has no rows below its column names, 'a', 'b'"),
        ("a,b\n", {"delimiter": ",,"}, "delimiter=',,' must be a single character"),
        ("a,b\nb,c\n", {"levels": 5}, "levels must be a list of columns, got 5"),
        ("a,b\nb,c\n", {"no_parent": 5}, "no_parent must be a list of values, got 5"),
        ("parent,child\n\nr,a\n\nr,\nr,\n", {}, r"the column 'child' has empty cells \(line 5, 6\)"),
        ("x,y,z\n1,2,3\n", {}, "cannot tell which columns hold parents and children among 'x', 'y', 'z'; pass parent="),
        ("x,y\n1,2\n", {"parent": "up"}, "there is no column 'up'; the columns are 'x', 'y'"),
        ("x,x\n1,2\n", {}, "two columns are called 'x'"),
        ("parent,child\na,b\nc,d\n", {}, "<stream>: 2 nodes have no parent .'a', 'c'."),
        ("parent,child\na,b\nb,a\n", {}, "cycle, written from child to parent: b → a → b"),
        ("parent,child\na,b\n", {"no_parent": [1.5]}, "must hold values of the type"),
    ],
)
def test_bad_tables(content, options, message):
    with pytest.raises(VpunnError, match=message):
        text(content, format="csv", **options)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_single_line_is_a_table(end):
    assert text("x" + end, format="csv").labels.tolist() == ["x"]
    assert text('"x"' + end, format="csv").labels.tolist() == ["x"]
    assert text("a,b" + end, format="csv", header=False).labels.tolist() == ["a", "b"]
    assert text("\n\nparent,child\na,b" + end, format="csv").labels.tolist() == ["a", "b"]


def test_bad_parquet():
    with pytest.raises(DataError, match="<stream>: not a readable Parquet file"):
        read_tree(io.BytesIO(b"PAR1 and then nothing"))


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_json_keys_and_forests():
    content = '{"id": "r", "w": 1, "kids": [{"id": "a", "tags": [1, 2]}, {"id": "b", "kids": null, "w": 2.5}]}'
    tree = text(content, name="id", children="kids")
    assert tree.labels.tolist() == ["r", "a", "b"]
    np.testing.assert_array_equal(tree.columns["w"], [1, np.nan, 2.5])
    assert tree.columns["tags"].tolist() == [None, [1, 2], None]
    forest = text('[{"name": "a"}, {"name": "b"}]', add_root="r")
    assert forest.labels.tolist() == ["r", "a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"name": "r",\n "children": [}', "<stream>, line 2, column 15: this is not JSON: expecting value"),
        ('{"title": "r"}', "the top has no 'name' but 'title'; pass name='…'"),
        ('{"name": "r", "children": [{"name": "a"}, {}]}', "child 2 of 'r' has no 'name' but no key at all"),
        (
            '{"name": "r", "children": [{"name": "a"}, "b"]}',
            "child 2 of 'r' is \"b\" instead of an object with the keys",
        ),
        ('{"name": "r", "children": {"a": 1}}', "the top has an object as its 'children' instead of a list"),
        ('{"name": ["r"]}', "the top has a list as its 'name' instead of text"),
        ('[{"name": "r"}, {"name": "s"}]', "the top is a list of 2 nodes; pass add_root='…'"),
        ("[" * 5000, "column 5,001: this is not JSON: expecting value"),
    ],
)
def test_bad_json(content, message):
    with pytest.raises(DataError, match=message):
        text(content, format="json")


# ---- OBO -------------------------------------------------------------------------------------------------------------

OBO = r"""format-version: 1.2
default-namespace: parts
! a comment

[Term]
id: X:1
name: whole {not a modifier}
def: "The \"whole\" thing.\nAll of it." [ref:1]
synonym: "everything" BROAD [ref:2]
synonym: "total" EXACT systematic []

[Term]
id: X:2
name: half
alt_id: X:20
alt_id: X:21
is_a: X:1 {source="somebody"} ! whole

[Term]
id: X:3
name: quarter
relationship: part_of X:2 ! half
is_a: X:1

[Term]
id: X:9
name: old
is_obsolete: true
is_a: X:1

[Term]
id: Y:1
namespace: others
is_a: X:2

[Typedef]
id: part_of
name: part of
"""


def test_obo_terms_become_nodes():
    tree = text(OBO)
    assert tree.labels.tolist() == ["X:1", "X:2", "Y:1", "X:3"]
    assert tree.columns["name"].tolist() == ["whole {not a modifier}", "half", "", "quarter"]
    assert tree.columns["namespace"].tolist() == ["parts", "parts", "others", "parts"]
    assert tree.columns["definition"][0] == 'The "whole" thing.\nAll of it.'
    assert tree.columns["synonyms"][0] == (("everything", "BROAD"), ("total", "EXACT"))
    assert tree.columns["alt_ids"].tolist() == [(), ("X:20", "X:21"), (), ()]
    assert "X:9" in text(OBO, obsolete=True).labels.tolist()
    deep = text(OBO, relations=["is_a", "part_of"], policy="deepest", namespace="parts")
    assert [deep.path(i) for i in deep.leaves] == [("X:1", "X:2", "X:3")]
    assert text(OBO, namespace="others").report == ("dropped 1 links to terms that were left out: 'X:2' → 'Y:1'",)
    assert dropped_edges(text(OBO, namespace="others"))["reason"].tolist() == ["parent left out"]
    assert text(OBO, root="X:2").labels.tolist() == ["X:2", "Y:1"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (OBO + "[Term]\nname: nobody\n", {}, "<stream>, line 39: this .Term. has no 'id:' line"),
        (OBO + "[Term]\nid: X:1\n", {}, "<stream>, line 39: the term 'X:1' was already defined in line 5"),
        (OBO + "what\n", {}, "line 39: 'what' is not of the form 'tag: value'"),
        (OBO + '[Term]\nid: Z\ndef: "open\n', {}, "line 41: the text after 'def:' must stand in double quotes"),
        (
            OBO + "[Term]\nid: Z\nrelationship: part_of\n",
            {},
            "line 41: 'relationship: part_of' needs a relation and a term id",
        ),
        (OBO, {"relations": ["has_a"]}, "<stream>: no term has the relation 'has_a'; there are 'is_a', 'part_of'"),
        (OBO, {"namespace": "none"}, "no term is left for the namespace 'none'; the namespaces are 'others', 'parts'"),
        ("format-version: 1.2\n", {}, "there is no .Term. in this file"),
        (
            OBO + "[Term]\nid: Z\n",
            {},
            "2 nodes have no parent .*, or pass namespace='…' to read one of 'others', 'parts'",
        ),
    ],
)
def test_bad_obo(content, options, message):
    with pytest.raises(VpunnError, match=message):
        text(content, format="obo", **options)


# ---- NCBI and folders ------------------------------------------------------------------------------------------------

NODES = [(1, 1, "no rank"), (40674, 1, "class"), (9606, 40674, "species"), (9605, 40674, "genus"), (2, 1, "domain")]
NAMES_DMP = [
    (1, "root", "scientific name"),
    (40674, "Mammalia", "scientific name"),
    (40674, "mammals", "genbank common name"),
    (9606, "man", "common name"),
    (9606, "Homo sapiens", "scientific name"),
    (9606, "human", "genbank common name"),
    (2, 'eubacteria "quoted', "common name"),
    (2, "Bacteria", "scientific name"),
]


def ncbi_files():
    nodes = "".join(f"{a}\t|\t{b}\t|\t{rank}\t|\tXX\t|\n" for a, b, rank in NODES).encode()
    names = "".join(f"{a}\t|\t{name}\t|\t\t|\t{kind}\t|\n" for a, name, kind in NAMES_DMP).encode()
    return {"nodes.dmp": nodes, "names.dmp": names}


def test_ncbi_dumps_in_folders_and_archives(tmp_path):
    contents = ncbi_files()
    folder = tmp_path / "dump"
    folder.mkdir()
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    with (
        zipfile.ZipFile(tmp_path / "taxdmp.zip", "w") as bundle,
        tarfile.open(tmp_path / "taxdump.tar.gz", "w:gz") as archive,
    ):
        for name in contents:
            bundle.write(folder / name, name)
            archive.add(folder / name, name)
    for path in (folder, folder / "nodes.dmp", tmp_path / "taxdmp.zip", tmp_path / "taxdump.tar.gz"):
        tree = read_tree(path)
        assert tree.labels.tolist() == [1, 40674, 9606, 9605, 2]
        assert tree.columns["name"].tolist() == ["root", "Mammalia", "Homo sapiens", None, "Bacteria"]
        assert tree.columns["common_name"].tolist() == [None, "mammals", "human", None, 'eubacteria "quoted']
        assert tree.columns["rank"].tolist() == ["no rank", "class", "species", "genus", "domain"]
        assert tree.report == ()
    assert read_tree(folder, root=40674).n_nodes == 3
    (tmp_path / "nodes.dmp.gz").write_bytes(gzip.compress(contents["nodes.dmp"]))
    assert read_tree(tmp_path / "nodes.dmp.gz").n_nodes == 5
    (folder / "names.dmp").unlink()
    assert read_tree(folder).report == ("there was no names.dmp, so taxa have no names",)
    (folder / "nodes.dmp").write_bytes(contents["nodes.dmp"].replace(b"9606", b"x"))
    with pytest.raises(DataError, match="nodes.dmp is damaged: .*Row #3: .*invalid value 'x'; fetch it again"):
        read_tree(folder)
    (folder / "nodes.dmp").write_text("1,2,3\n")
    with pytest.raises(DataError, match="line 1 of nodes.dmp is not of the form"):
        read_tree(folder)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as bundle:
        bundle.writestr("readme", "hello")
    with pytest.raises(DataError, match="holds no nodes.dmp"):
        read_tree(tmp_path / "other.zip")


def test_folders_become_trees(tmp_path):
    top = tmp_path / "top"
    (top / "b" / "deep").mkdir(parents=True)
    (top / "a.txt").write_text("four")
    (top / "b" / ".hidden").write_text("")
    (top / "b" / "a.txt").symlink_to(top)
    tree = read_tree(top)
    assert tree.show().split("\n") == ["top", "├─ a.txt", "└─ b", "   ├─ .hidden", "   ├─ a.txt", "   └─ deep"]
    assert tree.columns["kind"].tolist() == ["folder", "file", "folder", "file", "link", "folder"]
    np.testing.assert_array_equal(tree.columns["bytes"], [np.nan, 4, np.nan, 0, np.nan, np.nan])
    assert read_tree(top, hidden=False, files=False).labels.tolist() == ["top", "b", "deep"]
    with pytest.raises(DataError, match="is not a folder"):
        read_tree(top / "a.txt", format="directory")


def test_a_large_table_is_parsed_in_blocks(tmp_path, monkeypatch):
    """Quotes and line ends may lie across blocks."""
    from vpunn.io import texts

    edges = [("all", f"node {k}\n{'x' * (k % 50)}") for k in range(400)]
    text = "parent,child\n" + "".join(f'{a},"{b}"\n' for a, b in edges)
    (tmp_path / "t.csv").write_text(text)
    whole = read_tree(tmp_path / "t.csv")
    monkeypatch.setattr(texts, "BLOCK", 256)
    assert read_tree(tmp_path / "t.csv") == whole and whole.n_nodes == 401
