"""A folder that takes its place in one step, and the folders and files that must not be taken for models.

A save deletes nothing but files that the old model's own ``model.json`` lists. What else lies in the folder is refused before
any work; what was put there meanwhile moves into the new folder. No step depends on another process standing still:

    .NAME.<random>.part   a model being written
    .NAME.<random>.<number>.swap   it is whole and changes places with NAME in one step; readers find the old model or the new one
    .NAME.<random>.old    the old model, emptied by whoever comes by: listed files go, all others move to NAME
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vpunn import files
from vpunn.errors import DataError, examples
from vpunn.files import check_path, flush_to_disk, open_regular, short_name, sweep_leftovers
from vpunn.store._head import FILE, files_of

if TYPE_CHECKING:
    from vpunn._types import FilePath

Found = TypeVar("Found")

_OLD_FORMAT = ("model.npz", "features.npz")
_OLD_MAGIC = b"vpunn-tabhipan-1\n"
#: So often a folder is swapped in again after another writer was faster.
TRIES = 1000
#: What the system's call for special renames is told on Linux and on macOS, and what it answers where a file system has none.
_SWAP, _NEVER_OVER = {"linux": 2, "darwin": 2}, {"linux": 1, "darwin": 4}
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
#: A folder cannot be renamed onto one that holds something.
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST}
_RETIRED = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{16}\.(?:(?P<number>[0-9a-f]+)\.swap|old)", re.DOTALL)


@contextmanager
def swapped_in(path: FilePath) -> Iterator[Path]:
    """A new folder beside ``path`` that takes its place when the block ends well, and vanishes otherwise.

    As in `files.written_beside` the bytes are on disk before the swap, and what killed writers left is removed.
    """
    target = _place_of(path)
    _sweep(target)
    check_replaceable(path)
    beside = _beside(target, "part")
    try:
        os.mkdir(beside)
        try:
            yield beside
            for file in beside.iterdir():
                flush_to_disk(file)
            with suppress(FileNotFoundError):
                shutil.copymode(target, beside)
            flush_to_disk(beside)
            _swap_in(beside, target, repr(str(path)))
        finally:
            shutil.rmtree(beside, ignore_errors=True)  # under this name it held nothing but what was written here
        flush_to_disk(target.parent)
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


# ---- what may be replaced ----------------------------------------------------------------------------------------------


def check_replaceable(path: FilePath) -> Path:
    """The real place of ``path``, after refusing everything but a free name, an empty folder, and a model alone in its folder."""
    target = _place_of(path)
    shown = repr(str(path))
    if not os.path.isdir(target.parent):
        raise DataError(f"cannot write {shown}: there is no folder {str(target.parent)!r}; create it first.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {shown}: the folder {str(target.parent)!r} is read-only; choose another place.")
    steady(target, lambda: _check_ours(target, shown, alone=True))
    return target


def _place_of(path: FilePath) -> Path:
    """The path with the links on the way to it followed, but not itself."""
    check_path(path)
    plain = Path(path)
    if plain.name in ("", ".."):
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(plain.parent), plain.name)


def _check_ours(target: Path, shown: str, *, alone: bool) -> None:
    """Refuse to replace what is neither an empty folder nor a model; ``alone``: nor a model whose folder holds other things."""
    if target.is_symlink():
        raise DataError(
            f"cannot write {shown}: it is a link; save to {os.path.realpath(target)!r}, or to another name."
        )
    try:
        held = sorted(os.listdir(target))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise DataError(f"cannot write {shown}: it is a file; a model is a folder, choose another name.") from None
    except OSError as error:
        raise DataError(f"cannot write {shown}: {error.strerror or error}.") from None
    if _mounted(target):
        raise DataError(f"cannot write {shown}: a file system is mounted there; name a folder in it.")
    if _worked_in(target):
        raise DataError(f"cannot write {shown}: it is the working directory of a process; name a folder in it.")
    if not os.access(target, os.W_OK | os.X_OK):
        raise DataError(f"cannot write {shown}: that folder is read-only; choose another place.")
    if held and FILE not in held:
        raise DataError(
            f"cannot write {shown}: it is a folder but no model (it holds {examples(held)}); choose another."
        )
    ours = files_of(target)
    if held and ours is None:
        raise DataError(
            f"cannot write {shown}: its {FILE} was not written by vpunn, or was changed since; choose another name, or "
            "remove that folder yourself."
        )
    foreign = [name for name in held if not _is_own(target / name, ours)]
    if foreign and alone:
        raise DataError(
            f"cannot replace the model {shown}: its folder also holds {examples(foreign)}; move that away first."
        )


def _is_own(file: Path, ours: set[str] | None) -> bool:
    """Whether a file is one of those that a model lists; a link or a folder of that name is not."""
    try:
        return ours is not None and file.name in ours and stat.S_ISREG(os.lstat(file).st_mode)
    except OSError:
        return True  # gone meanwhile


def _mounted(target: Path) -> bool:
    """Whether a file system is mounted there, also one that shows another folder of the same disk."""
    if os.path.ismount(target):
        return True
    name = re.sub(rb"[ \t\n\\]", lambda found: b"\\%03o" % found[0][0], os.fsencode(target))
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as mounts:
        return any(line.split()[4:5] == [name] for line in mounts)
    return False


def _worked_in(target: Path) -> bool:
    """Whether it is the working directory of this process, or of one that the system tells us about."""
    with suppress(OSError):
        if os.path.samefile(".", target):
            return True
    with suppress(OSError):
        for process in os.listdir("/proc"):
            if process.isdigit():
                with suppress(OSError):
                    if os.readlink(f"/proc/{process}/cwd") == str(target):
                        return True
    return False


# ---- changing places ---------------------------------------------------------------------------------------------------


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{short_name(target)}.{secrets.token_hex(8)}.{ending}")


def _number(found: os.stat_result) -> str:
    """What stays with a folder when its name changes; in the name of one about to be exchanged it tells whether that was done."""
    return f"{found.st_ino:x}"


def _aside(target: Path) -> Path:
    """Where the old folder waits while the new one moves in, on systems that cannot exchange two folders."""
    return target.with_name(f".{short_name(target)}.replaced")


def _swap_in(beside: Path, target: Path, shown: str) -> None:
    """Put the folder ``beside`` in the place of ``target``, whoever else does the same; empty what stood there."""
    ready = _beside(target, f"{_number(os.stat(beside))}.swap")
    os.rename(beside, ready)
    try:
        for _ in range(TRIES):
            steady(target, lambda: _check_ours(target, shown, alone=False))
            if _one_step(ready, target, shown):
                return
        raise DataError(f"cannot write {shown}: others replace it all the time; choose another name.")
    finally:
        _retire(ready, target)  # the old model now, or the new one that could not take its place
        _retire_aside(target)


def _one_step(ready: Path, target: Path, shown: str) -> bool:
    """Rename or exchange; False if another writer was faster, and what stands there has to be looked at again."""
    try:
        if not os.path.lexists(target):
            os.rename(ready, target)
        elif not _exchange(ready, target):
            return _two_renames(ready, target)
        elif not _may_go(ready) and os.path.lexists(ready):  # what was put there since it was looked at goes back
            _exchange(ready, target)
            raise DataError(f"cannot write {shown}: something else than a model was put there meanwhile.")
    except FileNotFoundError:
        if os.path.isdir(ready):
            return False
        raise
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _may_go(folder: Path) -> bool:
    """Whether a folder that changed places is a model, or empty."""
    try:
        return not folder.is_symlink() and (not os.listdir(folder) or files_of(folder) is not None)
    except OSError:
        return False


def _two_renames(ready: Path, target: Path) -> bool:
    """Move the old folder aside and the new one in; `refuse_old_formats` finds the old one if we die in between."""
    aside = _aside(target)
    try:
        os.rename(target, aside)
    except OSError as error:
        if error.errno in _TAKEN:
            _retire_aside(target)
        raise
    try:
        os.rename(ready, target)
    except OSError as error:
        if error.errno not in _TAKEN:
            os.rename(aside, target)
        raise
    return True


def _retire(folder: Path, target: Path) -> None:
    """Rename a folder so that everybody knows that nobody needs it, and empty it. It is no error if another does that."""
    with suppress(OSError):
        old = _beside(target, "old")
        os.rename(folder, old)
        _empty(old, target)


def _retire_aside(target: Path) -> None:
    """Empty the model that waited aside, once another stands in its place; a folder of that name that is no model is not ours."""
    if os.path.isdir(target) and _may_go(_aside(target)):
        _retire(_aside(target), target)


def _empty(old: Path, target: Path) -> None:
    """Delete the files that an old folder's own ``model.json`` lists, and that one last; move everything else to ``target``.

    A folder goes only when it is empty, so that what comes in late is moved too. Several may do this at once.
    """
    for _ in range(TRIES):
        ours = files_of(old)
        listed = True
        for name in sorted(set(os.listdir(old)) - {FILE if ours else ""}):
            if not _is_own(old / name, ours):
                _move_across(old / name, target)
                continue
            try:
                (old / name).unlink(missing_ok=True)
            except OSError:  # in use, on systems where that keeps a file: the next writer tries again
                listed = False
        if ours and listed:
            (old / FILE).unlink(missing_ok=True)
        try:
            os.rmdir(old)
            return
        except OSError as error:
            if error.errno not in _TAKEN or not listed:
                return


def _move_across(thing: Path, target: Path) -> None:
    """Move a file or folder into ``target``, under another name if its own is taken there; nothing is written over."""
    for turn in range(TRIES):
        try:
            return _rename_new(thing, target / (f"{thing.name}.{turn}" if turn else thing.name))
        except FileExistsError:
            continue


def _rename_new(one: Path, other: Path) -> None:
    """Rename, or a `FileExistsError`."""
    if _special(one, other, _NEVER_OVER):
        return
    if not one.is_dir() and not one.is_symlink():
        try:
            os.link(one, other)
            return os.unlink(one)
        except OSError as error:
            if error.errno not in {*_CANNOT, errno.EPERM, errno.EMLINK}:
                raise
    if os.path.lexists(other):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(other))
    os.rename(one, other)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step where the system can; False where it cannot, nothing changed then."""
    return _special(one, other, _SWAP)


