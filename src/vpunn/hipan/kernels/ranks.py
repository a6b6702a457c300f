"""Compiled loops that compare candidates by a column of evidence."""

from __future__ import annotations

import numpy as np

from vpunn.hipan.kernels import helper, kernel


@helper
def below_best(z, count, column, into):
    """Write how far each candidate is below the best one in a column; returns the best."""
    top = z[0, column]
    for j in range(1, count):
        top = max(top, z[j, column])
    for j in range(count):
        z[j, into] = z[j, column] - top
    return top


def add_log_ranks(evidence, candidates, columns) -> None:
    """Write −ln(1 + how many candidates of the row are better) by each of the columns into the last ones; "none" has no rank."""
    width = candidates.shape[1]
    table = -np.log(np.arange(1, width + 2)).astype(np.float32)
    _add_log_ranks(evidence, candidates, columns, table, np.empty(width, np.float32))


@kernel
def _add_log_ranks(evidence, candidates, columns, table, values):
    rows, width = candidates.shape
    first = evidence.shape[2] - len(columns)
    for r in range(rows):
        count = 0
        while count < width and candidates[r, count] >= 0:
            count += 1
        for k in range(len(columns)):
            for j in range(count):
                values[j] = evidence[r, j, columns[k]]
            for j in range(count):
                better = 0
                for i in range(count):
                    better += values[i] > values[j]
                evidence[r, j, first + k] = table[better]
