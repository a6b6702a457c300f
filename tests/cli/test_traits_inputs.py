"""What traits and phylogenies hold that no model can use: one sentence, or the right answer."""

import json
import re

import pytest

from inputs import run_here

NEWICK = "((((a:1,b:1):2,(c:1,d:1):2):1,g:4):3,((e:2,f:2):2,h:4):3);"
TRAITS = "sp,kg\na,10\nb,12\nc,30\ne,700\nf,900\n"


def predicted(folder, traits, newick, evolution, *more):
    """Prediction and standard deviation for tips without data, or what was said."""
    (folder / "t.csv").write_text(traits)
    (folder / "t.nwk").write_text(newick)
    (folder / "new.csv").write_text("sp\na\n" if len(newick) < 10 else "sp\nd\nh\n")
    words = ["fit", str(folder / "t.csv"), "--regress", "kg", "--levels", "sp", "--tree", str(folder / "t.nwk")]
    said = run_here([*words, "--evolution", evolution, "--out", str(folder / "m"), *more])
    if said.code:
        assert said.code == 1 and "Traceback" not in said.err and not (folder / "m").exists()
        return said.err
    rows = json.loads(run_here(["predict", str(folder / "m"), str(folder / "new.csv"), "--json"]).out)
    return [(row["prediction"], row["sd"]) for row in rows]


def in_units(total):
    """The tree with lengths of another unit: from root to tips 7, here ``total``."""
    return re.sub(r":(\d)", lambda found: f":{int(found[1]) * total / 7:.17g}", NEWICK)


@pytest.mark.parametrize(
    ("traits", "newick", "more", "words"),
    [
        (TRAITS + "zebra,300\n", NEWICK, [], "not in the tree: 'zebra', first in row 5"),
        (TRAITS, NEWICK.replace("b:1", "a:1"), [], "the label 'a' names 2 nodes"),
        ("sp,kg\na,\nb,NA\n", NEWICK, ["--missing", "error"], "has no number (NaN) in 2 of 2 rows"),
        ("sp,kg\na,\nb,NA\n", NEWICK, [], "no row of"),
        (TRAITS, "a;", [], "not in the tree: 'b', 'c', 'e'"),
    ],
)
def test_refused_in_one_sentence(tmp_path, traits, newick, more, words):
    said = predicted(tmp_path, traits, newick, "brownian", *more)
    assert words in said and len(said.split("vpunn: ")) == 2, said


@pytest.mark.parametrize("evolution", ["brownian", "ou", "auto"])
def test_units_of_length_change_no_answer(tmp_path, evolution):
    usual = predicted(tmp_path, TRAITS, NEWICK, evolution)
    for total in (1, 1e9):
        found = predicted(tmp_path, TRAITS, in_units(total), evolution)
        assert found == [pytest.approx(row, rel=1e-3) for row in usual]


@pytest.mark.parametrize("evolution", ["brownian", "lambda", "ou", "kappa", "auto"])
def test_a_constant_trait_is_that_number(tmp_path, evolution):
    found = predicted(tmp_path, "sp,kg\na,5\nb,5\nc,5\ne,5\n", NEWICK, evolution)
    assert found == [pytest.approx((5, 0), abs=1e-9)] * 2


def test_a_tree_of_one_tip_has_the_mean_of_its_rows(tmp_path):
    ((mean, sd),) = predicted(tmp_path, "sp,kg\na,5\na,6\n", "(a:1);", "brownian")
    assert mean == pytest.approx(5.5) and 0.5 < sd < 1
