"""The hipaq commands and the report, run for real."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from vpunn.cli import hipaq
from vpunn.errors import VpunnError
from vpunn.hipaq import small_group, tree_code
from vpunn.hipaq.group_invariants import MEANING
from vpunn.paper.reports import hipaq as report
from vpunn.paper.reports import reproduce
from vpunn.tree import Tree

APP = typer.Typer()
hipaq.register(APP)


def run(*words: str) -> str:
    result = CliRunner().invoke(APP, ["hipaq", *words])
    if result.exception:
        raise result.exception
    return result.stdout


def run_json(*words: str):
    return json.loads(run(*words, "--json"))


def test_groups_command():
    table = run_json("groups")
    assert (table["groups"], table["separated"], table["p"]) == (2194, 2188, 199)
    assert [row["invariant"] for row in table["digits"]][: len(MEANING)] == list(MEANING)
    assert "2,194 groups" in run("groups", "--ties")


def test_one_group_by_id_table_and_permutations(tmp_path):
    known = run_json("groups", "--id", "24,12")
    assert known["structure"] == "S4"
    shuffled = small_group(24, 12).relabelled(np.random.default_rng(0).permutation(24)).table
    np.savetxt(tmp_path / "table.csv", shuffled, fmt="%d", delimiter=",")
    np.savetxt(tmp_path / "table.txt", shuffled, fmt="%d")
    np.save(tmp_path / "table.npy", shuffled)
    (tmp_path / "table.json").write_text(json.dumps(shuffled.tolist()))
    for name in ("table.csv", "table.txt", "table.npy", "table.json"):
        assert run_json("groups", str(tmp_path / name)) == known
    (tmp_path / "generators.json").write_text("[[1, 2, 3, 0], [1, 0, 2, 3]]")
    assert run_json("groups", "--permutations", str(tmp_path / "generators.json")) == known


def test_bad_arguments(tmp_path):
    (tmp_path / "bad.csv").write_text("0,1\n1,x\n")
    with pytest.raises(VpunnError, match=r"cannot read numbers from .*bad\.csv"):
        run("groups", str(tmp_path / "bad.csv"))
    (tmp_path / "loop.json").write_text("[[0,1,2],[1,0,1],[2,2,0]]")
    with pytest.raises(VpunnError, match=r"triple \(1, 1, 2\)"):
        run("groups", str(tmp_path / "loop.json"))
    for name, content in {
        "empty.csv": b"",
        "empty.npy": b"",
        "deep.json": b"[" * 100_000,
        "flat.json": b"[1, 2]",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(VpunnError, match=r"cannot read numbers|n × n"):
            run("groups", str(tmp_path / name))
    with pytest.raises(VpunnError, match="'8;3'"):
        run("groups", "--id", "8;3")
    with pytest.raises(VpunnError, match="'a,b'"):
        run("hydrogen", "--noise", "a,b")


def test_hydrogen_decays_and_trees_commands(tmp_path):
    states = run_json("hydrogen", "--n", "3", "--spin", "--noise", "0", "--seeds", "1")
    assert (states["states"], states["K"]) == (28, 4)
    assert all(row["purity"] == 1 for row in states["recovery"] if row["method"] == "staged")
    assert "exact by construction" in run("hydrogen", "--n", "2", "--noise", "0.1", "--seeds", "1")
    assert run_json("decays")["channels"] == 7
    assert "pi- pi0 nu_tau" in run("decays")
    assert run_json("trees", "--max-nodes", "6")["trees by nodes"] == {"1": 1, "2": 1, "3": 2, "4": 4, "5": 9, "6": 20}
    (tmp_path / "tree.nwk").write_text("((a,b),c);")
    cherry = Tree.from_parents([-1, 0, 0, 1, 1])
    assert run_json("trees", str(tmp_path / "tree.nwk"))["AHU code"] == hex(tree_code(cherry))


def test_report(wine, tmp_path, monkeypatch):  # its Table 20 reads the wines
    """All 1,251 groups are recomputed from shuffled tables on the way: none may differ from GAP's values."""
    made = reproduce("hipaq", seeds=1, out=tmp_path / "made")
    rows = next(
        block["rows"] for block in made.blocks if "T16" in block.get("title", "") and "beside ours" in block["title"]
    )
    ours = {row["quantity"].strip(): row["ours"] for row in rows if row["ours"] is not None}
    assert ours["groups of order ≤ 125"] == 1251
    assert ours["groups of order ≤ 360"] == 67_232  # OEIS A000001, summed
    assert ours["of these computed"] == 67_232 - 56_092
    assert ours["groups that change when renamed"] == 0
    assert ours["wrong identifications"] == 0
    assert ours["hydrogen states, n ≤ 8"] == 204
    folder = made.write(tmp_path / "report")
    assert {"report.html", "report.json", "figure-1.png", "figure-2.png"} <= {path.name for path in folder.iterdir()}
    small = {row["tree"]: row for block in made.blocks if block.get("name") == "T20" for row in block["rows"]}
    assert {row["exact code: leaves back %"] for row in small.values()} == {100.0}
    assert small["125 indices, as the paper"]["HiPaN, nothing shown: whole path %"] == 100 / 125
    assert small["τ⁻ channels"]["HiPaN, nothing shown: whole path %"] == pytest.approx(100 / 7)
    assert (small["wine, latent tree"]["(p, K)"], small["wine, latent tree"]["epochs"]) == ("(3, 6)", 3)

    def never(*args, **kwargs):
        raise AssertionError("something was measured again")

    for name in ("check_groups", "purity_against_noise", "_train_small", "measured"):
        monkeypatch.setattr(report, name, never)
    again = reproduce("hipaq", source=tmp_path / "made", out=tmp_path / "again")
    assert again.blocks == made.blocks
