"""A third round of strangers' inputs: what the first two did not try, and text tables too large to be held."""

from __future__ import annotations

import json

from inputs import check, no, params, run_here, yes

TEXT = "text,kind\nnight bird hoots,owl\npond fish scales,carp\n"
T = {"t.csv": TEXT}
OWL = '"label": "owl"'
ASK = "predict {flat} t.csv --json"
FIT = "fit t.csv --out new --text text --target kind"
NWK = {"t.nwk": "((OWL:1,ROBIN:2)BIRD:1,(Homo_sapiens:1,EEL:1)FISH:1)ANIMAL;"}


def lines(*rows):
    return {"t.jsonl": "".join(row + "\n" for row in rows)}


TABLES = [
    yes(ASK, OWL, {"t.csv": TEXT.encode("utf-32")}),
    yes(f"{ASK} --encoding shift-jis --keep id", '"id": "夜"', {"t.csv": "id,text\n夜,night bird\n".encode("shift-jis")}),
    yes(ASK, "read as Windows-1252", {"t.csv": "id,text\né,night bird\n".encode("mac-roman")}),
    yes(ASK, OWL, {"t.csv": "id,text\n1,night\u2028bird hoots\n"}),
    yes(ASK, OWL, {"t.csv": "id,text\n1,night\x0bbird hoots\n"}),
    yes(ASK, OWL, {"t.csv": "id\ttext\n1\tnight, bird, hoots, a, b\n"}),
    yes(ASK, OWL, {"t.csv": "text,\nnight bird hoots,\n"}),
    yes(ASK, OWL, {"t.csv": "text\u00a0\nnight bird hoots\n"}),
    no(ASK, "did you mean 'TEXT'?", {"t.csv": "TEXT\nnight\n"}),
    no(ASK, "did you mean 'te\\u200bxt'?", {"t.csv": "te\u200bxt\nnight\n"}),
    no(ASK, ("line 2", "2 cells where the first line has 1"), {"t.csv": "# export\nid,text\n1,night\n"}),
    no(ASK, ("line 3", "1 cell"), {"t.csv": "id,text\n1,night\n\x1a"}),
    no(ASK, "inside a quoted cell is doubled", {"t.csv": 'id,text\n1,"night bird" \n'}),
    no(f"{ASK} --delimiter ''", "must be a single character", T),
    no(f"{ASK} --encoding utf-16", "is not utf-16 text", {"t.csv": "id,text\n1,night bird hoots\n"}),
    no(f"{ASK} --encoding utf-8", "is UTF-16 text", {"t.csv": TEXT.encode("utf-16")}),
    no(f"{ASK} --keep ,", "name at least one column after --keep", T),
    yes(f"{ASK} --keep 'given row,row'", ('"given row": "6"', '"given given row": "5"'), {"t.csv": "row,given row,text\n5,6,x\n"}),
    yes(f"{ASK} --keep text", '"text": "night bird hoots"', T),
    no("predict {flat} t.jsonl", "the key 'text' stands twice", lines('{"text": "night", "text": "pond"}')),
    no("predict {flat} t.jsonl", ("line 1", "half of a letter", "\\udd89"), lines('{"text": "night \\udd89"}')),
    yes("predict {flat} t.jsonl --json", OWL, lines('{"text": "night bird \\ud83e\\udd89"}')),
    no("predict {flat} t.json", "tables are read from", {"t.json": '[{"text": "night"}]'}),
    no("predict {flat} t.parquet", "cannot be read as Parquet", {"t.parquet": TEXT}),
    no(FIT, "hold no word", {"t.csv": "text,kind\n" + "...,owl\n🦉,carp\n" * 4}),
    no("evaluate {flat} t.csv --unseen skip", "can be scored", {"t.csv": "text,kind\n,\n,\n"}),
    yes("evaluate {flat} t.csv", "note: 1 row holds nothing the model knows", {"t.csv": "text,kind\n,owl\nnight,owl\n"}),
    yes("fit t.csv --out new --levels a,b --text text", "(missing)", {"t.csv": "text,a,b\n" + "x y,,q\nz w,(missing),q\n" * 4}),
    yes(FIT, "2 classes", {"t.csv": "text,kind\n" + "a b,root\nc d,x / y\n" * 4}),
    yes(FIT, "such as 'STRASSE', 'Straße'", {"t.csv": "text,kind\n" + "a b,Straße\nc d,STRASSE\n" * 4}),
    yes("predict {num} t.csv --json", '"probability"', {"t.csv": "size;weight;price\n1;2;3,5\n"}),
]  # fmt: skip

