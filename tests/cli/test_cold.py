"""A cold command imports what it uses and nothing else: that is most of the time it takes."""

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
