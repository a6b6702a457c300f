"""Pictures of trees, codes, models and findings, drawn with matplotlib.

Every function takes ``ax=`` (None: a new figure) and returns the axes it drew on; `save` writes the figure of any axes.
"""

from vpunn.plot._style import PALETTE, names_of
from vpunn.plot.dendrograms import dendrogram
from vpunn.plot.diagrams import architecture, geometries, umap, versus
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
    chance_error,
    confusion,
    descent,
    latent_tree,
    levels,
    predicted,
    reliability,
    reliability_by_depth,
    risk_coverage,
)
from vpunn.plot.trees import balls, code, diagram, force, icicle, poincare, radial

__all__ = [
    "PALETTE",
    "activation",
    "architecture",
    "balls",
    "box_counting",
    "branching",
    "chance_error",
    "code",
    "confusion",
    "degree_histogram",
    "dendrogram",
    "descent",
    "diagram",
    "distance_matrix",
    "entropy",
    "finding",
    "force",
    "geometries",
    "icicle",
    "latent_tree",
    "levels",
    "magnitudes",
    "mapper",
    "names_of",
    "poincare",
    "predicted",
    "prefix_information",
    "radial",
    "reliability",
    "reliability_by_depth",
    "risk_coverage",
    "shared_levels",
    "spectrum",
    "tree_comparison",
    "ultrametricity",
    "umap",
    "versus",
]