NUMBERS = [
    *[
        no("predict {num} t.csv", ("column 'size'", "too large", "row 0"), {"t.csv": f"size,weight\n{x},2\n"})
        for x in ("1e308", "-1e308", "1e151")
    ],
    *[
        no("predict {num} t.csv", ("not numeric", f"'{x}'"), {"t.csv": f"size,weight\n{x},2\n"})
        for x in ("1_000", "１２", "1d5", "0b1", "1e5e5", ".", "−5", "5%", "$5", "1/2")
    ],
    no("fit t.csv --out new --columns s --target kind", "too large", {"t.csv": "s,kind\n" + "1e308,a\n-1e308,b\n" * 5}),
    no("fit t.csv --out new --regress s --levels k", "too large", {"t.csv": "s,k\n1e308,a\n-1e308,b\n"}),
    no("fit t.csv --out new --regress s --levels k", "varies by 2e-320 only", {"t.csv": "s,k\n1e-320,a\n3e-320,b\n"}),
    no(
        "fit t.csv --out new --regress s --levels k --columns c",
        "differences below 1e-150",
        {"t.csv": "s,k,c\n1,a,1e-200\n2,a,2e-200\n3,b,1e-200\n"},
    ),
    yes("fit t.csv --out new --regress s --levels k", "1 class with one row", {"t.csv": "s,k\n1,a\n1,a\n1,b\n"}),
    no(f"{FIT} --seed 99999999999999999999", "a seed from 0", T),
    no(f"{FIT} --test-size nan", "between 0 and 1", T),
    no("predict {flat} t.csv --stop risk --alpha nan", "accepted risk", T),
    no("encode t.nwk --prime 4", "the next prime is 5", NWK),
    no("encode t.nwk --prime 100000000000000000039", "primes up to", NWK),
    no("decode t.nwk -- -1", "codes are not negative", NWK),
    no("decode t.nwk 1.5", "codes look like", NWK),
]

NODES = "1\t|\t1\t|\tno rank\t|\n9\t|\t1\t|\tgenus\t|\n7\t|\t9\t|\tspecies\t|\n"
NAMES = "1\t|\troot\t|\t\t|\tscientific name\t|\n7\t|\tHomo sapiens\t|\t\t|\tscientific name\t|\n"
HALF = '{"name": "r", "children": [{"name": "\\ud800x"}, {"name": "b"}]}'
TREES = [
    yes("distance t.nwk owl 'homo sapiens' --match loose --json", ('"path length": 4.0', '"a": "OWL"'), NWK),
    yes("distance t.nwk owl robin --match loose --matrix --json", "3.0", NWK),
    yes("encode t.nwk 'bird / owl' --match loose --json", '"label": "OWL"', NWK),
    yes("ball t.nwk bird --match loose --json", '"leaves": 2', NWK),
    yes("encode d 'homo SAPIENS' --match loose --json", '"label": 7', {"d/nodes.dmp": NODES, "d/names.dmp": NAMES}),
    no("distance t.nwk owl robin", "did you mean 'OWL'?", NWK),
    no("distance t.nwk owl robin --match lose", "choose one of exact, loose", NWK),
    yes("encode t.nwk a --match loose --json", '"label": "A"', {"t.nwk": "(A,B)c;"}),
    no("encode t.nwk 'x y' --match loose", "no node is labelled", {"t.nwk": "('X y',X_Y)c;"}),
    yes("encode t.nwk l.csv --out o.csv --match loose", "written: o.csv (2 rows)", {**NWK, "l.csv": "label\nowl\nhomo sapiens\n"}),
    yes("encode t.nwk l.csv --out o.csv --unseen null", "(2 rows)", {**NWK, "l.csv": "label\nOWL\nx\n"}),
    no("encode t.nwk l.csv --out o.csv", ("1 label is not in the tree", "--unseen null"), {**NWK, "l.csv": "label\nx\n"}),
    no("encode t.nwk a", ("names 3 nodes", "say which by its path"), {"t.nwk": "(a,a)a;"}),
    no(f"{FIT} --tree t.nwk", ("names 2 nodes", "--levels"), {"t.csv": TEXT, "t.nwk": "((owl,carp)b,(owl)f)a;"}),
    yes("tree info t.nwk", "1 more tree ('tree 2')", {"t.nwk": "(a,b)c;(d,e)f;"}),
    no("tree info t.nwk", "is not a number", {"t.nwk": "(a:0x10,b)c;"}),
    yes("tree info t.nwk --json", '"nodes": 50001', {"t.nwk": "(" * 50_000 + ")" * 50_000 + ";"}),
    yes("distance t.nwk a b --json", '"path length": null', {"t.nwk": "(a:1e999,b:1)c;"}),
    no("tree info t.obo", ("line 3", "is called 'A:1' already"), {"t.obo": "[Term]\nid: A:1\nid: A:2\n"}),
    yes("tree info t.obo --json", '"nodes": 2', {"t.obo": "[Term]\rid: A:1\r\r[Term]\rid: A:2\ris_a: A:1\r"}),
    no("tree info t.obo -o relations=", "needs at least one name", {"t.obo": "[Term]\nid: A:1\n"}),
    no("tree info t.obo", "already defined", {"t.obo": "[Term]\nid: A:1\n\n[Term]\nid: A:1\n"}),
    no("tree info t.json", "the key 'name' stands twice", {"t.json": '{"name": "a", "name": "b"}'}),
    no(
        "tree info t.json",
        "the key 'name' stands twice",
        {"t.json": '{"name":"r","children":[' * 2000 + '{"name":"a","name":"b"}' + "]}" * 2000},
    ),
    no("tree convert t.json o.nwk", ("line 1", "half of a letter (\\ud800)"), {"t.json": HALF}),
    no("report t.json --out r.html", "half of a letter", {"t.json": HALF}),
    yes("tree convert t.json - --to newick", "(🦉,b)r;", {"t.json": HALF.replace("\\ud800x", "\\ud83e\\udd89")}),
    yes("tree convert t.nwk t.json", "(2 nodes, 1 leaf, labels)", {"t.nwk": "(a)b;"}),
    no("tree info d", ("while the root is 1", "give -o root=1"), {"d/nodes.dmp": NODES + "5\t|\t99\t|\tx\t|\n"}),
    no("tree info d", "damaged", {"d/nodes.dmp": NODES.replace("7\t|\t9", "7.5\t|\t9")}),
    no("tree info d", "not an NCBI dump", {"d/nodes.dmp": NODES.encode("utf-16")}),
    no("tree info t.csv -o levels=", "needs at least one name after levels=", {"t.csv": "a,b\n1,2\n"}),
]  # fmt: skip

