"""A cold command imports what it uses and nothing else: that is most of the time it takes."""

import os
import random
import subprocess
import sys

import pytest

SCRIPT = """
import sys
sys.argv = ["vpunn", *sys.argv[1:]]
from vpunn.cli import main
try:
    main()
finally:
    heavy = ("numpy", "numba", "pyarrow", "pandas", "scipy.sparse", "sklearn", "matplotlib", "torch", "dask")
    print(*[name for name in heavy if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("command", "needed"),
    [(["--help"], ""), (["encode", "--help"], ""), (["encode", "zoo.csv"], "numpy pyarrow")],
)
def test_cold_commands_import_what_they_use(tmp_path, command, needed):
    (tmp_path / "zoo.csv").write_text("parent,child\nanimal,bird\nanimal,fish\nbird,owl\n")
    done = subprocess.run([sys.executable, "-c", SCRIPT, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.splitlines()[-1:] == ([needed] if needed else [""])


COUNTING = """
import sys
from numba.core import event
names = []
class Listener(event.Listener):
    def on_start(self, e):
        names.append(e.data["dispatcher"].py_func.__name__)
    def on_end(self, e):
        pass
event.register("numba:compile", Listener())
sys.argv = ["vpunn", *sys.argv[1:]]
from vpunn.cli import main
try:
    main()
finally:
    print(*names, file=sys.stderr)
"""


@pytest.mark.slow
def test_a_first_fit_compiles_few_functions_once_each(tmp_path):
    """What a first fit takes longer than a second one goes by the functions compiled, and a second version counts like another."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnop", k=6)) for _ in range(900)]
    lines = [f"{words[i % 400]} {draw.choice(words)} {draw.choice(words)},c{i % 400}" for i in range(1600)]
    (tmp_path / "table.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    options = ["fit", "table.csv", "--target", "label", "--text", "text", "--out", "model"]
    for most in (38, 0):
        done = subprocess.run(
            [sys.executable, "-c", COUNTING, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )
        assert done.returncode == 0
        names = [name for name in done.stderr.splitlines()[-1].split() if name != "impl"]  # numba's own
        assert len(set(names)) == len(names) <= most
