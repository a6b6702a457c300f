"""`vpunn fit --regress` and `--classify` along branches: logarithms, lengths, several trees, classes."""

import numpy as np
import pandas as pd
import pytest

from inputs import run_here
from vpunn import VPuNNRegressor, fit, load, read_tree
from vpunn.errors import VpunnError
from vpunn.io import read_trees

#: In the second tree d stands where f does in the first.
SWAP = str.maketrans("df", "fd")
NEWICK = "((((a:1,b:1):2,(c:1,d:1):2):1,g:4):3,((e:2,f:2):2,h:4):3);"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.nwk").write_text(NEWICK)
    (tmp_path / "two.nex").write_text(f"#NEXUS\nbegin trees;\ntree one = (a:1,b:1);\ntree two = {NEWICK}\nend;\n")
    (tmp_path / "t.csv").write_text("sp,kg,diet\na,10,1\nb,12,1\nc,30,1\ne,700,2\nf,900,2\n")
    (tmp_path / "new.csv").write_text("sp\nd\nh\nnobody\n")
    return tmp_path


def fitted(folder, *options):
    words = ["fit", str(folder / "t.csv"), "--levels", "sp", "--out", str(folder / "m"), *options]
    return run_here([word.replace("@", str(folder) + "/") for word in words])


def test_logarithms_come_back_on_the_scale_of_the_data(folder):
    assert fitted(folder, "--regress", "kg", "--tree", "@t.nwk", "--log", "--evolution", "lambda").code == 0
    out = folder / "o.csv"
    assert run_here(["predict", str(folder / "m"), str(folder / "new.csv"), "--out", str(out)]).code == 0
    found = pd.read_csv(out)
    assert (found["low"] > 0).all() and (found["low"] < found["prediction"]).all()
    assert 12 < found["prediction"][0] < 60 < found["prediction"][1]
    assert "numbers are log10 of 'kg'" in run_here(["evaluate", str(folder / "m"), str(folder / "t.csv")]).out
    model = load(folder / "m")
    assert model.predict(pd.DataFrame({"sp": ["a"]}))[0] == pytest.approx(10)
    (folder / "t.csv").write_text("sp,kg\na,0\nb,2\n")
    assert "no logarithm" in fitted(folder, "--regress", "kg", "--log").err


def test_lengths_evolution_and_the_tree_of_a_name_reach_the_model(folder):
    tree = ["--regress", "kg", "--tree", "@two.nex"]
    assert "'c'" in fitted(folder, *tree, "--tree-name", "one").err  # the first tree lacks it
    assert fitted(folder, *tree, "--tree-name", "two", "--evolution", "brownian", "--lengths", "1").code == 0
    model = load(folder / "m").model
    assert (model.evolution, model.lengths) == ("brownian", 1.0)
    page = str(folder / "r.html")
    assert run_here(["report", str(folder / "m"), str(folder / "t.csv"), "--out", page]).code == 0


def test_all_trees_of_a_file_are_averaged(folder):
    (folder / "s.nex").write_text(
        f"#NEXUS\nbegin trees;\ntree one = {NEWICK}\ntree two = {NEWICK.translate(SWAP)}\nend;\n"
    )
    tree = ["--tree", "@s.nex", "--tree-name", "all", "--evolution", "brownian"]
    assert fitted(folder, "--regress", "kg", *tree, "--log", "--folds", "2").code == 0
    X, y = [["a"], ["b"], ["c"], ["e"], ["f"]], np.log10([10, 12, 30, 700, 900])
    alone = [
        VPuNNRegressor(t, evolution="brownian").fit(X, y).predict([["d"]])[0]
        for t in read_trees(folder / "s.nex").values()
    ]
    assert abs(alone[0] - alone[1]) > 0.3
    model, new = str(folder / "m"), str(folder / "new.csv")
    assert load(model).predict(pd.DataFrame({"sp": ["d"]}))[0] == pytest.approx(10 ** np.mean(alone))
    assert run_here(["predict", model, new, "--json"]).code == 0
    assert "averaged over trees" in run_here(["info", model]).out
    for words in (
        ["explain", model, new],
        ["report", model, str(folder / "t.csv"), "--out", f"{folder}/r.html"],
    ):
        said = run_here(words)
        assert said.code == 1 and len(said.err.splitlines()) <= 2 and "Traceback" not in said.err, said.err
    with pytest.raises(VpunnError, match="has several"):
        load(model).explore()
    assert "averages what --regress predicts" in fitted(folder, "--classify", "diet", *tree).err


