"""Tree files as strangers have them: Newick, OBO, JSON, the NCBI dump."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

from inputs import check, no, params, yes


def newick(text, said, option="", **more):
    return yes(f"tree info t.nwk --json {option}", said, {"t.nwk": text}, **more)


def bad_newick(text, said, option=""):
    return no(f"tree info t.nwk --json {option}", said, {"t.nwk": text})


def count(n):
    return f'"nodes": {n}'


NEWICK = [
    newick("(a,b)c;", count(3)),
    newick("(a,b);", count(3)),
    newick("a;", count(1)),
    newick(";", count(1)),
    newick("(a:1,b:2.5)c:0;", ('"columns": "length"', count(3))),
    newick("(a:1e-3,b:-2)c;", count(3)),
    bad_newick("(a:1,5,b:2,25)c;", ("column 5", "the length 1,5 has a decimal comma", "write 1.5")),
    bad_newick("((a:6,5,b:6,5)x:2,2,c:8)r;", ("the length 6,5 has a decimal comma", "quote the name '5'")),
    newick("(a:1,'5',b:2)c;", count(4)),  # a name, quoted
    newick("(1:6,2,3:4)r;", count(4)),  # all leaves are numbered
    newick("(a:1,5:2,b:2)c;", count(4)),
    newick("(a:1,5,b)c;", count(4)),  # others have no length either
    newick("(a:1.5,5,b:2)c;", count(4)),
    newick("((a,b)x,(c,d)y)r;\n\n", count(7)),
    newick("(a[note],b)c;", '"columns": "comment"'),
    newick("('a b','it''s')c;", count(3)),
    newick('("a b",x)c;', count(3)),
    newick("[&R] (a,b)c;", count(3)),
    newick("(a_b,c)d;", count(3)),
    newick("(,)x;", count(3)),
    newick("(" * 2000 + "a" + ")" * 2000 + ";", count(2001)),
    newick("(é,日本)根;", count(3)),
    newick(" ( a , b ) c ; ", count(3)),
    bad_newick("(a,b", "never closed"),
    bad_newick("(a,b))c;", "closes nothing"),
    bad_newick("(a,b)c", "does not end with ';'"),
    bad_newick("(a,b)c; d", "more text follows"),
    bad_newick("('a,b)c;", "never ends"),
    bad_newick("(a,b)c[x;", "comment never ends"),
    bad_newick("a(b,c)d;", "follows a name"),
    bad_newick("a,b;", "outside all parentheses"),
    bad_newick("(a:x,b)c;", "is not a number"),
    bad_newick("(a:1:2,b)c;", "out of place"),
    bad_newick("", "is empty"),
    bad_newick("   \n", "is empty"),
    bad_newick(b"(a,\xff)b;", ("is not utf-8 text", "-o encoding=latin-1")),
    newick("(a,é)b;".encode("latin-1"), count(3), "-o encoding=latin-1"),
    bad_newick("(a,b)c;", "has no option 'root'", "-o root=a"),
    bad_newick("(a,b)c;", "written name=value", "-o root"),
    yes("encode t.nwk 7 -o numbers=true --json", '"label": 7', {"t.nwk": "(7,8)9;"}),
    yes("encode t.nwk 7 --json", '"label": "7"', {"t.nwk": "(7,8)9;"}),
    yes("distance t.nwk a b --json", ('"path length": 3.5', '"valuation": 0'), {"t.nwk": "(a:1,b:2.5)c;"}),
    yes("distance t.nwk a b --json", '"path length": null', {"t.nwk": "(a:1,b)c;"}),
    yes("distance t.nwk a b d --matrix --json", ('"measure": "length"', "3.5"), {"t.nwk": "(a:1,b:2.5,d:1)c;"}),
    yes("distance t.nwk a b d --matrix --measure edges --json", '"measure": "edges"', {"t.nwk": "(a:1,b:2.5,d:1)c;"}),
    yes("distance t.nwk a b --matrix --measure padic --json", '"measure": "padic"', {"t.nwk": "(a,b)c;"}),
    yes("distance t.nwk a b --matrix --out m.csv", "written: m.csv (2 × 2, edges)", {"t.nwk": "(a,b)c;"}),
    yes("distance t.nwk - --matrix --json", '"measure": "edges"', {"t.nwk": "(a,b)c;"}, stdin="a\nb\n"),
    no("distance t.nwk a --matrix", "needs two labels or more", {"t.nwk": "(a,b)c;"}),
    no("distance t.nwk a b --matrix --measure miles", "choose one of length, edges", {"t.nwk": "(a,b)c;"}),
    no("distance t.nwk a b --matrix", "have no length", {"t.nwk": "(a:1,b)c;"}),
    no("distance t.nwk a b --measure edges", "belongs to --matrix", {"t.nwk": "(a,b)c;"}),
    no("distance t.nwk a", "needs two labels", {"t.nwk": "(a,b)c;"}),
    no("distance t.nwk a b c", "--matrix gives the distances", {"t.nwk": "(a,b)c;"}),
    no("distance t.nwk a homo", "no node is labelled 'homo'", {"t.nwk": "(a,b)c;"}),
    no("distance t.nwk Homo_sapien x", "did you mean 'Homo_sapiens'", {"t.nwk": "(Homo_sapiens,x)c;"}),
]

HEAD = "format-version: 1.2\n\n"


def terms(*stanzas):
    return HEAD + "\n\n".join("[Term]\n" + stanza for stanza in stanzas) + "\n"


ROOT = "id: A:1\nname: root"
CHILD = "id: A:2\nname: child\nis_a: A:1 ! root"


def obo(text, said, option=""):
    return yes(f"tree info t.obo --json {option}", said, {"t.obo": text})


def bad_obo(text, said, option=""):
    return no(f"tree info t.obo --json {option}", said, {"t.obo": text})


OBO = [
    obo(terms(ROOT, CHILD), count(2)),
    obo(terms(ROOT, CHILD).replace("\n", "\r\n"), count(2)),
    obo("\ufeff" + terms(ROOT, CHILD), count(2)),
    obo(terms(ROOT, CHILD + "\nis_a: A:1"), count(2)),
    obo(terms(ROOT, CHILD, "id: A:3\nname: x\nis_a: A:2"), count(3)),
    obo(terms(ROOT, "id: A:2\nname: child\nis_a: A:1" + " " * 2000), count(2)),
    obo(terms(ROOT, CHILD, "id: A:3\nname: old\nis_obsolete: true"), count(2)),
    obo(terms(ROOT, CHILD, "id: A:3\nname: p\nrelationship: part_of A:1"), count(3), "-o relations=is_a,part_of"),
    obo(terms(ROOT, CHILD, "id: A:3\nname: two\nis_a: A:1\nis_a: A:2"), count(3)),
    obo(terms(ROOT, CHILD, "id: A:3\nname: two\nis_a: A:1\nis_a: A:2"), count(4), "--policy unfold"),
    obo(terms(ROOT, CHILD) + "\n[Typedef]\nid: part_of\nname: part of\n", count(2)),
    obo(terms(ROOT, CHILD + '\nxref: Z:1\nsynonym: "kid" EXACT []'), count(2)),
    obo(terms(ROOT, CHILD) + "! a comment\n", count(2)),
    obo(terms("id: A:1\nname: 日本", CHILD), count(2)),
    obo(terms(ROOT, "id: B:1\nname: other"), count(3), "-o add_root=all"),
    obo(terms(ROOT, CHILD, "id: B:1\nname: other"), count(2), "-o root=A:1"),
    obo(
        terms(ROOT + "\nnamespace: x", CHILD + "\nnamespace: x", "id: B:1\nname: o\nnamespace: y"),
        count(2),
        "-o namespace=x",
    ),
    bad_obo(terms(ROOT, "id: B:1\nname: other"), "-o add_root="),
    bad_obo(terms("id: A:1\nis_a: A:2", "id: A:2\nis_a: A:1"), "cycle"),
    bad_obo("", "no"),
    bad_obo(HEAD, "no"),
    bad_obo("[Term]\nname: x\n", "id"),
    bad_obo(terms(ROOT, CHILD), "namespace", "-o namespace=zzz"),
    bad_obo(terms(ROOT, CHILD), "has no option 'levels'", "-o levels=a,b"),
    bad_obo(terms(ROOT, CHILD), "policy", "--policy worst"),
    bad_obo(terms(ROOT, CHILD).encode("utf-16"), "UTF-16"),
    yes("encode t.obo A:2 --json", '"label": "A:2"', {"t.obo": terms(ROOT, CHILD)}),
    yes("encode t.obo child --json", '"label": "A:2"', {"t.obo": terms(ROOT, CHILD)}),
    no("encode t.obo chlid", "no node is labelled 'chlid'", {"t.obo": terms(ROOT, CHILD)}),
    yes("tree convert t.obo t.nwk", "readable names as labels", {"t.obo": terms(ROOT, CHILD)}),
    yes("tree check t.txt", "yes", {"t.txt": terms(ROOT, CHILD)}),
]


def nested(value, said, option=""):
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    return yes(f"tree info t.json --json {option}", said, {"t.json": text})


def bad_nested(value, said, option=""):
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    return no(f"tree info t.json --json {option}", said, {"t.json": text})


KIDS = {"name": "r", "children": [{"name": "a"}, {"name": "b"}]}
JSON = [
    nested(KIDS, count(3)),
    nested({"name": "r"}, count(1)),
    nested({"name": "r", "children": []}, count(1)),
    nested({"name": 7, "children": [{"name": 8}]}, count(2)),
    nested({"name": "r", "size": 3, "children": [{"name": "a", "size": 1}]}, '"columns": "size"'),
    nested({"label": "r", "kids": [{"label": "a"}]}, count(2), "-o name=label -o children=kids"),
    nested("\ufeff" + json.dumps(KIDS), count(3)),
    nested(json.dumps(KIDS, indent=4), count(3)),
    nested('{"name": "\\u65e5\\u672c"}', count(1)),
    nested('{"name": "x", "children": [{"name": "x"}]}', count(2)),
    nested('{"name":"a","children":[' * 500 + '{"name":"z"}' + "]}" * 500, count(501)),
    nested({"name": "r", "children": [{"name": "a", "children": [{"name": "b"}]}, {"name": "c"}]}, count(4)),
    nested({"name": "r", "x": None}, count(1)),
    nested({"name": "r", "x": [1, 2]}, count(1)),
    bad_nested("{", "t.json"),
    bad_nested('{"name": "r", "children": [}', "t.json"),
    bad_nested('{"name": "r", "children": 3}', "children"),
    bad_nested('{"name": "r", "children": [3]}', "3"),
    bad_nested('{"name": {"x": 1}}', "name"),
    bad_nested("[1, 2]", "t.json"),
    bad_nested("3", "t.json"),
    bad_nested("null", "t.json"),
    bad_nested('"text"', "t.json"),
    bad_nested("", "this is not JSON"),
    bad_nested(b'{"name": "\xff"}', "utf-8"),
    bad_nested(KIDS, "has no option 'kids'", "-o kids=children"),
    bad_nested('{"name": "r"} {"name": "s"}', "t.json"),
    bad_nested("NaN", "t.json"),
    yes("tree info t.txt --json", count(3), {"t.txt": json.dumps(KIDS)}),
    yes("tree info - --json", count(3), stdin=json.dumps(KIDS)),
    yes("tree convert t.json t.nwk", "written: t.nwk (3 nodes, 2 leaves, labels)", {"t.json": json.dumps(KIDS)}),
    yes("tree convert t.json -  --to newick", "(a,b)r;", {"t.json": json.dumps(KIDS)}),
    no("tree convert t.json t.xyz", "t.xyz", {"t.json": json.dumps(KIDS)}),
    no("tree convert t.json t.nwk --to docx", "choose one of", {"t.json": json.dumps(KIDS)}),
    no("tree convert t.json no/t.nwk", "there is no folder", {"t.json": json.dumps(KIDS)}),
]

NODES = "1\t|\t1\t|\tno rank\t|\n9\t|\t1\t|\tgenus\t|\n7\t|\t9\t|\tspecies\t|\n8\t|\t9\t|\tspecies\t|\n"
NAMES = (
    "1\t|\troot\t|\t\t|\tscientific name\t|\n9\t|\tHomo\t|\t\t|\tscientific name\t|\n"
    "7\t|\tHomo sapiens\t|\t\t|\tscientific name\t|\n7\t|\thuman\t|\t\t|\tgenbank common name\t|\n"
    '8\t|\tHomo "x" sp.\t|\t\t|\tscientific name\t|\n'
)
DUMP = {"d/nodes.dmp": NODES, "d/names.dmp": NAMES}


def zipped(files):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as bundle:
        for name, text in files.items():
            bundle.writestr(name, text)
    return held.getvalue()


def tarred(files):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as bundle:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text.encode())
            bundle.addfile(about, io.BytesIO(text.encode()))
    return held.getvalue()


NCBI = [
    yes("tree info d --json", (count(4), "common_name"), DUMP),
    yes("tree info d/nodes.dmp --json", count(4), DUMP),
    yes("tree info t.zip --json", count(4), {"t.zip": zipped(DUMP)}),
    yes("tree info t.tar.gz --format ncbi --json", count(4), {"t.tar.gz": tarred(DUMP)}),
    yes("tree info d --json", ("no names.dmp", count(4)), {"d/nodes.dmp": NODES}),
    yes("tree info d -o root=9 --json", count(3), DUMP),
    yes("encode d 7 --json", '"label": 7', DUMP),
    yes("encode d 'Homo sapiens' --json", '"label": 7', DUMP),
    yes("encode d 7", "7 Homo sapiens", DUMP),
    no("encode d 'Homo sapien'", "did you mean 'Homo sapiens'", DUMP),
    no("encode d 77", "no node is labelled", DUMP),
    yes("tree convert d t.nwk", ("written: t.nwk", "readable names as labels"), DUMP),
    yes("tree convert d - --to newick", "'Homo sapiens'", DUMP),
    yes("tree convert d t.csv", "written: t.csv (4 nodes", DUMP),
    yes("distance d 7 8 --json", '"common ancestor": 9', DUMP),
    yes("distance d 'Homo sapiens' 8 --json", '"common ancestor": 9', DUMP),
    yes("ball d 9 --json", '"nodes": 3', DUMP),
    no("tree info d -o root=77", "77", DUMP),
    yes("tree info d --json", count(2), {"d/names.dmp": NAMES}),  # a folder like any other
    no("tree info t.zip", "no nodes.dmp", {"t.zip": zipped({"names.dmp": NAMES})}),
    no("tree info t.zip", "t.zip", {"t.zip": b"PK\x03\x04 cut"}),
    no("tree info d/nodes.dmp", "not an NCBI dump", {"d/nodes.dmp": "1,1\n"}),
    no("tree info d/nodes.dmp", "damaged", {"d/nodes.dmp": NODES + "x\t|\t1\t|\tgenus\t|\n"}),
    no("tree info d/nodes.dmp", "damaged", {"d/nodes.dmp": NODES + "5\t|\n"}),
    no("tree info d/nodes.dmp", "not an NCBI dump", {"d/nodes.dmp": ""}),
    no("tree info d", "cycle", {"d/nodes.dmp": NODES + "3\t|\t4\t|\tx\t|\n4\t|\t3\t|\tx\t|\n"}),
    no("tree info - --format ncbi", "needs a path", stdin=NODES),
    no("tree info -", "looks like nodes.dmp", stdin=NODES),
    no("tree info d -o levels=a", "has no option 'levels'", DUMP),
]


@params(NEWICK)
def test_newick(case, tmp_path, models):
    check(case, tmp_path, models)


@params(OBO)
def test_obo(case, tmp_path, models):
    check(case, tmp_path, models)


@params(JSON)
def test_json(case, tmp_path, models):
    check(case, tmp_path, models)


@params(NCBI)
def test_ncbi(case, tmp_path, models):
    check(case, tmp_path, models)
