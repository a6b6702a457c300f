"""Bytes in and out: files, standard streams and compression, and files that are never half-written."""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import hashlib
import io
import lzma
import os
import re
import reprlib
import secrets
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from vpunn.errors import DataError, advice, either, examples, repeated

if TYPE_CHECKING:
    from vpunn._types import FilePath, FileSource


_PACKERS: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
_MAGIC = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}
_BOM_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Bytes that are letters of Windows-1252 only, and those that are not even that.
WINDOWS, NOT_WINDOWS = re.compile(rb"[\x80-\x9f]"), re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_CALLED = {"latin-1": "Latin-1", "cp1252": "Windows-1252"}


@dataclass(frozen=True)
class Source:
    """The unpacked bytes of a file, and what to call it in messages."""

    name: str
    data: bytes

    def text(self, encoding: str = "utf-8") -> str:
        """The bytes as text, or an error that says where they are not."""
        if encoding == "utf-8" and (self.data.startswith(_BOM_UTF16) or b"\0" in self.data[:2]):
            raise DataError(f"{self.name} is UTF-16 text, not UTF-8; {other_encoding('utf-16', '')}.")
        try:
            return self.data.decode(encoding)
        except (LookupError, TypeError):
            raise DataError(f"there is no encoding {encoding!r}; latin-1 reads any file.") from None
        except UnicodeDecodeError as error:
            what = f"byte 0x{self.data[error.start]:02x} is not {encoding} text"
            raise self.error(error.start, f"{what}; {other_encoding()}.") from None
        except UnicodeError as error:  # of encodings that are not those of files, such as punycode
            reason = " ".join(str(error).split())
            raise DataError(f"{self.name} cannot be read as {encoding}: {reason}; latin-1 reads any file.") from None

    def error(self, position: int, reason: str) -> DataError:
        """An error about the byte at ``position``, with file, line and column."""
        line = self.data.count(b"\n", 0, position) + 1
        column = position - (self.data.rfind(b"\n", 0, position) + 1) + 1
        return DataError(f"{self.name}, line {line:,}, column {column:,}: {reason}")

    def line_error(self, line: int, reason: str) -> DataError:
        """An error about a whole line (counted from 1)."""
        return DataError(f"{self.name}, line {line:,}: {reason}")


def other_encoding(code: str = "latin-1", note: str = "(or what it is written in)") -> str:
    """What to do about a file that is no UTF-8."""
    return either(advice("encoding", code, note=note), "save it as UTF-8")


def guessed_note(name: str, byte: int, line: int, code: str) -> str:
    """What to say of a text that is no UTF-8."""
    return (
        f"{name} is not UTF-8 (byte 0x{byte:02x} in line {line:,}) and was read as {_CALLED[code]}; "
        f"if letters look wrong, {other_encoding('…', 'with its name')}."
    )


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are all different; else a ValueError, since which of two values is meant nobody knows."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the key {repeated([key for key, _ in pairs])[0]!r} stands twice in one object")
    return found


HALF_LETTER = "there is half of a letter"
_HALVES = re.compile(r"(?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+")


def half_letter(text: str) -> str:
    """The first escape in a JSON text that stands for half of a letter (a lone surrogate), which no file can hold; else empty.

    >>> half_letter(r'"\\ud83e\\udd89"'), half_letter(r'"\\ud83e"')
    ('', '\\\\ud83e')
    """
    for found in _HALVES.finditer(text) if "\\u" in text else ():
        try:
            bytes.fromhex(found[0].replace("\\u", "")).decode("utf-16-be")
        except UnicodeDecodeError as error:
            return found[0][3 * error.start : 3 * error.start + 6]
    return ""


def check_path(path: object) -> None:
    """Refuse what is no path."""
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            f"a file is named by text or a pathlib.Path ('-' for a standard stream), got {reprlib.repr(path)}."
        )
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise DataError(f"no file can be named {os.fspath(path)!a}: it holds half of a letter.") from None
    if b"\0" in raw:
        raise DataError(f"no file can be named {os.fspath(path)!r}: it holds the character \\0.")
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        # whether something is there is not for us to know: too long, in a closed folder, a circle of links
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise DataError(f"cannot use {clipped(path)}: {error.strerror or error}.") from None
        return
    if stat.S_ISCHR(mode) or stat.S_ISBLK(
        mode
    ):  # reading may never end, and a file put in its place breaks the machine
        raise DataError(f"cannot use {clipped(path)}: it is a device; name a file ('-' is a standard stream).")


