"""``vpunn reproduce wordnet|go|ncbi``: the paper's tables beside honest counterparts, section by section.

Each section measures one thing on the real hierarchy and says in a sentence why it differs from the paper. ``--only T10`` runs
the sections that make that table; ``--from`` takes trained models from an earlier run.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vpunn.codes import PadicCode
from vpunn.codes.isometry import check_losslessness
from vpunn.network import VPuNN, parameter_counts
from vpunn.padic import code_prime
from vpunn.paper.captions import captions
from vpunn.paper.controls import paper_code
from vpunn.paper.exhibits import ceilings, leaky_paper_rule, separability
from vpunn.paper.reports import _numbers as paper
from vpunn.paper.reports import claims, composed, geometries, input_free, labels
from vpunn.paper.reports._bench import TITLES, Bench
from vpunn.paper.reports._holdout import held_out_calibration
from vpunn.paper.reports._shelf import Section, assemble, choose, command_line
from vpunn.paper.reports.input_free import spread_of
from vpunn.report import Report
from vpunn.tree import Tree


def reproduce(
    name: str,
    seeds: int = 10,
    *,
    out: str | Path | None = None,
    source: str | Path | None = None,
    only: Collection[str] = (),
    policy: str | None = None,
    resume: bool = False,
) -> Report:
    """Measure one hierarchy (``wordnet``, ``wordnet-3.0``, ``go``, ``ncbi``).

    ``out`` is the report's folder: it is checked first, each section is written when it is done, trained models are kept in
    ``checkpoints``. ``source`` is such a folder: its models are used and nothing is trained; with ``resume`` those of ``out``
    are used and only missing ones trained. ``only`` names tables.
    """
    wanted = choose(sections(), name.partition("-")[0], only)
    bench = Bench(name, seeds, out, source, resume, policy=policy)
    report = Report(
        f"{TITLES[bench.name]}: the paper's tables, read honestly", command_line(name, bench.seeds, only, policy)
    )
    report.text(
        f"{bench.describe} One thread. Accuracies are judged without padding unless said; seeds are 0 to {bench.seeds - 1}."
    )
    return assemble(bench, report, wanted, None if only else _resources)


def sections() -> list[Section]:
    """All sections in the order of the report, by part."""
    parts: dict[str, list[tuple[tuple[str, ...], Any, str]]] = {
        "The data": [(("T9", "T19"), _dataset, ""), (("T9", "releases"), _releases, "")],
        "The paper's model": [
            (("T10",), composed.domain_table, "wordnet"),
            (("T11",), composed.domain_table, "go"),
            (("T12",), composed.domain_table, "ncbi"),
            (("T8", "T13"), composed.optimiser_tables, ""),
            (("T21",), composed.digit_table, ""),
            (("E-43",), _leak, ""),
        ],
        "The code": [
            (("isometry",), _losslessness, ""),
            (("algorithms",), claims.algorithms, ""),
            (("FHAT",), _interpolation, ""),
            (("E-47",), _ceilings, ""),
            (("E-46",), _separability, ""),
        ],
        "Claims about training": [
            (("T7",), claims.complexity, ""),
            (("leak",), claims.leak_claim, ""),
            (("pruning",), claims.pruning, ""),
            (("epochs",), claims.epochs_and_decay, ""),
        ],
        "Heads without input": [(("heads",), input_free.optimisers, ""), (("ablations",), input_free.ablations, "")],
        "Calibration": [(("T15", "F10", "F19"), labels.calibration, ""), (("T15",), _calibration, "")],
        "Other geometries": [(("T2",), geometries.comparison, "wordnet")],
    }
    return [Section(ids, run, only, part) for part, rows in parts.items() for ids, run, only in rows]


def _resources(bench: Bench, report: Report) -> None:
    made = report.provenance()
    report.table(
        "Resources of this whole report",
        [
            {
                "quantity": "peak resident memory",
                "paper": paper.MEMORY,
                "ours": f"{made['peak_rss_mb']:,} MB",
                "note": "of the whole process, with reading the data and all it did before; the paper's figure is the size of "
                "3 M float32 parameters (E-21)",
            },
            {
                "quantity": "CPU time",
                "paper": " + ".join(paper.RESULTS[bench.name][method]["time"] for method in ("gist", "adam")),
                "ours": f"{made['cpu_seconds']:.0f} s",
                "note": "ours: all sections and seeds of this report; the paper: one GIST and one Adam training",
            },
        ],
        name="resources",
    )


# ---- sections --------------------------------------------------------------------------------------------------------


def _compare(
    report: Report, title: str, protocol: str, rows: list[tuple[str, Any, Any, str]], name: str | None = None
) -> None:
    """A table of quantity, paper, ours, note, under the protocol that all its rows share."""
    named = [dict(zip(("quantity", "paper", "ours", "note"), row, strict=True)) for row in rows]
    report.table(title, named, name=name)
    report.text(f"Protocol: {protocol}")


def _dataset(bench: Bench, report: Report) -> None:
    name, tree = bench.name, bench.tree
    said, code = paper.DATASETS[name], PadicCode(tree)
    counts = parameter_counts(tree)
    _compare(
        report,
        f"{captions('T9', 'T19')}: the hierarchy",
        "counted on the whole tree named above; nothing is sampled.",
        [
            ("leaves", said["leaves"], tree.n_leaves, "the paper's count fits no release tested (E-14)"),
            (
                "depth K in edges",
                said["K"],
                tree.max_depth,
                "the paper counts edges for one tree and levels for another (E-06)",
            ),
            ("largest branching", said["branching"], tree.max_branching, _branching_note(said)),
            ("prime p", said["p"], code.p, "smallest prime ≥ branching + 1"),
            (
                "parameters: n_nodes",
                said["parameters"],
                counts["n_nodes"],
                "one coefficient per ball is all that is needed (E-18)",
            ),
            (
                "parameters: n_markov_heads",
                said["parameters"],
                counts["n_markov_heads"],
                f"the paper's heads, K·p·(p+1); its own K and p give {said['markov_heads']:,} (E-16)",
            ),
            (
                "parameters: n_full_balls",
                said["parameters"],
                f"{counts['n_full_balls']:.3g}",
                _formula_note(name, said),
            ),
        ],
        "T9",
    )


def _releases(bench: Bench, report: Report) -> None:
    """T9 for every release and every rule that makes a tree of a graph: which one the paper's counts belong to."""
    name = bench.name
    rows = bench.fact("releases", lambda: release_counts(name))
    said = paper.DATASETS[name]
    printed = {"release": "as printed in the paper", "policy": "not said", "leaves": said["leaves"], "nodes": None}
    printed |= {"K": said["K"], "branching": said["branching"], "p": said["p"]}
    report.table("T9 by release and DAG policy", [printed, *rows], name="T9-releases")
    near = min(rows, key=lambda row: abs(row["leaves"] - said["leaves"]))
    exact = [row for row in rows if row["leaves"] == said["leaves"]]
    report.text(
        f"No release and no rule gives {said['leaves']:,} leaves; the nearest is {near['release']} with {near['policy']!r}: "
        f"{near['leaves']:,} (E-14). {WHICH[name]}"
        if not exact
        else f"{exact[0]['release']} with {exact[0]['policy']!r} has the paper's {said['leaves']:,} leaves. {WHICH[name]}"
    )


