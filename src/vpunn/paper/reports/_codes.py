"""What the short codes in the reports stand for, so that a report explains itself."""

from __future__ import annotations

import json
import re

from vpunn.report import Report

#: Findings of an audit of the paper, in a sentence each; docs/paper.md has them all.
FINDINGS = {
    "E-01": "the paper's digit order contradicts itself; only the root digit at p⁰ makes distances those of the tree",
    "E-02": "zero padding makes codes collide; digits from 1 with 0 = stop do not",
    "E-06": "K counts edges for one tree and levels for another",
    "E-15": "the printed parameter count is not the formula named beside it",
    "E-16": "the parameter counts of GO and NCBI fit no K",
    "E-18": "fewer than 1 % of the paper's parameters are ever touched; one per node suffices",
    "E-19": "one parameter is shared by all nodes with the same depth and sibling index, against the paper's own principle",
    "E-20": "O(p^K) steps per epoch would be 10⁴⁷",
    "E-21": "12 MB is the size of the parameters alone, not of a process",
    "E-26": "with a leak every ball answers everywhere; it can only be a training surrogate",
    "E-30": "the approximation theorem counts too few balls",
    "E-31": "averaging ancestors does not telescope to the function",
    "E-43": "the deep heads are read at the true digit: the label leaks into the prediction",
    "E-45": "a root soft-max without input always names the largest child",
    "E-46": "sharing heads by digit is exact only for digit-separable trees, which none of these is",
    "E-47": "information ceilings: the best digit accuracy that exists without features",
    "E-49": "pruning depths by marginal KL drops needed levels",
    "E-53": "two training schedules contradict each other, and neither can reach most digits from zero",
    "E-60": "leaf right implies root right, so LeafAcc > RootAcc means that something else was measured",
    "E-61": "training and test items are the same, one per class",
    "E-65": "an exact code has ρ = −1",
    "E-66": "no code at all can violate the ultrametric inequality",
    "E-67": "leaf and root accuracy agree to the decimal: one number printed twice, it seems",
    "E-68": "the printed Brier scores are below what the printed errors allow",
    "E-14": "the leaf counts fit no release of the data",
    "E-17": "155, 780 and 7.6 M are not the (p^K − 1)/(p − 1) that their caption names",
    "E-62": "the paper's baselines were given the digits of the answer as input, one example per class",
    "E-63": "its baselines have no leaf accuracy and do not keep to their hour, so nothing is compared",
    "E-72": "there are 1,251 groups of order ≤ 125 and 67,232 of order ≤ 360; the paper counted orders",
    "E-73": "an invariant must also give isomorphic objects one code, whatever their presentation",
    "E-74": "hydrogen has 204 states with n ≤ 8, and quantum numbers are the labels of the tree",
    "E-75": "a tree of seven channels needs no 155 parameters",
    "E-76": "the wine table is the white subset, with 937 repeated rows",
    "E-77": "a code computed from the columns adds no information; one that saw the target leaks it",
    "E-78": "no generator is named for the first MMD, and 0.054 → 0.031 is not half",
    "E-79": "the digits of the printed wine codes cannot come from a Ward tree with p = 3",
    "E-80": "a twin with +2.3 % alcohol is at least 1.87 standard deviations away",
    "E-81": "colour and layout come from the same columns, so their agreement shows nothing",
    "G6": "design guidance: retain the hinge term; dropping it halves coarse-digit accuracy",
}

#: Tables and figures of the paper, in order of appearance.
TABLES = {
    "T2": "comparison with other geometries",
    "T7": "runtime and memory complexity of VAPO",
    "T8": "optimisers on WordNet",
    "T9": "hierarchy statistics",
    "T10": "results on WordNet nouns",
    "T11": "results on the Gene Ontology",
    "T12": "results on NCBI Mammalia",
    "T13": "speed–accuracy trade-off",
    "T14": "baselines on WordNet",
    "T15": "label-level calibration",
    "T16": "HiPaQ",
    "T17": "wine: RMSE and MMD",
    "T18": "wine: a controlled twin",
    "T19": "primes and depths",
    "T20": "hyper-parameters of HiPaQ and Tab-HiPaN",
    "T21": "accuracy digit by digit",
}


def explain_codes(report: Report) -> None:
    """Add a table of the codes the report uses."""
    text = json.dumps(
        [{k: v for k, v in block.items() if k != "png"} for block in report.blocks], default=str, ensure_ascii=False
    )
    used = set(re.findall(r"\b(?:E-\d\d|T\d{1,2}|G\d)\b", text))
    for first, last in re.findall(r"\bT(\d+)–T(\d+)\b", text):
        used |= {f"T{i}" for i in range(int(first), int(last) + 1)}
    meanings = {**TABLES, **FINDINGS}
    rows = [
        {"code": code, "stands for": ("the paper's table: " if code in TABLES else "") + meaning}
        for code, meaning in meanings.items()
        if code in used
    ]
    if rows:
        report.table("What the codes stand for", rows, name="codes")
