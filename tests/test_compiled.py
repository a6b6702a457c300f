"""Machine code that numba keeps is forgotten when what it was made of has changed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from vpunn._compiled import _forget_older, find_a_place, forget_older

TYPES = "from typing import NamedTuple\nclass {name}(NamedTuple):\n    at: int\n"
HELPER = "from numba import njit\n@njit\ndef step(x):\n    return x + {step}\n"
LOOPS = """
from pathlib import Path
from numba import njit
from helper import step
from types_ import {name}
from vpunn._compiled import forget_older
@njit(cache=True)
def loop(pair):
    return step(pair.at)
here = Path(__file__).parent
forget_older(loop, [here / (name + ".py") for name in ("loops", "helper", "types_")])
print(loop({name}(1)))
"""


def test_helpers_and_tuples_from_other_files_may_change(tmp_path):
    """numba itself would answer with the helper of before, or fail to find the tuple of before."""
    for name, step in (("Pair", 1), ("Pair", 2), ("Renamed", 2)):
        (tmp_path / "types_.py").write_text(TYPES.format(name=name))
        (tmp_path / "helper.py").write_text(HELPER.format(step=step))
        loops = LOOPS.format(name=name)
        if not (tmp_path / "loops.py").is_file() or (tmp_path / "loops.py").read_text() != loops:
            (tmp_path / "loops.py").write_text(loops)
        done = subprocess.run([sys.executable, "-B", "loops.py"], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.strip() == str(1 + step), done.stderr


def test_only_what_is_out_of_date_is_forgotten(tmp_path):
    source = tmp_path / "loops.py"
    source.write_text("a")
    (tmp_path / "kept").mkdir()
    kernel = SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path / "kept")))
    mine, other = tmp_path / "kept" / "loops.run-1.py311.nbi", tmp_path / "kept" / "more_loops.run-1.py311.nbi"
    for text, stays in (("a", False), ("a", True), ("b", False), ("b", True)):
        source.write_text(text)
        mine.touch()
        other.touch()
        _forget_older.cache_clear()
        forget_older(kernel, [source])
        assert mine.exists() == stays and other.exists()


@pytest.mark.parametrize("kernel", [len, SimpleNamespace(stats=SimpleNamespace(cache_path="nowhere/at/all"))])
def test_nothing_kept_is_nothing_to_forget(kernel, tmp_path):
    """Compiling turned off, or a folder that nobody can write to."""
    (tmp_path / "loops.py").write_text("a")
    forget_older(kernel, [tmp_path / "loops.py"])


def test_all_files_that_kernels_of_the_classifier_take_from_are_looked_at():
    from vpunn.hipan._kernel import _SOURCES
    from vpunn.hipan.layout import _unit

    _unit(np.array([0, 1]), np.ones(1), np.ones(1, np.float32))
    named = set()
    for index in Path(_unit.stats.cache_path).glob("*.nbi"):
        named |= set(re.findall(rb"vpunn\.hipan[\w.]*", index.read_bytes()))
    assert {name.decode() for name in named} <= {f"vpunn.hipan.{source.stem}" for source in _SOURCES}


def test_where_nothing_can_be_written_loops_are_kept_for_one_process(monkeypatch, tmp_path):
    """A read-only container: numba would refuse to import a loop whose machine code it can keep nowhere."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    find_a_place()
    assert "NUMBA_CACHE_DIR" not in os.environ  # the user's cache will do
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    find_a_place()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert place.stat().st_mode & 0o777 == 0o700 and str(place) == numba.config.CACHE_DIR
    find_a_place()
    assert os.environ["NUMBA_CACHE_DIR"] == str(place)
    shutil.rmtree(place)
