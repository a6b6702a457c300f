"""``vpunn fit`` for somebody with a table: what columns look like, a folder beside the table, spellings merged, leaves alone."""

from __future__ import annotations

import json
import shlex

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
    (command,) = [line for line in told.out.splitlines() if line.startswith("    vpunn fit")]
    assert command.endswith("--levels dept,category --text title --columns price")
    assert json.loads(run_here(["fit", str(shop), "--json"]).out)["command"] == shlex.split(command)
    assert not (shop.parent / "products-model").exists()
    done = run_here([*shlex.split(command)[1:], "--missing", "drop"])
    assert done.code == 0 and (shop.parent / "products-model" / "model.json").is_file(), done.err


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
        "--missing",
        "drop",
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
    found = json.loads(run_here(["evaluate", str(tmp_path / "m"), str(shop), "--json", "--unseen", "skip"]).out)
    assert found["exact"] > 0.9 and not any("does not know" in note for note in found["notes"])
