"""Tables as strangers have them: separators, quotes, encodings, headers, blanks, duplicates, numbers, Unicode."""

from __future__ import annotations

import bz2
import gzip
import lzma
import unicodedata

from inputs import check, no, params, yes

ROWS = [["id", "text"], ["a1", "night bird hoots"], ["a2", "pond fish scales"]]
OWL, CARP = '"label": "owl"', '"label": "carp"'
BOTH = (OWL, CARP)
ASK = "predict {flat} t.csv --json"


def table(mark=",", rows=ROWS, end="\n"):
    return end.join(mark.join(row) for row in rows) + end


def fit(options="--text text --target kind", name="t.csv"):
    return f"fit {name} --out new {options}"


DELIMITERS = [
    *[yes(ASK, BOTH, {"t.csv": table(mark)}) for mark in ",;\t|"],
    *[yes(ASK, BOTH, {"t.csv": table(mark, [[f'"{cell}"' for cell in row] for row in ROWS])}) for mark in ",;\t|"],
    *[yes("predict {flat} t.tsv --json", BOTH, {"t.tsv": table(mark)}) for mark in ",;\t"],
    *[yes(f"{ASK} --delimiter '{mark}'", BOTH, {"t.csv": table(mark)}) for mark in ":~^"],
    yes(ASK, BOTH, {"t.csv": table(end="\r\n")}),
    yes(ASK, BOTH, {"t.csv": table(end="\r")}),
    yes(ASK, BOTH, {"t.csv": b"\xef\xbb\xbf" + table().encode()}),
    *[yes(ASK, BOTH, {"t.csv": table().encode(name)}) for name in ("utf-16", "utf-16-le", "utf-16-be")],
    yes("predict {flat} t.csv.gz --json", BOTH, {"t.csv.gz": gzip.compress(table().encode())}),
    yes("predict {flat} t.csv.bz2 --json", BOTH, {"t.csv.bz2": bz2.compress(table().encode())}),
    yes("predict {flat} t.csv.xz --json", BOTH, {"t.csv.xz": lzma.compress(table().encode())}),
    yes(ASK, (OWL, "read as Latin-1", "line 2"), {"t.csv": "id,text\né,night bird hoots\n".encode("latin-1")}),
    yes(
        f"{ASK} --encoding cp1252 --keep id",
        (OWL, '"id": "“é”"'),
        {"t.csv": "id,text\n“é”,night bird hoots\n".encode("cp1252")},
    ),
    yes(f"{ASK} --keep id", (OWL, '"id": "a,b"'), {"t.csv": 'id,text\n"a,b",night bird hoots\n'}),
    yes(f"{ASK} --keep id", (OWL, '"id": "a\\nb"'), {"t.csv": 'id,text\n"a\nb",night bird hoots\n'}),
    yes(f"{ASK} --keep id", (OWL, r'"id": "say \"hm\""'), {"t.csv": 'id,text\n"say ""hm""",night bird hoots\n'}),
    yes(f"{ASK} --keep id", (OWL, r'"id": "12\" pipe"'), {"t.csv": 'id,text\n12" pipe,night bird hoots\n'}),
    no(ASK, ("t.csv, line 3", "never closed"), {"t.csv": 'id,text\na,night bird\nb,"pond fish\nc,eel\n'}),
    no(ASK, ("t.csv, line 2", "inside a quoted cell is doubled"), {"t.csv": 'id,text\n"a"b,night bird\n'}),
    no(ASK, ("t.csv, line 3", "3 cells where the first line has 2"), {"t.csv": "id,text\na,night\nb,pond,fish\n"}),
    no(ASK, ("t.csv, line 2", "1 cell where the first line has 2"), {"t.csv": "id,text\nnight\n"}),
    no(f"{ASK} --delimiter ';'", ("has no column 'text'", "'id,text'"), {"t.csv": table()}),
    no(f"{ASK} --delimiter ';;'", "must be a single character", {"t.csv": table()}),
    no(f"{ASK} --encoding klingon", "there is no encoding 'klingon'", {"t.csv": table()}),
    no(f"{ASK} --encoding ascii", ("line 2", "is not ascii text"), {"t.csv": "id,text\né,x\n"}),
    no(ASK, ("line 2", "zero byte"), {"t.csv": "id,text\na\0,night\n"}),
    no("predict {flat} t.ods", ("ending '.ods'", "save the sheet as .xlsx or .csv"), {"t.ods": b"PK\x03\x04"}),
    no("predict {flat} t.xlsx", "cannot be read as an Excel sheet", {"t.xlsx": b"PK\x03\x04"}),
    no(ASK, "is a spreadsheet or an archive", {"t.csv": b"PK\x03\x04\0\0"}),
    no(ASK, "looks compressed but cannot be unpacked", {"t.csv": gzip.compress(table().encode())[:-9]}),
]

