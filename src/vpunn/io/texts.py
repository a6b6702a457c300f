"""Texts of any size: their bytes are looked at once, for the encoding and for what no text holds, and then read as UTF-8."""

from __future__ import annotations

import codecs
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vpunn import files
from vpunn.errors import DataError

#: Bytes that are looked at in one go.
BLOCK = 32 << 20
HEAD = 1 << 20
#: What a packed file that is cut or damaged raises while it is unpacked.
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)


@dataclass(frozen=True)
class Text:
    """A text that was looked at: its name, its bytes, its encoding, whether it has quotes, and what to say of a guess."""

    name: str
    open: Callable[[], BinaryIO]
    encoding: str
    quoted: bool
    note: str

    def head(self) -> str:
        """How it begins."""
        with self.guarded(), self.open() as raw:
            return raw.read(HEAD).decode(self.encoding, "ignore").removeprefix("\ufeff")

    @contextmanager
    def stream(self) -> Iterator[io.BufferedReader]:
        """Its bytes in UTF-8, without a byte order mark and ending in a line end."""
        with self.guarded(), self.open() as raw:
            yield io.BufferedReader(_Utf8(raw, self.encoding), HEAD)

    @contextmanager
    def lines(self) -> Iterator[io.TextIOWrapper]:
        """Its lines, their ends as they are."""
        with self.stream() as stream:
            yield io.TextIOWrapper(stream, "utf-8", newline="")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """One sentence for a packed file that is damaged."""
        try:
            yield
        except DAMAGED as error:
            raise DataError(f"{self.name!r} cannot be read to its end: {error}.") from None


def open_text(source: files.Source | Path, encoding: str | None = None) -> Text:
    """Read all bytes once. Without ``encoding`` it is UTF-8, UTF-16 or UTF-32 by its first bytes, or what any bytes are:
    Latin-1, or Windows-1252 where Latin-1 has no letters."""
    name = str(source) if isinstance(source, Path) else source.name

    def opened() -> BinaryIO:
        return files.open_bytes(source) if isinstance(source, Path) else io.BytesIO(source.data)

    whole = Text(name, opened, "", False, "")
    with whole.guarded():
        with opened() as raw:
            head = raw.read(4)
        if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
            raise DataError(f"{name!r} is a spreadsheet or an archive, not text; save the sheet as CSV.")
        wide = wide_encoding(head)
        if encoding == "utf-8" and wide:
            raise DataError(f"{name} is UTF-16 text, not UTF-8; {files.other_encoding('utf-16', '')}.")
        return _looked_at(name, opened, encoding or wide, wide)


def wide_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark, or a zero byte beside the first character, tells."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins as UTF-16 does
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head[:2]:
        return "utf-16-be" if head[:1] == b"\0" else "utf-16-le"
    return None


def _looked_at(name: str, opened: Callable[[], BinaryIO], encoding: str | None, wide: str | None) -> Text:
    codec = encoding or "utf-8"
    if encoding in ("utf-16", "utf-32") and not wide:  # without a byte order mark, as most write it
        codec = f"{encoding}-le"
    try:
        decoder: Any = codecs.getincrementaldecoder(codec)()
    except (LookupError, TypeError):
        raise DataError(f"there is no encoding {encoding!r}; latin-1 reads any file.") from None
    quoted = windows = not_windows = False
    odd: tuple[int, int] | None = None  # line and byte of what is no UTF-8
    line, column, narrow = 1, 1, not (encoding or "").lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    with opened() as raw:
        while block := raw.read(BLOCK):
            quoted = quoted or b'"' in block
            if narrow and b"\0" in block:
                at = line + block.count(b"\n", 0, block.find(b"\0"))
                raise DataError(f"{name}, line {at:,}: there is a zero byte; this is not text.")
            if decoder is not None:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError as error:
                    bad, before = error.object[error.start], error.object[: error.start]
                    at = line + before.count(b"\n")
                    if encoding is not None:
                        since = len(before) - before.rfind(b"\n") if b"\n" in before else column + len(before)
                        what = f"byte 0x{bad:02x} is not {encoding} text; {files.other_encoding()}"
                        raise DataError(f"{name}, line {at:,}, column {since:,}: {what}.") from None
                    odd, decoder = (at, bad), None
                except UnicodeError as error:  # of encodings that are not those of files, such as punycode
                    reason = " ".join(str(error).split())
                    raise DataError(f"{name} cannot be read as {encoding}: {reason}; latin-1 reads any file.") from None
            if not block.isascii():
                windows = windows or bool(files.WINDOWS.search(block))
                not_windows = not_windows or bool(files.NOT_WINDOWS.search(block))
            line += block.count(b"\n")
            column = len(block) - block.rfind(b"\n") if b"\n" in block else column + len(block)
    if decoder is not None and odd is None:
        try:
            decoder.decode(b"", True)
        except UnicodeDecodeError as error:
            if encoding is not None:
                raise DataError(
                    f"{name} is not {encoding} text: it ends inside a letter; {files.other_encoding()}."
                ) from None
            odd = line, error.object[error.start]
    if odd is None:
        return Text(name, opened, codec, quoted, "")
    code = "cp1252" if windows and not not_windows else "latin-1"
    return Text(name, opened, code, quoted, files.guessed_note(name, odd[1], odd[0], code))


class _Utf8(io.RawIOBase):
    """The text of a stream in UTF-8, without a byte order mark and ending in a line end."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        self._raw, self._left, self._began, self._ended = raw, b"", False, False
        plain = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        self._decoder: Any = None if plain else codecs.getincrementaldecoder(encoding)()
        self._last = b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left and not self._ended:
            self._left = self._next(len(buffer))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def _next(self, size: int) -> bytes:
        block = self._raw.read(max(size, 1 << 16))
        self._ended = not block
        data: bytes = block if self._decoder is None else self._decoder.decode(block, self._ended).encode("utf-8")
        if data and not self._began:
            self._began, data = True, data.removeprefix(codecs.BOM_UTF8)
        if self._ended and not (data or self._last).endswith((b"\n", b"\r")):  # Arrow cannot skip names without it
            data += b"\n"
        self._last = data[-1:] or self._last
        return data
