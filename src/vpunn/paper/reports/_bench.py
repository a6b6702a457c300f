"""What a report is made with: data, seeds, wanted tables, where trained models are kept and from where they are taken again.

``reports/<name>/checkpoints/`` holds one folder per training, each opened by `vpunn.load`: seed 0 as a whole `HiPaN` with its
tree, the other seeds and the input-free heads as `VapoResult`. ``plan.json`` beside them says for what data they are.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vpunn._show import plain
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError, VpunnError
from vpunn.io.files import written_beside
from vpunn.io.store import Stored
from vpunn.paper.hipan import HiPaN
from vpunn.tree import Tree
from vpunn.vapo import VapoResult

TITLES = {"wordnet": "WordNet nouns", "go": "Gene Ontology, molecular function", "ncbi": "NCBI taxonomy, Mammalia"}
PLAN, FACTS = "plan.json", "facts.json"


@dataclass(frozen=True)
class Trained:
    """One training: its result, CPU seconds, and how far it raised the resident memory (None where that cannot be measured)."""

    result: VapoResult
    seconds: float
    peak_mb: float | None


@dataclass
class Bench:
    """Everything the sections of a hierarchy report share."""

    name: str
    seeds: int = 10
    release: str | None = None
    policy: str | None = None
    out: Path | None = None
    source: Path | None = None
    trained: dict[str, Trained] = field(default_factory=dict)
    #: Results several sections share, by name.
    memo: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name, _, release = self.name.partition("-")
        self.release = release or self.release
        if self.name not in TITLES:
            raise VpunnError(f"there is no hierarchy {self.name!r} to reproduce; choose one of {', '.join(TITLES)}.")
        if self.source is not None:
            self._read_plan(self.source)

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

    # ---- training, or what was trained before ------------------------------------------------------------------------

    def train(self, key: str, run: Callable[[], VapoResult], model: HiPaN | None = None) -> Trained:
        """The result of a training: run now and kept, or taken from ``source`` without running anything."""
        if key in self.trained:
            return self.trained[key]
        if self.source is not None:
            found = _read(self.source / "checkpoints" / key)
        else:
            with measured() as spent:
                result = run()
            found = Trained(result, spent["seconds"], spent["peak_mb"])
            self._keep(key, found, model)
        self.trained[key] = found
        return found

    def fact(self, key: str, measure: Callable[[], Any]) -> Any:
        """Numbers that only running something can give (times): measured now and kept, or taken from ``source``."""
        if self.source is not None:
            facts = _read_json(self.source / "checkpoints" / FACTS)
            if key not in facts:
                raise DataError(f"{str(self.source)!r} has no {key!r} in {FACTS}; run vpunn reproduce without --from.")
            return facts[key]
        found = measure()
        if self.out is not None:
            self._write_plan()
            path = self.out / "checkpoints" / FACTS
            _write_json(path, {**(_read_json(path) if path.is_file() else {}), key: found})
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

    def _write_plan(self) -> None:
        assert self.out is not None
        folder = self.out / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        plan = {"report": self.name, "release": self.release, "policy": self.policy, "seeds": self.seeds}
        plan["tree"] = self.tree.fingerprint
        _write_json(folder / PLAN, plan)

    def _read_plan(self, source: Path) -> None:
        path = source / "checkpoints" / PLAN
        plan = _read_json(path)
        try:
            report, tree, seeds = plan["report"], plan["tree"], int(plan["seeds"])
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{str(path)!r} cannot be read; run vpunn reproduce {self.name} again.") from None
        if report != self.name:
            raise DataError(f"{str(source)!r} holds the models of {report!r}, not of {self.name!r}.")
        self.release, self.policy, self.seeds = self.release or plan["release"], self.policy or plan["policy"], seeds
        if self.tree.fingerprint != tree:
            raise DataError(
                f"the models of {str(source)!r} were trained on another tree than {self.describe.split(' (')[0]!r}; "
                "train them again."
            )


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


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"cannot read {str(path)!r}: {error.strerror}; run vpunn reproduce without --from first."
        ) from None
    except ValueError:
        raise DataError(f"{str(path)!r} is not valid JSON; run vpunn reproduce again.") from None


def _write_json(path: Path, content: Any) -> None:
    with written_beside(path) as scratch:
        scratch.write_text(json.dumps(content, indent=1, default=plain), encoding="utf-8")


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


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """CPU seconds of a block, and the megabytes by which it raised the peak of resident memory (Linux; else None)."""
    spent: dict[str, Any] = {}
    before = _reset_peak()
    started = time.process_time()
    yield spent
    spent["seconds"] = time.process_time() - started
    after = _resident("VmHWM")
    spent["peak_mb"] = None if before is None or after is None else round((after - before) / 1024, 1)


def _reset_peak() -> int | None:
    """Set the peak to what is resident now, so that the next peak is the next block's; the resident kilobytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None