PAGES = [
    yes("report {mass} t.csv --out r.html", "The numbers of 2 rows", {"t.csv": "group,kind,mass\nbird,owl,5\nfish,eel,1\n"}),
    yes(
        "report {mass} t.csv --out r.html",
        ("The numbers of 1 row are", "1 row without a number left out"),
        {"t.csv": "group,kind,mass\nbird,owl,5\nx,y,\n"},
    ),
    no("report {mass} t.csv --out r.html --unseen skip", "can be scored", {"t.csv": "group,kind,mass\nbird,owl,\n"}),
    no("report t.nwk --unseen skip", "--unseen does nothing here: t.nwk is a tree", {"t.nwk": "((a,b)c,d)e;"}),
    no("report {flat} t.csv --unseen wrong", "for vpunn evaluate alone", {"t.csv": "text,kind\nnight bird,owl\n"}),
    no("report {mass} t.csv --out r.html", "no column 'mass'", {"t.csv": "group,kind\nbird,owl\n"}),
    yes("report {sets} t.csv --out r.html", "of 2 rows get exactly", {"t.csv": "text,tags\nnight bird,wings|night\nsnake,\n"}),
    yes("report {sets} t.csv --out r.html", "('zzz') left out", {"t.csv": "text,tags\nnight bird,wings|zzz\n"}),
    yes("report {sets} t.csv --out r.html --json", '"Labels"', {"t.csv": "text,tags\nnight bird,wings\n"}),
    no("report {sets} --out r.html", "needs a table"),
    no("report both t.csv", "there is no folder 'both'; a table is for a model", {"t.csv": "text,tags\nnight bird,wings\n"}),
    no("report t.nwk t.csv", "t.nwk is a tree", {"t.nwk": "((a,b)c,d)e;", "t.csv": "text,tags\nnight bird,wings\n"}),
    no("report {sets} t.csv --out r.docx", "'.docx' is not one of", {"t.csv": "text,tags\nnight,wings\n"}),
]  # fmt: skip


@params(TABLES)
def test_tables(case, tmp_path, models):
    check(case, tmp_path, models)


@params(NUMBERS)
def test_numbers(case, tmp_path, models):
    check(case, tmp_path, models)


@params(TREES)
def test_trees(case, tmp_path, models):
    check(case, tmp_path, models)


@params(PAGES)
def test_pages(case, tmp_path, models):
    check(case, tmp_path, models)


def test_the_comma_in_numbers_is_told_of_columns_that_are_read(tmp_path, models):
    (tmp_path / "t.csv").write_text("size;weight;price\n1,5;2;3,5\n")
    told = run_here(["predict", str(models["num"]), str(tmp_path / "t.csv"), "--out", str(tmp_path / "o.csv")]).err
    assert told == "" or ("'size'" in told and "'price'" not in told)
    told = run_here(["predict", str(models["num"]), str(tmp_path / "t.csv")]).err
    assert "'size' was read" in told and "price" not in told


def test_codes_beside_labels_that_are_not_there_stay_whole_numbers(tmp_path):
    (tmp_path / "t.nwk").write_text("(a,b)c;")
    (tmp_path / "l.csv").write_text("label\na\nx\n")
    words = ["encode", str(tmp_path / "t.nwk"), str(tmp_path / "l.csv"), "--unseen", "null", "--out"]
    run_here([*words, str(tmp_path / "o.csv")])
    assert (tmp_path / "o.csv").read_text().splitlines()[1:] == ["a,1,1,1,01", "x,,,,"]
    run_here([*words, str(tmp_path / "o.jsonl")])
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert rows[0]["node"] == 1 and isinstance(rows[0]["node"], int) and rows[1]["node"] is None
