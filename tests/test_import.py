"""The package opens quickly and does not drag heavy libraries in."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "matplotlib", "torch", "dask", "pandas", "sklearn", "scipy", "networkx", "lightgbm", "typer")

SCRIPT = f"""
import time
start = time.process_time()  # this process alone: a busy machine must not fail the test
import vpunn
seconds = time.process_time() - start
import sys
print(seconds, *[name for name in {HEAVY!r} if name in sys.modules])
"""


def test_import_is_light():
    runs = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    assert all(run[1:] == [] for run in runs)
    assert min(float(run[0]) for run in runs) < 0.15


def test_a_tree_is_served_without_the_classifiers_libraries():
    code = "import sys, vpunn.web.api, vpunn.web.beliefs; print(*[n for n in ('sklearn', 'torch') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_every_name_in_the_table_of_contents_exists():
    import vpunn

    for name in vpunn.__all__:
        try:
            assert getattr(vpunn, name) is not None
        except vpunn.VpunnError as error:  # a library of an extra is not installed, and the sentence says which
            pytest.skip(str(error))
    assert set(vpunn.__all__) <= set(dir(vpunn))