#: Which release the report is on, and why.
WHICH = {
    "wordnet": "This report uses 3.1 where it can be fetched, because the paper names it, and 3.0 otherwise; "
    "`vpunn reproduce wordnet-3.0` and `--policy` choose.",
    "go": "This report uses the one snapshot there is and is-a links among molecular functions, because the paper's table says "
    "so; the other two namespaces stand here because it also speaks of proteins.",
    "ncbi": "This report uses the one snapshot there is; the taxonomy is a tree, so there is no rule to choose.",
}
POLICIES = ("first", "deepest", "most-specific", "unfold")


def release_counts(name: str) -> list[dict[str, Any]]:
    """Leaves, depth, branching and prime of every release and policy at hand."""
    from vpunn import datasets
    from vpunn.errors import DataError

    rows: list[dict[str, Any]] = []

    def add(release: str, policy: str, tree: Tree) -> None:
        facts = {"leaves": tree.n_leaves, "nodes": tree.n_nodes, "K": tree.max_depth, "branching": tree.max_branching}
        rows.append({"release": release, "policy": policy, **facts, "p": code_prime(tree.max_branching)})

    if name == "ncbi":
        version = datasets.describe_dataset("ncbi").version
        for clade, root in (("Mammalia", "Mammalia"), ("Theria", 32525), ("Eutheria", "Eutheria")):
            add(f"{clade}, snapshot {version}", "a tree", datasets.load_ncbi(root).tree)
        return rows
    for policy in POLICIES:
        if name == "go":
            for namespace in ("molecular_function", "biological_process", "cellular_component"):
                if policy == "unfold" and namespace == "biological_process":
                    continue  # millions of copies
                ontology = datasets.load_go(namespace, policy=policy)
                add(f"{ontology.version}, {namespace.replace('_', ' ')}", policy, ontology.tree)
            continue
        versions: tuple[Literal["3.0", "3.1"], ...] = ("3.0", "3.1")
        for version in versions:
            for instances in (False, True) if policy == "first" else (False,):
                named = ", with named individuals" if instances else ""
                try:
                    found = datasets.load_wordnet(version, policy=policy, instances=instances)
                except DataError:
                    continue  # this release cannot be fetched here
                add(f"WordNet {version}{named}", policy, found.tree)
    return rows