def _special(one: Path, other: Path, way: dict[str, int]) -> bool:
    """A rename that the standard library has no name for; False where the system has it neither."""
    if sys.platform not in way:
        return False
    library, a, b = ctypes.CDLL(None, use_errno=True), os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(a, b, way[sys.platform])
        else:
            failed = library.renameat2(-100, a, -100, b, way[sys.platform])  # AT_FDCWD
    except AttributeError:  # a C library without the call
        return False
    number = ctypes.get_errno()
    if failed and number not in _CANNOT:
        raise OSError(number, os.strerror(number), str(other))
    return not failed


def _sweep(target: Path) -> None:
    """What writers of ``target`` that were killed left: old folders are emptied, unfinished ones go after a day."""
    if not target.name:
        return
    sweep_leftovers(target)
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            found = _RETIRED.fullmatch(entry.name)
            if found is None or found["target"] != short_name(target) or not entry.is_dir(follow_symlinks=False):
                continue
            if found["number"] is None:
                with suppress(OSError):
                    _empty(Path(entry.path), target)
                continue
            about = entry.stat(follow_symlinks=False)
            if found["number"] != _number(about) or time.time() - about.st_mtime > files.LEFTOVER_SECONDS:
                _retire(Path(entry.path), target)
    _retire_aside(target)


