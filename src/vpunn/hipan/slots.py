"""Slots: what the combiner chooses between, one soft-max over two kinds.

`known`      a place that was proposed and has rows,
`elsewhere`  a ball above the best proposals, or the root: the answer lies below it, but is none of the offered places and
             lies in no deeper offered ball.

Both are blocks, and one sentence covers both: *the truth is the deepest offered block that holds the row's place.*
Held-out rows whose class has no rows left, or was not proposed, so teach `elsewhere` by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vpunn.hipan._kernel import at, helper, kernel
from vpunn.hipan.tree_arrays import Grown, Occupied

#: Slots of a row: known places at most, and balls.
KNOWN, ELSEWHERE = 64, 16
#: The balls above so many of each expert's best proposals are offered.
ABOVE = 2


class Asked(NamedTuple):
    """The occupied blocks a row's evidence is about: those of its slots and all that stand above them, parents first.

    Row r has the lines ``start[r] .. start[r + 1]``; a slot points at the lines of its own block, its parent, its grandparent
    and its branch. A slot that is not offered points at line 0 of the first row, and nobody looks at what is said there.
    """

    start: np.ndarray  # (rows + 1,)
    block: np.ndarray  # (lines,)
    up: np.ndarray  # (lines,) the line of the block above; of the root its own
    own: np.ndarray  # (rows, slots)
    parent: np.ndarray
    grandparent: np.ndarray
    branch: np.ndarray

    @classmethod
    def of(cls, slots: np.ndarray, grown: Grown, tree: Occupied) -> Asked:
        """O(slots x depth) a row."""
        near = tree.of_block[slots]
        parent = grown.parent[slots]
        above = tree.of_block[parent], tree.of_block[grown.parent[parent]]
        line = np.full(tree.blocks, -1, np.int64)
        start = np.zeros(len(slots) + 1, np.int64)
        _count_lines(slots, near, tree.parent, line, start)
        block, up = np.empty(start[-1], np.int32), np.empty(start[-1], np.int64)
        found = tuple(np.zeros(slots.shape, np.int64) for _ in range(4))
        line[:] = -1
        _fill_lines(slots, (near, *above), (tree.parent, tree.branch), line, (start, block, up), found)
        return cls(start, block, up, *found)


@kernel
def _count_lines(slots, near, parent, line, start):
    for r in range(len(slots)):
        n = 0
        for s in range(slots.shape[1]):
            b = near[r, s]
            while slots[r, s] >= 0 and line[at(b)] != r:
                line[at(b)] = r
                n += 1
                b = parent[at(b)]
        start[r + 1] = start[r] + n


@helper
def _line_of(b, r, parent, line, start, block, up, n):
    """The line of a block, made with those above it if there is none; ``n`` lines of this row are there."""
    first, many = start[r], 0
    u = b
    while line[at(u)] < first:  # how many are missing, up to the root
        many += 1
        if u == 0:
            break
        u = parent[at(u)]
    u, k = b, first + n + many - 1
    while line[at(u)] < first:
        line[at(u)], block[at(k)] = k, u
        k -= 1
        if u == 0:
            break
        u = parent[at(u)]
    for j in range(first + n, first + n + many):
        up[at(j)] = line[at(parent[at(block[at(j)])])]
    return n + many


@kernel
def _fill_lines(slots, near, tree, line, asked, found):
    (own, above, higher), (parent, branch), (start, block, up) = near, tree, asked
    to_own, to_parent, to_grandparent, to_branch = found
    for r in range(len(slots)):
        n = 0
        for s in range(slots.shape[1]):
            if slots[r, s] >= 0:
                b = own[r, s]
                n = _line_of(b, r, parent, line, start, block, up, n)
                to_own[r, s], to_branch[r, s] = line[at(b)], line[at(branch[at(b)])]
                to_parent[r, s], to_grandparent[r, s] = line[at(above[r, s])], line[at(higher[r, s])]


def offer(ways: list[np.ndarray], grown: Grown, tree: Occupied, room: np.ndarray) -> np.ndarray:
    """Slots (rows, width; -1: empty) from the proposals of all ways (rows, k; leaves, best first), each in its turn.

    ``room``: how many places of a block may be the answer (inf: nobody knows); a ball all of whose places are offered has no
    elsewhere. O(slots x depth) a row.
    """
    deep = max(w.shape[1] for w in ways)
    in_turn = np.full((len(ways[0]), deep, len(ways)), -1, np.int32)
    for i, way in enumerate(ways):
        in_turn[:, : way.shape[1], i] = way
    in_turn = in_turn.reshape(len(ways[0]), -1)
    places = np.where(in_turn >= 0, tree.place[in_turn], -1).astype(np.int32)
    known = min(KNOWN, places.shape[1])
    out = np.full((len(places), known + ELSEWHERE), -1, np.int32)
    met, offered = np.full(grown.blocks, -1, np.int32), np.zeros(grown.blocks, np.int32)
    _offer(places, len(ways) * ABOVE, grown.parent, room, known, (met, offered), out)
    return out[:, : max(1, int((out >= 0).sum(1).max(initial=1)))]


@kernel
def _offer(proposed, first, parent, room, n_known, scratch, out):
    met, offered = scratch
    for r in range(len(proposed)):
        n = 0
        for i in range(proposed.shape[1]):
            p = proposed[r, i]
            if p >= 0 and met[at(p)] != r and n < n_known:
                met[at(p)], out[r, n] = r, p
                n += 1
        for s in range(n):
            u = out[r, s]
            while u > 0:
                u = parent[at(u)]
                offered[at(u)] += 1
        known, end = n, out.shape[1] - 1  # the last is kept for the root
        for i in range(min(first, proposed.shape[1])):
            u = parent[at(proposed[r, i])] if proposed[r, i] >= 0 else 0
            while u > 0 and met[at(u)] != r and n < end:
                met[at(u)] = r
                if offered[at(u)] < room[at(u)]:
                    out[r, n] = u
                    n += 1
                u = parent[at(u)]
        if offered[0] < room[0]:
            out[r, n] = 0
        for s in range(known):
            u = out[r, s]
            while u > 0:
                u = parent[at(u)]
                offered[at(u)] = 0


def truth(slots: np.ndarray, place: np.ndarray, grown: Grown) -> np.ndarray:
    """The slot of every row's answer, the deepest offered block that holds its place; -1: none does."""
    wanted = place[:, None]
    holds = (slots >= 0) & (slots <= wanted) & (wanted < slots + grown.size[slots])
    deepest = np.where(holds, grown.depth[slots], -1).argmax(1)
    return np.where(holds.any(1), deepest, -1)
