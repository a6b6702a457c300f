"""Where torch is not installed, what is made of it is not collected, and the last lines of the run say so."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

#: What cannot be imported, or shows nothing, without torch; tests that need it elsewhere skip by themselves.
MADE_OF_TORCH = ["src/vpunn/torch", "tests/torch", "docs/torch.md", "docs/guides/torch.md"]

try:
    version("torch")
    collect_ignore: list[str] = []
except PackageNotFoundError:
    collect_ignore = MADE_OF_TORCH


def pytest_terminal_summary(terminalreporter) -> None:
    if collect_ignore:
        terminalreporter.line(f"not collected, for want of torch (extra torch): {', '.join(collect_ignore)}")
