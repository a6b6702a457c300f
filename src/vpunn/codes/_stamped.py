"""Codes written down for later, with the fingerprint of the tree and prime they belong to."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from vpunn.errors import DataError
from vpunn.store import Draft, Storable, Stored


@dataclass(frozen=True, eq=False)
class StampedCodes(Storable):
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

    def _to_store(self, draft: Draft) -> None:
        """Integers go as decimal text, since they have hundreds of bits."""
        draft.settings |= {"p": self.p, "fingerprint": self.fingerprint, "release": self.release}
        draft.labels("codes", [str(code) for code in self.codes.tolist()])
        draft.labels("paths", list(self.paths))

    @classmethod
    def _from_store(cls, stored: Stored) -> StampedCodes:
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
