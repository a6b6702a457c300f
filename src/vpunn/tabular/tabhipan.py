"""`TabHiPaN`: the paper's section 8.2 as one object: encode, predict with and without the code, generate, edit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vpunn._rows import row_weights, uneven_weights
from vpunn._seed import seed_of
from vpunn._sklearn import BaseEstimator, check_is_fitted, clone
from vpunn._types import Features, Label, Seed, Table, Targets, Weights
from vpunn.errors import VpunnError, check_whole, examples, refuse_lazy
from vpunn.store import Draft, Storable, Stored
from vpunn.tabular.boosting import Booster, guess_kind
from vpunn.tabular.encoder import LatentTreeEncoder
from vpunn.tabular.generator import CodeVAE, import_torch
from vpunn.tabular.measures import Mahalanobis

#: Candidates generated per twin asked for; those that land in the target ball are taken first.
CANDIDATES = 5


@dataclass(frozen=True)
class Generator:
    """Size and training of a generator: a variational autoencoder conditioned on the code (PyTorch)."""

    epochs: int = 100
    latent: int = 8
    hidden: int = 128

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_whole(name, value)


class TabHiPaN(Storable, BaseEstimator):
    """Latent tree, predictors with and without its code, and, if asked for, a generator conditioned on it.

    ``fit(X, y)`` learns the tree from ``X`` alone (``y`` never enters the code), a `Booster` on the columns, a second
    one on the columns plus the balls of each row, and the generator. Without ``y`` there are no predictors; without
    ``generator`` there is none, and PyTorch is not needed.

    Parameters
    ----------
    encoder : LatentTreeEncoder, optional
        How the tree is learned; the paper's p = 3, K = 6 by default.
    kind : {"regression", "classification"}, optional
        Guessed from ``y`` if not given.
    rounds : int
        Boosting rounds.
    generator : Generator, optional
        What `sample` and `edit` draw rows with; none by default.
    random_state : int, RandomState instance or None
        One seed for everything (an encoder with a ``random_state`` of its own keeps that); the same int gives the same
        bytes, a generator is drawn from, None draws anew.

    >>> random = np.random.default_rng(0)
    >>> rows = np.repeat([[0.0, 0.0], [5.0, 5.0]], 40, axis=0) + random.normal(size=(80, 2))
    >>> model = TabHiPaN(LatentTreeEncoder(p=3, K=2), rounds=20).fit(rows, rows.sum(axis=1))
    >>> model.predict(rows[:1]).shape, model.predict(rows[:1], code=False).shape
    ((1,), (1,))
    """

    def __init__(
        self,
        encoder: LatentTreeEncoder | None = None,
        *,
        kind: str | None = None,
        rounds: int = 300,
        generator: Generator | None = None,
        random_state: Seed = 0,
        verbose: bool | None = None,
    ) -> None:
        self.encoder = encoder
        self.kind = kind
        self.rounds = rounds
        self.generator = generator
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Features, y: Targets = None, *, sample_weight: Weights = None) -> TabHiPaN:
        """Learn tree, predictors (if ``y`` is given) and generator (if one is wanted).

        A row counts in the tree like as many copies as it weighs (see `LatentTreeEncoder.fit`), and in the losses of predictors and
        generator by the ratios of the weights; rows of weight 0 take no part.
        """
        refuse_lazy(X, y)
        self.seed_ = seed_of(self.random_state)
        base = (
            LatentTreeEncoder(random_state=self.seed_, verbose=self.verbose) if self.encoder is None else self.encoder
        )
        own = clone(base)
        if own.random_state is None:
            own.set_params(random_state=self.seed_)
        if self.generator is not None:
            import_torch()  # say that it is missing before anything is learned
        self.encoder_ = own.fit(X, sample_weight=sample_weight)
        self.tree_ = self.encoder_.tree_
        table = self.encoder_.table_
        numbers, codes = table.split(X)
        leaf, weights = self.encoder_.leaf_, None
        target = None if y is None else _targets(y, len(numbers))
        if sample_weight is not None:
            given = row_weights(sample_weight, len(numbers))
            used = np.flatnonzero(given)
            numbers, codes, leaf, weights = numbers[used], codes[used], leaf[used], uneven_weights(given[used])
            target = None if target is None else target[used]
        self.metric_ = Mahalanobis.of(table.scale(numbers, codes), weights)
        if target is not None:
            self._fit_boosters(numbers, codes, leaf, target, weights)
        if self.generator is not None:
            vae = CodeVAE(table, self.tree_, seed=self.seed_, **asdict(self.generator))
            self.vae_ = vae.fit(numbers, codes, leaf, verbose=self.verbose, weights=weights)
        return self

    # ---- prediction --------------------------------------------------------------------------------------------------

    def _fit_boosters(
        self,
        numbers: np.ndarray,
        codes: np.ndarray,
        leaf: np.ndarray,
        target: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        self.kind_ = self.kind or guess_kind(target)
        plain, coded, categorical = features(self.encoder_, numbers, codes, leaf)
        names = list(range(len(self.encoder_.table_.numeric), plain.shape[1]))
        self.plain_ = Booster(self.kind_, names, rounds=self.rounds, seed=self.seed_).fit(plain, target, weights)
        self.coded_ = Booster(self.kind_, categorical, rounds=self.rounds, seed=self.seed_).fit(coded, target, weights)

    def predict(self, X: Features, *, code: bool = True) -> np.ndarray:
        """Predict the target, with (default) or without the code as a feature."""
        found = self._scores(X, code)
        return found if self.kind_ == "regression" else self.plain_.classes_[found.argmax(axis=1)]

    def predict_proba(self, X: Features, *, code: bool = True) -> np.ndarray:
        """Class probabilities, for a classification."""
        found = self._scores(X, code)
        if self.kind_ != "classification":
            raise VpunnError("predict_proba needs a classification; this model predicts numbers, use predict.")
        return found

    def _scores(self, X: Features, code: bool) -> np.ndarray:
        check_is_fitted(self, "encoder_")
        if not hasattr(self, "plain_"):
            raise VpunnError("this TabHiPaN was fitted without a target; call fit(X, y) to predict.")
        leaf = self.encoder_.apply(X)
        numbers, codes = self.encoder_.table_.split(X)
        plain, coded, _ = features(self.encoder_, numbers, codes, leaf)
        return self.coded_.predict(coded) if code else self.plain_.predict(plain)

    # ---- generation --------------------------------------------------------------------------------------------------

    def sample(self, n: int, ball: Label = 0, *, seed: int | None = None) -> Any:
        """``n`` new rows from a ball (default: the whole tree), as a table like the training one.

        Leaves are drawn top-down, each child with its share of the training rows, so every code exists.
        """
        self._check_generator()
        check_whole("n", n, 0)
        seed = self.seed_ if seed is None else seed
        leaf = self._draw_leaves(self.encoder_.find(ball), n, np.random.default_rng(seed))
        return self.encoder_.table_.join(*self.vae_.sample(leaf, seed))

    def _check_generator(self) -> None:
        check_is_fitted(self, "encoder_")
        if not hasattr(self, "vae_"):
            raise VpunnError("this TabHiPaN has no generator; fit TabHiPaN(generator=Generator()).")

    def _draw_leaves(self, ball: int, n: int, random: np.random.Generator) -> np.ndarray:
        part = self.tree_.slice(ball)
        rows = np.where(self.tree_.is_leaf, self.tree_.columns["rows"], 0)[part].astype(float)
        return np.asarray(part.start + random.choice(len(rows), size=n, p=rows / rows.sum()))

    def edit(self, row: Table, depth: int = 3, *, digit: int | None = None, twins: int = 20, seed: int = 0) -> Twins:
        """Move a row to a sibling subtree at ``depth`` (1 is the root digit) and generate its twins there.

        Digits above ``depth`` stay. The digit at ``depth`` becomes ``digit``, or that of the nearest sibling. Deeper
        digits name balls of another subtree, so keeping them would mean nothing (AUDIT E-80): they are drawn by valid
        descent. What the code does not say about the row is kept: its latent position and its residuals (see
        `CodeVAE.twin`).
        Five candidates are made per twin, and those that encode into the new ball come first. Each twin reports its
        Mahalanobis distance to the row, the columns that moved, and whether it landed in the ball it was made for.
        """
        self._check_generator()
        check_whole("twins", twins, 1)
        encoder, tree, table = self.encoder_, self.tree_, self.encoder_.table_
        one = _one_row(row, table)
        leaf = encoder.apply(one)
        target = self._sibling(int(leaf[0]), depth, digit, table.matrix(one))
        random = np.random.default_rng(seed)
        goal = self._draw_leaves(target, CANDIDATES * twins, random)
        numbers, codes = table.split(one)
        made = self.vae_.twin(numbers, codes, leaf, goal, random)
        landed = np.asarray(tree.is_ancestor(target, encoder.apply(table.join(*made))))
        taken = np.argsort(~landed, kind="stable")[:twins]
        goal, made = goal[taken], (made[0][taken], made[1][taken])
        return Twins(
            original=one,
            ball=str(tree.labels[tree.ancestor_at(int(leaf[0]), depth)]),
            target=str(tree.labels[target]),
            rows=table.join(*made),
            code=encoder.code_.digits(leaf)[0],
            codes=encoder.code_.digits(goal),
            distance=self.metric_(table.scale(*made), table.scale(numbers, codes)),
            landed=landed[taken],
            hit_rate=float(landed.mean()),
            shift=_shift(table, made, (numbers, codes)),
            names=[str(table.names[j]) for j in (*table.numeric, *table.symbolic)],
        )

    def _sibling(self, leaf: int, depth: int, digit: int | None, row: np.ndarray) -> int:
        """The ball to move to: the wanted or the nearest sibling of the leaf's ancestor at ``depth``."""
        tree = self.tree_
        if not 1 <= depth <= tree.depth[leaf]:
            raise VpunnError(f"this row's code has {int(tree.depth[leaf])} digits; there is no digit {depth} to edit.")
        ball = int(tree.ancestor_at(leaf, depth))
        others = [int(c) for c in tree.children(int(tree.parent[ball])) if c != ball]
        if not others:
            works = [
                k for k in range(1, int(tree.depth[leaf]) + 1) if tree.n_children[tree.ancestor_at(leaf, k - 1)] > 1
            ]
            raise VpunnError(
                f"ball {tree.labels[ball]} is an only child; this row can be edited at depth {works or 'none'}."
            )
        if digit is not None:
            chosen = [c for c in others if tree.digit[c] == digit]
            if not chosen:
                choice = [int(tree.digit[c]) for c in others]
                raise VpunnError(f"no sibling of ball {tree.labels[ball]} has digit {digit}; choose from {choice}.")
            return chosen[0]
        statistics = self.encoder_.statistics_
        typical = statistics.typical(np.array(others))
        gap = ((self.encoder_.table_.matrix(typical) - row) ** 2).sum(axis=1)
        return others[int(gap.argmin())]

    # ---- files -------------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        check_is_fitted(self, "encoder_")
        draft.params(self, skip=("encoder", "generator"))
        draft.settings["generator"] = None if self.generator is None else asdict(self.generator)
        if self.encoder is not None:
            wanted = Draft("LatentTreeEncoder")
            wanted.params(self.encoder, skip=())
            draft.settings["encoder"] = wanted.settings["params"]
        draft.add("encoder", self.encoder_)
        draft.settings["seed"] = self.seed_
        draft.array("metric", self.metric_.inverse)
        if hasattr(self, "plain_"):
            draft.settings["kind"] = self.kind_
            draft.add("plain", self.plain_)
            draft.add("coded", self.coded_)
        if hasattr(self, "vae_"):
            draft.part("vae", self.vae_.draft())

    @classmethod
    def _from_store(cls, stored: Stored) -> TabHiPaN:
        wanted, size = stored.settings.get("encoder"), stored.setting("generator", (dict, type(None)))
        generator = None if size is None else Generator(**size)
        encoder = None if wanted is None else LatentTreeEncoder(**wanted)
        model = cls(encoder, generator=generator, **stored.params(cls))
        model.encoder_ = stored.get("encoder", LatentTreeEncoder)
        model.seed_ = stored.setting("seed", int)
        model.tree_, table = model.encoder_.tree_, model.encoder_.table_
        model.metric_ = Mahalanobis(stored.array("metric", dtype="f8", shape=(table.width, table.width)))
        if "plain" in stored:
            model.kind_ = stored.setting("kind", str)
            model.plain_, model.coded_ = stored.get("plain", Booster), stored.get("coded", Booster)
        if "vae" in stored:
            model.vae_ = CodeVAE.get(stored.part("vae", "CodeVAE"), table, model.tree_)
        return model


