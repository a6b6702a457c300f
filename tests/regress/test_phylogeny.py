"""Phylogenies: trees of unnamed inner nodes, with branch lengths."""

from inputs import run_here
from shapes import from_text as text
from vpunn import VPuNNRegressor


def test_a_phylogeny_without_names_inside_is_fitted_in_the_shell(tmp_path):
    tree, table, model = tmp_path / "t.nwk", tmp_path / "t.csv", tmp_path / "m"
    tree.write_text("((((a:1,b:1)100:2,(c:1,d:1)100:2):1):3,(e:2,f:2):2);")
    table.write_text("sp,y\na,1\nb,2\nc,3\ne,7\nf,8\n")
    fit = ["fit", str(table), "--regress", "y", "--levels", "sp", "--tree", str(tree), "--out", str(model)]
    assert run_here(fit).code == 0
    table.write_text("sp\nd\ne\n")
    said = run_here(["predict", str(model), str(table)])
    assert said.code == 0
    assert " 100 / d\n" in said.out and "…" not in said.out
    table.write_text("sp,y\n100,1\ne,2\n")
    assert "'100'" in run_here(fit).err  # a name of two nodes is refused only where a row uses it


def test_every_node_has_a_name_and_the_file_keeps_none_it_had_not():
    newick = "((a,(b,c)x)100,(d,e)100);"
    tree = text(newick)
    assert tree.labels.tolist() == ["a … e", "100", "a", "x", "b", "c", "100", "d", "e"]
    assert tree.to_newick() == newick
    model = VPuNNRegressor(tree).fit([["a"], ["x"], ["e"]], [1.0, 2.0, 3.0])
    assert str(model.explain([["b"]])).splitlines()[1].endswith("a … e")
