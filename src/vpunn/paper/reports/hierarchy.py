"""``vpunn reproduce wordnet|go|ncbi|TREE``: the paper's tables beside honest counterparts, section by section.

Each section measures one thing on the hierarchy and says in a sentence why it differs from the paper. A tree of one's own gets the
same tables without the paper's numbers, and the paper's figures.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np

from vpunn.codes import PadicCode
from vpunn.codes.isometry import check_losslessness
from vpunn.hipaq import HiPaQ
from vpunn.network import VPuNN
from vpunn.padic import code_prime
from vpunn.paper import printed
from vpunn.paper.algorithms import paper_code, upward_digits
from vpunn.paper.balls import parameter_counts
from vpunn.paper.ceilings import ceilings, leaky_paper_rule, separability
from vpunn.paper.contents import captions
from vpunn.paper.hipan import code_correlation
from vpunn.paper.reports import calibration, geometries, given_digits, hipan_tables, training
from vpunn.paper.reports._run import TITLES, Bench, Section, compare
from vpunn.report import Report
from vpunn.tree import Tree

#: Which release a report is on, and why.
WHICH = {
    "wordnet": "This report uses 3.1 where it can be fetched, because the paper names it, and 3.0 otherwise; "
    "`vpunn reproduce wordnet-3.0` and `--policy` choose.",
    "go": "This report uses the one snapshot there is and is-a links among molecular functions, because the paper's table says "
    "so; the other two namespaces stand here because it also speaks of proteins.",
    "ncbi": "This report uses the one snapshot there is; the taxonomy is a tree, so there is no rule to choose.",
}
POLICIES = ("first", "deepest", "most-specific", "unfold")
NAMED = tuple(TITLES)


def begin(bench: Bench, command: str) -> Report:
    """The report without its sections."""
    report = Report(f"{TITLES.get(bench.name, bench.name)}: the paper's tables, read honestly", command)
    report.text(
        f"{bench.describe} One thread. Accuracies are judged without padding unless said; seeds are 0 to {bench.seeds - 1}."
    )
    return report


def finish(bench: Bench, report: Report) -> None:
    """What the whole of it took."""
    made, said = report.provenance(), printed.RESULTS[bench.kind]
    compare(
        report,
        "Resources of this whole report",
        "of the whole process, with reading the data and all it did before.",
        [
            (
                "peak resident memory",
                printed.MEMORY if bench.kind in NAMED else "",
                f"{made['peak_rss_mb']:,} MB",
                "the paper's 12 MB is the size of 3 M float32 parameters (E-21)",
            ),
            (
                "CPU time",
                " + ".join(filter(None, (said[method]["time"] for method in ("gist", "adam")))),
                f"{made['cpu_seconds']:.0f} s",
                "ours: all sections and seeds of this report; the paper: one GIST and one Adam training",
            ),
        ],
        name="resources",
    )


# ---- the data --------------------------------------------------------------------------------------------------------


def _dataset(bench: Bench, report: Report) -> None:
    tree, said, code = bench.tree, printed.DATASETS[bench.kind], PadicCode(bench.tree)
    counts, own = parameter_counts(tree), bench.kind == "own"
    heads = "the paper's heads, K·p·(p+1)"
    if not own:
        heads += f"; its own K and p give {said['markov_heads']:,} (E-16)"
    levels = "edges; the paper counts edges for one tree and levels for another (E-06)"
    rows = [
        ("leaves", said["leaves"], tree.n_leaves, "" if own else "the paper's count fits no release tested (E-14)"),
        ("depth K", said["K"], tree.max_depth, levels),
        ("largest branching", said["branching"], tree.max_branching, "" if own else _branching_note(said)),
        ("prime p", said["p"], code.p, "smallest prime ≥ branching + 1"),
        ("parameters: n_nodes", said["parameters"], counts["n_nodes"],
         "one coefficient per ball is all that is needed (E-18)"),
        ("parameters: n_markov_heads", said["parameters"], counts["n_markov_heads"], heads),
        ("parameters: n_full_balls", said["parameters"], f"{counts['n_full_balls']:.3g}",
         "(p^K − 1)/(p − 1) + p^K" if own else _formula_note(bench.name, said)),
    ]  # fmt: skip
    compare(
        report,
        f"{captions('T9', 'T19')}: the hierarchy",
        "counted on the whole tree named above; nothing is sampled.",
        rows,
        "T9",
    )


def _releases(bench: Bench, report: Report) -> None:
    """T9 for every release and every rule that makes a tree of a graph: which one the paper's counts belong to."""
    name = bench.name
    rows = bench.fact("releases", lambda: bench.work.get("releases", release_counts)(name))
    said = printed.DATASETS[name]
    row = {"release": "as printed in the paper", "policy": "not said", "leaves": said["leaves"], "nodes": None}
    row |= {"K": said["K"], "branching": said["branching"], "p": said["p"]}
    report.table("T9 by release and DAG policy", [row, *rows], name="T9-releases")
    near = min(rows, key=lambda row: abs(row["leaves"] - said["leaves"]))
    exact = [row for row in rows if row["leaves"] == said["leaves"]]
    report.text(
        f"No release and no rule gives {said['leaves']:,} leaves; the nearest is {near['release']} with {near['policy']!r}: "
        f"{near['leaves']:,} (E-14). {WHICH[name]}"
        if not exact
        else f"{exact[0]['release']} with {exact[0]['policy']!r} has the paper's {said['leaves']:,} leaves. {WHICH[name]}"
    )


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