@dataclass(frozen=True)
class Twins:
    """What `TabHiPaN.edit` returns: rows like the original but from a sibling ball.

    ``codes`` are the digits each twin was made for, ``distance`` its Mahalanobis distance to the original, ``landed``
    whether encoding it leads to ``target`` and ``hit_rate`` the share of all candidates that did; ``shift`` (twin ×
    column) is the change in standard deviations of the training rows (for a category 1 where it changed; NaN where
    either value is missing).
    """

    original: Any
    ball: str
    target: str
    rows: Any
    code: np.ndarray
    codes: np.ndarray
    distance: np.ndarray
    landed: np.ndarray
    hit_rate: float
    shift: np.ndarray
    names: list[str]

    def changed(self, i: int, threshold: float = 0.5) -> list[str]:
        """Columns of twin ``i`` that moved by more than ``threshold`` standard deviations, largest first."""
        size = np.nan_to_num(np.abs(self.shift[i]))
        return [self.names[j] for j in np.argsort(-size, kind="stable") if size[j] > threshold]

    def best(self) -> int:
        """The nearest twin that landed in the target ball (the nearest of all if none did)."""
        pool = np.flatnonzero(self.landed) if self.landed.any() else np.arange(len(self.distance))
        return int(pool[self.distance[pool].argmin()])

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.distance, [0.05, 0.5, 0.95])
        i = self.best()
        return (
            f"ball {self.ball} → {self.target}: {len(self.distance)} twins, {int(self.landed.sum())} in the ball "
            f"({self.hit_rate:.0%} of all candidates), "
            f"Mahalanobis distance {middle:.2f} (5–95 %: {low:.2f}–{high:.2f}); "
            f"nearest one at {self.distance[i]:.2f} moves {', '.join(self.changed(i)) or 'no column by half an s.d.'}"
        )