HEADERS = [
    yes(ASK, BOTH, {"t.csv": table(rows=[[" id ", " text "], *ROWS[1:]])}),
    yes(ASK, BOTH, {"t.csv": "\n\n" + table()}),
    yes(ASK, BOTH, {"t.csv": table(rows=[["", "text"], *ROWS[1:]])}),
    yes(ASK, BOTH, {"t.csv": table(rows=[["1", "text"], *ROWS[1:]])}),
    yes(ASK, OWL, {"t.csv": "text\nnight bird hoots\n"}),
    yes(ASK, OWL, {"t.csv": "text,\nnight bird hoots,\n"}),
    yes(f"{ASK} --keep 'a b'", '"a b": "x"', {"t.csv": "a b,text\nx,night bird hoots\n"}),
    yes(f"""{ASK} --keep '"a,b"'""", '"a,b": "x"', {"t.csv": '"a,b",text\nx,night bird hoots\n'}),
    yes(f"{ASK} --keep label", '"given label": "x"', {"t.csv": "label,text\nx,night bird hoots\n"}),
    yes(f"{ASK} --keep Größe", '"Größe": "7"', {"t.csv": "Größe,text\n7,night bird hoots\n"}),
    no(ASK, ("no column 'text'", "did you mean 'Text'?"), {"t.csv": "Id,Text\na,night\n"}),
    no(ASK, ("no column 'text'", "did you mean 'texts'?"), {"t.csv": "id,texts\na,night\n"}),
    no(ASK, ("no column 'text'", "it has 'night bird hoots'"), {"t.csv": "night bird hoots\npond\n"}),
    no(ASK, "two columns are called 'text'", {"t.csv": "text,text\na,b\n"}),
    no(ASK, "two columns are called 'text'", {"t.csv": "text, text\na,b\n"}),
    no(ASK, "no rows below its column names", {"t.csv": "id,text\n"}),
    no(ASK, "is empty", {"t.csv": ""}),
    no(ASK, "is empty", {"t.csv": "\n\n  \n"}),
    no(ASK, "there is no file 't.csv'"),
    no("predict {flat} .", "tables are read from .csv"),
    no("predict {flat} t.pdf", "tables are read from .csv", {"t.pdf": "x"}),
    no(f"{ASK} --keep sku", "has no column 'sku'", {"t.csv": table()}),
    no(f"{ASK} --keep i", "did you mean 'id'?", {"t.csv": table()}),
    no(fit("--text txt --target kind"), ("no column 'txt'", "did you mean 'text'?"), {"t.csv": "text,kind\na,b\n"}),
    no(fit("--text text --target knd"), ("no column 'knd'", "did you mean 'kind'?"), {"t.csv": "text,kind\na,b\n"}),
    no(fit("--text text,text --target kind"), "is named twice", {"t.csv": "text,kind\na,b\n"}),
    no(fit("--text kind --target kind"), "is named twice", {"t.csv": "text,kind\na,b\n"}),
    no(fit("--text , --target kind"), "name at least one column after --text", {"t.csv": "text,kind\na,b\n"}),
    no(fit("--text text"), "has no column 'label'", {"t.csv": "text,kind\na,b\n"}),
    no("predict {flat} t.jsonl", ("line 2", "is not JSON"), {"t.jsonl": '{"text": "a"}\n{text\n'}),
    no("predict {flat} t.jsonl", "each line holds one object", {"t.jsonl": "[1, 2]\n"}),
    yes("predict {flat} t.jsonl --json", BOTH, {"t.jsonl": '{"text": "night bird hoots"}\n\n{"text": "pond fish"}\n'}),
]

