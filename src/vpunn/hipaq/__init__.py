"""Canonical structural invariants for symbolic hierarchies: groups, rooted trees, hydrogen states, decays.

`Invariants` is the general tool: any objects, any ordered invariants, a tree, a code and look-ups both ways.
"""

from vpunn.hipaq._group_catalogue import group_catalogue, group_name, identify_group, small_group
from vpunn.hipaq.decays import DecayTree, read_decays
from vpunn.hipaq.group_invariants import GROUP_CASCADE, GroupProfile, group_invariants
from vpunn.hipaq.groups import Group, GroupError, find_isomorphism
from vpunn.hipaq.hydrogen import hydrogen_observables, hydrogen_states, hydrogen_tree, recover_shells
from vpunn.hipaq.invariants import Catalogue, Identification, InvariantError, Invariants
from vpunn.hipaq.rooted_trees import rooted_trees, tree_catalogue, tree_code, tree_from_code

#: The paper's name for the general tool.
HiPaQ = Invariants

__all__ = [
    "GROUP_CASCADE",
    "Catalogue",
    "DecayTree",
    "Group",
    "GroupError",
    "GroupProfile",
    "HiPaQ",
    "Identification",
    "InvariantError",
    "Invariants",
    "find_isomorphism",
    "group_catalogue",
    "group_invariants",
    "group_name",
    "hydrogen_observables",
    "hydrogen_states",
    "hydrogen_tree",
    "identify_group",
    "read_decays",
    "recover_shells",
    "rooted_trees",
    "small_group",
    "tree_catalogue",
    "tree_code",
    "tree_from_code",
]
