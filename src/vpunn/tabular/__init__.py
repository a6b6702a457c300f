"""Tables without a given hierarchy: find one, encode with it, predict and generate with it (section 8.2 of the paper).

Names load on first use, because scikit-learn and PyTorch are slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpunn.tabular.encoder import LatentTreeEncoder
    from vpunn.tabular.ids import SemanticIds, prefix_recall, semantic_ids
    from vpunn.tabular.joint import JointTree, joint_tree
    from vpunn.tabular.measures import Mahalanobis, median_bandwidth, mmd, two_sample_auc
    from vpunn.tabular.refine import Refinement, refine_tree, triplet_accuracy
    from vpunn.tabular.tabhipan import Generator, TabHiPaN, Twins
    from vpunn.tabular.trie import PrefixTrie
    from vpunn.tabular.ward import ward_cost, ward_linkage

_WHERE = {
    "Generator": "tabhipan",
    "JointTree": "joint",
    "LatentTreeEncoder": "encoder",
    "Mahalanobis": "measures",
    "PrefixTrie": "trie",
    "Refinement": "refine",
    "SemanticIds": "ids",
    "TabHiPaN": "tabhipan",
    "Twins": "tabhipan",
    "joint_tree": "joint",
    "median_bandwidth": "measures",
    "mmd": "measures",
    "prefix_recall": "ids",
    "refine_tree": "refine",
    "semantic_ids": "ids",
    "triplet_accuracy": "refine",
    "two_sample_auc": "measures",
    "ward_cost": "ward",
    "ward_linkage": "ward",
}

__all__ = [
    "Generator",
    "JointTree",
    "LatentTreeEncoder",
    "Mahalanobis",
    "PrefixTrie",
    "Refinement",
    "SemanticIds",
    "TabHiPaN",
    "Twins",
    "joint_tree",
    "median_bandwidth",
    "mmd",
    "prefix_recall",
    "refine_tree",
    "semantic_ids",
    "triplet_accuracy",
    "two_sample_auc",
    "ward_cost",
    "ward_linkage",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