MISSING = ["", '""', "NA", "NaN", "null", "None", "N/A", "n/a", "<NA>"]
GAPS = "group,kind,text\nbird,owl,night bird hoots\n,eel,slippery fish\nfish,,pond fish\n"
BLANKS = [
    *[yes(ASK, ('"known": false', "nothing the model knows"), {"t.csv": f"id,text\na,{cell}\n"}) for cell in MISSING],
    *[
        no(
            fit("--text text --target kind --missing error"),
            ("1 of 2 rows", "no label in 'kind'", "row 1", "--missing drop"),
            {"t.csv": f"text,kind\na,b\nb,{cell}\n"},
        )
        for cell in (*MISSING, "  ", "\u00a0")
    ],
    no(fit(), "no row of 't.csv' is left", {"t.csv": "text,kind\na,\nb,\n"}),
    no(
        fit("--text text --target kind --missing maybe"),
        "choose one of median, drop, error",
        {"t.csv": "text,kind\na,b\n"},
    ),
    no("predict {num} t.csv", "'weight' of 't.csv' has no number in any of 2 rows", {"t.csv": "size,weight\n1,\n2,\n"}),
    no("predict {num} t.csv", ("column 'size'", "'12,5x'", "row 1"), {"t.csv": "size;weight\n1,5;\n12,5x;2\n"}),
    yes(
        "evaluate {flat} t.csv --json",
        ('"rows": 1', "1 row without a label left out"),
        {"t.csv": "text,kind\nnight bird,owl\npond,\n"},
    ),
    yes("evaluate {levels} t.csv --json", '"rows": 3', {"t.csv": GAPS}),
    yes("tree info t.csv -o levels=group,kind -o gaps=fill --json", '"nodes": 6', {"t.csv": GAPS}),
    yes("tree info t.csv -o levels=group,kind -o gaps=skip --json", '"nodes": 5', {"t.csv": GAPS}),
    no("tree info t.csv -o levels=group,kind", ("label below a missing one", "-o gaps=fill"), {"t.csv": GAPS}),
    no("predict {mass} t.csv", "has no column 'group'", {"t.csv": "kind\nowl\n"}),
    yes("predict {mass} t.csv --json", '"path": "root / bird"', {"t.csv": "group,kind\nbird,\n"}),
    yes("predict {mass} t.csv --json", '"path": "root"', {"t.csv": "group,kind\n,\n"}),
    no(
        fit("--regress mass --levels group --missing error"),
        ("column 'mass'", "no number", "row 1"),
        {"t.csv": "group,mass\na,1\nb,\n"},
    ),
]

