"""Section 8.1 of the paper (its table of HiPaQ results, T16 in the audit) beside what can honestly be computed."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np

from vpunn._cost import measured
from vpunn._progress import progress_bar
from vpunn.codes import PadicCode
from vpunn.hipaq import (
    Catalogue,
    GroupProfile,
    group_catalogue,
    group_name,
    hydrogen_tree,
    read_decays,
    rooted_trees,
    small_group,
    tree_catalogue,
)
from vpunn.hipaq.group_invariants import MEANING
from vpunn.hipaq.hydrogen import purity_against_noise
from vpunn.padic import code_prime
from vpunn.paper.contents import captions
from vpunn.paper.reports._run import Section, Shelf
from vpunn.plot.hipaq import plot_groups, plot_purity
from vpunn.report import Report
from vpunn.tree import Tree

NOISES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

#: Groups of the orders that the count up to 360 leaves out: GAP's NumberSmallGroups (Besche, Eick and O'Brien 2002).
SKIPPED = {256: 56_092}


def begin(shelf: Shelf, command: str) -> Report:
    """The report's opening; all of it takes about a minute, most of it to recompute all 1,251 groups from relabelled tables."""
    report = Report("HiPaQ: identifiers from invariants", command)
    report.text(
        "The paper's HiPaQ code gives 125 “groups of order ≤ 125” three base-5 digits. There are 1,251 such groups; 125 is "
        "the number of orders, and any index below 5³ has an injective three-digit code. Here a code is a path of "
        "isomorphism invariants: two objects share k digits exactly if they agree on the first k invariants, renaming the "
        "elements never changes a digit, and a digit that is only a catalogue position is called a look-up."
    )
    return report


# ---- what is measured once and kept ------------------------------------------------------------------------------------


def _check(shelf: Shelf) -> dict[str, Any]:
    """All groups recomputed from renamed elements (see `check_groups`)."""
    many = max(200, 20 * shelf.seeds)
    found: dict[str, Any] = shelf.fact("groups", lambda: check_groups(group_catalogue(125), relabellings=many))
    return found


def _recovery(shelf: Shelf) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shelf.fact("hydrogen", lambda: purity_against_noise(NOISES, seeds=shelf.seeds))
    return found


def _costs(shelf: Shelf) -> dict[str, dict[str, Any]]:
    """CPU seconds and memory of making each tree with its codes, from what is stored or computed."""

    def measure() -> dict[str, dict[str, Any]]:
        found = {}
        for name, make in (
            ("groups", lambda: group_catalogue.__wrapped__(125)),
            ("decays", read_decays),
            ("hydrogen", lambda: hydrogen_tree(8)),
        ):
            with measured() as cost:
                made = make()
                PadicCode(made.tree).encode()
            found[name] = asdict(cost)
        return found

    costs: dict[str, dict[str, Any]] = shelf.fact("costs", measure)
    return costs


def check_groups(groups: Catalogue, relabellings: int = 200, seed: int = 0) -> dict[str, Any]:
    """Recompute every invariant from a randomly relabelled table without GAP; then identify random relabellings.

    Returns how many of the groups disagree with GAP's values, how many identifications fail, and the CPU seconds of the first part.
    """
    rng = np.random.default_rng(seed)
    known = dict(zip(groups.names, groups.rows, strict=True))
    different = []
    with measured() as cost, progress_bar("invariants of all groups", len(groups.names)) as advance:
        for name in groups.names:
            table = small_group(*name)
            profile = GroupProfile(table.relabelled(rng.permutation(table.order)))
            if tuple(getattr(profile, digit) for digit in MEANING) != known[name]:
                different.append(name)
            advance()
    failed = []
    for at in rng.choice(len(groups.names), relabellings, replace=relabellings > len(groups.names)):
        name = groups.names[at]
        table = small_group(*name)
        found = groups.identify(table.relabelled(rng.permutation(table.order)))
        if found.candidates != (name,) or found.code != groups.code_of(name):
            failed.append(name)
    return {"different": different, "seconds": cost.seconds, "relabellings": relabellings, "failed": failed}