def features(
    encoder: LatentTreeEncoder, numbers: np.ndarray, codes: np.ndarray, leaf: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Booster inputs without and with the balls of each row, and which columns of the latter are categories.

    Balls enter as prefixes: the place of the row's ball among the balls of its depth. A lone digit has no meaning below
    the root, because digit 2 of one ball and digit 2 of another are unrelated.
    """
    tree = encoder.tree_
    plain = np.column_stack([numbers, np.where(codes >= 0, codes, np.nan)])
    start, ids = tree.levels
    place = np.empty(tree.n_nodes)
    place[ids] = np.arange(tree.n_nodes) - start[tree.depth[ids]]
    path = tree.paths(leaf)[:, 1:]
    coded = np.hstack([plain, np.where(path >= 0, place[path], np.nan)])
    return plain, coded, list(range(numbers.shape[1], coded.shape[1]))


def _targets(y: Targets, rows: int) -> np.ndarray:
    """One target per row, as an array."""
    target = np.asarray(y)
    if len(target) != rows:
        raise VpunnError(f"X has {rows:,} rows and y has {len(target):,}; they must be equally many.")
    return target


def _one_row(row: Table, table: Table) -> Any:
    """A table of one row from a row given as table, Series, mapping or sequence."""
    import pandas as pd

    one: Any
    if isinstance(row, pd.DataFrame):
        one = row
    elif table.is_frame:
        if not hasattr(row, "keys") and len(row) != len(table.names):
            raise VpunnError(
                f"the row has {len(row)} values, but the table {len(table.names)} columns; give one for each."
            )
        values = dict(row) if hasattr(row, "keys") else dict(zip(table.names, row, strict=True))
        lost = [name for name in table.names if name not in values]
        if lost:
            raise VpunnError(
                f"the row lacks the column {examples(lost)}; give every column, NaN where a value is missing."
            )
        one = pd.DataFrame([values], columns=table.names).infer_objects()
    else:
        one = np.asarray(row).reshape(1, -1) if np.ndim(row) == 1 else np.asarray(row)
    if len(one) != 1:
        raise VpunnError(f"edit takes one row; got {len(one)}.")
    return one


def _shift(table: Table, made: tuple[np.ndarray, np.ndarray], original: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Change of every column: numbers in s.d., categories 1 if different."""
    spread = np.where(table.spread > 0, table.spread, 1.0)
    numbers = (made[0] - original[0]) / spread
    categories = (made[1] != original[1]).astype(float)
    return np.hstack([numbers, categories])
