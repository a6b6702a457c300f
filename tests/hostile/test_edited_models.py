"""Edited model folders of every kind are refused in one sentence or answer well; none ends the process.

``tests/data/hostile/edits.jsonl`` keeps recipes that once crashed, hung, or gave wrong answers. ``make fuzz`` draws new ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import vpunn
from hostile.edits import MODELS, TREE, applied, outcome
from hostile.fuzz import run
from vpunn.errors import DataError

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
    edit = {"kind": "values", "file": "tree.size.npy", "seed": 0, "whole": 7, "real": 0.0, "share": 0.0}
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