def clipped(path: FilePath) -> str:
    """A path as a sentence shows it, however long it is."""
    shown = repr(os.fspath(path))
    return shown if len(shown) <= 300 else f"{shown[:200]}…{shown[-50:]}"


def load(path: FileSource) -> Source:
    """All bytes of a path, of ``"-"`` (standard input) or of an open file, unpacked if they are compressed."""
    if hasattr(path, "read"):
        content = path.read()
        data = content.encode() if isinstance(content, str) else content
        return Source(str(getattr(path, "name", "<stream>")), _unpack(data, "<stream>"))
    check_path(path)
    if str(path) == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed; give a file, or send the content with |.")
        return Source("<stdin>", _unpack(sys.stdin.buffer.read(), "<stdin>"))
    try:
        return Source(str(path), _unpack(Path(path).read_bytes(), str(path)))
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None


def packer_of(path: FilePath) -> Any:
    """The module that packs and unpacks a file of this ending (.gz, .bz2, .xz), or None."""
    return _PACKERS.get(Path(str(path).lower()).suffix)


def open_bytes(path: FilePath) -> BinaryIO:
    """A file's bytes, unpacked on the way."""
    packer = packer_of(path)
    stream: BinaryIO = open(path, "rb") if packer is None else packer.open(path, "rb")  # noqa: SIM115 (the caller closes it)
    return stream


def find_delimiter(text: str) -> str:
    """The separator of the first line: the most frequent of tab, comma, semicolon and bar outside quotes, else a comma."""
    line = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0][:10_000])
    counts = {mark: line.count(mark) for mark in "\t,;|"}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


#: A packed file may unpack to so many bytes, or to `UNPACK_RATIO` times its own size, whichever is more.
UNPACK_BYTES = 1 << 28
UNPACK_RATIO = 100
#: Environment variable that replaces both by one number of bytes.
UNPACK_LIMIT = "VPUNN_UNPACK_LIMIT"


def _unpack(data: bytes, name: str) -> bytes:
    for magic, packer in _MAGIC.items():
        if data.startswith(magic):
            limit = _unpack_limit(len(data))
            try:
                with packer.open(io.BytesIO(data)) as stream:
                    unpacked: bytes = stream.read(limit + 1)
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise DataError(f"{name} looks compressed but cannot be unpacked: {error}.") from None
            if len(unpacked) > limit:
                raise DataError(
                    f"{name} has {len(data):,} bytes and unpacks to more than {limit:,}; set {UNPACK_LIMIT} to the bytes "
                    "you allow, or unpack it yourself."
                )
            data = unpacked
            break
    return data.removeprefix(codecs.BOM_UTF8)


def _unpack_limit(packed: int) -> int:
    wanted = os.environ.get(UNPACK_LIMIT, "")
    if not wanted:
        return max(UNPACK_BYTES, UNPACK_RATIO * packed)
    if not wanted.isascii() or not wanted.isdigit() or len(wanted) > 18:
        raise DataError(f"{UNPACK_LIMIT}={wanted!r} is no number of bytes; write it in digits, such as 4000000000.")
    return int(wanted)


def suffix(path: FileSource) -> str:
    """The ending that tells the format, lower case and without the ending of a packer: ``a.nwk.gz`` gives ``.nwk``."""
    plain = Path(str(path).lower())
    return plain.with_suffix("").suffix if plain.suffix in _PACKERS else plain.suffix


def save(path: FilePath, data: bytes) -> None:
    """Write bytes to a path (packed if it ends in .gz, .bz2, .xz) or to standard output (``"-"``), all or nothing."""
    if str(path) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    packer = packer_of(path)
    if packer is gzip:
        data = gzip.compress(data, 6, mtime=0)  # no time stamp: the same tree gives the same bytes
    elif packer is not None:
        data = packer.compress(data)
    with written_beside(path) as scratch:
        scratch.write_bytes(data)


#: Scratch files are called ``.name.<random>.part``; those of writers that were killed are removed after this many seconds.
LEFTOVER_SECONDS = 24 * 3600.0

_SCRATCH = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{16}\.part(?:\.[^.]+)?", re.DOTALL)


