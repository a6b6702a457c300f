"""``vpunn reproduce wordnet``."""

from typing import Any

from vpunn.paper.reports.hierarchies import reproduce
from vpunn.report import Report


def run(seeds: int = 10, *, target: str = "wordnet", **options: Any) -> Report:
    """The paper's tables on this hierarchy; see `hierarchies`."""
    return reproduce(target, seeds, **options)
