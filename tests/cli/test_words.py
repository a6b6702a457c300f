"""What commands say is right and can be followed: one rule for rows that are scored, counts of what is left, options that exist."""

from __future__ import annotations

import json
from io import BytesIO, StringIO

import pytest
from rich.console import Console

from inputs import check, no, params, run_here, yes
from vpunn.cli.common import shell_voice, state
from vpunn.cli.info import WORDS
from vpunn.report import report_tree
from vpunn.report._words import ANALYSES, MEANING
from vpunn.tree import Tree

#: One row that is known, one whose last level (or only label) is not, one that is not known at all.
SCORED = {
    "flat": "text,kind\nnight bird hoots,owl\nsmall bird,wren\npond fish,carp\n",
    "tree": "text,kind\nnight bird hoots,owl\nsmall bird,wren\npond fish,fish\n",
    "levels": "text,group,kind\nnight bird hoots,bird,owl\nsmall bird,bird,wren\nred fungus,mushroom,agaric\n",
    "mass": "group,kind,mass\nbird,owl,5\nbird,wren,4\nmushroom,agaric,0\n",
    "sets": "text,tags\nnight bird,wings|night\nsnake,\npond fish,fins|zzz\n",
}


def page_of(model, folder, unseen):
    """The scores and the summary of a page, by the command."""
    words = ["report", str(model), str(folder / "t.csv"), "--out", str(folder / "r.html"), "--json"]
    done = run_here([*words, *unseen])
    assert done.code == 0, done.err
    blocks = json.loads(done.out)["blocks"]
    table = next(block for block in blocks if block["kind"] == "table" and "score" in block["columns"])
    end = [i for i, block in enumerate(blocks) if block["kind"] == "heading"][1]
    return {row["score"]: row["value"] for row in table["rows"]}, [
        block["text"] for block in blocks[1:end] if "text" in block
    ]


@pytest.mark.parametrize("unseen", [[], ["--unseen", "skip"]], ids=["as it is", "skip"])
@pytest.mark.parametrize("name", SCORED)
def test_a_page_scores_the_rows_that_evaluate_scores(name, unseen, models, tmp_path):
    """Labels that the model does not know count in both, or in neither, and both say how many there are."""
    (tmp_path / "t.csv").write_text(SCORED[name])
    done = run_here(["evaluate", str(models[name]), str(tmp_path / "t.csv"), "--json", *unseen])
    if done.code:  # fewer than two numbers have no R²
        assert name == "mass" and "fewer than two rows" in done.err
        return
    found = json.loads(done.out)
    scores, summary = page_of(models[name], tmp_path, unseen)
    assert scores["rows"] == found["rows"]
    same = {"exact": "exactly right", "RMSE": "root mean squared error", "F1 by pairs": "F1 by pairs"}
    both = [(found[a], scores[b]) for a, b in same.items() if a in found and b in scores]
    assert both and all(a == pytest.approx(b) for a, b in both)
    notes = [f"{note[:1].upper()}{note[1:]}." for note in found["notes"]]
    assert summary[-len(notes) :] == notes and any("does not know" in note for note in notes)


READ = [
    # the row with a gap is not in the tree and is dropped, so that its gap is not counted
    yes(
        "fit t.csv --levels a,b --text t --tree tree.csv --unseen skip --out m",
        ("4 rows, 4 columns", "1 row with blank levels", "1 row left out", "('q')"),
        {
            "t.csv": "id,t,a,b\n1,u v,x,p\n2,u w,x,\n3,v w,,q\n4,u z,y,r\n5,w z,y,r\n",
            "tree.csv": "parent,child\nall,x\nall,y\nx,p\ny,r\n",
        },
    ),
    yes(
        "fit t.csv --target k --text t --out m",
        ("4 rows", "2 classes", "1 row without a label"),
        {"t.csv": "t,k\nu v,x\nu w,x\nv w,\nu z,y\nw z,y\n"},
    ),
    # a row with two kinds of blanks is one row
    yes(
        "fit t.csv --levels a,b,c --text t --out m",
        "; 1 row with blank levels;",
        {"t.csv": "t,a,b,c\nu v,x,p,o\nu w,,p,\nu z,y,r,o\nw z,y,r,o\n"},
    ),
    # ids differ, and what the model reads does not
    yes(
        "fit t.csv --target k --text t --out m",
        "1 duplicate row in the columns used",
        {"t.csv": "id,t,k\n1,u v,x\n2,u v,x\n3,v w,y\n4,w z,y\n"},
    ),
]


@params(READ)
def test_what_was_read_is_what_is_left(case, tmp_path, models):
    check(case, tmp_path, models)


LATIN = "text,kind\nnight é,owl\npond,carp\n".encode("latin-1")
ENCODED = [
    *(
        no(
            f"{command} --encoding ascii",
            "give --encoding latin-1 (or what it is written in), or save",
            {"t.csv": LATIN},
        )
        for command in (
            "predict {flat} t.csv",
            "predict {flat} t.csv --out o.csv",
            "evaluate {flat} t.csv",
            "explain {flat} t.csv",
            "report {flat} t.csv --out r.html",
            "fit t.csv --target kind --text text --out m",
        )
    ),
    yes("predict {flat} t.csv", "give --encoding … with its name, or save it as UTF-8", {"t.csv": LATIN}),
    no(
        "tree info t.csv -o encoding=ascii",
        "give -o encoding=latin-1 (or what it is written in), or save",
        {"t.csv": LATIN},
    ),
    yes("discover t.csv", "if letters look wrong, give --encoding …", {"t.csv": LATIN + LATIN[10:] * 9}),
    no("report t.csv --out r.html -o encoding=ascii", "give -o encoding=latin-1", {"t.csv": LATIN}),
    no("figures t.csv", "give -o add_root=… to vpunn tree convert to put", {"t.csv": LATIN}),
]


