"""Parts of one job in several threads: compiled loops release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from vpunn.errors import VpunnError

Part = TypeVar("Part")
Done = TypeVar("Done")


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of threads."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or int(n_jobs) == 0):
        raise VpunnError(f"n_jobs is a number of threads, -1 for one per core, or None for one; got {n_jobs!r}.")


def in_threads(work: Callable[[Part], Done], parts: Iterable[Part], n_jobs: int | None) -> list[Done]:
    """``work`` on every part, in order; ``n_jobs`` at once (None: one, −1: one per core, −2: one less, …).

    >>> in_threads(lambda part: part * 2, [1, 2, 3], n_jobs=2)
    [2, 4, 6]
    """
    waiting = list(parts)
    threads = 1 if n_jobs is None else n_jobs if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + n_jobs, 1)
    if min(threads, len(waiting)) < 2:
        return [work(part) for part in waiting]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, waiting))
