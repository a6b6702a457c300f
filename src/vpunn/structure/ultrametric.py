"""How close is any distance matrix, or any table of features, to a tree? Asked with controls that show what chance gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from vpunn._types import Features
from vpunn.errors import VpunnError, check_choice, check_whole, examples
from vpunn.structure._finding import Finding, mean_interval
from vpunn.structure._source import coded
from vpunn.structure.compare import draw_tuples
from vpunn.tree import Tree

Kind = Literal["auto", "distances", "points", "digits"]
#: Gaps this small (relative to the distances) are rounding.
EXACT = 1e-9
#: Copies drawn of each control.
CONTROLS = 5


@dataclass(frozen=True)
class Defects:
    """Mean relative defects of one distance matrix: of triangles, (c − b)/c for sides a ≤ b ≤ c, and of quadruples,
    (s₁ − s₂)/s₁ for the three sums of opposite sides s₁ ≥ s₂ ≥ s₃; with 95 % intervals for the mean over all of them."""

    triangle: float
    triangle_interval: tuple[float, float]
    four_point: float
    four_point_interval: tuple[float, float]
    broken: float  #: share of triangles with a defect


@dataclass(frozen=True, eq=False, repr=False)
class Ultrametricity(Finding):
    """``score`` = 1 − triangle defect / that of the same distances permuted: 1 for an exact ultrametric, 0 for chance.
    ``additive`` is the same for quadruples: 1 for any tree with branch lengths. ``random_points`` holds the scores of
    random points with as much spread (their mean and standard deviation). ``cophenetic`` is the correlation of the distances
    with those of their average-linkage tree, ``gap`` the mean amount by which they exceed the largest ultrametric below
    them, relative to their mean. Scores are None where all distances are equal, which is said."""

    n_points: int
    n_sampled: int
    defects: Defects
    permuted: Defects
    random_points: tuple[float, float] | None
    score: float | None
    interval: tuple[float, float] | None
    additive: float | None
    cophenetic: float | None
    gap: float
    delta: float  #: largest (s₁ − s₂)/2 seen, Gromov's δ, in units of the largest distance

    @property
    def verdict(self) -> str:
        some = "" if self.n_sampled == self.n_points else f" (judged on {self.n_sampled:,} of {self.n_points:,} points)"
        if self.score is None or self.random_points is None or self.additive is None:
            return f"all distances are equal: a star, which is ultrametric but has no branches{some}."
        chance = f"random points of the same spread give {self.random_points[0]:.2f}"
        if self.gap <= EXACT:
            return f"ultrametric: an exact tree with all points at one height{some}; {chance}."
        if self.defects.four_point <= EXACT:
            return f"an exact tree with unequal branch lengths: ultrametric only to {self.score:.2f}{some}; {chance}."
        mean, spread = self.random_points
        if (self.interval or (self.score,))[0] <= mean + 2 * spread:
            return f"not tree-like: {self.score:.2f} of what an exact tree would give, as random points do ({mean:.2f}){some}."
        word = "tree-like" if self.score >= 0.8 else "partly tree-like" if self.score >= 0.5 else "faintly tree-like"
        return f"{word}: {self.score:.2f} of what an exact tree would give, where {chance}{some}."

    def summary(self) -> dict[str, Any]:
        return {
            "points": self.n_points,
            "score": self.score,
            "95 % interval": self.interval and f"{self.interval[0]:.3f} to {self.interval[1]:.3f}",
            "random points": self.random_points and self.random_points[0],
            "additive score": self.additive,
            "triangle defect": self.defects.triangle,
            "… permuted": self.permuted.triangle,
            "four-point defect": self.defects.four_point,
            "… permuted ": self.permuted.four_point,
            "cophenetic correlation": self.cophenetic,
            "gap to the subdominant ultrametric": self.gap,
        }


def how_ultrametric(
    data: Features | Tree,
    *,
    kind: Kind = "auto",
    sample: int = 20_000,
    max_points: int = 1_000,
    seed: int = 0,
) -> Ultrametricity:
    """Judge distances (a square symmetric matrix, or SciPy's condensed vector), points (a table; Euclidean distance) or digits
    (a table; p-adic distance, which is always an ultrametric).

    Trees and models that have one are judged by the digits of their leaves. ``"auto"`` takes a square matrix that is
    symmetric with a zero diagonal, and any vector, as distances; a square matrix that is only one of the two (similarities,
    one-way distances) could be meant either way and is refused. In an
    ultrametric the two longer sides of every triangle are equal; in a tree with branch lengths the two larger of the three
    sums of opposite sides of every quadruple are. Their mean relative defects are estimated from ``sample`` triangles and
    quadruples (all, if there are fewer) with intervals, and compared with two controls: the same distances permuted, and
    normal points with as much relative spread (for a table: with its covariance). High dimension makes all
    distances alike and every defect small, which is why the controls are needed. More than ``max_points`` points are
    sampled, and the verdict says so. Missing values, negative or asymmetric distances are errors. O(points² + sample).

    >>> heights = np.array([[0, 1, 3, 3], [1, 0, 3, 3], [3, 3, 0, 2], [3, 3, 2, 0.0]])
    >>> found = how_ultrametric(heights)
    >>> found.score, found.verdict[:28]
    (1.0, 'ultrametric: an exact tree w')
    """
    check_whole("sample", sample, 100)
    check_whole("max_points", max_points, 4)
    rng = np.random.default_rng(seed)
    distances, points, total = _read(data, kind, max_points, rng)
    n = len(distances)
    if n < 3:
        raise VpunnError(f"how_ultrametric judges triangles and needs at least 3 points, got {n}.")
    upper = np.triu_indices(n, 1)
    flat = distances[upper]
    if flat.max() == 0:
        raise VpunnError("all distances are 0; how_ultrametric needs points that differ.")
    seen, delta = _defects(distances, sample, np.random.default_rng(seed))
    cophenetic, gap = _linkages(flat)
    permuted = [_defects(_square(rng.permutation(flat), n), sample, rng)[0] for _ in range(CONTROLS)]
    control = _mean_defects(permuted)
    if np.ptp(flat) <= EXACT * flat.max() or control.triangle <= EXACT:
        return Ultrametricity(total, n, seen, control, None, None, None, None, cophenetic, gap, delta)
    score = 1 - seen.triangle / control.triangle
    low, high = (1 - edge / control.triangle for edge in reversed(seen.triangle_interval))
    additive = 1 - seen.four_point / control.four_point if control.four_point > EXACT else 1.0
    clouds = [_defects(_cloud(flat, points, n, rng), sample, rng)[0].triangle for _ in range(CONTROLS)]
    bases = [1 - one / control.triangle for one in clouds]
    return Ultrametricity(
        total,
        n,
        seen,
        control,
        (float(np.mean(bases)), float(np.std(bases, ddof=1))),
        float(score),
        (float(low), float(min(high, 1.0))),
        float(additive),
        cophenetic,
        gap,
        delta,
    )


def _read(data: Any, kind: str, max_points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None, int]:
    """A square distance matrix of at most ``max_points`` points, the points themselves if given, and how many there were."""
    from scipy.spatial.distance import pdist, squareform

    check_choice("kind", kind, get_args(Kind))
    if (
        kind == "digits"
        or any(hasattr(data, name) for name in ("digit_rows", "tree_", "tree"))
        or isinstance(data, Tree)
    ):
        return _read_digits(data, max_points, rng)
    try:
        table = np.asarray(data, float)
    except (TypeError, ValueError):
        raise VpunnError("how_ultrametric needs numbers: a distance matrix or one row of features per point.") from None
    if not np.isfinite(table).all():
        bad = np.argwhere(~np.isfinite(table))
        raise VpunnError(
            f"{len(bad):,} values are missing or infinite, first at {tuple(bad[0].tolist())}; drop or fill them."
        )
    square = table.ndim == 2 and table.shape[0] == table.shape[1]
    scale = 1e-9 * np.abs(table).max(initial=0.0)  # what rounding leaves, as in 1 − correlation
    mirrored = square and np.allclose(table, table.T, rtol=1e-6, atol=scale)
    hollow = square and bool((np.abs(np.diag(table)) <= scale).all())
    symmetric = mirrored and hollow
    if kind == "auto" and len(table) > 2 and mirrored != hollow:
        what = "symmetric, but its diagonal is not 0" if mirrored else "0 on its diagonal, but not symmetric"
        raise VpunnError(
            f"this {len(table):,} × {len(table):,} matrix is {what}: say kind='points' if its rows are points, or "
            "make it distances (1 − S of similarities S, (D + Dᵀ) / 2 of one-way distances D)."
        )
    if table.ndim == 1 and kind != "points":
        try:
            table = squareform(table)
        except ValueError as error:
            raise VpunnError(f"a condensed vector needs n(n−1)/2 distances, got {len(table):,} ({error}).") from None
        symmetric = True
    elif kind == "distances" and not symmetric:
        raise VpunnError(
            f"distances must be a square symmetric matrix with a zero diagonal, got shape {table.shape} that is not."
        )
    if table.ndim != 2 or 0 in table.shape:
        raise VpunnError(f"points need one row each, got shape {table.shape}.")
    total = len(table)
    some = np.arange(total) if total <= max_points else np.sort(rng.choice(total, max_points, replace=False))
    if kind == "points" or not symmetric:
        rows = table[some]
        return squareform(pdist(rows)), rows, total
    if (table < 0).any():
        raise VpunnError(f"distances cannot be negative, got {examples(table[table < 0])}.")
    table = table[np.ix_(some, some)]
    table = (table + table.T) / 2
    np.fill_diagonal(table, 0.0)
    return table, None, total


def _read_digits(source: Any, max_points: int, rng: np.random.Generator) -> tuple[np.ndarray, None, int]:
    """p-adic distances p^{−ν} of the points of a tree, of digits, or of a model; 0 between equal ones."""
    tree, nodes, _, p, _ = coded(source)
    some = nodes if len(nodes) <= max_points else np.sort(rng.choice(nodes, max_points, replace=False))
    distances = float(p) ** -tree.lca_depth_matrix(some).astype(float)
    distances[some[:, None] == some] = 0.0
    return distances, None, len(nodes)


def _square(flat: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros((n, n))
    out[np.triu_indices(n, 1)] = flat
    return out + out.T


def _defects(distances: np.ndarray, sample: int, rng: np.random.Generator) -> tuple[Defects, float]:
    """Mean defects of triangles and quadruples, and the largest δ relative to the largest distance."""
    n = len(distances)
    (x, y, z), population = _columns(draw_tuples(n, 3, sample, rng))
    sides = np.sort(np.stack([distances[x, y], distances[x, z], distances[y, z]]), axis=0)
    triangle = _relative(sides[2] - sides[1], sides[2])
    mean, low, high = mean_interval(triangle, population)
    if n < 4:
        return Defects(mean, (low, high), 0.0, (0.0, 0.0), float((triangle > EXACT).mean())), 0.0
    (w, x, y, z), population = _columns(draw_tuples(n, 4, sample, rng))
    pairs = ((w, x, y, z), (w, y, x, z), (w, z, x, y))
    sums = np.sort(np.stack([distances[a, b] + distances[c, d] for a, b, c, d in pairs]), axis=0)
    four, low4, high4 = mean_interval(_relative(sums[2] - sums[1], sums[2]), population)
    delta = float((sums[2] - sums[1]).max() / 2 / distances.max())
    return Defects(mean, (low, high), four, (low4, high4), float((triangle > EXACT).mean())), delta


def _columns(drawn: tuple[np.ndarray, float]) -> tuple[np.ndarray, float]:
    return drawn[0].T, drawn[1]


def _relative(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)


def _mean_defects(copies: list[Defects]) -> Defects:
    """The means over several copies of a control; each end of an interval is averaged too."""
    triangle, four, broken = (
        float(np.mean([getattr(one, name) for one in copies])) for name in ("triangle", "four_point", "broken")
    )
    ends = [
        (
            float(np.mean([getattr(one, name)[0] for one in copies])),
            float(np.mean([getattr(one, name)[1] for one in copies])),
        )
        for name in ("triangle_interval", "four_point_interval")
    ]
    return Defects(triangle, ends[0], four, ends[1], broken)


def _linkages(flat: np.ndarray) -> tuple[float | None, float]:
    """Correlation with the average-linkage tree, and the mean gap to the subdominant ultrametric (single linkage)."""
    from scipy.cluster.hierarchy import cophenet, linkage

    below = cophenet(linkage(flat, "single"))
    gap = float((flat - below).mean() / flat.mean())
    if np.ptp(flat) <= EXACT * flat.max():
        return None, max(gap, 0.0)
    average = cophenet(linkage(flat, "average"))
    correlation = float(np.corrcoef(flat, average)[0, 1]) if np.ptp(average) > 0 else None
    return correlation, max(gap, 0.0)


def _cloud(flat: np.ndarray, points: np.ndarray | None, n: int, rng: np.random.Generator) -> np.ndarray:
    """Distances of normal points: with the table's covariance, or in as many dimensions as make distances spread as much.

    Distances in a d-dimensional normal cloud have a squared coefficient of variation of about 1/(2d − 1).
    """
    from scipy.spatial.distance import pdist

    if points is not None:
        centred = points - points.mean(0)
        rows = rng.standard_normal((n, n)) @ centred / np.sqrt(n)  # covariance of the points, in expectation
    else:
        spread = float(flat.std() / flat.mean())
        dimension = int(np.clip(round((1 / spread**2 + 1) / 2), 1, 500))
        rows = rng.standard_normal((n, dimension))
    return _square(pdist(rows), n)
