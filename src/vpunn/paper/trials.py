"""The measurements behind ``vpunn reproduce tabular``: held-out prediction, generation and edits, each with its controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._sklearn import clone
from vpunn._types import Table
from vpunn.errors import VpunnError
from vpunn.tabular.boosting import Booster
from vpunn.tabular.encoder import LatentTreeEncoder
from vpunn.tabular.generator import CodeVAE
from vpunn.tabular.measures import median_bandwidth, mmd, two_sample_auc
from vpunn.tabular.tabhipan import TabHiPaN, features

#: Share of the rows that every trial holds out.
HELD_OUT = 0.25


def split_rows(table: Table, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of training and held-out rows; equal rows are never on both sides."""
    import pandas as pd

    group = pd.DataFrame(table).groupby(list(pd.DataFrame(table).columns), dropna=False, sort=False).ngroup().to_numpy()
    order = np.random.default_rng(seed).permutation(group.max() + 1)
    held = round(HELD_OUT * len(order))
    if not held:
        raise VpunnError(f"a held-out loss needs at least 3 different rows, but the table has {len(order)}; add rows.")
    out = np.isin(group, order[:held])
    return np.flatnonzero(~out), np.flatnonzero(out)


# ---- prediction --------------------------------------------------------------------------------------------------------

#: Feature sets of a prediction trial, in the order they are reported.
VARIANTS = {
    "columns only": "baseline",
    "+ digits": "code learned on training rows, as K digits (the paper's feature)",
    "+ balls": "code learned on training rows, as the ball at each depth (categories)",
    "+ digits, all rows": "tree learned on all rows, held-out ones too (transductive)",
    "+ random balls": "negative control: balls of a random other row",
    "+ leaked balls": "LEAK on purpose: the tree saw the target of all rows",
}


def prediction_trial(
    table: Table, target: np.ndarray, kind: str, seed: int, rounds: int = 300, encoder: LatentTreeEncoder | None = None
) -> dict[str, float]:
    """Held-out loss (RMSE, or log loss for classes) of every feature set on one split; ``encoder`` says how trees grow."""
    target = np.asarray(target)
    train, test = split_rows(table, seed)
    base = LatentTreeEncoder(random_state=seed, verbose=False) if encoder is None else encoder
    encoder = clone(base).fit(_take(table, train))
    everything = clone(base).fit(table)
    leaked = clone(base).fit(_with_target(table, target, kind))
    numbers, codes = encoder.table_.split(table)
    leaf = encoder.apply(table)
    plain, coded, categorical = features(encoder, numbers, codes, leaf)
    m = plain.shape[1]
    shuffled = np.random.default_rng(seed).permutation(len(leaf))
    names = list(range(numbers.shape[1], m))
    leaked_coded = features(leaked, numbers, codes, leaked.leaf_)
    sets: dict[str, tuple[np.ndarray, list[int]]] = {
        "columns only": (plain, names),
        "+ digits": (np.hstack([plain, encoder.code_.digits(leaf)]), names),
        "+ balls": (coded, categorical),
        "+ digits, all rows": (np.hstack([plain, everything.code_.digits(everything.leaf_)]), names),
        "+ random balls": (np.hstack([plain, coded[shuffled, m:]]), categorical),
        "+ leaked balls": (leaked_coded[1], leaked_coded[2]),
    }
    found = {}
    for name in VARIANTS:
        x, which = sets[name]
        model = Booster(kind, which, rounds=rounds, seed=seed).fit(x[train], target[train])
        found[name] = _loss(model, x[test], target[test])
    return found


def _take(table: Table, rows: np.ndarray) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _with_target(table: Table, target: np.ndarray, kind: str) -> Any:
    import pandas as pd

    frame = pd.DataFrame(table).reset_index(drop=True)
    frame.columns = frame.columns.astype(str)
    return frame.assign(target=target if kind == "regression" else pd.Series(target).astype(str).astype("category"))


