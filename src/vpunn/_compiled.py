"""What numba keeps of compiled loops from one run to the next, and when it is out of date."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any


def find_a_place() -> None:
    """Let numba keep what it compiles until this process ends, where it can write neither beside us nor in the user's cache.

    In a read-only container, or for a user without a home, it would refuse to import a single loop. The folder is new and private:
    what is kept is trusted when it is read again.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~"), ".cache"), "numba")
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return
    with suppress(OSError):  # nowhere at all: numba says so
        folder = tempfile.mkdtemp(prefix="vpunn-numba-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["NUMBA_CACHE_DIR"] = folder
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = folder


def forget_older(kernel: Any, sources: Sequence[Path]) -> None:
    """Delete what numba has kept for kernels of ``sources`` as they were before, in the folder where it keeps this one.

    numba looks at the file of a kernel alone, so it would not notice that a helper or a constant from another file has changed;
    and it reads the types of what it has kept before it looks, which fails if a named tuple now has another name: an upgrade would
    end in an AttributeError.
    """
    folder = getattr(getattr(kernel, "stats", None), "cache_path", None)  # none if compiling is turned off
    if folder is not None:
        with suppress(OSError):
            _forget_older(Path(folder), tuple(sources))


@cache
def _forget_older(folder: Path, sources: tuple[Path, ...]) -> None:
    now = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    mark = folder / f"{sources[0].stem}.sources"
    if mark.is_file() and mark.read_text() == now:
        return
    for source in sources:
        for kept in folder.glob(f"{source.stem}.*.nbi"):
            kept.unlink(missing_ok=True)
    mark.write_text(now)