REPEATED = "text,kind\n" + "night bird,owl\n" * 6 + "pond fish,carp\n" * 6
DUPLICATES = [
    yes(
        "fit t.csv --out new --text text --target kind",
        ("12 rows", "2 classes", "10 duplicate rows", "0 classes with one row"),
        {"t.csv": REPEATED},
    ),
    yes(
        "fit t.csv --out new --text text --target kind --json",
        ('"duplicates": 10', '"conflicts": 0'),
        {"t.csv": REPEATED},
    ),
    yes(
        "fit t.csv --out new --text text --target kind",
        ("same inputs as another row and a different label", "1 class with one row"),
        {"t.csv": REPEATED + "night bird,wren\n"},
    ),
    yes(
        "fit t.csv --out new --text text --target kind",
        ("1 name is spelled in several ways, such as 'Owl', 'owl'", "they count as different"),
        {"t.csv": REPEATED + "dark bird,Owl\n"},
    ),
    yes(
        "fit t.csv --out new --text text --target kind",
        "1 label written with blanks around",
        {"t.csv": REPEATED + "dark bird, owl\n"},
    ),
    no(fit("--text text --target kind --folds 3"), "--folds needs a whole number from 2 to 2", {"t.csv": REPEATED}),
    no("tree info t.csv -o duplicates=error", "edge", {"t.csv": "parent,child\na,b\na,b\n"}),
    no("tree info t.csv -o duplicates=maybe", "duplicates", {"t.csv": "parent,child\na,b\n"}),
    yes("tree info t.csv --json", ('"nodes": 2', "repeated"), {"t.csv": "parent,child\na,b\na,b\n"}),
    yes("tree info t.csv --json", '"nodes": 3', {"t.csv": "parent,child\na,b\nb,c\na,c\n"}),
    yes("tree info t.csv --policy deepest --json", '"nodes": 3', {"t.csv": "parent,child\na,b\nb,c\na,c\n"}),
    yes("tree info t.csv --policy unfold --json", '"nodes": 4', {"t.csv": "parent,child\na,b\nb,c\na,c\n"}),
    no("tree info t.csv --policy best", "policy", {"t.csv": "parent,child\na,b\nb,c\na,c\n"}),
    no("tree info t.csv", ("cycle", "→"), {"t.csv": "parent,child\na,b\nb,a\n"}),
    no("tree info t.csv", "its own parent", {"t.csv": "parent,child\na,a\na,b\n"}),
    yes("tree info t.csv -o self_parents=root --json", '"nodes": 2', {"t.csv": "parent,child\na,a\na,b\n"}),
    no("tree info t.csv", "-o add_root=", {"t.csv": "parent,child\na,b\nc,d\n"}),
    yes("tree info t.csv -o add_root=all --json", '"nodes": 5', {"t.csv": "parent,child\na,b\nc,d\n"}),
    yes("tree info t.csv -o root=c --json", '"nodes": 2', {"t.csv": "parent,child\na,b\nc,d\n"}),
    yes("tree info t.csv -o root=3 --json", '"nodes": 2', {"t.csv": "parent,child\n1,2\n3,4\n"}),
    no("tree info t.csv -o root=x", "the root 'x' is not a node", {"t.csv": "parent,child\na,b\nc,d\n"}),
    yes("encode t.csv --json", ('"label": "x"',), {"t.csv": "path\na/x\na/b/x\n"}),
    no("encode t.csv x", ("names 2 nodes", "a / b / x"), {"t.csv": "path\na/x\na/b/x\n"}),
    yes("encode t.csv 'b / x' --json", '"depth": 2', {"t.csv": "path\na/x\na/b/x\n"}),
    yes("encode t.csv 'a / x' --json", '"depth": 1', {"t.csv": "path\na/x\na/b/x\n"}),
    yes("evaluate {flat} t.csv --json", '"rows": 12', {"t.csv": REPEATED}),
]

NUMBERS = [
    *[
        yes("predict {num} t.csv --json", '"probability"', {"t.csv": f"size,weight\n{x},2\n"})
        for x in ("1e15", "1e-308", "0", "-0", "9" * 20)
    ],
    *[
        no("predict {num} t.csv", ("column 'size'", "infinite"), {"t.csv": f"size,weight\n1,1\n{x},2\n"})
        for x in ("inf", "-inf", "1e999", "Infinity")
    ],
    *[
        no(
            "predict {num} t.csv",
            ("column 'size'", "not numeric", "row 1", f"'{x}'"),
            {"t.csv": f"size,weight\n1,1\n{x},2\n"},
        )
        for x in ("big", "1.2.3", "0x1F", "1 000", "12 kg", "½")
    ],
    yes("predict {num} t.csv --json", ('"probability"', "decimal point"), {"t.csv": "size;weight\n1,5;2\n"}),
    no("predict {num} t.csv", ("not numeric", "'1,234'"), {"t.csv": "size;weight\n1,234;2\n"}),
    no(fit("--columns size --target kind"), "infinite", {"t.csv": "size,kind\n1e999,a\n1,b\n"}),
    no(
        fit("--text text --target size"),
        ("holds numbers such as", "--regress size"),
        {"t.csv": "text,size\n" + "".join(f"a{i},{i / 7}\n" for i in range(20))},
    ),
    no(fit("--text text --target kind --test-size 1.5"), "between 0 and 1", {"t.csv": REPEATED}),
    no(fit("--text text --target kind --test-size 0"), "between 0 and 1", {"t.csv": REPEATED}),
    no(fit("--text text --target kind --folds 1"), "--folds needs a whole number", {"t.csv": REPEATED}),
    no(fit("--text text --target kind --seed -1"), "--seed", {"t.csv": REPEATED}, code=2),
    no("predict {flat} t.csv --top 0", "--top", {"t.csv": table()}, code=2),
    yes("predict {flat} t.csv --top 99 --json", '"rank": 4', {"t.csv": table()}),
    no("predict {flat} t.csv --stop threshold --threshold 1.5", "between 0 and 1", {"t.csv": table()}),
    no("predict {flat} t.csv --stop threshold --threshold nan", "between 0 and 1", {"t.csv": table()}),
    no("predict {flat} t.csv --stop risk --alpha 0", "alpha", {"t.csv": table()}),
    no("predict {flat} t.csv --stop risk --alpha 1", "alpha", {"t.csv": table()}),
    no("predict {flat} t.csv --stop depth --depth 9", "between 0 and 1", {"t.csv": table()}),
    no("predict {flat} t.csv --stop depth --depth -1", "--depth", {"t.csv": table()}, code=2),
    yes("predict {code} t.csv --json", '"label": "01"', {"t.csv": table()}),
    yes("evaluate {code} t.csv --json", '"exact": 1.0', {"t.csv": "text,code\nnight bird hoots,01\n"}),
    no("evaluate {code} t.csv --unseen error", "'1'", {"t.csv": "text,code\nnight bird hoots,1\n"}),
    yes(
        "fit t.csv --out new --text text --target kind --json",
        '"classes": 2',
        {"t.csv": "text,kind\n" + "a b,1.1\nc d,1.10\n" * 6},
    ),
    yes("encode t.csv --json", '"label": "007"', {"t.csv": "parent,child\n1,007\n1,2\n"}),
    yes("encode t.csv 7 --json", '"label": 7', {"t.csv": "parent,child\n1,7\n1,2\n"}),
    no("decode t.csv 99999999999999999999999999", "99999999999999999999999999", {"t.csv": "parent,child\n1,7\n1,2\n"}),
]

