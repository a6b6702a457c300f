"""One meaning of ``random_state``: an int gives the same bytes every time, a RandomState is drawn from, None draws anew."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from vpunn._types import Seed
from vpunn.errors import VpunnError


def random_of(random_state: Seed) -> np.random.RandomState:
    """The generator to draw from, as scikit-learn reads ``random_state``."""
    from sklearn.utils import check_random_state

    try:
        random: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise VpunnError(
            f"random_state must be a seed from 0 to 2**32 - 1, a NumPy RandomState or None, got {random_state!r}."
        ) from None
    return random


def seed_of(random_state: Seed) -> int:
    """One seed: an int is its own.

    >>> seed_of(7), seed_of(np.random.RandomState(0)) == seed_of(np.random.RandomState(0))
    (7, True)
    """
    random = random_of(random_state)
    return int(random_state) if isinstance(random_state, Integral) else int(random.randint(2**31 - 1))
