"""What a long step will take, said before it starts, and a progress bar on standard error while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Work expected to take longer than this many seconds is announced.
PATIENCE = 2.0


@contextmanager
def progress_bar(what: str, steps: int, seconds: float, verbose: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Yields ``advance(count)``; shown when ``seconds`` (an estimate) is long or ``verbose`` says so.

    Away from a terminal (a log, a pipe) the announcement is one line and there is no bar.
    """
    if not (seconds > PATIENCE if verbose is None else verbose):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(what, markup=False, soft_wrap=True)
        yield lambda count: None
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(what, total=steps)
        yield lambda count: bar.advance(task, count)
