"""One meaning of ``random_state``: an int gives the same bytes every time, a RandomState is drawn from, None draws anew."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from vpunn._types import Seed
from vpunn.errors import VpunnError


def random_of(random_state: Seed) -> np.random.RandomState:
    """The generator to draw from, as scikit-learn reads ``random_state``: None is NumPy's own, which `numpy.random.seed` seeds."""
    if random_state is None or random_state is np.random:
        return np.random.mtrand._rand
    if isinstance(random_state, np.random.RandomState):
        return random_state
    if not isinstance(random_state, Integral) or not 0 <= int(random_state) < 2**32:
        raise VpunnError(
            f"random_state must be a seed from 0 to 2**32 - 1, a NumPy RandomState or None, got {random_state!r}."
        )
    return np.random.RandomState(int(random_state))


def seed_of(random_state: Seed) -> int:
    """One seed: an int is its own.

    >>> seed_of(7), seed_of(np.random.RandomState(0)) == seed_of(np.random.RandomState(0))
    (7, True)
    """
    random = random_of(random_state)
    return int(random_state) if isinstance(random_state, Integral) else int(random.randint(2**31 - 1))


def generator_of(random_state: Seed) -> np.random.Generator:
    """A generator of its own for one fit, seeded by what ``random_state`` draws."""
    return np.random.default_rng(random_of(random_state).randint(2**31 - 1))