E_APART, E_TOGETHER = unicodedata.normalize("NFD", "é"), "é"
ODD = [
    "né",
    "日本",
    "עברית",
    "🦉",
    "a\u200bb",
    "a‮b",
    "ﬁ",
    "ǅ",
    "ß",
    "İ",
    "\u0301x",
    "x" * 3000,
    "[red]owl[/red]",
    ":owl:",
    "{x}",
    "%s",
    "'",
    "=1+1",
    "-- x",
]
UNICODE = [
    *[
        yes("encode t.csv --json", f'"label": "{name}"', {"t.csv": f"parent,child\nroot,{name}\nroot,b\n"})
        for name in ODD
    ],
    *[
        yes("encode t.csv", name[:400], {"t.csv": f"parent,child\nroot,{name}\nroot,b\n"})
        for name in ODD
        if "\u200b" not in name
    ],
    yes("encode t.csv", "(200,000 characters)", {"t.csv": f"parent,child\nroot,{'y' * 200_000}\nroot,b\n"}),
    yes("encode t.csv", "a\\tb", {"t.csv": 'parent,child\nroot,"a\tb"\nroot,c\n'}),
    yes("encode t.csv", "a\\nb", {"t.csv": 'parent,child\nroot,"a\nb"\nroot,c\n'}),
    yes("encode t.csv", "a\\x1b[31mb", {"t.csv": "parent,child\nroot,a\x1b[31mb\nroot,c\n"}),
    yes("predict {flat} t.csv --json --keep id", ('"id": "🦉"', OWL), {"t.csv": "id,text\n🦉,night bird hoots\n"}),
    yes("predict {flat} t.csv --json", OWL, {"t.csv": "id,text\n1,NIGHT BIRD HOOTS\n"}),
    yes(
        "fit t.csv --out new --text text --target kind",
        ("2 classes", "Unicode spelled two ways"),
        {"t.csv": "text,kind\n" + f"a b,{E_APART}\na b,{E_TOGETHER}\nc d,z\n" * 4},
    ),
    yes("predict {flat} --ask 夜の鳥 --json", '"known": false'),
    yes("predict {flat} --ask '' --json", '"known": false'),
    yes("predict {flat} --ask zzzz --json", '"known": false'),
]


@params(DELIMITERS)
def test_separators_quotes_and_encodings(case, tmp_path, models):
    check(case, tmp_path, models)


@params(HEADERS)
def test_headers(case, tmp_path, models):
    check(case, tmp_path, models)


@params(BLANKS)
def test_blanks_and_missing_cells(case, tmp_path, models):
    check(case, tmp_path, models)


@params(DUPLICATES)
def test_duplicates(case, tmp_path, models):
    check(case, tmp_path, models)


@params(NUMBERS)
def test_numbers_at_the_limits(case, tmp_path, models):
    check(case, tmp_path, models)


@params(UNICODE)
def test_odd_unicode(case, tmp_path, models):
    check(case, tmp_path, models)