def _comparison(shelf: Shelf, report: Report) -> None:
    """T16, row by row, and what was wrong with it."""
    groups, decays, states = group_catalogue(125), read_decays(), hydrogen_tree(8)
    check, recovery, cost = _check(shelf), _recovery(shelf), _costs(shelf)
    wide = _wide_counts()
    staged = {row["digit"]: row for row in recovery if row["method"] == "staged" and row["noise"] == 0.05}
    some = f"{check['relabellings']} random relabellings"
    left_out = f"orders 1–{wide['orders'][1]}, left out: {', '.join(map(str, wide['skipped'])) or 'none'}"
    ties = f"{wide['tie_classes']} tie classes remain, the largest of {wide['largest_tie_class']} groups"
    prime = "smallest prime above the branching"

    def spent(name: str) -> list[tuple[str, Any, Any, str, str]]:
        said = {"groups": "< 1", "decays": "< 1", "hydrogen": "41"}[name]
        memory = "not measured" if cost[name]["peak_mb"] is None else f"+{cost[name]['peak_mb']:,.1f}"
        return [
            ("  CPU seconds", said, round(cost[name]["seconds"], 3), "tree and all codes, from stored values", ""),
            (
                "  MB",
                "≤ 60",
                memory,
                "rise of the resident peak",
                "29.6 M float64 would be 237 MB (E-21)" if name == "hydrogen" else "",
            ),
        ]

    rows: list[tuple[str, Any, Any, str, str]] = [
        ("groups of order ≤ 125", 125, len(groups.names), "all of GAP's SmallGroups", "the paper counted orders (E-72)"),
        ("  (p, K)", "(5, 3)", f"({groups.code.p}, {groups.code.K})", prime, ""),
        ("  coefficients", 155, groups.tree.n_nodes, "one per node", "(5³ − 1)/4 would be 31 (E-17)"),
        *spent("groups"),
        ("  CPU seconds, invariants", None, round(check["seconds"], 1), "all, from renamed tables", "the paper's code is an index"),
        ("  separated by invariants alone", None, groups.n_separated(), "alone after the last invariant", ""),
        ("  own code for every group", "yes", "yes" if _injective(groups) else "no", "all compared", "as by any numbering (E-73)"),
        ("  groups that change when renamed", None, len(check["different"]), "each once, against GAP", "computed without GAP"),
        ("  wrong identifications", None, len(check["failed"]), some, ""),
        ("groups of order ≤ 360", 360, wide["groups"] + SKIPPED[256], "GAP's SmallGroups", f"{SKIPPED[256]:,} of order 256"),
        ("  (p, K)", "(5, 4)", None, "", "5⁴ = 625 indices; the paper's own rule gives 4⁴ = 256 leaves (E-72)"),
        ("  of these computed", None, wide["groups"], left_out, "tools/make_group_table.py count, needs GAP"),
        ("  separated by invariants alone", None, wide["digits"][-1]["alone"], "same cascade", ties),
        ("  seconds", "2", wide["seconds"], "wall, with GAP", "when the counts were made"),
        ("τ⁻ channels", 7, decays.tree.n_leaves, "PDG branching fractions", "the paper does not list its seven (E-75)"),
        ("  (p, K)", "(5, 3)", f"({code_prime(decays.tree.max_branching)}, {decays.tree.max_depth})", prime, ""),
        ("  coefficients", 155, decays.tree.n_nodes, "one per node", ""),
        *spent("decays"),
        ("hydrogen states, n ≤ 8", 12000, len(states.names), "n, ℓ, m", "Σn² = 204, 408 with spin (E-74)"),
        ("  (p, K)", "(31, 6)", f"({states.code.p}, {states.code.K})", prime, ""),
        ("  coefficients", 7600000, states.tree.n_nodes, "one per node", "(31⁶ − 1)/30 would be 29.6 M (E-17)"),
        *spent("hydrogen"),
        ("  purity of the (n, ℓ, m) digits", "99.4 %", "100 %", "the labels are the tree", "by construction, nothing learned"),
        ("  purity without labels, 5 % error", None, f"{staged[3]['purity']:.1%}", "clusters of noisy observables",
         f"chance {staged[3]['chance']:.1%}, ARI {staged[3]['ARI']:.3f}"),
    ]  # fmt: skip
    named = [dict(zip(("quantity", "paper", "ours", "protocol", "note"), row, strict=True)) for row in rows]
    report.table(f"{captions('T16')} beside ours", named, name="T16")
    report.text(
        f"Order 256 was not computed: its {SKIPPED[256]:,} groups are five times all the others together, which took "
        f"{wide['seconds']} s with GAP, and each has a table of 65,536 products; it needs GAP and hours, not minutes."
    )


def _injective(catalogue: Catalogue) -> bool:
    codes = catalogue.code.encode(catalogue.tree.leaves)
    return len(set(codes.tolist())) == len(catalogue.names)


