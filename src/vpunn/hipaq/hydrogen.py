"""Hydrogen states: the tree by quantum numbers, and what of it can be recovered from noisy measurements without labels.

The tree (n, ℓ, m[, s]) is exact *by construction*: its digits are the quantum numbers, so calling their agreement a
result would be empty. The experiment worth doing is `recover_shells`: physical observables are computed, measured with
error, and clustered without any label; then the clusters are compared with the quantum numbers.

Atomic units (ħ = mₑ = e = 1), nuclear charge 1, infinitely heavy nucleus, first order in the fine structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vpunn.errors import VpunnError
from vpunn.hipaq.invariants import Catalogue, Invariants

#: Fine-structure constant (CODATA 2018) and the electron's spin g-factor.
ALPHA = 7.2973525693e-3
G_SPIN = 2.00231930436

#: Which observables each digit looks at, in the order in which degeneracies are lifted in the laboratory: the gross
#: energy, then what depends on ℓ within a shell, then the orientation in a magnetic field, then the spin.
STAGES = {"n": ("energy",), "l": ("r", "r2", "L2"), "m": ("Lz",), "s": ("zeeman",)}

#: Clustering takes a distance for every pair of readings; more than this many would pass 2 GB.
MAX_READINGS = 20_000

#: Observables measured with a *relative* error; the others have an absolute error in units of ħ², ħ, μ_B·B.
RELATIVE = ("energy", "r", "r2", "fine")


def hydrogen_states(n_max: int = 8, *, spin: bool = False) -> np.ndarray:
    """All states with n ≤ n_max as rows (n, ℓ, m) or, with spin, (n, ℓ, m, s) where s = 2·m_s = ±1.

    There are n_max(n_max+1)(2n_max+1)/6 of them, twice that with spin.

    >>> len(hydrogen_states(8)), len(hydrogen_states(8, spin=True))
    (204, 408)
    """
    if n_max < 1:
        raise VpunnError(f"n_max must be at least 1, got {n_max}.")
    rows = [(n, ell, m) for n in range(1, n_max + 1) for ell in range(n) for m in range(-ell, ell + 1)]
    if spin:
        return np.array([(*row, s) for row in rows for s in (-1, 1)])
    return np.array(rows)


def hydrogen_tree(n_max: int = 8, *, spin: bool = False) -> Catalogue:
    """The states by quantum numbers, as a catalogue whose names are the states.

    >>> states = hydrogen_tree(8)
    >>> states.code.p, states.tree.max_depth, states.lookup(states.code_of((2, 1, -1)))
    (17, 3, ((2, 1, -1),))
    """
    names = list("nlms")[: 4 if spin else 3]
    cascade = Invariants({name: (lambda state, at=at: state[at]) for at, name in enumerate(names)})  # type: ignore[misc]
    return cascade.catalogue([tuple(state) for state in hydrogen_states(n_max, spin=spin).tolist()])


def hydrogen_observables(states: np.ndarray) -> dict[str, np.ndarray]:
    """Expectation values in the states |n ℓ m⟩ or |n ℓ m s⟩, by their closed forms.

    energy E = −1/2n²; ⟨r⟩ = (3n² − ℓ(ℓ+1))/2; ⟨r²⟩ = n²(5n² + 1 − 3ℓ(ℓ+1))/2; ⟨L²⟩ = ℓ(ℓ+1); ⟨L_z⟩ = m; Zeeman shift
    m + g·m_s in units of μ_B·B; fine structure (in Hartree) = relativistic −α²/2n⁴·(n/(ℓ+½) − ¾), plus Darwin α²/2n³ for
    ℓ = 0, plus spin–orbit α²/2·⟨r⁻³⟩·m·m_s when the spin is given (⟨L·S⟩ = m·m_s in these product states).
    """
    n, ell, m = (states[:, at].astype(float) for at in range(3))
    spin = states[:, 3] / 2 if states.shape[1] > 3 else np.zeros(len(states))
    square = ell * (ell + 1)
    fine = -(ALPHA**2) / (2 * n**4) * (n / (ell + 0.5) - 0.75)
    fine += np.where(ell == 0, ALPHA**2 / (2 * n**3), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # ⟨r⁻³⟩ diverges at ℓ = 0, where L·S vanishes
        orbit = ALPHA**2 / 2 / (n**3 * square * (ell + 0.5)) * m * spin
    return {
        "energy": -1 / (2 * n**2),
        "r": (3 * n**2 - square) / 2,
        "r2": n**2 * (5 * n**2 + 1 - 3 * square) / 2,
        "L2": square,
        "Lz": m,
        "zeeman": m + G_SPIN * spin,
        "fine": fine + np.where(ell == 0, 0.0, orbit),
    }


def measure(states: np.ndarray, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One noisy reading of every observable of every row, divided by its resolution: all readings have unit error.

    Relative observables are read as log|x| with error ``noise``; the others as x with error ``noise`` in their natural
    unit. The instrument's resolution is known to the experimenter, so this scaling uses no label.
    """
    resolution = max(noise, 1e-9)
    readings = {}
    for name, value in hydrogen_observables(states).items():
        exact = np.log(np.abs(value)) if name in RELATIVE else value
        readings[name] = (exact + noise * rng.standard_normal(len(value))) / resolution
    return readings