def _loss(model: Booster, x: np.ndarray, target: np.ndarray) -> float:
    found = model.predict(x)
    if model.kind == "regression":
        return float(np.sqrt(np.mean((found - target) ** 2)))
    # a class that no training row has gets no probability from any model: such rows say nothing and are left out
    known = np.flatnonzero(np.isin(target, model.classes_))
    if not len(known):
        return float("nan")
    chance = found[known, np.searchsorted(model.classes_, target[known])]
    return float(-np.log(np.clip(chance, 1e-12, None)).mean())


@dataclass(frozen=True)
class Interval:
    """A mean with a 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def below_zero(self) -> bool:
        """Is the whole interval below 0?"""
        return self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def paired_interval(differences: np.ndarray) -> Interval:
    """95 % interval of the mean paired difference over repeated splits.

    Splits share rows, so the plain t interval is too narrow; the variance is multiplied by 1/J + test/train instead of
    1/J (Nadeau and Bengio). One difference gives an interval without bounds.

    >>> print(paired_interval(np.array([-1.0, 1.0, -1.0, 1.0])))
    +0.00 [-2.81, +2.81]
    """
    from scipy.stats import t

    d = np.asarray(differences, dtype=float)
    if len(d) < 2:
        return Interval(float(d.mean()), float("-inf"), float("inf"))
    wide = float(t.ppf(0.975, len(d) - 1) * np.sqrt(d.var(ddof=1) * (1 / len(d) + HELD_OUT / (1 - HELD_OUT))))
    return Interval(float(d.mean()), float(d.mean()) - wide, float(d.mean()) + wide)


# ---- generation --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated:
    """How one generator did on one split (see `generation_trial`)."""

    mmd: float
    squared: float
    p_value: float
    auc: float
    novelty: float


def generation_trial(table: Table, seed: int, epochs: int = 300, permutations: int = 200) -> dict[str, Generated]:
    """Generators trained on one split, judged against held-out rows.

    The bandwidth is the median distance of training rows, fixed before anything is generated. Leaves of the conditioned
    generator are drawn from the training shares, never from held-out rows. ``real rows`` compares training rows with
    held-out rows: the floor. ``novelty`` is the median distance to the nearest training row, over that of held-out
    rows: well below 1 means copying. The last entry is CTGAN's TVAE with the same layers, epochs and batch, when
    ``ctgan`` is installed.
    """
    from sklearn.neighbors import NearestNeighbors

    train, test = split_rows(table, seed)
    seen, unseen = _take(table, train), _take(table, test)
    encoder = LatentTreeEncoder(random_state=seed, verbose=False).fit(seen)
    coder = encoder.table_
    numbers, codes = coder.split(seen)
    real, reference = coder.matrix(seen), coder.matrix(unseen)
    bandwidth = median_bandwidth(real)
    many = min(4 * len(test), len(train))
    near = NearestNeighbors(n_neighbors=1).fit(real)
    usual = float(np.median(near.kneighbors(reference)[0]))
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {"real rows (floor)": real[random.permutation(len(real))[:many]]}
    size = {"epochs": epochs, "latent": 8, "hidden": 128, "seed": seed}
    for name, tree in (("VAE with the code", encoder.tree_), ("VAE without it", None)):
        model = CodeVAE(coder, tree, **size).fit(numbers, codes, encoder.leaf_, verbose=False)
        made[name] = coder.scale(*model.sample(random.choice(encoder.leaf_, many), seed))
    peer = _tvae_rows(seen, epochs, many, seed)
    if peer is not None:
        made["TVAE (ctgan)"] = coder.matrix(peer)
    found = {}
    for name, rows in made.items():
        gap = mmd(reference, rows, bandwidth, permutations, seed)
        auc = two_sample_auc(reference, rows[: len(reference)], seed=seed)
        distance = np.median(near.kneighbors(rows[: len(reference)])[0]) if name != "real rows (floor)" else np.nan
        found[name] = Generated(gap.mmd, gap.squared, gap.p_value, auc, float(distance / usual))
    return found


def _tvae_rows(table: Table, epochs: int, many: int, seed: int) -> Any:
    """Rows from CTGAN's TVAE trained on the same rows with the same layers, epochs and batch, or None without ctgan."""
    import importlib.util
    import warnings

    if importlib.util.find_spec("ctgan") is None:
        return None
    import torch
    from ctgan import TVAE

    layers = (128, 128)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        state = np.random.get_state()  # noqa: NPY002 — the peer draws from NumPy's global generator
        np.random.seed(seed)  # noqa: NPY002
        try:
            batch = min(256, max(16, len(table) // 16))
            size = {"embedding_dim": 8, "compress_dims": layers, "decompress_dims": layers, "batch_size": batch}
            model = TVAE(**size, epochs=epochs, enable_gpu=False)
            model.fit(table.reset_index(drop=True), [])
            return model.sample(many)
        finally:
            np.random.set_state(state)  # noqa: NPY002


# ---- edits -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edits:
    """Many single-digit edits: one entry each, for the nearest twin of the row that landed (or the nearest)."""

    distance: np.ndarray
    bound: np.ndarray
    others: np.ndarray
    spread: np.ndarray
    landed: np.ndarray
    hit_rate: np.ndarray
    kept: np.ndarray
    exists: np.ndarray
    auc: float


def edit_trial(
    model: TabHiPaN, rows: Any, depth: int, many: int, seed: int = 0, advance: Callable[[int], None] = lambda n: None
) -> Edits:
    """Edit ``many`` rows at ``depth`` and report distances, landing, and how real the twins look.

    ``bound`` is the largest move of a single column in s.d., which no Mahalanobis distance can fall below; ``others`` the
    largest among the columns but that one; ``spread`` how far the twin's farthest other column lies from the mean of the
    training rows, in s.d. ``auc`` tells all twins from real rows of the balls they were made for.
    """
    tree, encoder = model.tree_, model.encoder_
    leaf = encoder.apply(rows)
    movable = np.flatnonzero(tree.depth[leaf] >= depth)
    movable = movable[tree.n_children[tree.ancestor_at(leaf[movable], depth - 1)] > 1]
    if not len(movable):
        raise VpunnError(f"no row can be edited at depth {depth}: every ball there is an only child.")
    chosen = np.random.default_rng(seed).permutation(movable)[:many]
    kept = ("distance", "bound", "others", "spread", "landed", "hit_rate", "kept", "exists")
    columns: dict[str, list[Any]] = {name: [] for name in kept}
    twins, homes = [], []
    for i in chosen:
        found = model.edit(_take(rows, np.array([i])), depth, twins=5, seed=seed + int(i))
        at = found.best()
        columns["distance"].append(found.distance[at])
        moved = np.nan_to_num(np.abs(found.shift[at]))
        edited = int(moved.argmax())
        place = np.abs(encoder.table_.matrix(_take(found.rows, np.array([at])))[0])[: len(moved)]
        columns["bound"].append(moved[edited])
        columns["others"].append(np.delete(moved, edited).max(initial=0.0))
        columns["spread"].append(np.delete(place, edited).max(initial=0.0))
        columns["landed"].append(found.landed[at])
        columns["hit_rate"].append(found.hit_rate)
        columns["kept"].append(bool((found.codes[:, : depth - 1] == found.code[: depth - 1]).all()))
        target = encoder.find(found.target)
        columns["exists"].append(bool(target) and bool(tree.depth[target] == depth))
        twins.append(_take(found.rows, np.array([at])))
        homes.append(target)
        advance(1)
    real = _rows_of_balls(rows, leaf, tree, homes, seed)
    made = np.concatenate([encoder.table_.matrix(t) for t in twins])
    auc = two_sample_auc(encoder.table_.matrix(real), made, seed=seed) if len(made) >= 20 else float("nan")
    return Edits(**{name: np.array(values) for name, values in columns.items()}, auc=auc)


def _rows_of_balls(rows: Any, leaf: np.ndarray, tree: Any, balls: list[int], seed: int) -> Any:
    """For each ball a random real row from it."""
    random = np.random.default_rng(seed)
    picks = []
    for ball in balls:
        part = tree.slice(ball)
        inside = np.flatnonzero((leaf >= part.start) & (leaf < part.stop))
        if len(inside):
            picks.append(int(random.choice(inside)))
    return _take(rows, np.array(picks))
