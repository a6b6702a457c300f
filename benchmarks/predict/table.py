"""The matrix of docs/prediction.md: a row per case, a column per method, ours beside the peers; as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.predict.matrix import METHODS, OURS

TITLES = {
    "wordnet": "WordNet",
    "wordnet-texts": "WordNet with node texts",
    "go": "GO molecular function",
    "go-process": "GO biological process",
    "go-component": "GO cellular component",
    "singles": "naics, one row for four classes in five",
    "pairs": "naics, two rows for four classes in five",
    "few-each": "naics, one to four rows for four classes in five",
    "two-labels": "naics, a tenth of texts under two labels",
    "copies": "near copies",
    "grouped": "headlines in sources of five rows",
    "few": "50 balls of WordNet, all rows",
    "few-small": "50 balls of WordNet, 8,000 rows",
    "headlines-svd": "headlines, 200 SVD numbers only",
    "component-svd": "GO component, 200 SVD numbers only",
    "text-numbers": "isco and 8 numbers",
    "noise": "isco and 64 random numbers",
    "naics-counts": "naics, raw counts",
    "headlines-counts": "headlines, raw counts",
    "naics-hashes": "naics, 4,096 signed hashes",
    "headlines-hashes": "headlines, 4,096 signed hashes",
    "at-parent": "naics, a third of the rows at the parent",
    "star": "300 codes of naics on a star",
    "two-rows": "2,000 synsets with two rows each",
    "wrong-copies": "copies of which 30 % are labelled wrong",
    "binary": "40 binary columns, 20 classes",
    "scales": "12 numbers of all scales, 100 classes",
    "sparse-table": "6 numbers and 4 one-hot columns in a sparse matrix, 50 classes",
    "spreads": "10 numbers, 12 classes, two and two around one centre",
    "arbitrary-parents": "2,000 columns of yes and no, 150 classes, a tree that says nothing",
    "conjunction": "300 keys and a year in a sparse matrix, 40 classes by both together",
    "places": "500 places by two numbers, met again, 30 classes by lot",
    "rings": "three rings around one centre, in 100 columns",
}


def markdown(rows: list[dict[str, Any]], compared: list[dict[str, Any]]) -> str:
    """Rows of `matrix.run` and `matrix.against_the_best`, means over the splits."""
    beside = {cells["case"]: cells for cells in compared}
    names = [m for m in METHODS if any(row["method"] == m for row in rows)]
    head = ["case", *names, "exact, against the best on validation rows", "depth 1", "top-5", "ECE (by chance)"]
    head += ["coverage", "fit s, its", "rows/s", "MB, its"]
    lines = [_line(head), _line(["---"] + ["---:"] * len(names) + ["---"] * 4 + ["---:"] * 4)]
    for case in dict.fromkeys(row["case"] for row in rows):
        exact = [_mean(row.get("exact") for row in rows if (row["case"], row["method"]) == (case, m)) for m in names]
        top = max((round(x, 3) for x in exact if x is not None), default=None)
        cells = ["—" if x is None else f"**{x:.3f}**" if round(x, 3) == top else f"{x:.3f}" for x in exact]
        lines.append(_line([TITLES.get(case, case), *cells, *_ours(rows, case, beside.get(case))]))
    return "\n".join(lines) + "\n"


def _ours(rows: list[dict[str, Any]], case: str, beside: dict[str, Any] | None) -> list[str]:
    """What is said of ours, and of the peer beside it."""
    mine = {
        key: _mean(row.get(key) for row in rows if (row["case"], row["method"]) == (case, OURS))
        for key in ("ECE", "by chance", "coverage", "fit s", "rows/s", "RSS MB")
    }
    if mine["fit s"] is None:
        return ["—"] * 8
    against = ["—"] * 3
    if beside is not None:
        against = [f"{beside['best peer']}: {beside['exact by']}", beside["depth-1 by"], beside["top-5 by"]]
    peer = [
        f", {beside[f'peer’s {key}']:{form}}" if beside else "" for key, form in (("fit s", ".1f"), ("RSS MB", ".0f"))
    ]
    ece = "—" if mine["ECE"] is None else f"{mine['ECE']:.3f} ({mine['by chance']:.3f})"
    coverage = "—" if mine["coverage"] is None else f"{mine['coverage']:.3f}"
    return [
        *against,
        ece,
        coverage,
        f"{mine['fit s']:.1f}{peer[0]}",
        f"{mine['rows/s']:,.0f}",
        f"{mine['RSS MB']:.0f}{peer[1]}",
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return float(np.mean(kept)) if kept else None


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
