"""The paper, name by name: its composed model `HiPaN`, every artefact of its Table 6, and its Algorithms 1–5.

The map is the paper's own Table 6, "formal concept vs. implementation class":

>>> from vpunn import Tree, paper
>>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 1], labels=["animal", "bird", "fish", "owl", "robin", "wren"])
>>> paper.sparse_activation_path(tree, "robin")                       # characteristic χ_B: the balls that fire
['animal', 'bird', 'robin']
>>> paper.AdamScalar(2.6).digit(5), paper.GISTScalar(3, p=5).digit()    # coefficient c_B
(3, 3)
>>> paper.DenseMSEHead(tree).n_parameters, paper.TwoLogitCEHead(tree, depth=1).n_printed            # digit head H_k
(2, 30)
>>> v, p = 2.6, 5
>>> round(v) % p                                                      # ultrametric projection
3
>>> print(paper.describe_ball(tree, "robin", 1, show=2))              # ball B_1(θ)
animal / bird
  ball of radius 5^-1: 4 nodes, 3 leaves at depth 2, entropy over its children 1.58 bits
  members: owl, robin, …
>>> '"name": "robin"' in paper.export_tree_for_viz(tree)              # tree 𝒯
True
>>> v, p = 11, 5
>>> [(v // p**k) % p for k in range(2)]                               # digit extraction
[1, 2]

Algorithms 1–3 are `build_tree`, `encode_path` and `decode`, to the letter and with their faults; 4 and 5 are the steps of
`GISTScalar` and `AdamScalar`, whole-array in `vpunn.vapo`. `vpunn.hipaq.HiPaQ` and `vpunn.TabHiPaN` are the doors to
sections 8.1 and 8.2.
"""

from vpunn.explanations import describe_ball, export_tree_for_viz
from vpunn.padic import next_prime
from vpunn.paper.algorithms import (
    ControlCode,
    PaperTree,
    build_tree,
    decode,
    encode_path,
    leaf_code,
    paper_code,
    sparse_activation_path,
)
from vpunn.paper.hipan import HiPaN, HiPaNScore
from vpunn.paper.hybrid import HybridLoss, TwoLogitCEHead, paper_digits
from vpunn.paper.reports import reproduce
from vpunn.vapo import AdamScalar, GISTScalar
from vpunn.vapo.heads import DenseMSEHead

__all__ = [
    "AdamScalar",
    "ControlCode",
    "DenseMSEHead",
    "GISTScalar",
    "HiPaN",
    "HiPaNScore",
    "HybridLoss",
    "PaperTree",
    "TwoLogitCEHead",
    "build_tree",
    "decode",
    "describe_ball",
    "encode_path",
    "export_tree_for_viz",
    "leaf_code",
    "next_prime",
    "paper_code",
    "paper_digits",
    "reproduce",
    "sparse_activation_path",
]
