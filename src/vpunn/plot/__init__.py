"""Pictures of trees, codes, models and findings, drawn with matplotlib.

Every function takes ``ax=`` (None: a new figure) and returns the axes it drew on; `save` writes the figure of any axes.
"""

from vpunn.plot._style import PALETTE
from vpunn.plot.findings import (
    box_counting,
    branching,
    degree_histogram,
    distance_matrix,
    entropy,
    finding,
    magnitudes,
    mapper,
    prefix_information,
    shared_levels,
    spectrum,
    tree_comparison,
    ultrametricity,
)
from vpunn.plot.models import (
    activation,
    confusion,
    descent,
    levels,
    reliability,
    reliability_by_depth,
    risk_coverage,
)

__all__ = [
    "PALETTE",
    "activation",
    "box_counting",
    "branching",
    "confusion",
    "degree_histogram",
    "descent",
    "distance_matrix",
    "entropy",
    "finding",
    "levels",
    "magnitudes",
    "mapper",
    "prefix_information",
    "reliability",
    "reliability_by_depth",
    "risk_coverage",
    "shared_levels",
    "spectrum",
    "tree_comparison",
    "ultrametricity",
]
