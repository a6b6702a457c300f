"""The shelf of a hierarchy report: its data, and the models it trains.

``reports/<name>/checkpoints/`` holds one folder per training, each opened by `vpunn.load`: seed 0 as a whole `HiPaN` with its
tree, the other seeds and the input-free heads as `VapoResult`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError, VpunnError
from vpunn.paper.hipan import HiPaN
from vpunn.paper.reports._shelf import Shelf, measured
from vpunn.store import Stored
from vpunn.tree import Tree
from vpunn.vapo import VapoResult

TITLES = {"wordnet": "WordNet nouns", "go": "Gene Ontology, molecular function", "ncbi": "NCBI taxonomy, Mammalia"}


@dataclass(frozen=True)
class Trained:
    """One training: its result, CPU seconds, and how far it raised the resident memory (None where that cannot be measured)."""

    result: VapoResult
    seconds: float
    peak_mb: float | None


@dataclass
class Bench(Shelf):
    """Everything the sections of a hierarchy report share."""

    release: str | None = None
    policy: str | None = None
    trained: dict[str, Trained] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name, _, release = self.name.partition("-")
        self.release = release or self.release
        if self.name not in TITLES:
            raise VpunnError(f"there is no hierarchy {self.name!r} to reproduce; choose one of {', '.join(TITLES)}.")
        super().__post_init__()

    # ---- data --------------------------------------------------------------------------------------------------------

    @cached_property
    def data(self) -> Hierarchy:
        """The hierarchy with its pedigree."""
        return load_hierarchy(self.name, self.release, self.policy)

    @property
    def tree(self) -> Tree:
        """The tree everything is measured on."""
        return self.data.tree

    @property
    def describe(self) -> str:
        """One line about the source."""
        data = self.data
        return f"{data.title} {data.version} ({data.licence}); DAG policy {data.policy!r}."

    @cached_property
    def bare(self) -> Tree:
        """The tree without its columns (glosses and names weigh ten times the rest), for checkpoints."""
        tree = self.tree
        return Tree(tree.parent, tree.depth, tree.size, tree.digit, tree.labels)

    @property
    def doing(self) -> str:
        """What `train` does, for progress bars: with a source nothing is trained."""
        return "training" if self.source is None else "reading"

    # ---- training, or what was trained before ------------------------------------------------------------------------

    def train(self, key: str, run: Callable[[], VapoResult], model: HiPaN | None = None) -> Trained:
        """The result of a training: run now and kept, or taken from an earlier run without running anything."""
        if key in self.trained:
            return self.trained[key]
        earlier = self.source or (self.out if self.resume else None)
        folder = None if earlier is None else earlier / "checkpoints" / key
        if folder is not None and (self.source is not None or folder.is_dir()):
            found = _read(folder)
        else:
            with measured() as spent:
                result = run()
            found = Trained(result, spent["seconds"], spent["peak_mb"])
            self._keep(key, found, model)
        self.trained[key] = found
        return found

    def hipan(self, key: str, items: np.ndarray | None = None, **options: Any) -> tuple[HiPaN, Trained]:
        """A fitted `HiPaN` on this tree; ``key`` names its checkpoint."""
        model = HiPaN(self.bare, **options)
        found = self.train(key, lambda: _result(model.fit(items)), model if options.get("seed", 0) == 0 else None)
        if model.result_ is None:  # taken from a checkpoint
            model = model.with_result(found.result, items)
        return model, found

    def _keep(self, key: str, found: Trained, model: HiPaN | None) -> None:
        if self.out is None:
            return
        self._write_plan()
        spent = {"cpu_seconds": found.seconds, "peak_mb": found.peak_mb}
        (found.result if model is None else model).save(
            self.out / "checkpoints" / key, provenance={"report": self.name, **spent}
        )

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        own = {"release": self.release, "policy": self.policy, "tree": self.tree.fingerprint}
        return {**super().plan(), **own}

    def _read_plan(self, folder: Path) -> dict[str, Any]:
        plan = super()._read_plan(folder)
        self.release, self.policy = self.release or plan.get("release"), self.policy or plan.get("policy")
        if self.tree.fingerprint != plan.get("tree"):
            raise DataError(
                f"the models of {str(folder)!r} were trained on another tree than {self.describe.split(' (')[0]!r}; "
                "train them again."
            )
        return plan


def load_hierarchy(name: str, release: str | None = None, policy: str | None = None) -> Hierarchy:
    """The data of a target: its release (default: the paper's where it can be had) and DAG policy (default ``first``)."""
    from vpunn import datasets

    rule: dict[str, Any] = {} if policy is None else {"policy": policy}
    if name == "wordnet":
        if release is not None:
            return datasets.load_wordnet(release, **rule)  # type: ignore[arg-type]
        try:
            return datasets.load_wordnet("3.1", **rule)  # what the paper names; it needs npm or the authors' server
        except DataError:
            return datasets.load_wordnet("3.0", **rule)
    if release is not None:
        known = datasets.describe_dataset(name).version
        if release != known:
            raise DataError(f"there is no release {release!r} of {name!r} here; this version knows {known!r}.")
    if name == "go":
        return datasets.load_go("molecular_function", **rule)
    if policy is not None:
        raise DataError("the NCBI taxonomy is a tree already; leave out --policy.")
    return datasets.load_ncbi("Mammalia")


def _result(model: HiPaN) -> VapoResult:
    assert model.result_ is not None
    return model.result_


def _read(folder: Path) -> Trained:
    if not folder.is_dir():
        raise DataError(
            f"there is no checkpoint {folder.name!r} in {str(folder.parent)!r}; run vpunn reproduce without --from."
        )
    stored = Stored.open(folder)
    spent = stored.provenance
    part = stored.part("result") if stored.kind == "HiPaN" else stored
    return Trained(VapoResult.from_stored(part), float(spent.get("cpu_seconds", np.nan)), spent.get("peak_mb"))
