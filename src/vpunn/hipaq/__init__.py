"""Canonical codes for symbolic hierarchies: any tree, groups and their subgroups, rooted trees, hydrogen states, decays.

`HiPaQ` reads a hierarchy: a code for every leaf, ready without fitting. `Invariants` makes one: any objects, any ordered
invariants, a tree, a code and look-ups both ways.
"""

from vpunn.hipaq._group_catalogue import group_catalogue, group_name, identify_group, known_orders, small_group
from vpunn.hipaq.decays import DecayTree, read_decays
from vpunn.hipaq.group_invariants import GROUP_CASCADE, GroupProfile, group_invariants
from vpunn.hipaq.groups import Group, GroupError, find_isomorphism
from vpunn.hipaq.hierarchies import HiPaQ, HiPaQCheck
from vpunn.hipaq.hydrogen import hydrogen_observables, hydrogen_states, hydrogen_tree, recover_shells
from vpunn.hipaq.invariants import Catalogue, Identification, InvariantError, Invariants
from vpunn.hipaq.rooted_trees import rooted_trees, tree_catalogue, tree_code, tree_from_code
from vpunn.hipaq.subgroups import subgroup_lattice
from vpunn.hipaq.summary import hierarchy_table

__all__ = [
    "GROUP_CASCADE",
    "Catalogue",
    "DecayTree",
    "Group",
    "GroupError",
    "GroupProfile",
    "HiPaQ",
    "HiPaQCheck",
    "Identification",
    "InvariantError",
    "Invariants",
    "find_isomorphism",
    "group_catalogue",
    "group_invariants",
    "group_name",
    "hierarchy_table",
    "hydrogen_observables",
    "hydrogen_states",
    "hydrogen_tree",
    "identify_group",
    "known_orders",
    "read_decays",
    "recover_shells",
    "rooted_trees",
    "small_group",
    "subgroup_lattice",
    "tree_catalogue",
    "tree_code",
    "tree_from_code",
]
