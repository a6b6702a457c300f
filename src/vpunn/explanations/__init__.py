"""Why: what a branch contains and stands for, why a row was placed where it was, and what separates two nodes.

Functions over fitted models, pipelines, trees and codes; `vpunn.explain` is the `explain` of this room.
"""

from vpunn.explanations._balls import BallDescription, describe_ball
from vpunn.explanations._front import explain
from vpunn.explanations._sources import find_node, tree_of
from vpunn.explanations._viewer import export_tree_for_viz
from vpunn.hipan.explanation import BallContribution, Explanation, contrast

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
