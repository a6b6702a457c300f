"""What work costs: CPU seconds and memory of a block, and the machine it ran on."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    """CPU seconds of a block, of all its threads, and the megabytes by which it raised the peak of resident memory (Linux; else
    None)."""

    seconds: float = 0.0
    peak_mb: float | None = None


@contextmanager
def measured() -> Iterator[Cost]:
    """The cost of a block, known when it ends.

    >>> with measured() as cost:
    ...     total = sum(range(1000))
    >>> cost.seconds >= 0
    True
    """
    cost = Cost()
    before, began = _reset_peak(), time.process_time()
    yield cost
    cost.seconds = time.process_time() - began
    after = _resident("VmHWM")
    cost.peak_mb = None if before is None or after is None else round((after - before) / 1024, 1)


def peak_mb() -> float | None:
    """Most memory this process has held, in MB; None where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    per_mb = 1024**2 if platform.system() == "Darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mb


def machine() -> str:
    """The processor's model, if the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _reset_peak() -> int | None:
    """Set the peak to what is resident now, so that the next peak is the next block's; the resident kilobytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
