"""A progress bar on standard error for work that takes longer than two seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Work expected to take longer than this many seconds shows a bar.
PATIENCE = 2.0


@contextmanager
def progress_bar(what: str, steps: int, seconds: float, verbose: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Yields ``advance(count)``; the bar is shown when ``seconds`` (an estimate) is long or ``verbose`` says so."""
    if not (seconds > PATIENCE if verbose is None else verbose):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True))
    with bar:
        task = bar.add_task(what, total=steps)
        yield lambda count: bar.advance(task, count)
