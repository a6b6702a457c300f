"""Why: what a ball contains and stands for, why an item was placed where it was, and what separates two nodes.

Free functions over fitted models, trees and codes. The head weights of a `HiPaNClassifier` belong to one ball each, so an
explanation is a list of balls with what each contributed, and it sums to the score exactly.
"""

from vpunn.explain._balls import BallDescription, describe_ball
from vpunn.explain._placement import BallContribution, Explanation, contrast, explain
from vpunn.explain._sources import find_node, tree_of
from vpunn.explain._viewer import export_tree_for_viz

__all__ = [
    "BallContribution",
    "BallDescription",
    "Explanation",
    "contrast",
    "describe_ball",
    "explain",
    "export_tree_for_viz",
    "find_node",
    "tree_of",
]