def _wide_counts() -> dict[str, Any]:
    """What tools/make_group_table.py counted for the larger orders, where GAP is needed."""
    counts: dict[str, Any] = json.loads(files("vpunn.hipaq").joinpath("data/groups360_counts.json").read_text())
    return counts


def _report_groups(shelf: Shelf, report: Report) -> None:
    groups, check = group_catalogue(125), _check(shelf)
    report.heading("Finite groups of order ≤ 125")
    report.table("What the digits mean", [{"invariant": name, "meaning": meaning} for name, meaning in MEANING.items()])
    report.table("What each digit separates", groups.digits())
    ties = groups.tie_classes()
    if ties:
        report.table(
            "Tie classes: equal on all invariants, settled by an isomorphism test",
            [{"groups": ", ".join(f"{name} {group_name(*name)}" for name in same)} for same in ties],
        )
    else:
        report.text(f"No tie class is left: the invariants alone tell all {len(groups.names):,} groups apart.")
    report.text(
        f"All {len(groups.names):,} groups were rebuilt from generators, their elements renamed at random, and every invariant "
        f"recomputed without GAP in {check['seconds']:.1f} CPU s: {len(check['different'])} differ from the values that GAP's own "
        f"algorithms give. {len(check['failed'])} of {check['relabellings']} further random relabellings were misidentified."
    )
    wide = _wide_counts()
    without = f" without {', '.join(map(str, wide['skipped']))}" if wide["skipped"] else ""
    report.table(f"{wide['groups']:,} groups of order ≤ {wide['orders'][1]}{without}", wide["digits"])
    listed = "; ".join(" and ".join(f"({order}, {number})" for order, number in same) for same in wide["ties"])
    report.text(f"SmallGroups that agree on all of these digits: {listed}.")
    report.figure(
        "The groups of order ≤ 125 as a tree. A column is a group; it turns from grey to colour at the digit that singles it out.",
        plot_groups(groups),
    )


def _report_hydrogen(shelf: Shelf, report: Report) -> None:
    recovery, seeds = _recovery(shelf), shelf.seeds
    report.heading("Hydrogen without labels")
    report.text(
        """Every state with n ≤ 8 is measured five times: energy, ⟨r⟩, ⟨r²⟩ and the fine structure with the given relative
        error, ⟨L²⟩, ⟨L_z⟩ and the Zeeman shift with the same error in units of ħ², ħ and μ_B·B. “staged” splits clusters digit
        by digit wherever readings differ by more than error explains, and finds the number of clusters itself; which
        observables each stage looks at (energy; ⟨r⟩, ⟨r²⟩, ⟨L²⟩; ⟨L_z⟩) is the experimenter's knowledge. “Ward” clusters all
        standardised observables at once and is told the true numbers of classes. Purity rises with the number of clusters, so
        chance (same clusters, shuffled readings) and the adjusted Rand index (ARI) stand beside it. Two digits can be purer
        than one: ⟨r⟩ and ⟨r²⟩ tell apart shells that the energy alone had merged."""
    )
    report.table(f"Purity by noise, mean of {seeds} seeds", recovery)
    report.figure("Purity of each digit against measurement error; dotted: chance.", plot_purity(recovery))
    report.text(
        """The staged method has one number to choose, how many times the distance due to error alone two clusters must be
        apart. 2.5 was chosen after 1.5 was seen to split off the tails of the error, so it has profited from a look at the truth;
        this is what other choices give."""
    )
    chosen = shelf.fact("hydrogen-cuts", lambda: _cuts(seeds))
    report.table("Staged method: choice of the cut", chosen)


