"""One effect of `TreeEffects`: its columns, its tree, and what its rows say to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vpunn._rows import LARGEST_FEATURE, squarable
from vpunn.errors import VpunnError, examples
from vpunn.regress.evolution import EvolutionFit, fit_evolution, solve_evolution
from vpunn.regress.regressor import VPuNNRegressor
from vpunn.regress.shrinkage import ShrinkageFit, fit_shrinkage
from vpunn.tree import Tree

FloatArray = np.ndarray
Column = str | int

#: What an effect may say of itself beside its columns.
KNOWN = ("tree", "evolution", "lengths", "slope")


@dataclass(frozen=True)
class Spec:
    """An effect as the user gives it."""

    columns: tuple[Column, ...]
    tree: Tree | None = None
    evolution: str | None = None
    lengths: Any = None
    slope: Column | None = None

    @property
    def name(self) -> str:
        """``director``, ``state / city`` or ``person × year``."""
        inside = " / ".join(map(_named, self.columns))
        return inside if self.slope is None else f"{inside} × {_named(self.slope)}"

    def given(self) -> Any:
        """As an item of ``effects``."""
        key: Any = self.columns if len(self.columns) > 1 else self.columns[0]
        told = {name: getattr(self, name) for name in KNOWN if getattr(self, name) is not None}
        return {key: told} if told else key


def _is_column(column: Any) -> bool:
    return isinstance(column, str | int | np.integer) and not isinstance(column, bool)


def _named(column: Column) -> str:
    return column if isinstance(column, str) else f"column {column}"


def specs_of(effects: Any) -> list[Spec]:
    """The effects of a list of columns, tuples of level columns and dicts, or of one dict."""
    if isinstance(effects, str | int):
        raise VpunnError(f"effects must be a list or a dict; write [{effects!r}].")
    if effects is not None and not isinstance(effects, Iterable):
        raise VpunnError(f"effects must be a list or a dict of columns, got a {type(effects).__name__}.")
    items = [effects] if isinstance(effects, Mapping) else list(() if effects is None else effects)
    out: list[Spec] = []
    for item in items:
        pairs = item.items() if isinstance(item, Mapping) else [(item, None)]
        out += [_spec(key, told) for key, told in pairs]
    names = [spec.name for spec in out]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise VpunnError(f"the effect {twice[0]!r} is given twice; give it once.")
    return out


def _spec(key: Any, told: Any) -> Spec:
    columns = key if isinstance(key, tuple) else (key,)
    if not columns or not all(map(_is_column, columns)):
        raise VpunnError(
            f"an effect is a column, a tuple of level columns or a dict from one to its tree; got {key!r}."
        )
    if told is None or isinstance(told, Tree):
        return Spec(columns, told)
    if not isinstance(told, Mapping) or set(told) - set(KNOWN):
        raise VpunnError(f"of an effect one says a tree, or a dict of {examples(KNOWN)}; {key!r} has {told!r}.")
    spec = Spec(columns, **told)
    if spec.slope is not None and not _is_column(spec.slope):
        raise VpunnError(f"the slope of the effect {key!r} must be a column, its name or position, got {spec.slope!r}.")
    if spec.lengths is not None and spec.evolution is None:
        raise VpunnError(f'the effect {key!r} has lengths but no evolution; add one, such as "evolution": "brownian".')
    return spec


class Effect:
    """Rows on one tree: learns its variances, and says for every row what the others say."""

    def __init__(self, spec: Spec, places: Sequence[int], slope: int | None) -> None:
        self.spec, self.places, self.slope = spec, list(places), slope
        self.model = VPuNNRegressor(spec.tree, evolution=spec.evolution, lengths=spec.lengths)
        self.steps: Any = None  #: variances: by depth, or the parameters along branches
        self.unit = 1.0  #: of the slope's column: its root mean square

    def read(self, X: np.ndarray) -> None:
        """Place the training rows."""
        cells = X[:, self.places]
        self.model.n_features_in_ = cells.shape[1]
        self.nodes, _ = self.model._read_for_fit(cells)
        self.branches = self.model._branches()
        self.x = self._slopes(X)
        if self.x is not None:
            self.unit = float(np.sqrt(np.mean(self.x**2)))
            if not self.unit > 1 / LARGEST_FEATURE:
                raise VpunnError(
                    f"the slope column {self.spec.slope!r} is 0 in every row, or nearly so, and has no slope: leave the effect out."
                )
            self.x = self.x / self.unit

    def _slopes(self, X: np.ndarray) -> FloatArray | None:
        """The column that the effect multiplies."""
        if self.slope is None:
            return None
        return squarable(X[:, self.slope], f"the slope column {self.spec.slope!r}")

    def _rows(self, part: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Target and weight of the tree's own rows: part = x·c becomes c = part/x with weight x²."""
        if self.x is None:
            return part, weight
        return np.divide(part, self.x, out=np.zeros_like(part), where=self.x != 0), weight * self.x**2

    def learn(self, part: FloatArray, weight: FloatArray) -> float:
        """Variances of the steps by restricted likelihood; returns that of the noise."""
        y, w = self._rows(part, weight)
        if self.branches is None:
            fit = fit_shrinkage(self.model.tree_, self.nodes, y, weight=w)
            self.steps = fit.ratios * fit.noise
        else:
            along, _ = fit_evolution(
                self.branches, self.nodes, y, model=str(self.spec.evolution), weight=w, repeated=True
            )
            self.model.evolution, self.steps = along.model, along.parameters
            return float(along.parameters.get("noise", 0.0))
        return fit.noise

    def solve(self, part: FloatArray, weight: FloatArray, noise: float) -> FloatArray:
        """What the tree adds to each row, at the variances learned and a known noise."""
        y, w = self._rows(part, weight)
        self.weight = w
        tree = self.model.tree_
        if self.branches is None:
            ratios = self.steps / noise
            self.fit: ShrinkageFit | EvolutionFit = fit_shrinkage(
                tree, self.nodes, y, weight=w, ratios=ratios, noise=noise
            )
        else:
            self.fit = solve_evolution(
                self.branches, self.nodes, y, w, str(self.model.evolution), {**self.steps, "noise": noise}
            )
        values = self.fit.values[self.nodes]
        return np.asarray(values if self.x is None else values * self.x)

    def left_out(self, part: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
        """What the other rows say of each row: its effect and the variance of that, in closed form.

        A row of weight w is a share h = w·V/σ² of its own effect's mean, where V is the posterior variance there.
        """
        y, _ = self._rows(part, self.weight)
        fit = self.fit
        variance = fit.state_variance(self.nodes) if isinstance(fit, EvolutionFit) else fit.variance[self.nodes]
        share = np.minimum(self.weight * variance / noise, 1 - 1e-9)
        without = (fit.values[self.nodes] - share * y) / (1 - share)
        variance = variance / (1 - share)
        return (without, variance) if self.x is None else (without * self.x, variance * self.x**2)

    def keep(self) -> tuple[Any, ...]:
        """What the best round is remembered by."""
        return self.fit, self.model.evolution

    def finish(self, kept: tuple[Any, ...]) -> None:
        """Make the model of the best round ready for new rows; training rows are dropped."""
        fit, self.model.evolution = kept
        self.model._fits, self.model._one_target = [fit], True
        self.model._gather_fits()
        self.fit = fit
        for name in ("nodes", "x", "weight", "branches"):
            self.__dict__.pop(name, None)

    def predict(self, X: np.ndarray) -> tuple[FloatArray, FloatArray]:
        """What it adds to new rows, and the variance of that."""
        nodes, depths = self.model._located(X[:, self.places])
        fit, tree = self.fit, self.model.tree_
        values = fit.predict(nodes)
        variance = fit.predictive_variance(tree, nodes, depths) - (
            fit.own[nodes] if isinstance(fit, EvolutionFit) else fit.noise
        )
        x = self._slopes(X)
        variance = np.maximum(variance, 0.0)
        return (values, variance) if x is None else (values * x / self.unit, variance * (x / self.unit) ** 2)

    def facts(self) -> dict[str, Any]:
        """What is no array, for a saved model."""
        return {
            "columns": list(self.spec.columns),
            "slope": self.spec.slope,
            "places": self.places,
            "at": self.slope,
            "unit": self.unit,
        }

    @classmethod
    def of_facts(cls, facts: dict[str, Any], model: VPuNNRegressor) -> Effect:
        """The opposite of `facts`."""
        spec = Spec(tuple(facts["columns"]), model.tree, model.evolution, model.lengths, facts["slope"])
        effect = cls(spec, [int(j) for j in facts["places"]], None if facts["at"] is None else int(facts["at"]))
        effect.model, effect.unit, effect.fit = model, float(facts["unit"]), model._fits[0]
        return effect
