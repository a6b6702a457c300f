"""Plain words for the terms of a page, said where they first appear; no more than fits beside a number in 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Scores and counts, by the name they have in a table.
MEANING = {
    "rows": "rows of the test table that are scored",
    "exactly right": "answered with the true node itself",
    "topmost branch right": "answered in the right branch of the root",
    "hierarchical F1": "how much of their paths agrees, 0 to 1",
    "mean depth of the shared path": "steps down until truth and answer part",
    "sets exactly right": "rows that get all their labels and no other",
    "F1 by rows": "agreement of sets, 0 to 1, mean of the rows",
    "F1 by pairs": "the same, all rows and labels together",
    "precision by pairs": "share of the answered labels that are true",
    "recall by pairs": "share of the true labels that are answered",
    "Fmax": "F1 by rows at its best threshold",
    "threshold of Fmax": "the probability from which labels count there",
    "labels missed at risk 0.1": "meant to be one in ten at most",
    "labels a row has": "ancestors counted too",
    "labels a row gets": "ancestors counted too",
    "class right": "answered with their class",
    "class right without the tree": "by one answer for all rows",
    "log loss": "surprise at the truth, 0 is best",
    "log loss without the tree": "by one guess for all rows",
    "root mean squared error": "typical error, large ones count more",
    "mean absolute error": "the error, on average",
    "median absolute error": "half of the rows are nearer, half further",
    "R²": "share of differences explained; 1 is all",
    "mean standard deviation said": "how far off it expects to be",
    "depth K": "steps to the deepest leaf, digits of a code",
    "largest branching": "most children of one node",
}

#: What the analyses of a tree look at, and the signs they use.
ANALYSES = {
    "Branching": "Branching is how many children nodes have; it is self-similar if that is alike at all depths. A heavy tail means "
    "that a few nodes have very many, and p says how often chance alone would show as much.",
    "Box counting": "Box counting asks how fast branches multiply from level to level. N(k) is their number k steps down, and "
    "Z_p are all codes that could be.",
    "Entropy of the digits": "Entropy is how much a step down tells. H(d_k) is that of step k in bits; a choice between two is 1 "
    "bit.",
    "Distances in code order": "Codes keep the distances of the tree: in every triangle of leaves the two longer sides are equal, "
    "which is the strong triangle inequality.",
    "Laplacian eigenmap": "An eigenmap places nodes in a plane so that neighbours in the tree lie near each other. ρ compares two "
    "orders, from −1 (opposite) to 1 (the same).",
}

#: Parameters of the models along branches.
EVOLUTION = {
    "rate": "rate: variance gained per unit of branch length",
    "lambda": "λ: share of a tip's variance that its branches explain",
    "alpha": "α: pull towards the mean, per unit of branch length",
    "kappa": "κ: exponent of the branch lengths",
    "noise": "noise of a measurement, variance",
}

BRANCH = "A node with all that lies below it is called a branch."
CALIBRATION = (
    "An answer lies in one branch at every depth. Probabilities are calibrated if of the answers given with 80 % four in five are "
    "right; the calibration error is how far off that is on average, and by chance is what exact probabilities would show in so "
    "many rows."
)
CHANCE = "(false discovery rate 5 %: of what would be listed, one in twenty is chance)"


def with_meaning(values: Mapping[str, Any], name: str = "score") -> list[dict[str, Any]]:
    """Rows of a table: what it is called, its value, and what that means."""
    return [{name: key, "value": value, "in words": MEANING.get(key, "")} for key, value in values.items()]
