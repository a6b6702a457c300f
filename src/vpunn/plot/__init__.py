"""Pictures of trees, codes, models and findings, drawn with matplotlib.

Every function takes ``ax=`` (None: a new figure) and returns the axes it drew on. What `vpunn.structure` found draws itself:
``structure.entropy(tree).plot(ax)``.
"""

from vpunn.plot._style import PALETTE, names_of
from vpunn.plot.dendrograms import dendrogram
from vpunn.plot.diagrams import architecture, geometries, umap, versus
from vpunn.plot.findings import degree_histogram, finding
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
    "chance_error",
    "code",
    "confusion",
    "degree_histogram",
    "dendrogram",
    "descent",
    "diagram",
    "finding",
    "force",
    "geometries",
    "icicle",
    "latent_tree",
    "levels",
    "names_of",
    "poincare",
    "predicted",
    "radial",
    "reliability",
    "reliability_by_depth",
    "risk_coverage",
    "umap",
    "versus",
]
