"""Edited model folders of every kind are refused in one sentence or answer well; none ends the process.

``tests/data/hostile/edits.jsonl`` keeps recipes that once crashed, hung, or gave wrong answers. ``make fuzz`` draws new ones.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vpunn
from hostile.edits import MODELS, TREE, applied, damage, outcome
from hostile.fuzz import run
from stores import write_head
from vpunn import Tree
from vpunn.errors import DataError
from vpunn.files import make_folder
from vpunn.store import Draft, Stored, check_replaceable

CORPUS = Path(__file__).parents[1] / "data" / "hostile" / "edits.jsonl"


def test_recipes_that_once_did_harm():
    recipes = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    wrong = [(recipe, said) for recipe, said in run(recipes) if said.startswith("WRONG")]
    assert len(recipes) >= 20 and not wrong, wrong


@pytest.mark.parametrize("seed", [0])
def test_edits_at_random(seed):
    names = list(MODELS)
    plan = [{"model": names[k * len(names) // 130], "draw": [seed, k]} for k in range(130)]
    wrong = [(recipe, said) for recipe, said in run(plan) if said.startswith("WRONG")]
    assert not wrong, wrong


@pytest.mark.slow
def test_a_thousand_edits():
    names = list(MODELS)
    plan = [{"model": names[k * len(names) // 1000], "draw": [1, k]} for k in range(1000)]
    wrong = [(recipe, said) for recipe, said in run(plan) if said.startswith("WRONG")]
    assert not wrong, wrong


def test_the_fuzzer_finds_what_is_wrong(tmp_path):
    """A model that is sound is right, an edit that only moves numbers is right too, and one out of range is refused."""
    folder = TREE.save(tmp_path / "tree")
    assert outcome("tree", folder) == "right"
    edit = {"kind": "values", "file": "size.npy", "seed": 0, "whole": 7, "real": 0.0, "share": 0.0}
    assert outcome("tree", applied(folder, tmp_path / "edited", edit)).startswith("refused")


def test_without_new_checksums_every_edit_is_refused(tmp_path):
    folder = TREE.save(tmp_path / "tree")
    head = (folder / "model.json").read_text()
    for file in sorted(folder.glob("*.npy")):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DataError, match="checksum differs"):
            vpunn.load(folder)
        file.write_bytes(whole)
    (folder / "model.json").write_text(head.replace('"format": 1', '"format": 0'))
    with pytest.raises(DataError, match=r"model\.json is not what was saved"):
        vpunn.load(folder)
    (folder / "model.json").write_text(head)
    assert np.array_equal(vpunn.load(folder).parent, TREE.parent)


@pytest.mark.parametrize("how", ["device", "pipe", "folder"])
@pytest.mark.parametrize("name", ["parent.npy", "model.json"])
def test_what_is_no_regular_file_is_never_read(tmp_path, how, name):
    """Reading a device or a pipe may never end; a link to a regular file is one (a hub's cache is made of such links)."""
    folder = TREE.save(tmp_path / "tree")
    (folder / name).rename(tmp_path / "kept")
    (folder / name).symlink_to(tmp_path / "kept")
    assert vpunn.load(folder) == TREE
    damage(folder / name, {"how": how, "seed": 0})
    for read in (
        vpunn.load,
        Tree.load,
        lambda path: Tree.from_stored(Stored.open(path)),
        lambda path: Stored.open(path).facts(),
    ):
        with pytest.raises(DataError, match=r"no regular file|without a model\.json"):
            read(folder)


@pytest.mark.parametrize("shape", [[10**30], [10**15], [0, 10**30], [6]])
def test_shapes_that_no_file_holds_are_refused(tmp_path, shape):
    folder = TREE.save(tmp_path / "tree")
    head = json.loads((folder / "model.json").read_text())
    head["arrays"]["parent"]["shape"] = shape
    write_head(folder, head)
    for read in (vpunn.load, lambda path: Stored.open(path).facts()):
        with pytest.raises(DataError, match=r"array 'parent' is cut short, or not what model\.json says"):
            read(folder)


def test_labels_take_the_memory_that_their_file_holds(tmp_path):
    """46 kB that said ``<U999999`` became 5.9 GB; so did one long label among many short ones, without any lie."""
    labels = np.array(["a" * 20_000, *map(str, range(20_000))], object)
    draft = Draft("Example")
    draft.labels("x", labels)
    draft.labels("y", np.array(["abc", ""]))
    folder = draft.write(tmp_path / "m")
    head = json.loads((folder / "model.json").read_text())
    for width, said in (
        ("<U999999", ""),
        ("<U20000", ""),
        ("<U19999", "longer than '<U19999'"),
        ("<U9999999", "no type of text"),
    ):
        head["settings"]["text_types"]["x"] = width
        write_head(folder, head)
        if said:
            with pytest.raises(DataError, match=said):
                Stored.open(folder).labels("x")
        else:
            found = Stored.open(folder).labels("x")
            assert found.dtype == object and np.array_equal(found, labels)
    assert Stored.open(folder).labels("y").dtype == "<U3"


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize(
    "use",
    [
        vpunn.load,
        TREE.save,
        vpunn.io.read_tree,
        vpunn.io.read_table,
        lambda path: vpunn.io.write_tree(TREE, path),
        lambda path: vpunn.io.write_table(pd.DataFrame({"a": [1]}), path),
        check_replaceable,
        make_folder,
        lambda path: vpunn.scale.encode(TREE, path, "codes.csv"),
        lambda path: vpunn.scale.encode(TREE, None, path),
        lambda path: vpunn.scale.sum_rows(TREE, path, label="a", y="b"),
        lambda path: vpunn.report.report_tree(TREE, "a tree", "a command").write(path),
    ],
)
def test_paths_that_no_system_has_are_refused(tmp_path, monkeypatch, use, name):
    monkeypatch.chdir(tmp_path)
    for path in (name, f"{name}/tree", f"{name}.csv", Path(name), tmp_path / name):
        with pytest.raises(DataError, match=r"no file can be named '.*: it holds"):
            use(path)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path in ("a" * 300 + ".csv", "circle/tree.csv"):
        with pytest.raises(DataError, match="cannot use '.*': (File name too long|Too many levels of symbolic links)"):
            use(path)
    (tmp_path / "circle").unlink()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "use",
    [
        vpunn.load,
        TREE.save,
        vpunn.io.read_tree,
        vpunn.io.read_table,
        lambda path: vpunn.io.write_tree(TREE, path),
        lambda path: vpunn.io.write_table(pd.DataFrame({"a": [1]}), path),
        check_replaceable,
    ],
)
def test_devices_are_neither_read_nor_replaced(tmp_path, use):
    """A table written to a link to /dev/zero took the place of the device itself, for every process of the machine."""
    device = Path("/dev/null")
    if not device.is_char_device():
        pytest.skip("needs a device")
    for link in ("table.csv", "tree"):
        (tmp_path / link).symlink_to(device)
        with pytest.raises(DataError, match="it is a device|it is a link|is no regular file"):
            use(tmp_path / link)
    assert device.is_char_device() and len(list(tmp_path.iterdir())) == 2


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="it is a pipe or a socket"):
        vpunn.io.write_table(pd.DataFrame({"a": [1]}), tmp_path / "pipe.csv")
    assert (tmp_path / "pipe.csv").is_fifo()
