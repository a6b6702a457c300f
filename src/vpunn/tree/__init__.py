"""The tree room: `Tree`, four frozen arrays in preorder, with everything that builds, checks, reshapes and sweeps them.

A subtree is a slice is a p-adic ball: node ``i`` owns ``[i, i + size[i])``.
"""

from vpunn.tree._tree import Tree, check_tree
from vpunn.tree._tree_arrays import IntArray, Nodes
from vpunn.tree.sweeps import nearest_marked_ancestor, sweep_down, sweep_up

__all__ = ["IntArray", "Nodes", "Tree", "check_tree", "nearest_marked_ancestor", "sweep_down", "sweep_up"]