def _formula_note(name: str, said: dict[str, Any]) -> str:
    """What the printed number of parameters is, if not the formula beside it."""
    heads = f"K·p·(p+1) = {said['markov_heads']:,}"
    if name == "wordnet":
        return f"the formula the paper names; its {said['parameters']} is {heads}, the numbers of its heads (E-15)"
    return (
        f"the formula the paper names; its {said['parameters']} is neither this nor {heads} of its heads (E-15, E-16)"
    )


def _branching_note(said: dict[str, Any]) -> str:
    if said["p"] <= said["branching"]:
        return f"the paper's {said['branching']} children need a prime above its p = {said['p']}"
    return "another release or another rule from DAG to tree (E-14)"


def _losslessness(bench: Bench, report: Report) -> None:
    name, tree = bench.name, bench.tree
    code = PadicCode(tree)
    found = check_losslessness(code)
    literal = paper_code(tree)
    rho = " / ".join(paper.RESULTS[name][method]["rho"] for method in ("gist", "adam"))
    _compare(
        report,
        f"{captions('T10', 'T11', 'T12')} (ρ): the code itself",
        "round trips and collisions on all nodes, isometry and ρ on a million random node pairs by digit comparison.",
        [
            (
                "isometry defects",
                "0 violations",
                f"{found.defects} of {found.pairs:,} pairs",
                "an ultrametric is never violated, by any code (E-66); what can fail is the isometry",
            ),
            (
                "failed round trips",
                "",
                f"{found.round_trip_failures} of {found.nodes:,} nodes",
                "decode(encode(x)) = x",
            ),
            ("collisions", "", f"{found.collisions}", ""),
            (
                "Spearman ρ(distance, LCA depth)",
                rho,
                found.spearman,
                "an exact code has ρ = −1; less counts encoding errors (E-65)",
            ),
            (
                "collisions of the paper's Algorithm 2",
                "none mentioned",
                f"{len(literal.colliding):,} of {tree.n_leaves:,} leaves",
                "leaf digit at p⁰ with zero padding is not isometric, and "
                + ("not injective" if len(literal.colliding) else "injective here only by luck")
                + " (E-01, E-02)",
            ),
        ],
        "isometry",
    )


def _interpolation(bench: Bench, report: Report) -> None:
    tree = bench.tree
    values = np.random.default_rng(0).integers(-(10**6), 10**6, tree.n_leaves)
    start = time.perf_counter()
    net = VPuNN(tree, values="integer").interpolate(values)
    wrong = int((net.predict(tree.leaves) != values).sum())
    seconds = time.perf_counter() - start
    other = VPuNN(tree).interpolate(values.astype(float), gauge="mean")
    _compare(
        report,
        "Approximation theorem (FHAT): fit any function on the leaves",
        "random integers on all leaves (seed 0), fitted and compared with all of them.",
        [
            (
                "wrong leaves, van der Put gauge",
                "0, with Σ_{j<K} p^j balls",
                f"{wrong} with {net.n_nonzero:,} coefficients",
                "the paper's balls stop one level above the leaves, however many there are, and its averaged construction fails "
                "(E-30, E-31)",
            ),
            (
                "largest error, mean gauge, floats",
                "",
                float(np.abs(other.predict(tree.leaves) - values).max()),
                f"{other.n_nonzero:,} coefficients",
            ),
            ("seconds", paper.RESULTS["wordnet"]["gist"]["time"] + " (WordNet, GIST)", seconds, "fit and check"),
        ],
    )


