"""Odd inputs as data: a case is files, a command and the sentence or answer that must come; this module runs them in this process.

Every case is checked alike: the exit code, one sentence on an error and never a traceback, and no file that is new or changed
where a command failed.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
import warnings
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vpunn import _progress, cli
from vpunn.errors import VpunnError


class Case(NamedTuple):
    """A command on files: ``said`` must stand in what it prints, word by word, and ``code`` is how it ends."""

    command: str
    said: str | tuple[str, ...]
    files: dict[str, str | bytes] = {}  # noqa: RUF012  (never changed)
    code: int = 0
    stdin: str | bytes = b""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def no(command: str, said: str | tuple[str, ...], files: dict[str, str | bytes] | None = None, **more: Any) -> Case:
    """A command that must be refused, with this sentence."""
    return Case(command, said, files or {}, **{"code": 1, **more})


def yes(command: str, said: str | tuple[str, ...], files: dict[str, str | bytes] | None = None, **more: Any) -> Case:
    """A command that must answer, with this in its answer."""
    return Case(command, said, files or {}, **more)


def tool(name: str) -> Any:
    """A module of the folder tools."""
    path = Path(__file__).resolve().parents[1] / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def params(cases: list[Case]) -> Any:
    """One test per case, named by its place and command."""
    return pytest.mark.parametrize("case", cases, ids=[f"{i}-{case.command[:60]}" for i, case in enumerate(cases)])


def written(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def run_here(words: list[str], stdin: bytes = b"") -> Done:
    """What ``vpunn words`` prints and how it ends, by its own entry point, in this process."""
    out, err = BytesIO(), BytesIO()
    kept = sys.argv, sys.stdin, sys.stdout, sys.stderr, warnings.showwarning, _progress.quiet
    sys.argv = ["vpunn", *words]
    sys.stdin = TextIOWrapper(BytesIO(stdin), "utf-8")
    sys.stdout, sys.stderr = TextIOWrapper(out, "utf-8"), TextIOWrapper(err, "utf-8")
    code: Any = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            cli.main()
    except SystemExit as exit:
        code = exit.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        printed = sys.stdout, sys.stderr
        sys.argv, sys.stdin, sys.stdout, sys.stderr, warnings.showwarning, _progress.quiet = kept
        for stream in printed:
            stream.detach()
    return Done(int(code or 0), out.getvalue().decode(), err.getvalue().decode())


def check(case: Case, folder: Path, models: dict[str, Path]) -> None:
    """Run a case in a folder of its own and compare."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    words = [word.format(**models) if word.startswith("{") else word for word in shlex.split(case.command)]
    before, here = written(folder), Path.cwd()
    os.chdir(folder)
    try:
        stdin = case.stdin.encode() if isinstance(case.stdin, str) else case.stdin
        done = run_here(words, stdin)
    finally:
        os.chdir(here)
    told = done.out + done.err
    assert done.code == case.code, f"ended with {done.code}: {told}"
    for said in (case.said,) if isinstance(case.said, str) else case.said:
        assert said in told, f"{said!r} is not in: {told}"
    assert "Traceback" not in told
    if case.code:
        sentence = done.err.strip().splitlines()[-1]
        assert sentence.startswith("vpunn: ")
        assert len(sentence) < 1500
        assert written(folder) == before, "a command that failed left something behind"


__all__ = ["Case", "VpunnError", "check", "no", "params", "run_here", "written", "yes"]
