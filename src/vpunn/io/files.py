"""Bytes in and out: files, standard streams and compression, and files that are never half-written."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import reprlib
import secrets
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vpunn.errors import DataError

_PACKERS: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
_MAGIC = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}
_BOM_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Source:
    """The unpacked bytes of a file, and what to call it in messages."""

    name: str
    data: bytes

    def text(self, encoding: str = "utf-8") -> str:
        """The bytes as text, or an error that says where they are not."""
        if encoding == "utf-8" and (self.data.startswith(_BOM_UTF16) or b"\0" in self.data[:2]):
            raise DataError(f"{self.name} is UTF-16 text, not UTF-8; pass encoding='utf-16', or save it as UTF-8.")
        try:
            return self.data.decode(encoding)
        except (LookupError, TypeError):
            raise DataError(f"there is no encoding {encoding!r}; encoding='latin-1' reads any file.") from None
        except UnicodeDecodeError as error:
            what = f"byte 0x{self.data[error.start]:02x} is not {encoding} text"
            raise self.error(error.start, f"{what}; pass encoding='latin-1', or the encoding of the file.") from None

    def error(self, position: int, reason: str) -> DataError:
        """An error about the byte at ``position``, with file, line and column."""
        line = self.data.count(b"\n", 0, position) + 1
        column = position - (self.data.rfind(b"\n", 0, position) + 1) + 1
        return DataError(f"{self.name}, line {line:,}, column {column:,}: {reason}")

    def line_error(self, line: int, reason: str) -> DataError:
        """An error about a whole line (counted from 1)."""
        return DataError(f"{self.name}, line {line:,}: {reason}")


def check_path(path: Any) -> None:
    """Refuse what is no path."""
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            f"a file is named by text or a pathlib.Path ('-' for a standard stream), got {reprlib.repr(path)}."
        )


def load(path: Any) -> Source:
    """All bytes of a path, of ``"-"`` (standard input) or of an open file, unpacked if they are compressed."""
    if hasattr(path, "read"):
        content = path.read()
        data = content.encode() if isinstance(content, str) else content
        return Source(str(getattr(path, "name", "<stream>")), _unpack(data, "<stream>"))
    if str(path) == "-":
        return Source("<stdin>", _unpack(sys.stdin.buffer.read(), "<stdin>"))
    try:
        return Source(str(path), _unpack(Path(path).read_bytes(), str(path)))
    except OSError as error:
        raise DataError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None


def _unpack(data: bytes, name: str) -> bytes:
    for magic, packer in _MAGIC.items():
        if data.startswith(magic):
            try:
                data = packer.decompress(data)
                break
            except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
                raise DataError(f"{name} looks compressed but cannot be unpacked: {error}.") from None
    return data.removeprefix(codecs.BOM_UTF8)


def suffix(path: Any) -> str:
    """The ending that tells the format, lower case and without the ending of a packer: ``a.nwk.gz`` gives ``.nwk``."""
    plain = Path(str(path).lower())
    return plain.with_suffix("").suffix if plain.suffix in _PACKERS else plain.suffix


def save(path: Any, data: bytes) -> None:
    """Write bytes to a path (packed if it ends in .gz, .bz2, .xz) or to standard output (``"-"``), all or nothing."""
    if str(path) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    packer = _PACKERS.get(Path(str(path).lower()).suffix)
    if packer is gzip:
        data = gzip.compress(data, 6, mtime=0)  # no time stamp: the same tree gives the same bytes
    elif packer is not None:
        data = packer.compress(data)
    with written_beside(path) as scratch:
        scratch.write_bytes(data)


@contextmanager
def written_beside(path: Any) -> Iterator[Path]:
    """A scratch path in the folder of ``path`` that takes its name when the block ends well, and vanishes otherwise."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"cannot write {str(path)!r}: it is a folder; name a file in it.")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}; create it first.")
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        yield scratch
        os.replace(scratch, target)
    except OSError as error:
        raise DataError(f"cannot write {str(path)!r}: {error.strerror or error}.") from None
    finally:
        scratch.unlink(missing_ok=True)
