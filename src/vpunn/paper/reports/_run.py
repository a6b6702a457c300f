"""What a report is made of, and where its parts are kept: sections in order, facts and trainings that only running can give.

``reports/<name>/checkpoints/facts.json`` holds those facts; ``plan.json`` beside it says for which run they are. A report made
``--from`` such a folder runs nothing; one that goes on with ``--resume`` runs what is missing. Beside them stands one folder per
training, each opened by `vpunn.load`: seed 0 as a whole `HiPaN` with its tree, the others and heads without input as `VapoResult`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vpunn._cost import measured
from vpunn._show import plain
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError, VpunnError
from vpunn.files import make_folder, written_beside
from vpunn.paper.contents import codes_in
from vpunn.paper.hipan import HiPaN
from vpunn.report import Report
from vpunn.store import Stored
from vpunn.tree import Tree
from vpunn.vapo import VapoResult

PLAN, FACTS = "plan.json", "facts.json"


@dataclass
class Shelf:
    """Name, seeds and folders of a report (``out`` is made and tried first); `fact` measures once and keeps."""

    name: str
    seeds: int = 10
    out: Any = None
    source: Any = None
    resume: bool = False
    #: Data and amounts of work that replace a section's own: a task, triples, a budget.
    work: dict[str, Any] = field(default_factory=dict)
    #: Results several sections share, by name.
    memo: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = None if self.source is None else Path(self.source)
        self.out = None if self.out is None else make_folder(self.out, _is_ours)  # before any work is done for it
        if self.source is not None:
            plan = self._read_plan(self.source)
            self.seeds = plan["seeds"]
        elif self.resume and self.out is not None and (self.out / "checkpoints" / PLAN).is_file():
            plan = self._read_plan(self.out)
            if plan["seeds"] != self.seeds:
                raise DataError(
                    f"{str(self.out)!r} was begun with --seeds {plan['seeds']}; go on with that, or leave out --resume."
                )

    # ---- facts -------------------------------------------------------------------------------------------------------

    def fact(self, key: str, measure: Callable[[], Any]) -> Any:
        """Numbers that only running something can give: measured now and kept, or taken from an earlier run.

        They come back as JSON has them (lists for tuples and arrays), so that both ways give the same.
        """
        kept = self._kept_facts
        if key not in kept:
            if self.source is not None:
                raise DataError(f"{str(self.source)!r} has no {key!r} in {FACTS}; run vpunn reproduce without --from.")
            kept[key] = json.loads(json.dumps(measure(), default=plain))
            if self.out is not None:
                self._write_plan()
                _write_json(self.out / "checkpoints" / FACTS, kept)
        return kept[key]

    @cached_property
    def _kept_facts(self) -> dict[str, Any]:
        folder = self.source or (self.out if self.resume else None)
        path = None if folder is None else folder / "checkpoints" / FACTS
        facts = read_json(path) if path is not None and path.is_file() else {}
        if not isinstance(facts, dict):
            raise DataError(f"{str(path)!r} holds no facts; run vpunn reproduce {self.name} again.")
        return facts

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def plan(self) -> dict[str, Any]:
        """What identifies the run whose parts are kept."""
        return {"report": self.name, "seeds": self.seeds}

    def _write_plan(self) -> None:
        assert self.out is not None
        folder = self.out / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / PLAN, self.plan())

    def _read_plan(self, folder: Path) -> dict[str, Any]:
        path = folder / "checkpoints" / PLAN
        plan = read_json(path)
        if not isinstance(plan, dict) or not isinstance(plan.get("seeds"), int) or "report" not in plan:
            raise DataError(f"{str(path)!r} cannot be read; run vpunn reproduce {self.name} again.")
        if plan["report"] != self.name:
            raise DataError(f"{str(folder)!r} holds the models of {plan['report']!r}, not of {self.name!r}.")
        return plan


def _is_ours(folder: Path) -> bool:
    """Whether a report was written, or begun, in a folder."""
    for name, key in (("report.json", "vpunn"), (f"checkpoints/{PLAN}", "report")):
        try:
            found = json.loads((folder / name).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and key in found:
            return True
    return False


# ---- sections --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """What it shows (the paper's tables, figures and claims, by id), and the function that adds it to a report."""

    ids: tuple[str, ...]
    run: Callable[[Any, Report], None]
    #: The reports it stands in, by kind; none named means all.
    only_for: tuple[str, ...] = ()
    #: The heading of the part of the report it stands in; sections that bring their own have none.
    part: str = ""

    def belongs_to(self, kind: str) -> bool:
        """Whether the paper, or we, have it for this report."""
        return not self.only_for or kind in self.only_for


def words(sections: Sequence[Section], kind: str = "") -> list[str]:
    """What ``--only`` may name."""
    return list(dict.fromkeys(id_ for section in sections if section.belongs_to(kind) for id_ in section.ids))


def choose(sections: Sequence[Section], name: str, only: Collection[str] = (), kind: str = "") -> list[Section]:
    """The sections of the wanted tables, or all of this report."""
    here = [section for section in sections if section.belongs_to(kind or name)]
    known = words(sections, kind or name)
    unknown = [table for table in only if table not in known]
    if unknown:
        raise VpunnError(f"the report on {name} has no {unknown[0]!r}; it has {', '.join(known)}.")
    return [section for section in here if not only or set(only) & set(section.ids)]


def assemble(
    shelf: Shelf, report: Report, wanted: Sequence[Section], last: Callable[[Any, Report], None] | None = None
) -> Report:
    """Run sections in order; each is written when it is done. At the end the codes are explained."""
    part = ""
    for section in wanted:
        if section.part and section.part != part:
            report.heading(part := section.part)
        section.run(shelf, report)
        if shelf.out is not None:
            report.write(shelf.out)
    if last is not None:
        report.heading("Resources and codes")
        last(shelf, report)
    text = json.dumps(
        [{k: v for k, v in block.items() if k != "png"} for block in report.blocks], default=str, ensure_ascii=False
    )
    if codes := codes_in(text):
        report.table(
            "What the codes stand for", [{"code": code, "stands for": said} for code, said in codes], name="codes"
        )
    return report


def compare(
    report: Report, title: str, protocol: str, rows: Sequence[tuple[str, Any, Any, str]], name: str | None = None
) -> None:
    """A table of quantity, paper, ours, note, under the protocol of all its rows; without what the paper has not said at all."""
    columns = ("quantity", "paper", "ours", "note")
    silent = all(row[1] in ("", None) for row in rows)
    named = [{c: v for c, v in zip(columns, row, strict=True) if not (silent and c == "paper")} for row in rows]
    report.table(title, named, name=name)
    report.text(f"Protocol: {protocol}")


def spread(values: Any, spec: str = ".2f") -> str:
    """mean ± s.d. over seeds; one seed has no spread."""
    found = np.asarray(values, float)
    if np.isnan(found).all():
        return "undefined"
    mean = float(np.nanmean(found))
    if len(found) < 2:
        return format(mean, spec)
    deviation = float(np.nanstd(found, ddof=1))
    return f"{mean:{spec}} ± {deviation if deviation > 1e-12 * abs(mean) else 0.0:{spec}}"  # rounding of equal values is none


def command_line(name: str, seeds: int, only: Collection[str] = (), policy: str | None = None) -> str:
    """The command that makes a report."""
    options = "".join(f" --only {table}" for table in sorted(only)) + ("" if policy is None else f" --policy {policy}")
    return f"vpunn reproduce {name} --seeds {seeds}{options}"


# ---- files ---------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """What a file of a report says."""
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


# ---- a hierarchy and its trainings -----------------------------------------------------------------------------------

TITLES = {"wordnet": "WordNet nouns", "go": "Gene Ontology, molecular function", "ncbi": "NCBI taxonomy, Mammalia"}


@dataclass(frozen=True)
class Trained:
    """One training: its result, CPU seconds, and how far it raised the resident memory (None where that cannot be measured)."""

    result: VapoResult
    seconds: float
    peak_mb: float | None


@dataclass
class Bench(Shelf):
    """Everything the sections of a hierarchy report share; ``given`` is the hierarchy if it is not to be loaded by name."""

    release: str | None = None
    policy: str | None = None
    given: Hierarchy | None = None
    trained: dict[str, Trained] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.given is None:
            self.name, _, release = self.name.partition("-")
            self.release = release or self.release
            if self.name not in TITLES:
                raise VpunnError(
                    f"there is no hierarchy {self.name!r} to reproduce; choose one of {', '.join(TITLES)}."
                )
        elif self.given.tree.n_nodes < 2:
            raise VpunnError(
                f"{self.name!r} is a tree of one node, which has no digits; give one with at least one edge."
            )
        super().__post_init__()

    # ---- data --------------------------------------------------------------------------------------------------------

    @cached_property
    def data(self) -> Hierarchy:
        """The hierarchy with its pedigree."""
        return self.given or load_hierarchy(self.name, self.release, self.policy)

    @property
    def kind(self) -> str:
        """Which of the paper's three hierarchies this is, or "own"."""
        return self.name if self.name in TITLES else "own"

    @property
    def tree(self) -> Tree:
        """The tree everything is measured on."""
        return self.data.tree

    @property
    def describe(self) -> str:
        """One line about the source."""
        data = self.data
        pedigree = " ".join(filter(None, (data.title, data.version))) + (f" ({data.licence})" if data.licence else "")
        return f"{pedigree}; DAG policy {data.policy!r}."

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
            found = Trained(result, spent.seconds, spent.peak_mb)
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