# ---- the code --------------------------------------------------------------------------------------------------------


def _losslessness(bench: Bench, report: Report) -> None:
    tree, said = bench.tree, printed.RESULTS[bench.kind]
    found, literal = check_losslessness(PadicCode(tree)), paper_code(tree)
    injective = "not injective" if len(literal.colliding) else "injective here only by luck"
    rows = [
        ("isometry defects", "0 violations", f"{found.defects} of {found.pairs:,} pairs",
         "an ultrametric is never violated, by any code (E-66); what can fail is the isometry"),
        ("failed round trips", "", f"{found.round_trip_failures} of {found.nodes:,} nodes", "decode(encode(x)) = x"),
        ("collisions", "", f"{found.collisions}", ""),
        ("Spearman ρ(distance, LCA depth)", _both(said, "rho"), found.spearman,
         "an exact code has ρ = −1; less counts encoding errors (E-65)"),
        ("collisions of the paper's Algorithm 2", "none mentioned",
         f"{len(literal.colliding):,} of {tree.n_leaves:,} leaves",
         f"leaf digit at p⁰ with zero padding is not isometric, and {injective} (E-01, E-02)"),
    ]  # fmt: skip
    compare(
        report,
        f"{captions('T10', 'T11', 'T12')} (ρ): the code itself",
        "round trips and collisions on all nodes, isometry and ρ on a million random node pairs by digit comparison.",
        rows,
        "isometry",
    )


def _both(said: dict[str, dict[str, str]], field: str) -> str:
    return " / ".join(filter(None, (said[method][field] for method in ("gist", "adam"))))


def _algorithms(bench: Bench, report: Report) -> None:
    """Algorithms 1–3 as a unit on this tree: ρ of their code, collisions, and the leaves that come back."""
    tree, said = bench.tree, printed.RESULTS[bench.kind]
    found = algorithm_facts(tree)
    rows = [
        ("ρ(|f(x) − f(y)|_p, LCA depth) of Algorithm 2's code", _both(said, "rho"), f"{found['rho']:+.3f}",
         "the leaf digit stands at p⁰, so siblings are at the largest distance (E-01)"),
        ("the same code with the root digit at p⁰", "", f"{found['rho root first']:+.3f}", "an exact code has −1 (E-65)"),
        ("leaves that share their code with another", "bijection", f"{found['colliding']:,} of {tree.n_leaves:,}",
         "zero padding (E-02)"),
        ("leaves that Algorithm 3 brings back from Algorithm 2's code", "all", f"{100 * found['returned']:.2f} %",
         "those at the full depth; for others it reads padding as first children (E-02)"),
    ]  # fmt: skip
    compare(report, "Algorithms 1–3 as a unit", "all leaves; ρ on 200,000 random pairs.", rows, "algorithms")


