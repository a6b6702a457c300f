"""A variational autoencoder for table rows, conditioned on the ball of the tree a row lies in (PyTorch).

Numbers enter and leave as normal scores (ranks through the normal quantile function), so skewed columns need no
tuning; categories have soft-max heads, and columns with gaps a head that says whether the value is there. The condition
is Σ_{B ∋ row} E_B: one vector per ball, summed along the ancestor chain, as everywhere in this library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn.errors import VpunnError
from vpunn.store import Draft, Stored
from vpunn.tabular._columns import TableCoder
from vpunn.tree import Tree

#: What a generator is made with, and what it is when saved.
SETTINGS: dict[str, Any] = {
    "latent": int,
    "hidden": int,
    "epochs": int,
    "batch": int,
    "rate": (int, float),
    "seed": int,
}


def import_torch() -> Any:
    """PyTorch, or one sentence on how to get it."""
    try:
        import torch
    except ImportError:
        raise VpunnError("generating rows needs PyTorch; install it with: pip install 'vpunn[tab]'.") from None
    return torch


@dataclass(frozen=True)
class NormalScores:
    """Columns to normal scores and back, by interpolating between training quantiles; NaN stays NaN.

    The way back never leaves the range of the training values.
    """

    score: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, knots: int = 500, weights: np.ndarray | None = None) -> NormalScores:
        """From training rows. With ``weights`` a quantile is the first value that at least its share of the weight does not
        exceed, as if rows were repeated."""
        from scipy.stats import norm

        level = (np.arange(knots) + 0.5) / knots
        values = np.zeros((numbers.shape[1], knots))
        for k, column in enumerate(numbers.T):
            known = np.isfinite(column)
            if not known.any():
                continue
            seen = column[known]
            values[k] = np.quantile(seen, level) if weights is None else _quantiles(seen, weights[known], level)
        return cls(norm.ppf(level), values)

    def forward(self, numbers: np.ndarray) -> np.ndarray:
        """Scores; equal values get the middle of their scores."""
        out = np.empty(numbers.shape)
        for k, knots in enumerate(self.values):
            distinct, first, count = np.unique(knots, return_index=True, return_counts=True)
            middle = (self.score[first] + self.score[first + count - 1]) / 2
            out[:, k] = np.where(np.isnan(numbers[:, k]), np.nan, np.interp(numbers[:, k], distinct, middle))
        return out

    def backward(self, scores: np.ndarray) -> np.ndarray:
        """Values."""
        out = np.empty(scores.shape)
        for k, knots in enumerate(self.values):
            out[:, k] = np.interp(scores[:, k], self.score, knots)
        return out


class CodeVAE:
    """The generator: ``fit`` on rows and their leaf balls, ``sample`` rows for given balls.

    With ``tree=None`` the condition is left out and nothing else changes: the unconditioned control has the same layers
    and the same number of steps. Same seed, same weights. ``history`` is the mean loss of every epoch, in nats a row.
    """

    def __init__(
        self,
        table: TableCoder,
        tree: Tree | None,
        *,
        latent: int = 8,
        hidden: int = 128,
        epochs: int = 300,
        batch: int = 256,
        rate: float = 2e-3,
        seed: int = 0,
    ) -> None:
        self.table, self.tree = table, tree
        self.latent, self.hidden, self.epochs, self.batch, self.rate, self.seed = (
            latent,
            hidden,
            epochs,
            batch,
            rate,
            seed,
        )
        self.history: list[float] = []

    # ---- fitting ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        numbers: np.ndarray,
        codes: np.ndarray,
        leaf: np.ndarray,
        verbose: bool | None = None,
        weights: np.ndarray | None = None,
    ) -> CodeVAE:
        """Train on rows given as `TableCoder.split` returns them, and the leaf ball of each; ``weights`` count in the loss."""
        torch = import_torch()
        self.scores = NormalScores.of(numbers, weights=weights)
        self.gaps = np.flatnonzero(np.isnan(numbers).any(axis=0))
        x, seen, gap, c = self._tensors(numbers, codes)
        balls = torch.as_tensor(self._chains(leaf))
        share = None if weights is None else torch.as_tensor(weights / weights.mean(), dtype=torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.net = self._build()
            optimiser = torch.optim.Adam(self.net.parameters(), lr=self.rate)
            batch = min(self.batch, max(16, len(x) // 16))  # small tables: smaller steps rather than too few of them
            steps = self.epochs * -(-len(x) // batch)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=self.rate, total_steps=max(steps, 2))
            with progress_bar(
                f"training the generator for {self.epochs} epochs", self.epochs, 1.5e-3 * steps, verbose
            ) as advance:
                for _ in range(self.epochs):
                    total = 0.0
                    for part in torch.randperm(len(x)).split(batch):
                        loss = self._loss(torch, x[part], seen[part], gap[part], c[part], balls[part])
                        loss = loss.mean() if share is None else (share[part] * loss).mean()
                        optimiser.zero_grad()
                        loss.backward()
                        optimiser.step()
                        schedule.step()
                        total += float(loss.detach()) * len(part)
                    self.history.append(total / len(x))
                    advance(1)
        return self

    def _tensors(self, numbers: np.ndarray, codes: np.ndarray) -> tuple[Any, Any, Any, Any]:
        torch = import_torch()
        scores = self.scores.forward(numbers)
        seen = np.isfinite(scores)
        return (
            torch.as_tensor(np.where(seen, scores, 0.0), dtype=torch.float32),
            torch.as_tensor(seen, dtype=torch.float32),
            torch.as_tensor(seen[:, self.gaps], dtype=torch.float32),
            torch.as_tensor(codes, dtype=torch.int64),
        )

    def _chains(self, leaf: np.ndarray) -> np.ndarray:
        """Balls below the root that contain each leaf, padded with the root (whose vector is fixed at 0)."""
        if self.tree is None:
            return np.zeros((len(leaf), 1), np.int64)
        # a lone root keeps its column
        return np.asarray(np.maximum(self.tree.paths(leaf)[:, min(self.tree.max_depth, 1) :], 0))

    def _build(self) -> Any:
        torch = import_torch()
        nn = torch.nn
        levels = [len(v) + 1 for v in self.table.levels]  # one more for "missing"
        width_in = len(self.scores.values) + len(self.gaps) + sum(levels)
        width_out = len(self.scores.values) + len(self.gaps) + sum(levels)
        h, z, e = self.hidden, self.latent, 16
        net = nn.ModuleDict(
            {
                "encoder": nn.Sequential(
                    nn.Linear(width_in + e, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2 * z)
                ),
                "decoder": nn.Sequential(
                    nn.Linear(z + e, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, width_out)
                ),
                "balls": nn.Embedding(self.tree.n_nodes if self.tree else 1, e, padding_idx=0),
            }
        )
        nn.init.normal_(net["balls"].weight, std=0.3)
        with torch.no_grad():
            net["balls"].weight[0] = 0.0
        net.register_parameter("log_noise", nn.Parameter(torch.full((len(self.scores.values),), -0.5)))
        return net

    def _loss(self, torch: Any, x: Any, seen: Any, gap: Any, c: Any, balls: Any) -> Any:
        """Negative evidence bound of every row, in nats."""
        f = torch.nn.functional
        condition = self.net["balls"](balls).sum(dim=1)
        mean, log_var = self._posterior(torch, x, gap, c, condition)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        value, there, logits = self._heads(self.net["decoder"](torch.cat([z, condition], dim=1)))
        noise = self.net.log_noise
        error = (0.5 * ((x - value) * torch.exp(-noise)) ** 2 + noise + 0.919) * seen
        loss = error.sum(dim=1)
        if gap.shape[1]:
            loss = loss + f.binary_cross_entropy_with_logits(there, gap, reduction="none").sum(dim=1)
        for k, logit in enumerate(logits):
            loss = loss + f.cross_entropy(logit, c[:, k] + 1, reduction="none")
        kl = 0.5 * (mean**2 + log_var.exp() - 1.0 - log_var).sum(dim=1)
        return loss + kl

    def _posterior(self, torch: Any, x: Any, gap: Any, c: Any, condition: Any) -> tuple[Any, Any]:
        f = torch.nn.functional
        one_hot = [f.one_hot(c[:, k] + 1, len(v) + 1).float() for k, v in enumerate(self.table.levels)]
        out = self.net["encoder"](torch.cat([x, gap, *one_hot, condition], dim=1))
        return out[:, : self.latent], out[:, self.latent :].clamp(-8.0, 8.0)

    def _heads(self, out: Any) -> tuple[Any, Any, list[Any]]:
        """Split the decoder's output: number means, whether a value is there, category logits."""
        m, g = len(self.scores.values), len(self.gaps)
        logits, at = [], m + g
        for levels in self.table.levels:
            logits.append(out[:, at : at + len(levels) + 1])
            at += len(levels) + 1
        return out[:, :m], out[:, m : m + g], logits

    # ---- generating --------------------------------------------------------------------------------------------------

    def sample(self, leaf: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """One new row (numbers, codes) for each given leaf ball."""
        random = np.random.default_rng(seed)
        return self.decode(random.normal(size=(len(leaf), self.latent)), leaf, random)

    def decode(self, z: np.ndarray, leaf: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Rows from latent points: number noise, gaps and categories are drawn, not set to their most likely value."""
        value, there, chances = self._expect(z, leaf)
        numbers = self.scores.backward(value + self._noise() * random.normal(size=value.shape))
        present = random.random(there.shape) < there
        numbers[:, self.gaps] = np.where(present, numbers[:, self.gaps], np.nan)
        codes = np.empty((len(z), len(chances)), np.int64)
        for k, chance in enumerate(chances):
            codes[:, k] = _draw(chance, random)
        return numbers, codes

    def twin(
        self, numbers: np.ndarray, codes: np.ndarray, leaf: np.ndarray, goal: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """One row (shape 1 × m) as it would be in the balls ``goal``, one twin for each.

        A latent point is drawn from the row's posterior. Numbers keep their residual: the gap between the row and what
        the decoder expects at that point in the row's own ball is added to what it expects in the new one (in normal
        scores; residuals beyond three noise widths are cut there). A category stays with probability
        min(1, p_new / p_old), which is as often as the two distributions allow. Missing values stay missing.
        """
        n = len(goal)
        mean, spread = self._encode(numbers, codes, leaf)
        z = mean + spread * random.normal(size=(n, self.latent))
        old_value, _, old_chance = self._expect(z, np.repeat(leaf, n))
        new_value, _, new_chance = self._expect(z, goal)
        limit = 3.0 * self._noise()
        residual = np.clip(np.nan_to_num(self.scores.forward(numbers)) - old_value, -limit, limit)
        made = np.where(np.isnan(numbers), np.nan, self.scores.backward(new_value + residual))
        out = np.repeat(codes.astype(np.int64), n, axis=0)
        rows = np.arange(n)
        for k, (old, new) in enumerate(zip(old_chance, new_chance, strict=True)):
            at = out[:, k] + 1
            leave = random.random(n) * old[rows, at] > new[rows, at]
            gain = np.maximum(new - old, 1e-12)
            out[:, k] = np.where(leave, _draw(gain, random), out[:, k])
        return made, out

    def _encode(self, numbers: np.ndarray, codes: np.ndarray, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the latent posterior of rows."""
        torch = import_torch()
        with torch.no_grad():
            x, _, gap, c = self._tensors(numbers, codes)
            mean, log_var = self._posterior(torch, x, gap, c, self._condition(leaf))
        return mean.numpy().astype(float), np.exp(0.5 * log_var.numpy().astype(float))

    def _expect(self, z: np.ndarray, leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """What the decoder expects: mean scores, chance that a value is there, chances of the categories."""
        torch = import_torch()
        with torch.no_grad():
            point = torch.cat([torch.as_tensor(z, dtype=torch.float32), self._condition(leaf)], dim=1)
            value, there, logits = self._heads(self.net["decoder"](point))
            chances = [torch.softmax(logit, dim=1).numpy().astype(float) for logit in logits]
            return value.numpy().astype(float), torch.sigmoid(there).numpy(), chances

    def _condition(self, leaf: np.ndarray) -> Any:
        return self.net["balls"](import_torch().as_tensor(self._chains(leaf))).sum(dim=1)

    def _noise(self) -> np.ndarray:
        return np.asarray(np.exp(self.net.log_noise.detach().numpy().astype(float)))

    # ---- files -------------------------------------------------------------------------------------------------------

    def draft(self) -> Draft:
        """Settings, quantiles and weights; table and tree stand elsewhere."""
        draft = Draft("CodeVAE", {name: getattr(self, name) for name in SETTINGS})
        draft.array("history", np.asarray(self.history, dtype=float))
        draft.array("gaps", self.gaps)
        draft.array("score", self.scores.score)
        draft.array("values", self.scores.values)
        for name, weight in self.net.state_dict().items():
            draft.array(f"net.{name}", weight.numpy(), balls=name == "balls.weight")
        return draft

    @classmethod
    def get(cls, stored: Stored, table: TableCoder, tree: Tree) -> CodeVAE:
        """The generator of `draft`."""
        torch = import_torch()
        vae = cls(table, tree, **{name: stored.setting(name, kind) for name, kind in SETTINGS.items()})
        vae.history = stored.array("history", dtype="f8", shape=(None,), finite=False).tolist()
        m = len(table.numeric)
        vae.gaps = stored.array("gaps", dtype="iu", shape=(None,), low=0, high=m)
        score = stored.array("score", dtype="f8", shape=(None,), monotone=True)
        vae.scores = NormalScores(score, stored.array("values", dtype="f8", shape=(m, len(score))))
        with torch.random.fork_rng(devices=[]):
            vae.net = vae._build()
        weights = {
            name: torch.tensor(stored.array(f"net.{name}", dtype="f4", shape=tuple(weight.shape)))
            for name, weight in vae.net.state_dict().items()
        }
        vae.net.load_state_dict(weights)
        return vae


def _quantiles(values: np.ndarray, weights: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The least values that the shares ``level`` of the weight do not exceed."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    at = np.searchsorted(mass, level * mass[-1])
    return np.asarray(values[order][np.minimum(at, len(order) - 1)])


def _draw(weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One category per row of weights; the first column is "missing", code −1."""
    total = weights.cumsum(axis=1)
    pick = random.random((len(weights), 1)) * total[:, -1:]
    return np.asarray(np.minimum((total < pick).sum(axis=1), weights.shape[1] - 1) - 1)
