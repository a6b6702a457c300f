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

__all__ = [
    "PALETTE",
    "box_counting",
    "branching",
    "degree_histogram",
    "distance_matrix",
    "entropy",
    "finding",
    "magnitudes",
    "mapper",
    "prefix_information",
    "shared_levels",
    "spectrum",
    "tree_comparison",
    "ultrametricity",
]
