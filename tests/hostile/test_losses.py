"""Nothing is lost: killed writers, writers at once, and a full disk leave the old content or the new one, whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vpunn import Tree
from vpunn.errors import DataError


@pytest.fixture(scope="module", params=[4, pytest.param(20, marks=pytest.mark.slow)], ids="{} kills".format)
def found(request, tmp_path_factory):
    """Every writer killed so often: commands as typed, tables, trees, model folders, data that is fetched."""
    if not hasattr(os, "fork"):
        pytest.skip("forks writers, which this system cannot")
    script = Path(__file__).with_name("kills.py")
    folder = tmp_path_factory.mktemp("kills")
    words = [sys.executable, str(script), str(folder), str(request.param)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout.splitlines()[-1]), "each": request.param}


def test_killed_writers_leave_the_old_or_the_new(found):
    assert {"vpunn fit", "vpunn tabular fit", "vpunn reproduce", "vpunn data fetch"} < set(found["kills"])
    for name, kills in found["kills"].items():
        assert kills["old"] + kills["new"] == found["each"], name
        assert not kills["visible"], f"{name} left {kills['visible']}"
        assert not kills["kept"], f"{name}: the scratch of killed writers was not swept: {kills['kept']}"
    assert sum(kills["old"] for kills in found["kills"].values())  # some were killed before they were done
    assert sum(kills["swept"] for kills in found["kills"].values())  # and some of them in the middle of it


def test_writers_at_once_never_show_half_a_file(found):
    for name, race in found["races"].items():
        assert race["looks"] and not race["broken"], (name, race)
        assert not race["failed"], (name, race)
        assert len(race["left"]) == 1, (name, race)


def test_a_full_disk_spares_the_old_model(tmp_path):
    """A file size limit stands for the full disk: the write fails in the middle of an array."""
    old = Tree.from_parents([-1, 0, 0]).save(tmp_path / "model")
    script = (
        "import resource, signal, sys; from vpunn import Tree\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "Tree.from_parents([-1] + [0] * 50_000).save(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(old)], capture_output=True, text=True)
    assert done.returncode == 1 and "DataError: cannot write" in done.stderr, done.stderr[-500:]
    assert Tree.load(old).n_nodes == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    with pytest.raises(DataError, match="there is no folder"):
        Tree.load(old).save(tmp_path / "nowhere" / "model")
