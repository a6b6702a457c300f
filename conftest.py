"""Where torch is not installed, what is made of it is not collected, and the last lines of the run say so."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version

#: What cannot be imported, or shows nothing, without torch; tests that need it elsewhere skip by themselves.
MADE_OF_TORCH = ["src/vpunn/torch", "tests/torch", "docs/torch.md", "docs/guides/torch.md"]


class WithoutTorch(PathFinder):
    """Else `import torch` would find tests/torch, and libraries that look for torch would believe it."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "torch" else super().find_spec(name, path, target)


try:
    version("torch")
    collect_ignore: list[str] = []
except PackageNotFoundError:
    collect_ignore = MADE_OF_TORCH
    sys.meta_path[:] = [WithoutTorch if finder is PathFinder else finder for finder in sys.meta_path]


def pytest_terminal_summary(terminalreporter) -> None:
    if collect_ignore:
        terminalreporter.line(f"not collected, for want of torch (extra torch): {', '.join(collect_ignore)}")