@contextmanager
def written_beside(path: FilePath) -> Iterator[Path]:
    """A scratch path in the folder of ``path`` that takes its name when the block ends well, and vanishes otherwise.

    This is how everything is written: a reader sees the old file or the new one, whole, whatever happens in between. The
    scratch name is random (two writers never share one) and keeps the ending of ``path``, by which libraries choose a
    format. Its bytes and then the folder are flushed to disk before and after the rename. A symbolic link stays, what it
    points to is replaced; permissions are those of the old file, else what the umask allows. Scratch files of the same
    target that are older than a day were left by killed writers and are removed.
    """
    check_path(path)
    target = Path(os.path.realpath(path))
    check_writable(path)
    sweep_leftovers(target)
    scratch = target.with_name(f".{short_name(target)}.{secrets.token_hex(8)}.part{target.suffix.lower()[:20]}")
    try:
        yield scratch
        if target.exists():
            shutil.copymode(target, scratch)
        flush_to_disk(scratch)
        os.replace(scratch, target)
        flush_to_disk(target.parent)
    except OSError as error:
        raise DataError(f"cannot write {os.fspath(path)!r}: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def check_writable(path: FilePath, endings: Sequence[str] = ()) -> Path:
    """Refuse an output that cannot be written before any work is done for it; no ``endings`` means any. The path."""
    check_path(path)
    name, target = os.fspath(path), Path(os.path.realpath(path))
    if endings and suffix(path) not in endings:
        raise DataError(f"cannot write {name!r}: its ending {Path(path).suffix!r} is not one of {', '.join(endings)}.")
    if target.is_dir():
        raise DataError(f"cannot write {name!r}: it is a folder; name a file in it.")
    if target.exists() and not target.is_file():  # a file would take the place of the pipe, whoever reads from it
        raise DataError(f"cannot write {name!r}: it is a pipe or a socket; name a file, or '-' for standard output.")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {name!r}: there is no folder {str(target.parent)!r}; create it first.")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {name!r}: the folder {str(target.parent)!r} is read-only; choose another place.")
    if target.exists() and not os.access(target, os.W_OK):  # a rename would not ask
        raise DataError(f"cannot write {name!r}: that file is read-only; name another file.")
    return Path(path)


def check_not_read(path: FilePath, *inputs: FilePath) -> None:
    """Refuse to write over a file that is read for it: it would be lost."""
    for one in inputs:
        with suppress(OSError):  # that is a name of something else, or not there yet
            if os.path.samefile(path, one):
                raise DataError(
                    f"cannot write {os.fspath(path)!r}: it is the file that is read; name another file, or it would be lost."
                )


def make_folder(path: FilePath, is_ours: Callable[[Path], bool] | None = None) -> Path:
    """Make a folder for outputs and try to write in it, before any work is done for it. The folder.

    ``is_ours`` knows a folder of earlier outputs: any other that holds something is refused, since files in it may be replaced.
    """
    check_path(path)
    place = Path(path)
    try:
        if is_ours is not None and place.is_dir() and (held := sorted(os.listdir(place))) and not is_ours(place):
            raise DataError(
                f"cannot write into the folder {os.fspath(path)!r}: it holds {examples(held)}, which vpunn has not written; "
                "choose another place."
            )
        place.mkdir(parents=True, exist_ok=True)
        trial = place / f".trial-{os.getpid()}.part"
        trial.write_bytes(b"")
        trial.unlink()
    except OSError as error:
        why = "it is a file" if place.is_file() else error.strerror or error
        raise DataError(f"cannot write into the folder {os.fspath(path)!r}: {why}; choose another place.") from None
    return place


def sweep_leftovers(target: Path) -> None:
    """Remove what killed writers of ``target`` left beside it; young scratch files may belong to one at work."""
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            found = _SCRATCH.fullmatch(entry.name)
            if found is None or found["target"] != short_name(target):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFTOVER_SECONDS:
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


def short_name(target: Path) -> str:
    """A file's name, the end of a long one replaced by its checksum: scratch names stay within the 255 bytes a name may have."""
    raw = os.fsencode(target.name)
    if len(raw) <= 200:
        return target.name
    return f"{raw[:180].decode('utf-8', 'ignore')}~{hashlib.sha256(raw).hexdigest()[:16]}"


def open_regular(path: FilePath) -> BinaryIO:
    """Open a file for reading, or an `OSError`: also for a device, a pipe or a folder, whose reading may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)  # it was put there in between
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


def flush_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on disk (where the system can do that for folders)."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
