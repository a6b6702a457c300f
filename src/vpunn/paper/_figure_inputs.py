"""A hierarchy to be drawn, and what is computed from it once for several figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.errors import VpunnError
from vpunn.metrics import Reliability
from vpunn.paper.geometry import three_codes
from vpunn.paper.hipan import HiPaN
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.vapo import VapoResult


@dataclass
class Inputs:
    """A tree to be drawn, and what is computed from it once for several figures."""

    name: str
    title: str
    tree: Tree
    saved: list[Any] = field(default_factory=list)  #: models of earlier runs; training is skipped where they suffice
    seed: int = 0
    facts: dict[str, Any] = field(default_factory=dict)  #: what an earlier report found, by key
    report: str = ""  #: the folder of that report: nothing is trained then

    @cached_property
    def codes(self) -> dict[str, np.ndarray]:
        """Digits of the leaves: exact, learned (by a saved HiPaN if there is one) and of their texts."""
        return three_codes(self.tree, self.saved, seed=self.seed)

    @cached_property
    def item(self) -> int:
        """A typical leaf: of the median depth, in the largest branches."""
        tree, node = self.tree, 0
        want = int(np.median(tree.depth[tree.leaves]))
        while tree.n_children[node]:
            children = tree.children(node)
            deep = children if tree.depth[node] + 1 >= want else children[tree.n_children[children] > 0]
            node = int((deep if len(deep) else children)[np.argmax(tree.size[deep if len(deep) else children])])
            if tree.depth[node] >= want and tree.n_children[node] == 0:
                break
        return node

    def _must_be_saved(self) -> None:
        if self.report:
            raise VpunnError(
                f"there is no saved model under {self.report}; run vpunn reproduce for it, or leave --from out."
            )

    @cached_property
    def training(self) -> dict[str, VapoResult]:
        """Runs of VAPO: those saved, else Fisher and two Adam schedules on soft-max heads from one random start."""
        found: dict[str, VapoResult] = {}
        for model in self.saved:
            if getattr(model, "result_", None) is not None:
                name = f"{type(model).__name__}, {getattr(model, 'optimizer', 'saved')}"
                found.setdefault(name, model.result_)  # the first of a kind is the main run
        if found:
            return found
        self._must_be_saved()
        from vpunn import vapo
        from vpunn.vapo.heads import SoftmaxHeads

        heads = SoftmaxHeads(self.tree)
        start = np.random.default_rng(self.seed).normal(size=heads.n_parameters)
        plans: dict[str, tuple[str, dict[str, Any]]] = {
            "Fisher (natural gradient)": ("fisher", {}),
            "Adam, automatic schedule": ("adam", {"schedule": "auto"}),
            "Adam, the paper's schedule": ("adam", {"schedule": "paper-main"}),
        }
        return {
            name: vapo.minimize(heads, how, start=start, seed=self.seed, **more) for name, (how, more) in plans.items()
        }

    @cached_property
    def optimum(self) -> float | None:
        """The least loss of the heads trained here, in closed form; unknown for saved models."""
        if self.saved:
            return None
        from vpunn.vapo.heads import SoftmaxHeads

        return float(SoftmaxHeads(self.tree).optimum())

    @cached_property
    def coefficients(self) -> np.ndarray:
        """One trained number per ball: of a saved HiPaN, else the logits of the trained heads, centred in every ball."""
        for model in self.saved:
            if hasattr(model, "coefficients_"):
                return np.asarray(np.nan_to_num(np.asarray(model.coefficients_, float)))
        from vpunn.vapo.heads import SoftmaxHeads

        heads = SoftmaxHeads(self.tree)
        result = self.training["Fisher (natural gradient)"]
        layout = heads.layout
        centred = result.parameters - (layout.per_context(result.parameters) / np.diff(layout.start))[layout.context]
        values = np.zeros(self.tree.n_nodes)
        values[1:] = centred[layout.slot[1:]]
        return np.asarray(values)

    @cached_property
    def held_out(self) -> dict[str, dict[int, Reliability]]:
        """Reliability by depth of the answers on rows that a model has not seen, by model: those a report has, else HiPaN's.

        A depth with fewer than 30 rows has none.
        """
        from vpunn.paper.reports.calibration import answers_of, curves_of, rules_said
        from vpunn.paper.reports.hipan_tables import split

        kept = {}
        if "T15" in self.facts:
            first = self.facts["T15"][0]
            kept[f"HiPaNClassifier ({first['task']})"] = curves_of(first)
        for rule, said in rules_said.items():
            for judged in self.facts.get("T15-HiPaN", {}).get(f"hipan {rule} hidden", [])[:1]:
                kept[f"HiPaN, {said}"] = curves_of(judged)
        if not kept:
            self._must_be_saved()
            hidden, seen = split(self.tree, self.seed)
            if len(hidden):
                model = HiPaN(self.tree, seed=self.seed).fit(seen)
                for rule, said in rules_said.items():
                    kept[f"HiPaN, {said}"] = curves_of(answers_of(model, hidden, rule).judged(self.tree, hidden))
        return {name: curves for name, curves in kept.items() if curves}