def recover_shells(
    noise: float = 0.02, *, n_max: int = 8, spin: bool = False, repeats: int = 5, seed: int = 0, cut: float = 2.5
) -> list[dict[str, Any]]:
    """Measure every state ``repeats`` times, cluster without labels, and compare with the quantum numbers.

    Two methods. ``staged``: average linkage digit by digit inside each cluster found so far, on the observables that
    `STAGES` gives to that digit; a cluster is split where two parts lie further apart than ``cut`` times the distance
    that measurement error alone gives, so the number of clusters is found, not given (a smaller cut splits the tails of
    the error off as clusters of their own, a larger one merges states sooner). ``Ward``: one Ward clustering of all
    standardised observables, cut into the *true* numbers of shells, subshells and states (a help the staged method does
    not get). Rows: method, digit, purity (share of readings in the majority state of their cluster), chance (purity of
    the same clusters after shuffling the readings), ARI (adjusted Rand index), clusters found and true.
    """
    from sklearn.metrics import adjusted_rand_score

    if not (0 <= noise < np.inf and repeats >= 1 and cut > 0):
        raise VpunnError(
            f"noise must be ≥ 0 and finite, repeats ≥ 1 and cut > 0, got noise={noise}, repeats={repeats}, cut={cut}."
        )
    rng = np.random.default_rng(seed)
    states = np.repeat(hydrogen_states(n_max, spin=spin), repeats, axis=0)
    if len(states) > MAX_READINGS:
        raise VpunnError(
            f"{len(states):,} readings (n ≤ {n_max}, {repeats} of each state) need {8e-9 * len(states) ** 2 / 2:.0f} GB to be "
            f"clustered; stay below {MAX_READINGS:,} with a smaller n or fewer repeats."
        )
    readings = measure(states, noise, rng)
    truth = [np.unique(states[:, : k + 1], axis=0, return_inverse=True)[1].reshape(-1) for k in range(states.shape[1])]
    counts = [int(labels.max()) + 1 for labels in truth]
    shuffled = rng.permutation(len(states))
    rows = []
    for method, found in (("staged", _staged(readings, len(truth), cut)), ("Ward", _ward(readings, counts))):
        for digit, (clusters, labels) in enumerate(zip(found, truth, strict=True), 1):
            rows.append(
                {
                    "method": method,
                    "noise": noise,
                    "digit": digit,
                    "label": " ".join(list(STAGES)[:digit]),
                    "purity": purity(clusters, labels),
                    "chance": purity(clusters, labels[shuffled]),
                    "ARI": adjusted_rand_score(clusters, labels),
                    "clusters": int(clusters.max()) + 1,
                    "true": counts[digit - 1],
                }
            )
    return rows


def purity_against_noise(noises: Sequence[float], *, seeds: int = 10, **options: Any) -> list[dict[str, Any]]:
    """`recover_shells` (which takes the options) for several noise levels, averaged over seeds 0 … seeds − 1."""
    rows = []
    for noise in noises:
        runs = [recover_shells(noise, seed=seed, **options) for seed in range(seeds)]
        for same in zip(*runs, strict=True):
            row = dict(same[0])
            for key in ("purity", "chance", "ARI", "clusters"):
                row[key] = float(np.mean([run[key] for run in same]))
            row["sd"] = float(np.std([run["purity"] for run in same]))
            rows.append(row)
    return rows


def purity(clusters: np.ndarray, labels: np.ndarray) -> float:
    """Share of items whose label is the most frequent one in their cluster.

    >>> purity(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 6]))
    0.75
    """
    from sklearn.metrics.cluster import contingency_matrix

    counts = contingency_matrix(clusters, labels, sparse=True)
    return float(counts.max(axis=1).sum() / len(labels))


def _staged(readings: dict[str, np.ndarray], digits: int, cut: float) -> list[np.ndarray]:
    """Nested partitions, one per digit: every cluster is split by the observables of the next stage."""
    found = []
    clusters = np.zeros(len(readings["energy"]), np.int64)
    for observables in list(STAGES.values())[:digits]:
        points = np.column_stack([readings[name] for name in observables])
        split = np.zeros(len(points), np.int64)
        order = np.argsort(clusters, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1):
            split[part] = _resolved(points[part], cut)
        clusters = np.unique(clusters * len(points) + split, return_inverse=True)[1]
        found.append(clusters)
    return found


def _resolved(points: np.ndarray, cut: float) -> np.ndarray:
    """Average-linkage clusters of readings with unit error, cut at a multiple of √(2·dimensions), error's own distance."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(points) < 2:
        return np.zeros(len(points), np.int64)
    height = cut * np.sqrt(2 * points.shape[1])
    return np.asarray(fcluster(linkage(points, "average"), height, "distance") - 1)


def _ward(readings: dict[str, np.ndarray], counts: Sequence[int]) -> list[np.ndarray]:
    """One Ward dendrogram of all standardised observables, cut into the given numbers of clusters."""
    from scipy.cluster.hierarchy import fcluster, linkage

    points = np.column_stack(list(readings.values()))
    if len(points) < 2:
        return [np.zeros(len(points), np.int64) for _ in counts]
    spread = points.std(axis=0)
    tree = linkage((points - points.mean(axis=0)) / np.where(spread == 0, 1.0, spread), "ward")
    return [fcluster(tree, count, "maxclust") - 1 for count in counts]
