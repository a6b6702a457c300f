"""``vpunn fit`` for somebody with a table: what columns look like, a folder beside the table, spellings merged, leaves alone."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from inputs import run_here, tool


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "products.csv").write_text(tool("cli_page").messy_shop())
    return tmp_path / "products.csv"


def test_without_options_the_columns_are_shown_and_a_command_that_works(shop):
    told = run_here(["fit", str(shop)])
    assert (
        told.code == 0
        and "looks like" in told.out
        and "category  4 different values, 1 blank" in " ".join(told.out.split("  "))
    )
    commands = [line for line in told.out.splitlines() if line.startswith("    vpunn fit")]
    assert commands[0].endswith("--levels dept,category --text title --columns price")
    assert commands[1].endswith("--regress price --levels dept,category")
    assert json.loads(run_here(["fit", str(shop), "--json"]).out)["commands"] == list(map(shlex.split, commands))
    for command in commands:
        assert not (shop.parent / "products-model").exists()
        done = run_here(shlex.split(command)[1:])
        assert done.code == 0, done.err
        shutil.rmtree(shop.parent / "products-model")


def test_levels_nest_however_they_are_spelled_and_the_command_merges_them(shop):
    lines = shop.read_text().splitlines()
    lines[2:4] = [
        line.replace(";Garden;", mark) for line, mark in zip(lines[2:4], (";GARDEN;", "; garden;"), strict=True)
    ]
    lines[5] = lines[5].rpartition(";")[0] + ";"
    shop.write_text("\n".join(lines) + "\n")
    told = run_here(["fit", str(shop)]).out
    assert "2 different values in 4 spellings" in told and "1 blank" in told, told
    command = next(line for line in told.splitlines() if line.startswith("    vpunn fit"))
    assert command.endswith("--levels dept,category --text title --columns price --match loose")
    done = run_here(shlex.split(command)[1:])
    assert done.code == 0 and "2 labels of another spelling merged: 'Garden' from 'GARDEN', 'garden'" in done.out, (
        done.out
    )
    assert "1 row lacks a number, read as the median" in done.out.replace("1 of 66 rows", "1 row")


def test_names_in_a_tree_are_found(tmp_path):
    (tmp_path / "t.nwk").write_text("((Homo_sapiens:1,Pan_troglodytes:1)a:1,(Mus_musculus:1,Mus_caroli:1)b:1)r;")
    rows = ["Homo sapiens,62.5,any", "Pan_troglodytes,45.1,plants", "Mus musculus,0.02,seeds", "Mus caroli,0.01,seeds"]
    (tmp_path / "t.csv").write_text("\n".join(["sp,kg,diet", *rows]) + "\n")
    told = run_here(["fit", str(tmp_path / "t.csv"), "--tree", str(tmp_path / "t.nwk")]).out
    commands = [line for line in told.splitlines() if line.startswith("    vpunn fit")]
    assert [command.split("t.nwk ")[1] for command in commands] == [
        "--classify diet --levels sp --match loose",
        "--regress kg --levels sp --match loose",
    ]
    for command in commands:
        assert run_here(shlex.split(command)[1:]).code == 0


def test_columns_that_nobody_names_are_read_as_they_look(shop, tmp_path):
    done = run_here(["fit", str(shop), "--levels", "dept,category", "--out", str(tmp_path / "m"), "--leaves"])
    assert done.code == 0, done.err
    assert "as words: title; as numbers: price; columns left out: sku" in done.err
    rows = json.loads(run_here(["predict", str(tmp_path / "m"), str(shop), "--top", "5", "--json"]).out)
    assert {row["depth"] for row in rows} == {2}  # leaves alone
    assert json.loads(run_here(["info", str(tmp_path / "m"), "--json"]).out)


def test_spellings_are_merged_and_listed(shop, tmp_path):
    lines = shop.read_text().splitlines()
    lines[1:4] = [
        line.replace(";Garden;", mark)
        for line, mark in zip(lines[1:4], (";garden;", ";GARDEN;", ";Garden.;"), strict=True)
    ]
    shop.write_text("\n".join(lines) + "\n")
    words = [
        "fit",
        str(shop),
        "--levels",
        "dept,category",
        "--text",
        "title",
        "--out",
        str(tmp_path / "m"),
    ]
    told = run_here(words)
    assert "1 name is spelled in several ways" in told.out and "give --match loose to read them as one" in told.out, (
        told.out
    )
    told = run_here([*words, "--match", "loose"])
    assert "3 labels of another spelling merged: 'Garden' from 'GARDEN', 'Garden.', 'garden'" in told.out, told.out
    rows = json.loads(run_here(["predict", str(tmp_path / "m"), str(shop), "--json"]).out)
    assert {row["path"].split(" / ")[1] for row in rows if " / " in row["path"]} <= {"Garden", "Kitchen", "(missing)"}
    found = json.loads(run_here(["evaluate", str(tmp_path / "m"), str(shop), "--json"]).out)
    assert found["exact"] > 0.9 and not any("does not know" in note for note in found["notes"])