def _cuts(seeds: int) -> list[dict[str, Any]]:
    return [
        {"cut": cut, **{key: row[key] for key in ("noise", "digit", "purity", "chance", "ARI", "clusters", "true")}}
        for cut in (1.5, 2.0, 2.5, 3.0, 4.0)
        for row in purity_against_noise((0.05, 0.1), seeds=max(1, seeds // 3), cut=cut)
        if row["method"] == "staged" and row["digit"] != 2
    ]


def _report_decays(shelf: Shelf, report: Report) -> None:
    decays = read_decays()
    report.heading("Decays of the τ⁻")
    report.text(f"Source: {decays.source}.")
    report.table("Channels", decays.channels())
    report.table("Digits", decays.digits())
    report.table(
        "Bits per decay",
        [
            {
                "code": "entropy of the channel (no code is shorter)",
                "bits": decays.entropy(),
                "±": decays.entropy_error(),
            },
            {"code": "Huffman code over all channels", "bits": decays.huffman_length(), "±": None},
            {
                "code": "one Huffman code per digit",
                "bits": sum(row["huffman bits"] for row in decays.digits()),
                "±": None,
            },
            {"code": "three digits to base 5, as in the paper", "bits": 3 * float(np.log2(5)), "±": None},
        ],
    )


def _report_trees(shelf: Shelf, report: Report) -> None:
    report.heading("Rooted trees")
    report.table(
        "Trees by number of nodes (A000081), one canonical code each",
        [{"nodes": n, "rooted trees": sum(1 for _ in rooted_trees(n))} for n in range(1, 11)],
    )
    report.table("What simple invariants separate before the complete one", tree_catalogue(10).digits())


# ---- T20: the paper's model on these trees -------------------------------------------------------------------------------


def paper_trees() -> dict[str, tuple[Tree, int, int, str]]:
    """Tree, prime, sweeps and the paper's row for every line of T20, and the real trees beside its own.

    The paper's 125 "groups" are the base-5 numbers 000 … 444, the only tree with 125 leaves that (5, 3) allows.
    """
    from vpunn.datasets import load_wine_quality
    from vpunn.tabular import LatentTreeEncoder

    index = Tree.from_paths([f"{a}/{a}{b}/{a}{b}{c}" for a, b, c in product(range(5), repeat=3)], sep="/", root="index")
    wine = LatentTreeEncoder(p=3, K=6, verbose=False).fit(load_wine_quality().drop(columns="quality"))
    groups, decays = group_catalogue(125).tree, read_decays().tree
    return {
        "125 indices, as the paper": (index, 5, 5, "p = 5, K = 3, GIST 5 epochs, < 1 s"),
        "1,251 groups": (groups, code_prime(groups.max_branching), 5, ""),
        "τ⁻ channels": (decays, 5, 5, "p = 5, K = 3, GIST 5 epochs, < 1 s"),
        "wine, latent tree": (wine.tree_, 3, 3, "p = 3, K = 6, GIST 3 epochs, 1.5 s"),
    }


def _hyper_parameters(shelf: Shelf, report: Report) -> None:
    """T20: HiPaN-DS on those trees, and what it adds to the exact code."""
    rows = shelf.fact("T20", _train_small)
    report.heading("The paper's model on these trees")
    report.table(f"{captions('T20')}: HiPaN-DS beside the exact code", rows, name="T20")
    report.text(
        "A code is read off the tree: every leaf has its own, and decode(encode(x)) = x without training, in microseconds. "
        "HiPaN is trained on those codes. Shown the true digit it gives back some of them; nothing shown, it names one path "
        "for every object. It adds nothing to the exact code: no digit comes from it, and none of its answers is better than "
        "reading the tree (E-43, E-61)."
    )


def _train_small() -> list[dict[str, Any]]:
    from vpunn.paper.hipan import HiPaN

    HiPaN.DS(Tree.from_parents([-1, 0, 0, 1, 1, 3, 3]), sweeps=1).fit()  # compiled before anything is timed
    rows = []
    for name, (tree, p, sweeps, said) in paper_trees().items():
        model = HiPaN.DS(tree, p=p, sweeps=sweeps)
        with measured() as spent:
            model.fit()
        code = PadicCode(tree)
        exact = float((code.decode(code.encode(tree.leaves)) == tree.leaves).mean())
        shown, honest = model.score(rule="given"), model.score(rule="predicted")
        rows.append(
            {
                "tree": name,
                "paper": said or "not in the paper",
                "leaves": tree.n_leaves,
                "(p, K)": f"({p}, {tree.max_depth})",
                "epochs": sweeps,
                "CPU s": round(spent.seconds, 3),
                "exact code: leaves back %": 100 * exact,
                "HiPaN shown: whole path %": 100 * shown.path,
                "HiPaN, nothing shown: whole path %": 100 * honest.path,
                "HiPaN shown: LeafAcc %": 100 * shown.leaf,
            }
        )
    return rows


SHELF = Shelf
SECTIONS = [
    Section(("T16",), _comparison),
    Section(("T20",), _hyper_parameters),
    Section(("groups",), _report_groups),
    Section(("hydrogen",), _report_hydrogen),
    Section(("decays",), _report_decays),
    Section(("trees",), _report_trees),
]
