"""Commands as strangers type them: unseen labels, level columns, clashing options, model folders, streams and closed pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from inputs import check, no, params, run_here, written, yes

TEXT = "text,kind,group\nnight bird hoots,owl,bird\npond fish scales,carp,fish\n"
NEW = TEXT + "big bird swims,penguin,bird\n"
STRANGE = TEXT + "red fungus,agaric,mushroom\n"
TREE = "parent,child\nanimal,bird\nanimal,fish\nbird,owl\nbird,robin\nfish,carp\nfish,eel\n"
TRAIN = (
    "text,kind\n" + "night bird hoots,owl\nred bird breast,robin\npond fish scales,carp\nslippery fish snake,eel\n" * 4
)
T = {"t.csv": TEXT}


def score(model, unseen=None, extra="--json"):
    return f"evaluate {{{model}}} t.csv {extra}" + (f" --unseen {unseen}" if unseen else "")


def fit(options, name="t.csv"):
    return f"fit {name} --out new {options}"


UNSEEN = [
    yes(score("flat"), ('"rows": 2', '"notes": []'), T),
    yes(score("levels"), ('"rows": 2', '"exact": 1.0'), T),
    *[
        yes(
            score(m),
            ('"rows": 3', "1 row has labels the model does not know ('penguin')", "deepest known ancestor"),
            {"t.csv": NEW},
        )
        for m in ("flat", "levels", "tree")
    ],
    *[
        yes(score(m, "skip"), ('"rows": 2', "left out", '"exact": 1.0'), {"t.csv": NEW})
        for m in ("flat", "levels", "tree")
    ],
    *[
        yes(score(m, "wrong"), ('"rows": 3', "counted as wrong", '"exact": 0.666'), {"t.csv": NEW})
        for m in ("flat", "levels", "tree")
    ],
    *[
        no(score(m, "error"), ("1 of 3 rows", "penguin", "row 2", "--unseen ancestor"), {"t.csv": NEW})
        for m in ("flat", "levels", "tree")
    ],
    yes(score("levels"), "'agaric'", {"t.csv": STRANGE}),
    yes(score("flat", extra=""), "note: 1 row has labels", {"t.csv": NEW}),
    no(score("flat", "maybe"), "choose one of error, skip, ancestor, wrong", T),
    no(score("flat", "skip"), "none has a label that the model knows", {"t.csv": "text,kind\nx,penguin\n"}),
    no(score("flat", "error"), "did you mean 'owl'?", {"t.csv": "text,kind\nx,owll\n"}),
    no(score("flat", "error"), "did you mean 'owl'?", {"t.csv": "text,kind\nx,OWL\n"}),
    yes(score("flat"), '"exact": 1.0', {"t.csv": "text,kind\nnight bird hoots, owl \n"}),
    yes(
        "predict {mass} t.csv --json",
        ('"known": false', "deepest known ancestor", '"path": "root / bird"'),
        {"t.csv": "group,kind\nbird,penguin\n"},
    ),
    yes(
        "predict {mass} t.csv --json", ('"known": false', '"path": "root"'), {"t.csv": "group,kind\nmushroom,agaric\n"}
    ),
    yes(
        "evaluate {mass} t.csv --json",
        ('"rows": 2', "predicted at their deepest known ancestor"),
        {"t.csv": "group,kind,mass\nbird,penguin,4\nfish,eel,0\n"},
    ),
    yes(
        "evaluate {mass} t.csv --unseen skip --json",
        ('"rows": 2', "left out"),
        {"t.csv": "group,kind,mass\nbird,penguin,4\nfish,eel,0\nbird,owl,5\n"},
    ),
    no(
        "evaluate {mass} t.csv --unseen wrong",
        "--unseen wrong is for labels",
        {"t.csv": "group,kind,mass\nbird,owl,4\n"},
    ),
    no(
        "evaluate {mass} t.csv --unseen error",
        "'bird / penguin'",
        {"t.csv": "group,kind,mass\nbird,penguin,4\nfish,eel,0\n"},
    ),
    no(
        fit("--text text --target kind --tree tree.csv"),
        ("1 of 3 rows", "'penguin'", "--unseen skip"),
        {"t.csv": NEW, "tree.csv": TREE},
    ),
    no(
        fit("--text text --target kind --tree tree.csv"),
        "--match loose",
        {"t.csv": "text,kind\nx,Owl\n", "tree.csv": TREE},
    ),
    no(
        fit("--text text --target kind --tree tree.csv --match fuzzy"),
        "choose one of exact, loose",
        {"t.csv": TEXT, "tree.csv": TREE},
    ),
    yes(
        fit("--text text --target kind --tree tree.csv --match loose"),
        "matched loosely",
        {"t.csv": TRAIN.replace("owl", "OWL"), "tree.csv": TREE},
    ),
    yes(
        fit("--text text --target kind --tree tree.csv --unseen skip"),
        "1 row left out",
        {"t.csv": TRAIN + "x,penguin\n", "tree.csv": TREE},
    ),
    no("explain {flat} --ask bird --node penguin", "no node is labelled 'penguin'"),
    no("explain {flat} --ask bird --node owll", "did you mean 'owl'"),
]

LV = "group,kind,text,mass\nbird,owl,night bird,1\nbird,robin,red bird,2\nfish,carp,pond fish,3\nfish,eel,slippery fish,4\n"
LEVELS = [
    yes("tree info t.csv -o levels=group,kind --json", '"nodes": 7', {"t.csv": LV}),
    yes("tree info t.csv -o levels=kind,group --json", '"nodes": 9', {"t.csv": LV}),
    yes("tree info t.csv -o levels=group --json", '"nodes": 3', {"t.csv": LV}),
    yes("tree info t.csv -o levels=group,kind -o root=life --json", '"nodes": 7', {"t.csv": LV}),
    yes("encode t.csv life -o levels=group,kind -o root=life --json", '"code": "0"', {"t.csv": LV}),
    yes("encode t.csv 'bird / owl' -o levels=group,kind --json", '"label": "owl"', {"t.csv": LV}),
    yes("tree convert t.csv t.nwk -o levels=group,kind", "written: t.nwk (7 nodes, 4 leaves", {"t.csv": LV}),
    no("tree info t.csv -o levels=order,kind", "no column 'order'", {"t.csv": LV}),
    no("tree info t.csv", ("cannot tell which columns", "-o levels=…,…"), {"t.csv": LV}),
    no("tree info t.csv -o level=group", "has no option 'level'", {"t.csv": LV}),
    no("tree info t.csv -o levels=group -o levels=kind", "is given twice", {"t.csv": LV}),
    no("tree info t.csv -o levels=group,kind -o gaps=no", "gaps", {"t.csv": LV}),
    no("tree info t.csv -o max_nodes=many", "takes a whole number", {"t.csv": LV}),
    yes("predict {levels} t.csv --json", ('"path": "root / bird / owl"', '"depth": 2'), {"t.csv": LV}),
    yes(
        "predict {levels} t.csv --stop depth --depth 1 --json",
        ('"path": "root / bird"', '"probability"', '"node"'),
        {"t.csv": LV},
    ),
    yes("predict {levels} t.csv --stop depth --depth 0 --json", '"path": "root"', {"t.csv": LV}),
    yes("predict {levels} t.csv --stop risk --json", '"depth"', {"t.csv": LV}),
    yes("predict {levels} t.csv --stop threshold --threshold 0 --json", '"depth": 2', {"t.csv": LV}),
    yes("predict {levels} t.csv --stop threshold --threshold 1 --json", '"depth"', {"t.csv": LV}),
    yes("evaluate {levels} t.csv --json", ('"rows": 4', '"by depth"'), {"t.csv": LV}),
    no("evaluate {levels} t.csv", "no column 'group'", {"t.csv": "kind,text\nowl,night bird\n"}),
    yes(fit("--levels group,kind --text text"), ("4 rows", "depth 2"), {"t.csv": LV}),
    yes(fit("--regress mass --levels group,kind"), ("4 rows", "nodes"), {"t.csv": LV}),
    yes(fit("--regress mass --levels group,kind --json"), '"nodes": 7', {"t.csv": LV}),
    yes(fit("--regress mass --levels kind --tree tree.csv --json"), '"nodes": 7', {"t.csv": LV, "tree.csv": TREE}),
    yes(
        fit("--regress mass --levels kind --tree tree.nwk --match loose"),
        "4 labels were matched loosely",
        {"t.csv": LV, "tree.nwk": "((OWL,ROBIN)b,(CARP,EEL)f)a;"},
    ),
    no(
        fit("--regress mass --levels kind --tree tree.nwk"),
        ("4 of 4 rows", "--match loose"),
        {"t.csv": LV, "tree.nwk": "((OWL,ROBIN)b,(CARP,EEL)f)a;"},
    ),
    yes(
        fit("--regress mass --levels group,kind --folds 2 --json"),
        ('"held-out RMSE"', '"held-out RMSE, sd"'),
        {"t.csv": LV},
    ),
    yes(
        fit("--regress mass --levels group,kind --columns size --json"),
        '"nodes": 6',
        {"t.csv": "group,kind,size,mass\na,b,1,2\na,c,2,3\nd,e,3,4\na,b,4,6\n"},
    ),
    no(fit("--regress mass"), "--regress needs --levels", {"t.csv": LV}),
    no(fit("--regress text --levels group"), "not numeric", {"t.csv": LV}),
    no(fit("--regress mass,size --levels group"), "--regress takes one column", {"t.csv": LV}),
    no(fit("--regress mass --levels mass"), "is named twice", {"t.csv": LV}),
    no(fit("--regress mass --levels group --text text"), "--text does nothing here", {"t.csv": LV}),
    no(fit("--regress mass --levels group --target kind"), "--target does nothing here", {"t.csv": LV}),
]

CLASHES = [
    no("predict {flat} t.csv --alpha 0.1", "--alpha does nothing here: it belongs to --stop risk", T),
    no("predict {flat} t.csv --threshold 0.1", "--threshold does nothing here", T),
    no("predict {flat} t.csv --depth 1", "--depth does nothing here", T),
    no("predict {flat} t.csv --stop depth --alpha 0.1", "it belongs to --stop risk", T),
    no("predict {flat} t.csv --stop risk --threshold 0.1", "it belongs to --stop threshold", T),
    no("predict {flat} t.csv --stop never", "choose one of threshold, risk, depth", T),
    no("predict {flat} t.csv --stop depth --top 2", "--top 2 does not go with it", T),
    no("predict {flat} t.csv --rule path --top 2", "--rule path gives one node per row", T),
    no("predict {flat} t.csv --rule path --stop risk", "--rule path gives one node per row", T),
    no("predict {flat} t.csv --rule best", "choose one of node, path", T),
    no("predict {flat} t.csv --ask bird", "either a table or --ask", T),
    no("predict {flat}", "either a table or --ask"),
    no("predict {flat} --ask bird --keep id", "--keep does nothing here"),
    no("predict {flat} --ask bird --delimiter ;", "--delimiter does nothing here"),
    no("predict {flat} t.csv --out p.csv --json", "--json does nothing here", T),
    no("predict {flat} t.csv --out p.docx", "ending '.docx'", T),
    no("predict {flat} t.csv --out no/p.csv", "there is no folder", T),
    no("predict {mass} t.csv --stop risk", "this model predicts a number", {"t.csv": LV}),
    no("predict {mass} t.csv --top 3", "this model predicts a number", {"t.csv": LV}),
    no("predict {mass} --ask owl", "cannot be asked a text"),
    no("predict {num} --ask owl", "cannot be asked a text"),
    yes("predict {both} --ask 'night bird hoots'", ("owl", "1 of 1 row lacks a number, read as the median")),
    no("evaluate {flat}", "give a table with the target column"),
    no(fit("--text text --columns size --target kind"), "has no column 'size' (block 'numbers')", T),
    yes(fit("--target kind"), "columns read as categories: text, group", T),
    no(fit("--text text --target kind --levels group,kind"), "--target and --levels both name the target", T),
    no(fit("--text text --target kind --policy deepest"), "--policy does nothing here", T),
    no(fit("--text text --target kind -o root=x"), "--option does nothing here", T),
    no(fit("--text text --target kind --format newick"), "--format does nothing here", T),
    no(
        fit("--columns size --target kind --no-characters"),
        "--characters does nothing here",
        {"t.csv": "size,kind\n1,a\n"},
    ),
    no(fit("--text text --target kind --folds 2 --test-size 0.5"), "two ways of holding rows out", T),
    no("fit wordnet --out new --text text", "--text does nothing here: wordnet is a task"),
    no("fit wordnet --out new --folds 3", "--folds does nothing here: wordnet is a task"),
    no("fit wordnt --out new --text text", "ending ''"),
    no("explain {flat} t.csv --row 2", "there is no row 2; the table has rows 0 to 1", T),
    no("explain {flat} t.csv --row -1", "--row", T, code=2),
    no("ball t.csv owl --show -1", "--show", {"t.csv": TREE}, code=2),
    no("ball t.csv owl -k -1", "-k", {"t.csv": TREE}, code=2),
    no("ball t.csv owl -k 9", "9", {"t.csv": TREE}),
    no("discover t.csv --depth -1", "--depth", T, code=2),
    no("predict {flat} t.csv --tp 3", "No such option: --tp", T, code=2),
    no("fit t.csv --target kind --starts --out new", "write --mixed starts", T, code=2),
    no("preddict", "No such command 'preddict'", code=2),
    no("fit", "Missing argument", code=2),
    yes("fit t.csv", "vpunn fit t.csv --target group", T),
    no("tree info wordnt", "did you mean 'wordnet'?"),
    no("data path wordnt", "did you mean 'wordnet'?"),
    no("data fetch", "name a data set"),
    no("tree info wordnet -o root=x", "--option does nothing here"),
]

FOLDERS = [
    yes("tree info {flat} --json", ('"nodes": 5', "is a model folder (HiPaNClassifier)")),
    yes("tree info {mass} --json", ('"nodes": 7', "VPuNNRegressor")),
    yes("encode {levels} 'bird / owl' --json", '"depth": 2'),
    yes("distance {tree} owl robin --json", '"common ancestor": "bird"'),
    yes("ball {tree} bird --json", '"leaves": 2'),
    yes("tree convert {tree} t.nwk", "written: t.nwk (7 nodes"),
    yes("info {flat} --json", '"HiPaNClassifier"'),
    yes("info {mass} --json", '"VPuNNRegressor"'),
    no("tree info {flat} -o root=x", "--option does nothing here"),
    no("predict nothing --ask x", "there is no model folder 'nothing'"),
    no("predict t.csv --ask x", "t.csv", T),
    no("predict d --ask x", "'d'", {"d/x.txt": "x"}),
    no("predict d --ask x", "d/model.json", {"d/model.json": ""}),
    no("predict d --ask x", "d/model.json", {"d/model.json": "[]"}),
    no("predict d --ask x", "d/model.json", {"d/model.json": "{}"}),
    no("predict d --ask x", "d/model.json", {"d/model.json": "{" * 100}),
    no("predict d --ask x", "d/model.json", {"d/model.json": b"\xff\xfe"}),
    no("info d", "d/model.json", {"d/model.json": "{}"}),
    no("evaluate d t.csv", "d/model.json", {"d/model.json": "null", **T}),
    no("explain d --ask x", "d/model.json", {"d/model.json": "1"}),
    no("fit t.csv --out t.csv --text text --target kind", "it is a file", T),
    no("fit t.csv --out d --text text --target kind", "'d'", {**T, "d/precious.txt": "mine"}),
    yes("fit t.csv --out a/b/new --text text --target kind", "a/b/new", {"t.csv": TRAIN}),
    no("explore nothing --no-browser", "there is no file 'nothing'"),
    no("tabular generate d --out x.csv", "d/model.json", {"d/model.json": "{}"}),
]


@params(UNSEEN)
def test_unseen_labels(case, tmp_path, models):
    check(case, tmp_path, models)


@params(LEVELS)
def test_level_columns(case, tmp_path, models):
    check(case, tmp_path, models)


@params(CLASHES)
def test_clashing_options(case, tmp_path, models):
    check(case, tmp_path, models)


@params(FOLDERS)
def test_model_folders(case, tmp_path, models):
    check(case, tmp_path, models)


STREAMS = [
    yes("predict {flat} - --json", '"label": "owl"', stdin=TEXT),
    yes("predict {flat} - --json", '"label": "owl"', stdin=TEXT.replace(",", ";")),
    yes("predict {flat} - --json", '"label": "owl"', stdin=TEXT.encode("utf-16")),
    yes("predict {flat} - --json", '"label": "owl"', stdin='{"text": "night bird hoots"}\n'),
    yes("predict {flat} t.csv --out -", "row,label,probability,depth,node,path,known\n0,owl,", T),
    yes("predict {flat} t.csv --out - --keep kind", "row,kind,label,probability", T),
    yes("evaluate {flat} - --json", '"rows": 2', stdin=TEXT),
    yes("explain {flat} - --row 1", "carp: probability", stdin=TEXT),
    yes("fit - --out new --text text --target kind", "16 rows", stdin=TRAIN),
    yes("tree info - --json", '"nodes": 7', stdin=TREE),
    yes("tree info - --json", '"nodes": 3', stdin="(a,b)c;"),
    yes("tree info - --format csv --json", '"nodes": 7', stdin=TREE),
    yes("tree info - -o levels=group,kind --json", '"nodes": 5', stdin=TEXT),
    yes("tree convert - - --to newick", "(a,b)c;", stdin="(a,b)c;"),
    yes("encode t.csv - --json", '"label": "owl"', {"t.csv": TREE}, stdin="owl\n\nrobin\n"),
    yes("encode t.csv - --json", '"label": "owl"', {"t.csv": TREE}, stdin="\ufeffowl\r\n"),
    yes("decode t.csv - --json", '"label": "bird"', {"t.csv": TREE}, stdin="1\n"),
    yes("distance t.csv - --json", '"common ancestor": "bird"', {"t.csv": TREE}, stdin="owl\trobin\n"),
    no("distance t.csv -", "needs two labels", {"t.csv": TREE}, stdin="owl\n"),
    no("encode - -", "only one of the tree and the values", stdin=TREE),
    no("encode t.csv -", "not UTF-8", {"t.csv": TREE}, stdin=b"\xff\n"),
    no("predict {flat} -", "is empty", stdin=""),
    no("predict {flat} -", "no rows below", stdin="text\n"),
    no("tree info -", "cannot tell the format", stdin="x"),
    no("tree info -", "", stdin=""),
    no("tree info - --format parquet", "not a readable Parquet file", stdin="x"),
    no("fit - --out new --text text --target kind", "line 2", stdin='text,kind\n"a,b\n'),
]


@params(STREAMS)
def test_streams(case, tmp_path, models):
    check(case, tmp_path, models)


def shell(command, folder, **more):
    """A command line run by a shell, in a process of its own."""
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    vpunn = f"{sys.executable} -c 'from vpunn.cli import main; main()'"
    return subprocess.run(
        command.replace("vpunn", vpunn), shell=True, cwd=folder, env=here, capture_output=True, **more
    )


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("vpunn encode t.csv | head -n 1", 0, b""),
        ("vpunn encode t.csv --json | true", 0, b""),
        ("vpunn encode t.csv > /dev/full", 1, b"No space left"),
        ("vpunn encode t.csv >&-", 0, b""),
        ("PYTHONIOENCODING=ascii vpunn encode t.csv", 0, b""),
    ],
)
def test_closed_pipes_and_full_disks(command, code, said, tmp_path):
    rows = "".join(f"root,né{i}\n" for i in range(3000))
    (tmp_path / "t.csv").write_text("parent,child\n" + rows)
    done = shell(command, tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_a_failed_fit_keeps_the_model_that_was_there(models, tmp_path):
    shutil.copytree(models["flat"], tmp_path / "m")
    before = written(tmp_path / "m")
    (tmp_path / "t.csv").write_text("text,kind\na,\n")
    done = run_here(
        ["fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "m"), "--text", "text", "--target", "kind"]
    )
    assert done.code == 1
    assert written(tmp_path / "m") == before


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl", ".csv.gz"])
def test_out_is_what_its_ending_says(ending, models, tmp_path):
    from vpunn.io import read_table

    (tmp_path / "t.csv").write_text("sku,text\n007,night bird hoots\n1.10,pond fish\n")
    out = tmp_path / f"p{ending}"
    done = run_here(["predict", str(models["levels"]), str(tmp_path / "t.csv"), "--keep", "sku", "--out", str(out)])
    assert done.code == 0, done.err
    found = read_table(out, as_text=["sku"])
    assert found["sku"].tolist() == ["007", "1.10"]
    assert found["path"].tolist() == ["root / bird / owl", "root / fish / carp"]
    assert found["node"].tolist() == found["node"].astype(int).tolist()
    assert ((found["probability"] > 0.3) & (found["depth"] == 2)).all()


def test_explain_tells_words_once(models):
    found = json.loads(run_here(["explain", str(models["flat"]), "--ask", "night hoots", "--json"]).out)
    names = [name for ball in found["balls"] for name, _ in ball["features"]]
    assert set(names) <= {"night", "hoots"}
    for ball in found["balls"]:
        assert len(ball["features"]) == len({name for name, _ in ball["features"]})
