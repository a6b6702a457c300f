"""A folder that takes its place in one step, and the folders and files that must not be taken for models."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vpunn.errors import DataError, examples
from vpunn.io.files import check_path, flush_to_disk, sweep_leftovers

if TYPE_CHECKING:
    from vpunn._types import FilePath

Found = TypeVar("Found")

#: The file that makes a folder a model.
FILE = "model.json"
_OLD = ("model.npz", "features.npz")
_OLD_MAGIC = b"vpunn-tabhipan-1\n"


@contextmanager
def swapped_in(path: FilePath) -> Iterator[Path]:
    """A new folder beside ``path`` that takes its place when the block ends well, and vanishes otherwise.

    What stood at ``path`` is deleted only after that, and only if it was empty or a model. As in `files.written_beside`
    the bytes are on disk before the swap, and folders that killed writers left are removed after a day.
    """
    check_path(path)
    target = check_replaceable(path)
    sweep_leftovers(target)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        os.mkdir(beside)
        try:
            yield beside
            for file in beside.iterdir():
                flush_to_disk(file)
            flush_to_disk(beside)
            if not target.is_dir():
                os.rename(beside, target)
            elif not _exchange(beside, target):
                _two_renames(beside, target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)  # after an exchange this is the old folder
        flush_to_disk(target.parent)
        shutil.rmtree(_aside(target), ignore_errors=True)
    except OSError as error:
        raise DataError(f"cannot write {str(path)!r}: {error.strerror or error}.") from None


def steady(path: FilePath, read: Callable[[], Found]) -> Found:
    """What ``read`` finds at ``path``; if it fails because another folder was swapped in meanwhile, it reads again."""
    while True:
        before = _stamp(path)
        try:
            return read()
        except DataError:
            if _stamp(path) == before:
                raise


def _stamp(path: FilePath) -> tuple[int, int] | None:
    """What tells one folder at a path from the next; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, TypeError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def check_replaceable(path: FilePath) -> Path:
    """The real place of ``path``, after refusing a file, a folder that is no model, and one that holds other things too."""
    target = Path(os.path.realpath(path))
    shown = repr(str(path))
    if not target.parent.is_dir():
        raise DataError(f"cannot write {shown}: there is no folder {str(target.parent)!r}; create it first.")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {shown}: the folder {str(target.parent)!r} is read-only; choose another place.")
    if target.is_dir():
        held = sorted(os.listdir(target))
        if held and FILE not in held:
            raise DataError(
                f"cannot write {shown}: it is a folder but no model (it holds {examples(held)}); choose another."
            )
        foreign = [name for name in held if name != FILE and not name.endswith((".npy", ".safetensors"))]
        if foreign:
            raise DataError(
                f"cannot replace the model {shown}: its folder also holds {examples(foreign)}; move that away first."
            )
    elif target.exists():
        raise DataError(f"cannot write {shown}: it is a file; a model is a folder, choose another name.")
    return target


def refuse_old_formats(path: Path) -> Path:
    """The folder of the model at ``path``; one sentence for everything that is none."""
    shown = repr(str(path))
    if path.is_file():
        with open(path, "rb") as file:
            start = file.read(len(_OLD_MAGIC))
        if start.startswith(b"PK") or start == _OLD_MAGIC:
            raise DataError(f"{shown} is a model file of vpunn 0.1, which is no longer read; fit and save it again.")
        raise DataError(f"{shown} is a file, but a saved model is a folder with a {FILE}.")
    if not path.exists() and (_aside(path) / FILE).is_file():
        return _aside(path)  # a write was killed between two renames: the old model is whole
    if not path.is_dir():
        raise DataError(f"there is no model folder {shown}.")
    if not (path / FILE).is_file():
        if any((path / name).is_file() for name in _OLD):
            raise DataError(f"{shown} holds a model of vpunn 0.1, which is no longer read; fit and save it again.")
        raise DataError(f"{shown} is a folder without a {FILE}, so it is no saved model.")
    return path


def _aside(target: Path) -> Path:
    """Where the old folder waits while the new one moves in, on systems that cannot exchange two folders."""
    return target.with_name(f".{target.name}.replaced")


def _two_renames(beside: Path, target: Path) -> None:
    """Move the old folder aside and the new one in; `refuse_old_formats` finds the old one if we die in between."""
    aside = _aside(target)
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(target, aside)
    try:
        os.rename(beside, target)
    except OSError:
        os.rename(aside, target)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step where the system can (Linux, macOS); False where it cannot, nothing changed then."""
    if not sys.platform.startswith(("linux", "darwin")):
        return False
    library = ctypes.CDLL(None, use_errno=True)
    a, b = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            return bool(library.renamex_np(a, b, 2) == 0)  # RENAME_SWAP
        return bool(library.renameat2(-100, a, -100, b, 2) == 0)  # AT_FDCWD, RENAME_EXCHANGE
    except AttributeError:  # a C library without the call
        return False