def _ceilings(bench: Bench, report: Report) -> None:
    name, tree = bench.name, bench.tree
    padded, real = ceilings(tree, padding=True), ceilings(tree)
    said = f"{paper.AVERAGE_DIGIT_ACCURACY} %" if name == "wordnet" else ""
    rows = []
    for field, text in (
        ("nothing", "no input"),
        ("parent_digit", "true parent digit"),
        ("prefix", "whole true prefix"),
    ):
        rows.append(
            {
                "what the head is told": text,
                "paper": said,
                "ceiling %, padding counted": 100 * getattr(padded, field),
                "ceiling %, real digits only": 100 * getattr(real, field),
            }
        )
    report.table("E-47: the best average digit accuracy that exists without features", rows)
    report.text("No rule without input or leakage can exceed these shares, however it is trained.")


def _leak(bench: Bench, report: Report) -> None:
    name, tree = bench.name, bench.tree
    rows = []
    for start, text in (("answer", "v[parent, c] = c, untrained"), ("noise", "the same plus N(0, 1) noise")):
        shown = leaky_paper_rule(tree, start=start)
        for rule in ("leaky", "honest"):
            rows.append(
                {
                    "parameters": text,
                    "rule": "paper: shown the true digit" if rule == "leaky" else "honest: arg-max over children",
                    "digit %": 100 * shown[rule]["digit"],
                    "root %": 100 * shown[rule]["root"],
                    "whole path %": 100 * shown[rule]["path"],
                }
            )
    report.table(
        f"Exhibit, not a prediction: how ≈ 100 % appears (paper: {paper.RESULTS[name]['adam']['leaf']} %)", rows
    )
    report.text(
        "The paper's deep head reads its parameters at the true digit and answers with it. Started near the answer it needs no "
        "training; started at zero it is wrong everywhere until training has moved the parameters, and is still told the answer. "
        f"What training adds is in {composed.TABLE[name]}."
    )


def _separability(bench: Bench, report: Report) -> None:
    found = separability(bench.tree)
    _compare(
        report,
        "E-46: is the tree digit-separable, as the paper's factorised heads need?",
        "exact counts over all nodes; a context is a depth and a sibling index.",
        [
            (
                "nodes in contexts of equal branching",
                "holds empirically",
                f"{100 * found['same_branching']:.1f} %",
                "should be 100 %",
            ),
            (
                "nodes in contexts of equal child law",
                "holds empirically",
                f"{100 * found['same_law']:.1f} %",
                "should be 100 %",
            ),
            (
                "paths the factorised chain can produce",
                "",
                f"{found['chain_paths']:.3g}",
                f"the tree has {found['leaves']:,} leaves",
            ),
            (
                "parameters ever touched",
                paper.DATASETS["wordnet"]["parameters"] + " (WordNet)",
                found["slots"],
                "(depth, parent digit, child digit)",
            ),
        ],
    )


def _calibration(bench: Bench, report: Report) -> None:
    from matplotlib.figure import Figure

    from vpunn import plot

    name = bench.name
    found = held_out_calibration(bench.tree, bench.seeds)
    ece, brier = paper.CALIBRATION[name]
    wrong = paper.least_error(name)
    _compare(
        report,
        f"{captions('T15')}: heads without input, on held-out leaves (20 % hidden, 15 bins)",
        "laws fitted on 80 % of the leaves, every digit of the others predicted from its true prefix; mean ± s.d. over seeds.",
        [
            (
                "whole label: ECE",
                ece,
                f"{spread_of(100 * found.label_ece)} %",
                "without input one leaf is named for all, with a confidence that is as small as its chance: calibrated, useless",
            ),
            (
                "whole label: Brier score, multi-class",
                brier,
                spread_of(found.label_brier),
                f"at least {wrong / 200:.4f} with the paper's own errors ({wrong:.2f} %, E-68)",
            ),
            ("whole label: accuracy", "", f"{spread_of(100 * found.label_accuracy)} %", "nothing given"),
            (
                "digit: ECE, equal-width bins",
                "",
                f"{spread_of(100 * found.ece)} %",
                "frequencies shrunk towards uniform, strength chosen on training leaves",
            ),
            ("digit: ECE, equal-mass bins", "", f"{spread_of(100 * found.ece_mass)} %", ""),
            (
                "digit: ECE without shrinkage",
                "",
                f"{spread_of(100 * found.ece_raw)} %",
                "raw frequencies are over-confident in small balls",
            ),
            ("digit: Brier score (top digit)", "", spread_of(found.brier), "binary form"),
            ("digit: accuracy", "", f"{spread_of(100 * found.accuracy)} %", "held-out leaves, true prefix given"),
        ],
        "T15",
    )
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    plot.reliability(found.curve, figure.subplots())
    report.figure(
        "Reliability of digits on held-out leaves, seed 0 (grey: where exact probabilities would stay).", figure
    )
