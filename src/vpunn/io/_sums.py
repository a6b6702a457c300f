"""Checksums of what a model folder holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import IO, Any


def seal(head: Mapping[str, Any]) -> str:
    """The checksum of everything else in ``model.json``, whatever its layout and order."""
    plain = json.dumps({name: value for name, value in head.items() if name != "sha256"}, sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


class Hashed:
    """A file that sums up what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.sum = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self.file.write(data)
