"""What the Makefile says where it needs no environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_pythons_that_are_missing_or_do_not_start_are_named(tmp_path):
    shim = tmp_path / "python3.12"  # as a version manager leaves it: there, but it starts nothing
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    made = subprocess.run(
        [str(shutil.which("make")), "test-all"], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    versions = ("3.11", "3.12", "3.13", "3.14")
    assert made.stdout.splitlines() == [f"Python {v} was not found on this machine: not tested" for v in versions]
