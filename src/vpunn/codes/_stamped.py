"""Codes written down for later, with the fingerprint of the tree and prime they belong to."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vpunn.errors import DataError

if TYPE_CHECKING:
    from vpunn.io.store import Draft, Stored


@dataclass(frozen=True, eq=False)
class StampedCodes:
    """What `PadicCode.stamp` makes and `PadicCode.read` reads: integers, label paths below the root, prime, fingerprint, release.

    A code is a path of sibling indices, so the same integer means another node once a sibling has been inserted; the
    fingerprint says whether the integers still apply.
    """

    codes: np.ndarray
    paths: list[tuple[Hashable, ...]]
    p: int
    fingerprint: str
    release: str = ""

    def __len__(self) -> int:
        return len(self.codes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder (`vpunn.io.store`); integers as decimal text, since they have hundreds of bits."""
        return self.draft().write(path)

    def draft(self) -> Draft:
        """What `save` writes."""
        from vpunn.io.store import Draft

        draft = Draft("StampedCodes", {"p": self.p, "fingerprint": self.fingerprint, "release": self.release})
        draft.labels("codes", [str(code) for code in self.codes.tolist()])
        draft.labels("paths", list(self.paths))
        return draft

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool = False) -> StampedCodes:
        """Open a folder of `save`."""
        from vpunn.io.store import Stored

        return cls.from_stored(Stored.open(path, "StampedCodes", verify=verify))

    @classmethod
    def from_stored(cls, stored: Stored) -> StampedCodes:
        """The codes of an opened folder."""
        stored.check_kind("StampedCodes")
        texts, paths = stored.labels("codes"), stored.labels("paths")
        codes = np.empty(len(texts), object)
        try:
            codes[:] = [int(text) for text in texts]
        except ValueError as error:
            raise DataError(f"{str(stored.path)!r} holds a code that is no integer: {error}.") from None
        if len(paths) != len(codes):
            raise DataError(f"{str(stored.path)!r} has {len(paths):,} paths for {len(codes):,} codes; save it again.")
        settings = [stored.setting(name, kind) for name, kind in (("p", int), ("fingerprint", str), ("release", str))]
        return cls(codes, [tuple(path) for path in paths], *settings)
