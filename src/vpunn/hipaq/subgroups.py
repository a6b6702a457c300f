"""The subgroups of a group as a hierarchy: the whole group above, below each its maximal subgroups."""

from __future__ import annotations

from typing import Any

import numpy as np

from vpunn.hipaq.group_invariants import GroupProfile
from vpunn.hipaq.groups import GroupError
from vpunn.tree import Tree

#: Larger lattices are refused: C2⁷ has 29,212 subgroups.
MAX_SUBGROUPS = 5000


def subgroup_lattice(group: Any, *, policy: str = "first") -> Tree:
    """All subgroups of a group (a table, permutations, a `Group`) as a tree under its whole.

    A subgroup hangs below each subgroup in which it is maximal. That is a directed acyclic graph, of which ``policy`` makes a
    tree as `Tree.from_edges` does: ``first`` and the like keep one parent each and the others as extra parents, ``unfold``
    repeats a subgroup once for every chain of maximal subgroups that leads to it, so that isomorphic groups give isomorphic
    trees. Labels are order and a number; the columns are ``order`` and ``normal``. O(subgroups × cyclic subgroups × order).

    >>> klein = subgroup_lattice([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
    >>> klein, klein.columns["order"].tolist(), klein.n_extra
    (Tree(5 nodes, 3 leaves, depth 2, branching ≤ 3), [4, 2, 1, 2, 2], 2)
    """
    profile = GroupProfile(group)
    masks, above, below = _subgroups(profile)
    order = masks.sum(1)
    by_size = np.lexsort((np.arange(len(order)), -order))
    rank = np.empty(len(order), np.int64)
    rank[by_size] = np.arange(len(order))
    first = np.searchsorted(-order[by_size], -order[by_size])
    names = [
        f"{size}.{k + 1}"
        for size, k in zip(order[by_size].tolist(), (np.arange(len(order)) - first).tolist(), strict=True)
    ]
    class_of, representatives = profile.group.classes
    normal = (masks == masks[:, representatives][:, class_of]).all(1)
    columns: dict[str, Any] = {
        "order": dict(zip(names, order[by_size].tolist(), strict=True)),
        "normal": dict(zip(names, normal[by_size].tolist(), strict=True)),
    }
    if len(names) == 1:
        return Tree.from_parents(
            [-1], labels=names, columns={name: list(cells.values()) for name, cells in columns.items()}
        )
    up, down = rank[above], rank[below]
    edges = np.lexsort((down, up))
    label = np.array(names, object)
    return Tree.from_edges(label[up[edges]], label[down[edges]], policy=policy, columns=columns)


def _subgroups(profile: GroupProfile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every subgroup as a row of flags, and the pairs (subgroup, one that is maximal in it).

    Each subgroup is joined with each cyclic one; the least of the results are those in which it is maximal.
    """
    from vpunn.hipaq._kernels import joins

    group = profile.group
    cyclic = np.unique(profile.cyclic_names)
    start = np.zeros(group.order, bool)
    start[group.identity] = True
    masks, generators = [start], [np.zeros(0, np.int64)]
    number = {start.tobytes(): 0}
    above: list[int] = []
    below: list[int] = []
    for at, mask in enumerate(masks):
        tried = cyclic[~mask[cyclic]]
        found, first = np.unique(joins(group.table, mask, generators[at], tried), axis=0, return_index=True)
        least: list[np.ndarray] = []
        for i in np.argsort(found.sum(1), kind="stable").tolist():
            row = found[i]
            key = row.tobytes()
            if key not in number:
                if len(masks) == MAX_SUBGROUPS:
                    raise GroupError(
                        f"this group of order {group.order} has more than {MAX_SUBGROUPS:,} subgroups, too many for a lattice."
                    )
                number[key] = len(masks)
                masks.append(row)
                generators.append(np.append(generators[at], tried[first[i]]))
            if not any((smaller <= row).all() for smaller in least):
                least.append(row)
                above.append(number[key])
                below.append(at)
    return np.array(masks), np.array(above, np.int64), np.array(below, np.int64)
