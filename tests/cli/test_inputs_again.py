"""What strangers brought when everything was tried once more: label sets, loose names, lists in cells, pipes, poor locales."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from inputs import check, no, params, run_here, yes
from vpunn import _progress
from vpunn.web.batch import ScoredTable
from vpunn.web.opening import open_model

TAGS = (
    "text;tags\n"
    + "crimson ball;red|round\nscarlet honey;red|sweet\nlemon;sour\nsugar circle;sweet|round\nthing;\n" * 6
)
TREE = "parent,child\nall,red\nall,round\nall,sweet\n"
NEW = "text,tags\nnight bird hoots mice,wings|night\npond fish scales,fins|scales\nsnake,\n"
OBO = "[Term]\nid: A:1\nname: thing\n\n[Term]\nid: A:2\nname: Red Ball\nis_a: A:1\n\n[Term]\nid: A:3\nname: egg\nis_a: A:1\n"


def fit_sets(options="'|'", name="t.csv"):
    return f"fit {name} --out new --text text --target tags --label-sep {options}"


def parquet(**columns):
    held = io.BytesIO()
    pd.DataFrame({"text": ["night bird", "pond fish"] * 6, **columns}).to_parquet(held)
    return {"t.parquet": held.getvalue()}


SETS = [
    yes(fit_sets(), ("30 rows, 2 columns; 4 classes", "6 rows have no label"), {"t.csv": TAGS}),
    yes(fit_sets(), "0 classes with one row", {"t.csv": TAGS}),
    yes(fit_sets("';'"), "no cell of 'tags' holds ';' between two labels", {"t.csv": TAGS}),
    yes(fit_sets("'|' --json"), ('"classes": 4', '"singles": 0'), {"t.csv": TAGS}),
    yes(fit_sets("'|' --tree tree.csv --unseen skip"), "6 rows left out", {"t.csv": TAGS, "tree.csv": TREE}),
    no(fit_sets("'|' --tree tree.csv"), ("6 of 30 rows", "'sour'", "--unseen skip"), {"t.csv": TAGS, "tree.csv": TREE}),
    no(fit_sets("'|' --tree tree.csv"), "--match loose", {"t.csv": TAGS, "tree.csv": TREE.replace("red", "RED")}),
    yes(
        fit_sets("'|' --tree tree.csv --match loose --unseen skip"),
        "3 classes",
        {"t.csv": TAGS, "tree.csv": TREE.replace("red", "RED")},
    ),
    yes(
        fit_sets("';' --tree tree.csv"),
        "4 classes",
        {"t.csv": "text,tags\n" + "a b,7;8\nc,9\nd,10;7\n" * 5, "tree.csv": "parent,child\n1,7\n1,8\n1,9\n1,10\n"},
    ),
    no(fit_sets("''"), "--label-sep needs the text between two labels", {"t.csv": TAGS}),
    no(fit_sets(), "all label sets are empty", {"t.csv": "text;tags\na;\nb;\n"}),
    yes(fit_sets("';'", "t.parquet"), "3 classes", parquet(tags=[["a"], ["b", "c"]] * 6)),
    yes(
        fit_sets("';'", "t.jsonl"),
        ("3 classes", "6 rows have no label"),
        {
            "t.jsonl": '{"text": "a b", "tags": ["x", "y"]}\n{"text": "c", "tags": ["z"]}\n{"text": "d", "tags": []}\n'
            * 6
        },
    ),
    no(fit_sets("';'", "t.parquet"), "'b;c' in the column 'tags'", parquet(tags=[["a"], ["b;c"]] * 6)),
    yes("predict {sets} t.csv --json", ('"label": "night|wings"', '"probability": null'), {"t.csv": NEW}),
    yes("predict {sets} t.csv --top 2 --json", ('"rank": 2', '"depth": 1', '"label": "night"'), {"t.csv": NEW}),
    yes("predict {sets} t.csv --out o.csv", "written: o.csv (3 rows)", {"t.csv": NEW}),
    yes("predict {sets} t.csv --out o.parquet", "written: o.parquet (3 rows)", {"t.csv": NEW}),
    yes("predict {sets} t.csv --out o.jsonl --top 3 --keep tags", "(9 rows)", {"t.csv": NEW}),
    yes("predict {sets} t.csv --out parts/ --stop risk", "written: parts/ (3 rows)", {"t.csv": NEW}),
    no("predict {sets} t.csv --stop depth", "choose one of threshold, risk", {"t.csv": NEW}),
    no("predict {sets} t.csv --rule path", "these rows have several", {"t.csv": NEW}),
    yes(
        "evaluate {sets} t.csv --json",
        ('"rows": 3', "1 label the model does not know ('scales') left out"),
        {"t.csv": NEW},
    ),
    yes("evaluate {sets} t.csv --unseen skip --json", ('"rows": 2', "1 row has labels"), {"t.csv": NEW}),
    no("evaluate {sets} t.csv --unseen error", ("'scales'", "--unseen ancestor or skip"), {"t.csv": NEW}),
    no("evaluate {sets} t.csv --unseen wrong", "--unseen wrong is for one label per row", {"t.csv": NEW}),
    no("evaluate {sets} t.csv --unseen maybe", "choose one of error, skip, ancestor, wrong", {"t.csv": NEW}),
    no("evaluate {sets} d", "evaluate its files one by one", {"d/t.csv": NEW}),
    yes("report {sets} t.csv", ("1 label the model does not know", "written: report.html"), {"t.csv": NEW}),
    yes("explain {sets} --ask 'night bird' --node night", ("night: probability", "speaks for it: night")),
    no("explain {sets} --ask 'night bird' --node nite", "no node is labelled 'nite'"),
    yes("explain {sets} t.csv --row 1 --json", '"label": "fins"', {"t.csv": NEW}),
]

LOOSE = "kind,mass\nowl,5\nRobin,4\ncarp,0\n"
NAMES = [
    yes("predict {loose} t.csv --json", ('"path": "ANIMAL / BIRD / OWL"', '"known": true'), {"t.csv": LOOSE}),
    yes("evaluate {loose} t.csv --json", ('"rows": 3', '"notes": []'), {"t.csv": LOOSE}),
    yes("explain {loose} t.csv --row 1", "ROBIN", {"t.csv": LOOSE}),
    yes("predict {loose} t.csv --out o.csv", "written: o.csv (3 rows)", {"t.csv": LOOSE}),
    yes(
        "fit t.csv --regress mass --levels kind --tree t.nwk --match loose --folds 2 --out new --json",
        '"held-out RMSE"',
        {"t.csv": LOOSE + "eel,1\n", "t.nwk": "((OWL,ROBIN)b,(CARP,EEL)f)a;"},
    ),
    yes(
        "fit t.csv --text text --target term --tree t.obo --match loose --out new",
        "6 labels were matched loosely",
        {"t.csv": "text,term\n" + "round,red ball\nwhite,Egg\n" * 3, "t.obo": OBO},
    ),
    no(
        "fit t.csv --text text --target term --tree t.obo --out new",
        "or names stand for ids",
        {"t.csv": "text,term\nround,red ball\n", "t.obo": OBO},
    ),
    yes("tree convert t.obo t.json", "names as readable_name", {"t.obo": OBO}),
    no("tree info t.nex", "the file has no tree", {"t.nex": "#NEXUS\nBEGIN TREES;\nEND;\n"}),
    no("distance t.nwk a b a --matrix", "'a' is given twice", {"t.nwk": "(a,b)c;"}),
    no(
        "distance t.nwk a b --matrix",
        "lengths too large to add",
        {"t.nwk": "((a:1e308)x:1e308,(b:1e308)y:1e308)c;"},
    ),
    no("tree info ''", "the name of the tree is empty"),
    yes("hipaq trees {tree}", "is a model folder (HiPaNClassifier)"),
]

OWL = '"label": "owl"'
CELLS = [
    yes("predict {flat} t.csv --json", OWL, {"t.csv": "sep=;\nid;text\n1;night bird hoots\n"}),
    no("predict {flat} t.csv", "t.csv, line 4: 1 cell", {"t.csv": "sep=;\nid;text\n1;night bird hoots\n2\n"}),
    yes(
        "predict {flat} t.csv --keep id --json",
        ('"id": "“5 €”"', "read as Windows-1252"),
        {"t.csv": "id,text\n“5 €”,night bird hoots\n".encode("cp1252")},
    ),
    yes("predict {flat} t.csv --json", "read as Latin-1", {"t.csv": b"id,text\n\xe9\x81,night bird\n"}),
    yes(
        "fit t.csv --regress p --levels a --out new",
        "the comma in the numbers of 'p'",
        {"t.csv": "a;p\nx;4,50\ny;2,00\nx;3,5\n"},
    ),
    yes("fit t.parquet --text text --target d --out new", "2 classes", parquet(d=pd.to_datetime(["2020", "2021"] * 6))),
    no(
        "fit t.parquet --text text --target k --out new",
        ("holds a list in row 0", "--label-sep"),
        parquet(k=[["a"]] * 12),
    ),
    no("fit t.parquet --text b --target text --out new", "holds bytes in row 0", parquet(b=[b"a", b"\xff"] * 6)),
    no(
        "fit t.jsonl --text text --target k --out new",
        "holds an object in row 0",
        {"t.jsonl": '{"text": "a", "k": {"x": 1}}\n' * 4},
    ),
    yes("predict {flat} t.csv --delimiter '\\t' --json", OWL, {"t.csv": "id\ttext\n1\tnight bird hoots\n"}),
    yes("predict {flat} t.csv --delimiter tab --json", OWL, {"t.csv": "id\ttext\n1\tnight bird hoots\n"}),
    no("predict {flat} t.csv --delimiter '\n'", "that ends no line", {"t.csv": "text\nnight\n"}),
    no("predict {flat} t.csv --encoding punycode", "punycode", {"t.csv": "text\nnight-a\n"}),
    no("predict {flat} t.csv --encoding ascii", "give --encoding latin-1", {"t.csv": "text\nnight é\n"}),
    no("predict {flat} t.csv --encoding undefined", "cannot be read as undefined", {"t.csv": "text\nnight\n"}),
    yes("predict {flat} t.csv --keep id,id --out o.csv", "(1 row)", {"t.csv": "id,text\n1,night bird\n"}),
    no("predict {flat} t.csv --out t.csv", "is the file that is read", {"t.csv": "text\nnight bird\n"}),
    no("fit t.csv --out t.csv/m --text text --target kind", "it is a file", {"t.csv": "text,kind\na,b\n"}),
    no("fit t.csv --out /proc/m --text text --target kind", "choose another place", {"t.csv": "text,kind\na,b\n"}),
    yes(
        "report {levels} t.csv --delimiter ';' --encoding cp1252 --out r.html",
        ("1 of 2 rows are right", "1 row has labels the model does not know ('agaric'), scored", "written: r.html"),
        {"t.csv": "text;group;kind\nnight bird é;bird;owl\nred fungus;mushroom;agaric\n".encode("cp1252")},
    ),
    no("report {levels} --encoding cp1252", "--encoding does nothing here: there is no table"),
    no("reproduce hipaq --only T99 --out rep", "has no 'T99'"),
]


@params(SETS)
def test_label_sets(case, tmp_path, models):
    check(case, tmp_path, models)


@params(NAMES)
def test_loose_names(case, tmp_path, models):
    check(case, tmp_path, models)


@params(CELLS)
def test_cells_and_options(case, tmp_path, models):
    check(case, tmp_path, models)
    assert not (tmp_path / "rep").exists()


def test_a_fit_of_label_sets_tells_its_stages_unless_quiet(tmp_path, monkeypatch):
    monkeypatch.setattr(_progress, "SPACING", 0.0)
    (tmp_path / "t.csv").write_text(TAGS)
    words = ["fit", str(tmp_path / "t.csv"), "--text", "text", "--target", "tags", "--label-sep", "|"]
    told = run_here([*words, "--out", str(tmp_path / "a")])
    assert told.code == 0 and "features" in told.err and "classifier" in told.err
    hushed = run_here(["--quiet", *words, "--out", str(tmp_path / "b")])
    assert hushed.code == 0 and hushed.err == "" and hushed.out.startswith("read ")


def test_answers_in_files_are_those_on_the_screen(tmp_path, models):
    (tmp_path / "t.csv").write_text(NEW)
    out = tmp_path / "o.jsonl"
    for options in ([], ["--top", "2"], ["--stop", "risk"]):
        words = ["predict", str(models["sets"]), str(tmp_path / "t.csv"), *options]
        run_here([*words, "--out", str(out)])
        assert [json.loads(line) for line in out.read_text().splitlines()] == json.loads(
            run_here([*words, "--json"]).out
        )


def typed(line, folder, **environment):
    """A line of bash, in which vpunn is this one."""
    words = ["bash", "-c", f'vpunn() {{ "{sys.executable}" -c "from vpunn.cli import main; main()" "$@"; }}; {line}']
    return subprocess.run(words, cwd=folder, capture_output=True, env={**os.environ, **environment}, timeout=300)


@pytest.mark.skipif(os.name == "nt", reason="needs bash")
def test_pipes_with_names_closed_inputs_and_poor_locales(tmp_path, models):
    flat = models["flat"]
    done = typed(f"vpunn predict {flat} <(printf 'text\\nnight bird hoots\\n') --json", tmp_path)
    assert done.returncode == 0 and b'"owl"' in done.stdout, done.stderr
    done = typed("vpunn tree info - <&-", tmp_path)
    assert (
        done.returncode == 1
        and done.stderr == b"vpunn: standard input is closed; give a file, or send the content with |.\n"
    )
    (tmp_path / "t.csv").write_text("parent,child\nr,Ärger\nr,b\n")
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = typed("vpunn encode t.csv Ärger", tmp_path, **poor)
    assert done.returncode == 1 and b"set PYTHONUTF8=1" in done.stderr and b"Traceback" not in done.stderr


APES = "species,kg\nHomo sapiens,62\nPan troglodytes,52\nFelis catus,4\n"
APES_TREE = "((Homo_sapiens:6,Pan_troglodytes:6)Hominini:3,(Gorilla_gorilla:8,Pongo_abelii:8)x:1)apes;"
APES_FILES = {"t.csv": APES, "t.nwk": APES_TREE}
REGRESS = "fit t.csv --out new --regress kg --levels species --tree t.nwk --match loose"
LONG = " / ".join(f"a level with a long name {k}" for k in range(6))
PRICES = (
    "text;Price (€);kind\n"
    + "night bird;1.234,50;owl\npond fish;3,05;carp\nnight owl;n/a;owl\nfish scales;12,5;carp\n" * 4
)
PRICED = "fit t.csv --out new --text text --target kind --columns"
SHOP = [
    no(REGRESS, "1 of 3 rows of 't.csv' has labels that are not in the tree: 'Felis catus'", APES_FILES),
    yes(
        f"{REGRESS} --unseen skip",
        (
            "1 row not in the tree left out ('Felis catus')",
            "2 of 4 leaves of the tree have no row ('Gorilla_gorilla', ",
        ),
        APES_FILES,
    ),
    yes(
        f"{PRICED} 'Price (€)' --missing drop",
        ("decimal point, the point as a mark of", "4 rows without a label or a number"),
        {"t.csv": PRICES},
    ),
    no(f"{PRICED} price", "did you mean 'Price (€)'?", {"t.csv": PRICES}),
    no(f"{PRICED} 'Price (€)' --missing drop", "not numeric", {"t.csv": PRICES.replace("1.234,50", "1.234")}),
    yes(
        f"{PRICED} new",
        "the column 'new' holds TRUE and FALSE, which are read as 1 and 0",
        {"t.csv": "text,new,kind\n" + "night bird,TRUE,owl\npond fish,FALSE,carp\n" * 6},
    ),
    no(f"{PRICED} new", "not numeric in row 1", {"t.csv": "text,new,kind\n" + "night,3,owl\nfish,TRUE,carp\n" * 6}),
    no(  # the one cell that keeps all commas from being read, not the many that are fine
        f"{PRICED} 'Price (€)'",
        "not numeric in row 4 (counted from 0): 'ca. 1'; write numbers there",
        {"t.csv": PRICES.replace("n/a", "2,5").replace("1.234,50", "ca. 1", 2).replace("ca. 1", "4,5", 1)},
    ),
    no(f"{PRICED} p", "'1,234', '1,500'; write 3,5 as 3.5", {"t.csv": 'text,p,kind\na,"1,234",x\nb,"1,500",y\n'}),
    no(f"{PRICED} p", "and 3 more (counted from 0): 'unk';", {"t.csv": "text,p,kind\n" + "a,1,x\nb,unk,y\n" * 6}),
    yes(
        "fit t.csv --regress p --levels a --folds 2 --out new",
        ("1 duplicate row in the columns used;", "5 rows held out in 2 parts:", "score"),
        {"t.csv": "a,p\nx,4.5\nx,4.5\nx,3\ny,1\ny,2\n"},
    ),
    no("tree info t.csv -o levels=a,b", "such as line 4, where 'a' is missing", {"t.csv": "a,b\nx,1\n\n,2\n"}),
    no("tree info t.csv", "no path in line 3; fill it in", {"t.csv": "path,n\na/b,1\n,2\n"}),
    yes("tree info t.csv", "columns             none", {"t.csv": "path\na/b\na/c\n"}),
    yes(
        "fit t.csv --out new --text text --target kind",
        "every class has one row, so none can be held out",
        {"t.csv": "text,kind\nnight bird,owl\npond fish,carp\nsmall bird,wren\n"},
    ),
    no(
        "fit t.csv --out new --text text --target kind --missing error",
        "1 of 2 rows of 't.csv' has no label",
        {"t.csv": "text,kind\na,\nb,c\n"},
    ),
    no(
        "encode t.csv owl",
        ("names 2 nodes: 'number 5 / owl', 'number 9 / owl'", "say which by its path"),
        {"t.csv": "path\n" + f"{LONG} / number 5 / owl\n{LONG} / number 9 / owl\n".replace(" / ", "/")},
    ),
]


@params(SHOP)
def test_a_shop_and_a_biologist(case, tmp_path, models):
    check(case, tmp_path, models)


PATHS = "text,place\n" + "".join(
    f"night bird {word},animal > bird > owl\nred breast {word},animal > bird>robin\npond fish {word},animal > fish\n"
    f"grey rock {word},stone > granite\n"
    for word in ("old", "young", "small", "large", "quick")
)
BY_PATH = "fit t.csv --out new --text text --target place --path-sep"
IN_CELLS = [
    yes(f"{BY_PATH} '>'", ("4 classes, depth 3", "nodes                           8"), {"t.csv": PATHS}),
    yes(
        BY_PATH.replace("--path-sep", ""),
        "look like paths, such as 'animal > bird > owl': give --path-sep '>'",
        {"t.csv": PATHS},
    ),
    yes(f"{BY_PATH} /", "nodes                           4", {"t.csv": "text,place\n" + "a b,/x/y/\nc d,/x/z\n" * 5}),
    no(f"{BY_PATH} /", "holds '/', which --path-sep says is between two levels", {"t.csv": PATHS}),
    no(f"{BY_PATH} ' '", "such as '>', and one target column; got ' '", {"t.csv": PATHS}),
    no(f"{BY_PATH} '>' --label-sep ';'", "--label-sep does nothing here", {"t.csv": PATHS}),
    no(
        "fit t.csv --regress n --levels a --path-sep / --out new",
        "--path-sep does nothing here",
        {"t.csv": "a,n\nx,1\n"},
    ),
]


@params(IN_CELLS)
def test_paths_in_cells(case, tmp_path, models):
    check(case, tmp_path, models)


def test_a_path_in_a_cell_is_what_level_columns_are(tmp_path):
    rows = [line.partition(",") for line in PATHS.splitlines()[1:]]
    paths = [[level.strip() for level in place.split(">")] for _, _, place in rows]
    frame = pd.DataFrame({"text": [text for text, _, _ in rows], "place": [place for _, _, place in rows]})
    frame[["a", "b", "c"]] = pd.DataFrame([[*path, None][:3] for path in paths])
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = []
    for name, options in {"path": ["--target", "place", "--path-sep", ">"], "levels": ["--levels", "a,b,c"]}.items():
        words = ["fit", str(tmp_path / "t.csv"), "--text", "text", *options, "--test-size", "0.4", "--out"]
        done = run_here([*words, str(tmp_path / name), "--json"])
        scores = {key: value for key, value in json.loads(done.out).items() if key.startswith("held-out")}
        scores |= json.loads(run_here(["evaluate", str(tmp_path / name), str(tmp_path / "t.csv"), "--json"]).out)
        answers = run_here(["predict", str(tmp_path / name), str(tmp_path / "t.csv"), "--json"]).out
        told = run_here(["report", str(tmp_path / name), str(tmp_path / "t.csv"), "--out", str(tmp_path / "r.html")])
        believer = open_model(tmp_path / name).answers
        tested = ScoredTable.of_table(believer, (tmp_path / "t.csv").read_bytes(), None, 100)
        found.append((scores, answers, told.out, tested.summary()))
        assert scores["exact"] == 1 and "have no label" not in told.err
    assert found[0] == found[1]