def algorithm_facts(tree: Tree, seed: int = 0) -> dict[str, Any]:
    """What encode_path and decode of the paper do to the leaves of a tree, by whole arrays."""
    from vpunn.codes import _kernels

    leaves = tree.leaves
    root_first, leaf_first = PadicCode(tree).digits(leaves), upward_digits(tree, leaves)
    reached, _ = _kernels.descend(*tree.child_index, (leaf_first[:, ::-1] + 1).astype(np.int64))
    return {
        "rho": code_correlation(tree, leaves, leaf_first, seed),
        "rho root first": code_correlation(tree, leaves, np.maximum(root_first - 1, 0), seed),
        "colliding": len(paper_code(tree).colliding),
        "returned": float((reached == leaves).mean()),
    }


def _interpolation(bench: Bench, report: Report) -> None:
    tree = bench.tree
    values = np.random.default_rng(0).integers(-(10**6), 10**6, tree.n_leaves)
    start = time.process_time()
    net = VPuNN(tree, values="integer").interpolate(values)
    wrong = int((net.predict(tree.leaves) != values).sum())
    seconds = time.process_time() - start
    other = VPuNN(tree).interpolate(values.astype(float), gauge="mean")
    error = float(np.abs(other.predict(tree.leaves) - values).max())
    rows = [
        ("wrong leaves, van der Put gauge", "0, with Σ_{j<K} p^j balls", f"{wrong} with {net.n_nonzero:,} coefficients",
         "the paper's balls stop one level above the leaves, however many there are, and its averaged construction fails "
         "(E-30, E-31)"),
        ("largest error, mean gauge, floats", "", error, f"{other.n_nonzero:,} coefficients"),
        ("CPU seconds", printed.RESULTS["wordnet"]["gist"]["time"] + " (WordNet, GIST)", seconds, "fit and check"),
    ]  # fmt: skip
    compare(
        report,
        "Approximation theorem (FHAT): fit any function on the leaves",
        "random integers on all leaves (seed 0), fitted and compared with all of them.",
        rows,
    )


def _ceilings(bench: Bench, report: Report) -> None:
    padded, real = ceilings(bench.tree, padding=True), ceilings(bench.tree)
    said = {"paper": f"{printed.AVERAGE_DIGIT_ACCURACY} %"} if bench.name == "wordnet" else {}
    told = {"nothing": "no input", "parent_digit": "true parent digit", "prefix": "whole true prefix"}
    rows = [
        {
            "what the head is told": text,
            **said,
            "ceiling %, padding counted": 100 * getattr(padded, field),
            "ceiling %, real digits only": 100 * getattr(real, field),
        }
        for field, text in told.items()
    ]
    report.table("E-47: the best average digit accuracy that exists without features", rows)
    report.text("No rule without input or leakage can exceed these shares, however it is trained.")


def _leak(bench: Bench, report: Report) -> None:
    rows = []
    for start, text in (("answer", "v[parent, c] = c, untrained"), ("noise", "the same plus N(0, 1) noise")):
        shown = leaky_paper_rule(bench.tree, start=start)
        for rule, name in (
            ("leaky", "given: shown the true digit (the paper's)"),
            ("honest", "predicted: arg-max over children"),
        ):
            shares = {f"{what} %": 100 * shown[rule][key] for what, key in
                      (("digit", "digit"), ("root", "root"), ("whole path", "path"))}  # fmt: skip
            rows.append({"parameters": text, "rule": name, **shares})
    said = printed.RESULTS[bench.kind]["adam"]["leaf"]
    report.table(
        "Exhibit, not a prediction: how ≈ 100 % appears" + (f" (paper: {said} %)" if said else ""), rows, name="E-43"
    )
    report.text(
        "The paper's deep head reads its parameters at the true digit and answers with it (E-43). Started near the answer it needs "
        "no training; started at zero it is wrong everywhere until training has moved the parameters, and is still told the "
        f"answer. What training adds is in {hipan_tables.TABLE[bench.kind]}."
    )