def test_an_explained_logarithm_says_its_number(folder):
    fitted(folder, "--regress", "kg", "--log", "--tree", "@t.nwk", "--evolution", "lambda")
    said = run_here(["explain", str(folder / "m"), str(folder / "new.csv")]).out
    number = load(folder / "m").predict(pd.read_csv(folder / "new.csv"))[0]
    assert said.startswith("log10 of 'kg' = ") and said.rstrip().endswith(f"which is the logarithm of {number:.4g}")


def test_classes_evolve_and_are_predicted_and_scored(folder):
    said = fitted(folder, "--classify", "diet", "--tree", "@t.nwk")
    assert said.code == 0 and "Mk model" in said.err
    out = folder / "o.csv"
    assert run_here(["predict", str(folder / "m"), str(folder / "new.csv"), "--out", str(out)]).code == 0
    found = pd.read_csv(out)
    assert found["prediction"].tolist()[:2] == [1, 2] and found["known"].tolist() == [True, True, False]
    assert found["probability"].between(0.5, 1).all()
    scores = run_here(["evaluate", str(folder / "m"), str(folder / "t.csv"), "--json"])
    assert '"exact": 1.0' in scores.out
    assert "P(1) = " in run_here(["explain", str(folder / "m"), str(folder / "new.csv")]).out
    page = run_here(["report", str(folder / "m"), str(folder / "t.csv"), "--out", f"{folder}/r.html"])
    assert page.code == 0 and "100.0 % of 5 rows get their class" in page.out
    assert fitted(folder, "--classify", "diet", "--tree", "@t.nwk", "--evolution", "none").code == 0
    assert load(folder / "m").model.evolution is None


def test_names_of_a_phylogeny_match_loosely_and_are_listed(folder):
    (folder / "cats.nex").write_text(
        "#NEXUS\nbegin trees;\ntranslate 1 Panthera_leo, 2 'Felis catus', 3 Puma_concolor, 4 Lynx_lynx_Linnaeus_1758;\n"
        "tree one = (((1:1,3:1):1,2:2):1,4:3);\nend;\n"
    )
    names = ['"Panthera leo (Linnaeus, 1758)"', "FELIS_CATUS", '"""Puma concolor"""', "lynx lynx", "Mus musculus"]
    (folder / "t.csv").write_text("sp,kg\n" + "".join(f"{name},{k}.5\n" for k, name in enumerate(names)))
    options = ["--regress", "kg", "--tree", "@cats.nex", "--match", "loose", "--evolution", "brownian"]
    assert "1 of 5 rows" in fitted(folder, *options).err
    said = fitted(folder, *options, "--unseen", "skip")
    told = " ".join(said.out.split())
    assert (
        said.code == 0 and "4 labels were matched loosely: 'Panthera leo (Linnaeus, 1758)' is 'Panthera_leo'," in told
    )
    assert (
        "'lynx lynx' is 'Lynx_lynx_Linnaeus_1758'" in told and "1 row not in the tree left out ('Mus musculus')" in told
    )
    new = pd.DataFrame({"sp": ["'Panthera leo' (Linnaeus, 1758)", "Panthera leo persica", "Puma concolor L."]})
    found = load(folder / "m").answer_table(new)
    assert found["known"].tolist() == [True, False, True]
    frame = pd.read_csv(folder / "t.csv")
    model = fit(
        frame, "kg", levels=["sp"], tree=read_tree(folder / "cats.nex"), match="loose", unseen="skip", verbose=False
    )
    assert any("4 labels were matched loosely" in note for note in model.report.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--regress", "kg", "--evolution", "auto"], "there is no --tree"),
        (["--regress", "kg", "--tree", "@t.nwk", "--evolution", "brown"], "brown"),
        (["--regress", "kg", "--tree", "@t.nwk", "--evolution", "auto", "--lengths", "age"], "--lengths takes"),
        (["--regress", "kg", "--tree", "@t.nwk", "--lengths", "1"], "belongs to --evolution"),
        (["--regress", "kg", "--classify", "diet"], "--classify does nothing here"),
        (["--classify", "diet", "--log"], "--log does nothing here"),
        (["--regress", "kg", "--tree", "@t.nwk", "--tree-name", "two"], "there is no tree 'two'"),
        (["--regress", "kg", "--tree-name", "two"], "there is no --tree"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(folder, options, words):
    said = fitted(folder, *options)
    assert said.code != 0 and words in said.err


def test_tree_info_says_what_the_branches_are(folder):
    said = run_here(["tree", "info", str(folder / "t.nwk")]).out
    assert "14 of 14" in said and "yes, as a dated tree is" in said and "polytomies" in said
    (folder / "t.nwk").write_text("((a:1,b:2,c:-1)x,d:1);")
    said = run_here(["tree", "info", str(folder / "t.nwk")]).out
    assert "4 of 5, 1 negative" in said and "-1 to 2" in said and "no, so" in said