# ---- what is no model --------------------------------------------------------------------------------------------------


def refuse_old_formats(path: Path) -> Path:
    """The folder of the model at ``path``; one sentence for everything that is none."""
    shown = repr(str(path))
    if os.path.isfile(path):
        try:
            with open_regular(path) as file:
                start = file.read(len(_OLD_MAGIC))
        except OSError as error:
            raise DataError(f"cannot read {shown}: {error.strerror or error}.") from None
        if start.startswith(b"PK") or start == _OLD_MAGIC:
            raise DataError(f"{shown} is a model file of vpunn 0.1, which is no longer read; fit and save it again.")
        raise DataError(f"{shown} is a file, but a saved model is a folder with a {FILE}.")
    if path.name and not os.path.exists(path) and os.path.isfile(_aside(path) / FILE):
        return _aside(path)  # a write was killed between two renames: the old model is whole
    if not os.path.isdir(path):
        raise DataError(f"there is no model folder {shown}.")
    if not os.path.isfile(path / FILE):
        if any(os.path.isfile(path / name) for name in _OLD_FORMAT):
            raise DataError(f"{shown} holds a model of vpunn 0.1, which is no longer read; fit and save it again.")
        raise DataError(f"{shown} is a folder without a {FILE}, so it is no saved model.")
    return path