def _separability(bench: Bench, report: Report) -> None:
    found = separability(bench.tree)
    rows = [
        ("nodes in contexts of equal branching", "holds empirically", f"{100 * found['same_branching']:.1f} %",
         "should be 100 %"),
        ("nodes in contexts of equal child law", "holds empirically", f"{100 * found['same_law']:.1f} %",
         "should be 100 %"),
        ("paths the factorised chain can produce", "", f"{found['chain_paths']:.3g}",
         f"the tree has {found['leaves']:,} leaves"),
        ("parameters ever touched", printed.DATASETS["wordnet"]["parameters"] + " (WordNet)", found["slots"],
         "(depth, parent digit, child digit)"),
    ]  # fmt: skip
    compare(
        report,
        "E-46: is the tree digit-separable, as the paper's factorised heads need?",
        "exact counts over all nodes; a context is a depth and a sibling index.",
        rows,
    )


def _baselines(bench: Bench, report: Report) -> None:
    """T14 on a tree of one's own; on WordNet it is a report of its own."""
    given_digits.section(bench, report, bench.tree, bench.work.get("budget", 20.0))


def _identifiers(bench: Bench, report: Report) -> None:
    """T16 on a tree of one's own: HiPaQ, with canonical codes."""

    def measure() -> dict[str, Any]:
        began = time.process_time()
        one = HiPaQ(bench.bare, canonical=True)
        result = one.check().verdict
        cost = time.process_time() - began
        return {"p, K": f"{one.p}, {one.K}", "numbers": one.n_parameters, "CPU s": round(cost, 3), "key result": result}

    row = {"hierarchy": bench.name, "leaves": bench.tree.n_leaves, **bench.fact("T16", measure)}
    report.table(
        f"{captions('T16')}: canonical codes of the leaves, equal exactly for isomorphic trees", [row], name="T16"
    )


_PARTS: dict[str, list[tuple[tuple[str, ...], Any, tuple[str, ...]]]] = {
    "The data": [(("T9", "T19"), _dataset, ()), (("T9", "releases"), _releases, NAMED)],
    "The paper's model": [
        (("T10",), hipan_tables.domain_table, ("wordnet", "own")),
        (("T11",), hipan_tables.domain_table, ("go",)),
        (("T12",), hipan_tables.domain_table, ("ncbi",)),
        (("T8", "T13"), hipan_tables.optimiser_tables, ()),
        (("T21",), hipan_tables.digit_table, ()),
        (("E-43",), _leak, ()),
    ],
    "The code": [
        (("isometry",), _losslessness, ()),
        (("algorithms",), _algorithms, ()),
        (("FHAT",), _interpolation, ()),
        (("E-47",), _ceilings, ()),
        (("E-46",), _separability, ()),
    ],
    "Claims about training": [
        (("T7",), training.complexity, ()),
        (("leak",), training.leak_claim, ()),
        (("pruning",), training.pruning, ()),
        (("epochs",), training.epochs_and_decay, ()),
    ],
    "Heads without input": [(("heads",), training.optimisers, ()), (("ablations",), training.ablations, ())],
    "Calibration": [
        (("T15", "F10", "F19"), calibration.of_hipan, ()),
        (("T15", "F10", "F19"), calibration.with_features, NAMED),
    ],
    "Other geometries": [(("T2",), geometries.comparison, ("wordnet",))],
    "Baselines and identifiers": [(("T14",), _baselines, ("own",)), (("T16",), _identifiers, ("own",))],
}
SHELF = Bench
#: All sections in the order of the report.
SECTIONS = [Section(ids, run, kinds, part) for part, rows in _PARTS.items() for ids, run, kinds in rows]
