"""A cold command imports what it uses and nothing else: that is most of the time it takes."""

import json
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
    code, _, found = run(tmp_path, command)
    assert (code, found) == (0, needed)


def test_the_package_runs_as_a_module():
    said = subprocess.run([sys.executable, "-m", "vpunn", "--version"], capture_output=True, text=True, check=True)
    from vpunn import __version__

    assert __version__ in said.stdout


def test_a_cold_prediction_needs_neither_sklearn_nor_pandas(tmp_path):
    texts = ["small bird with wings", "large fish in water", "red bird", "blue fish"] * 10
    labels = ["bird", "fish", "bird", "fish"] * 10
    for name, numbers in (("words", False), ("both", True)):
        rows = [f"{text},{label},{k % 4}" for k, (text, label) in enumerate(zip(texts, labels, strict=True))]
        (tmp_path / "table.csv").write_text("\n".join(["text,label,size", *rows]) + "\n")
        options = ["table.csv", "--target", "label", "--text", "text", "--out", name]
        assert run(tmp_path, ["fit", *options, *(["--columns", "size"] if numbers else [])])[0] == 0
    code, said, needed = run(tmp_path, ["predict", "words", "--ask", "a red bird", "--json"])
    assert (code, needed) == (0, "numpy numba scipy.sparse") and json.loads(said)[0]["label"] == "bird"
    for name in ("words", "both"):  # tables are read by pandas
        code, _, needed = run(tmp_path, ["predict", name, "table.csv", "--out", "answers.csv"])
        assert (code, needed) == (0, "numpy numba pyarrow pandas scipy.sparse")
    asked = ["predict", "words", "--ask", "a red bird", "--stop", "risk", "--out", "one.parquet"]
    assert run(tmp_path, asked)[::2] == (0, "numpy numba pyarrow pandas scipy.sparse")


def run(folder, command):
    """Exit code, output and what was imported."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, *command], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, (done.stderr.splitlines() or [""])[-1]


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
    for most in (49, 0):
        done = subprocess.run(
            [sys.executable, "-c", COUNTING, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        )
        assert done.returncode == 0
        names = [name for name in done.stderr.splitlines()[-1].split() if name != "impl"]  # numba's own
        assert len(names) <= most
        twice = {name for name in names if names.count(name) > 1}
        assert twice <= {"find_hits"}, names  # training and answering ask memory ahead for other arrays
