"""``vpunn reproduce ncbi``."""

from vpunn.report import Report
from vpunn.paper.reports.hierarchies import reproduce


def run(seeds: int = 10) -> Report:
    """The paper's tables on this hierarchy; see `hierarchies`."""
    return reproduce("ncbi", seeds)
