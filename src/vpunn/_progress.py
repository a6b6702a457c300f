"""What a long step will take, said before it starts, and a bar on standard error while it runs: the only progress display."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

#: Work expected to take longer than this many seconds is announced.
PATIENCE = 2.0

#: Away from a terminal, lines about one step are at least so many seconds apart.
SPACING = 2.0

#: Set by ``vpunn --quiet``: nothing is announced, whatever the caller asks for.
quiet = False


class Bar:
    """How far a step is. Calling it advances; without a display (a quiet or short step) it does nothing.

    It also has what pooch's downloader expects of a progress bar: ``total``, ``update``, ``reset`` and ``close``.
    """

    def __init__(
        self,
        console: Console | None = None,
        display: Progress | None = None,
        task: TaskID | None = None,
        steps: float | None = None,
    ) -> None:
        self._console, self._display, self._task, self._steps = console, display, task, steps
        self.said, self.done, self._told = "", 0.0, time.monotonic()

    def __call__(self, count: float = 1) -> None:
        """Advance by some steps."""
        self.done += count
        if self._display is not None and self._task is not None:
            self._display.advance(self._task, count)

    def say(self, text: str) -> None:
        """A few words beside the bar, such as the loss; away from a terminal the last ones end the step."""
        self.said = text
        if self._display is not None and self._task is not None:
            self._display.update(self._task, said=text)

    @contextmanager
    def stage(self, name: str, share: float, steps: int = 1) -> Iterator[Bar]:
        """A named part of the work that takes ``share`` of the bar's steps; the bar it yields counts its own ``steps``.

        Away from a terminal the name is one plain line, after the share of the whole that is behind.
        """
        self.enter(name)
        part = _Part(self, share / max(steps, 1))
        yield part
        self(share - part.passed)

    def enter(self, name: str) -> None:
        """Say that a stage begins; away from a terminal in a line of its own, if the last one is some seconds old."""
        if self._console is not None and self._display is None:
            now = time.monotonic()
            if now - self._told < SPACING:
                return
            self._told = now
            share = f"{100 * self.done / self._steps:3.0f} %  " if self._steps else ""
            self._console.print(f"  {share}{name}", markup=False, soft_wrap=True)
        elif self._display is not None:
            self.say(name)

    @property
    def total(self) -> float | None:
        """Steps in all, None if not known."""
        return None if self._display is None else self._display.tasks[0].total

    @total.setter
    def total(self, size: float) -> None:
        if self._display is not None and self._task is not None:
            self._display.update(self._task, total=size or None)

    update = __call__

    def reset(self) -> None:
        """Back to the start."""
        if self._display is not None and self._task is not None:
            self._display.update(self._task, completed=0)

    def close(self) -> None:
        """Nothing to do: the surrounding ``with`` closes the display."""


class _Part(Bar):
    """A stage: its steps are fractions of the steps of the bar it belongs to."""

    def __init__(self, whole: Bar, step: float) -> None:
        super().__init__()
        self._whole, self._step, self.passed = whole, step, 0.0

    def __call__(self, count: float = 1) -> None:
        self.done += count
        self.passed += count * self._step
        self._whole(count * self._step)

    def enter(self, name: str) -> None:
        self._whole.enter(name)

    def say(self, text: str) -> None:
        self._whole.say(text)


@contextmanager
def progress_bar(
    what: str, steps: float | None = None, seconds: float | None = None, verbose: bool | None = None, *, done: float = 0
) -> Iterator[Bar]:
    """A bar of ``steps`` (it pulses while their number is unknown), of which ``done`` are behind us.

    It is shown unless ``seconds``, an estimate, is short; ``verbose`` decides otherwise. Away from a terminal (a log, a pipe) the
    announcement is one plain line, followed by one every few seconds, and there is no bar. ``vpunn --quiet`` silences all of them.

    >>> with progress_bar("counting", 10, verbose=False) as advance:
    ...     advance(10)
    """
    long = seconds is None or seconds > PATIENCE
    if quiet or not (long if verbose is None else verbose):
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(what, markup=False, soft_wrap=True)
        bar = Bar(console, steps=steps)
        bar.done = done
        yield bar
        if bar.said:
            console.print(f"{what}: {bar.said}", markup=False, soft_wrap=True)
        return
    clock = TimeElapsedColumn() if steps is None else TimeRemainingColumn()
    words = [TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[said]")]
    with Progress(words[0], BarColumn(), words[1], clock, console=console) as display:
        task = display.add_task(what, total=steps, completed=done, said="")  # type: ignore[arg-type]
        yield Bar(console, display, task)
        size = display.tasks[0].total or 1
        display.update(task, total=size, completed=size)


#: The bar that shows how far work inside the library is; see `following`.
_follower: Bar | None = None


@contextmanager
def following(bar: Bar) -> Iterator[None]:
    """What the work inside tells by `reached` is shown by ``bar``, whose one step is that work."""
    global _follower
    before, _follower = _follower, bar
    try:
        yield
    finally:
        _follower = before


def reached(stage: str, share: float) -> None:
    """Work deep in the library begins a stage, with ``share`` (0 … 1) of it all behind; nothing happens if nobody follows.

    >>> with progress_bar("fitting", 10, verbose=False) as bar, bar.stage("model", 8) as part, following(part):
    ...     reached("heads 2/4", 0.25)
    ...     print(bar.done)
    2.0
    """
    if _follower is not None:
        _follower(max(share - _follower.done, 0.0))
        _follower.enter(stage)


#: Whether this process has said that it compiles.
_announced = False


@contextmanager
def announced_compiling() -> Iterator[None]:
    """Says "compiling (once)…" on standard error if loops have to be compiled inside: in a new environment the first call waits.

    Serves as a decorator too. Said once a process; nothing is said where the compiled loops are found in numba's cache.
    """
    from numba.core import event

    with event.install_listener("numba:compile", _announcer()):
        yield


@cache
def _announcer() -> Any:
    """What numba tells that it compiles; made once, because a small answer takes no longer than making a class."""
    from numba.core import event

    class Announcer(event.Listener):
        def on_start(self, event: object) -> None:
            global _announced
            if not (_announced or quiet):
                _announced = True
                print("compiling (once)…", file=sys.stderr, flush=True)

        def on_end(self, event: object) -> None: ...

    return Announcer()