@params(ENCODED)
def test_advice_about_encodings_can_be_followed(case, tmp_path, models):
    check(case, tmp_path, models)


def test_advice_is_worded_by_whoever_calls(monkeypatch):
    from vpunn.errors import DataError, speaking
    from vpunn.io import read_table

    def refused():
        with pytest.raises(DataError) as caught:
            read_table(BytesIO(LATIN), encoding="ascii")
        return str(caught.value)

    assert "; pass encoding='latin-1' (or what" in refused()
    with speaking(shell_voice):
        for takes, said in (
            (frozenset(), "; save it"),
            (frozenset({"encoding"}), "; give --encoding latin-1 (or what"),
        ):
            monkeypatch.setattr(state, "takes", takes)
            assert said in refused()


LEVELS = {"t.csv": "group,kind\nbird,owl\n,\nbird,wren\n"}
EMPTY = [
    yes("predict {mass} t.csv", "2 rows (row 1, 2) have no level, or one the model does not know;", LEVELS),
    yes("predict {mass} t.csv --out o.csv", "have no level, or one the model does not know;", LEVELS),
    yes(
        "predict {sets} t.csv",
        "1 row (row 1) gets no label: none is likely",
        {"t.csv": "text\nnight bird\neel snake\n"},
    ),
    yes(
        "predict {flat} t.csv", "1 row (row 1) holds nothing the model knows;", {"t.csv": "text,x\nnight bird,1\n,2\n"}
    ),
]


@params(EMPTY)
def test_empty_cells_and_answers_are_called_so(case, tmp_path, models):
    check(case, tmp_path, models)


@pytest.mark.parametrize("name", ["flat", "both", "mass", "sets"])
def test_info_fits_a_terminal_and_explains_its_words_once(name, models):
    said = run_here(["info", str(models[name])]).out
    assert max(map(len, said.splitlines())) <= 80
    assert ("a branch is a node with all below it" in said) == ("numbers of branches" in said)
    assert all(said.count(f"({words})") <= 1 for words in WORDS.values())
    settings = json.loads(run_here(["info", str(models[name]), "--json"]).out)["settings"]
    told = {line.split()[0]: line for line in reversed(said.splitlines())}  # the first line of a name
    assert all(told[key].endswith(f"({WORDS[key]})") for key in settings.keys() & WORDS.keys() & told.keys())
    unsaid = settings.keys() - WORDS.keys()
    assert unsaid <= {"rest", "experts"}  # one number that only the code explains, and names


def test_pages_explain_their_words_in_80_columns(models, tmp_path):
    from vpunn.cli.report import _model_page
    from vpunn.cli.tables import AS_FOUND

    pages = [report_tree(Tree.from_parents([-1, 0, 0, 1, 1]), "five nodes")]
    for name in ("flat", "mass", "sets", "class"):
        (tmp_path / "t.csv").write_text(SCORED.get(name, "group,kind,code\nbird,owl,01\nfish,eel,04\n"))
        pages.append(_model_page(models[name], tmp_path / "t.csv", tmp_path / "r.html", AS_FOUND, "ancestor"))
    said = []
    for page in pages:
        printed = StringIO()
        page.print(Console(width=80, file=printed))
        said.append(printed.getvalue())
        assert max(map(len, said[-1].splitlines())) <= 80
        assert "A node with all that lies below it is called a branch." in " ".join(said[-1].split())
    every = "\n".join(said)
    assert [words for words in MEANING.values() if words not in every] == []  # none is folded
    assert [words for words in ANALYSES.values() if words not in " ".join(every.split())] == []


def test_scores_of_training_rows_say_so(tmp_path):
    """The table that a model was fitted on is known again by its content, and no other is."""
    (tmp_path / "t.csv").write_text(SCORED["mass"] + SCORED["mass"].partition("\n")[2].replace(",5", ",6"))
    (tmp_path / "new.csv").write_text((tmp_path / "t.csv").read_text() + "bird,owl,7\n")
    fit = ["fit", str(tmp_path / "t.csv"), "--regress", "mass", "--levels", "group,kind", "--out", str(tmp_path / "m")]
    assert run_here(fit).code == 0
    said = {
        name: run_here(["evaluate", str(tmp_path / "m"), str(tmp_path / name)]).out for name in ("t.csv", "new.csv")
    }
    assert "fitted on this very table" in said["t.csv"] and "fitted on this very table" not in said["new.csv"]


def test_help_stands_in_groups(capsys):
    """Under what each group is for; the first sentence of every command fits beside its name."""
    told = run_here(["fit", "--help"]).out
    assert [told.index(f"\n{title}:\n") for title in ("Options", "Which columns are what", "How texts become features")]
    assert told.index("--format") > told.index("\nThe tree of the labels, and rows without a place in it:\n")
    for family in ([], ["tree"], ["data"], ["hipan"], ["hipaq"], ["tabular"]):
        commands = run_here([*family, "--help"]).out.partition("Commands:")[2]
        assert commands and "..." not in commands
