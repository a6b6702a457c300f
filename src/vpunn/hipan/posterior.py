"""The posterior: the probability of every node, from the probabilities of slots."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vpunn.errors import VpunnError
from vpunn.hipan._kernel import at, helper, kernel
from vpunn.hipan.distribution import NodeDistribution
from vpunn.hipan.tree_arrays import Grown
from vpunn.tree import Tree

#: Balls of one depth that are looked into at once; so a threshold below one in so many asks every ball.
LIKELY = 64
#: What rounding leaves of a territory without a share.
ALMOST_NOTHING = 1e-9


class Spread(NamedTuple):
    """Where an answer lies that is `elsewhere`: every place that may be the answer without being offered has a share."""

    grown: Grown
    share: np.ndarray  # (blocks,) of places
    below: np.ndarray  # (blocks,) the shares in a block
    most: np.ndarray  # (blocks,) the largest share in a block
    heaviest: np.ndarray  # (blocks,) the most that a child of the block has below it

    @classmethod
    def of(cls, grown: Grown, share: np.ndarray) -> Spread:
        """O(blocks)."""
        below, most, heaviest = grown.below(share), share.astype(np.float64), np.zeros(grown.blocks)
        _upwards(grown.parent, below, most, heaviest)
        return cls(grown, share.astype(np.float64), below, most, heaviest)


@kernel
def _upwards(parent, below, most, heaviest):
    for b in range(len(parent) - 1, 0, -1):
        p = parent[b]
        most[p] = max(most[p], most[b])
        heaviest[p] = max(heaviest[p], below[b])


class Posterior(NodeDistribution):
    """A slot's probability is spread over its territory: what lies in it, but in no deeper offered block.

    Places there have it in proportion to their shares (`Spread`); where none has a share, the answer stays at the ball itself. A
    known place is its own territory. So the probability of a ball is its own stop's and that of its children, exactly.
    """

    def __init__(self, tree: Tree, spread: Spread, slots: np.ndarray, probability: np.ndarray, seen: Any = None):
        self.tree, self.spread, self.slots, self.probability = tree, spread, slots, probability
        self.seen = seen  # what the experts said, if an explanation is asked for

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Slots in preorder, their probabilities, what shares their territories have, and the offered block above each."""
        order = np.argsort(np.where(self.slots < 0, np.iinfo(np.int32).max, self.slots), 1, kind="stable")
        slots = np.take_along_axis(self.slots, order, 1)
        p = np.take_along_axis(self.probability, order, 1).astype(np.float64)
        p /= np.maximum(np.cumsum(p, 1)[:, -1:], 1e-30)  # in turn, so that a wider batch adds nothing
        territory, up = np.zeros(slots.shape), np.full(slots.shape, -1, np.int32)
        grown = self.spread.grown
        _territories(slots, (grown.size, grown.stop, self.spread.below), p, territory, up)
        return slots, p, territory, up

    def on_leaves(self) -> Posterior:
        """The same, given that the answer is a leaf; a row all of whose answers are inner nodes stays as it is."""
        slots, p, territory, _ = self._ordered
        grown = self.spread.grown
        inner = np.where(grown.size[slots] == 1, grown.is_stop[slots], (territory < ALMOST_NOTHING)) & (slots >= 0)
        given = np.where(inner, 0.0, p)
        total = np.cumsum(given, 1)[:, -1:]  # in turn, so that a wider batch adds nothing
        p = np.where(total > 0, given / np.where(total > 0, total, 1), p)
        return Posterior(self.tree, self.spread, slots, p.astype(np.float32), self.seen)

    def masses(self, part: slice) -> np.ndarray:
        """Probability that the answer is exactly each node, dense (rows of ``part``, nodes). O(blocks) a row."""
        grown, spread = self.spread.grown, self.spread
        ordered = tuple(a[part] for a in self._ordered)
        out = np.zeros((len(ordered[0]), self.tree.n_nodes))
        owner = np.empty(grown.blocks, np.int32)
        _masses(ordered, (grown.size, grown.stop, grown.node, spread.share), owner, out)
        return out

    def top_k(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable nodes and their probabilities, exact; -1 and 0 where there are fewer."""
        grown, spread = self.spread.grown, self.spread
        k = min(int(k), self.tree.n_nodes)
        node, p = np.full((len(self), k), -1, np.int64), np.zeros((len(self), k))
        about = grown.size, grown.stop, grown.node, spread.share, spread.most
        _top_k(self._ordered, about, node, p)
        return node, p

    def deepest(self, threshold: float) -> np.ndarray:
        """The deepest ball with probability >= threshold (the more probable of equally deep ones; the root if none)."""
        if threshold < 1 / LIKELY:
            return super().deepest(threshold)
        grown, spread = self.spread.grown, self.spread
        node = np.zeros(len(self), np.int64)
        room = np.zeros(LIKELY, np.int32), np.zeros(LIKELY, np.int32), np.full(grown.blocks, -1, np.int32)
        about = grown.parent, grown.size, grown.stop, grown.node, spread.below, spread.heaviest
        _deepest(self._ordered, about, float(threshold), room, node)
        return node

    def chain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The balls around one node per row, root first (-1 padded), and their probabilities."""
        ids = np.asarray(self.tree.check_nodes(nodes), np.int64)
        if ids.shape != (len(self),):
            raise VpunnError(f"chain takes one node per row, {len(self):,} of them; got shape {ids.shape}.")
        grown, depth = self.spread.grown, np.asarray(self.tree.depth)
        deep = int(depth[ids].max(initial=0)) + 1
        balls, p = np.full((len(ids), deep), -1, np.int64), np.zeros((len(ids), deep))
        ball = grown.place - (np.asarray(self.tree.size) > 1)
        _chain(
            self._ordered, (grown.size, ball, self.spread.below), (np.asarray(self.tree.parent), depth), ids, balls, p
        )
        return balls, p


@kernel
def _territories(slots, about, p, territory, up):
    size, stop, below = about
    for r in range(len(slots)):
        above = -1
        for s in range(slots.shape[1]):
            b = slots[r, s]
            if b < 0:
                break
            while above >= 0 and b >= slots[r, above] + size[at(slots[r, above])]:
                above = up[r, above]
            territory[r, s], up[r, s] = below[at(b)], above
            if above >= 0:
                territory[r, above] -= below[at(b)]
            above = s
        for s in range(slots.shape[1] - 1):  # an answer that stays at a ball whose stop is offered too is that stop
            b = slots[r, s]
            if b >= 0 and size[at(b)] > 1 and _without(territory[r, s]) and slots[r, s + 1] == stop[at(b)]:
                p[r, s + 1] += p[r, s]
                p[r, s] = 0


@helper
def _without(share):
    """No share but what rounding has left."""
    return share < ALMOST_NOTHING


@kernel
def _masses(ordered, about, owner, out):
    (slots, probability, territory, _), (size, stop, node, share) = ordered, about
    for r in range(len(slots)):
        owner[:] = -1
        for s in range(slots.shape[1]):  # in preorder: a deeper block paints over what holds it
            b = slots[r, s]
            if b < 0:
                break
            for i in range(b, b + size[at(b)]):
                owner[at(i)] = s
            if size[at(b)] == 1 or _without(territory[r, s]):
                out[r, node[at(stop[at(b)])]] += probability[r, s]
        for b in range(len(owner)):
            s = owner[b]
            if s >= 0 and share[b] > 0 and size[at(slots[r, s])] > 1 and not _without(territory[r, s]):
                out[r, node[b]] += probability[r, s] * share[b] / territory[r, s]


@helper
def _offer_node(item, p, node, best):
    j = len(best) - 1
    if not p > best[at(j)]:
        return
    while j > 0 and best[at(j - 1)] < p:
        best[at(j)], node[at(j)] = best[at(j - 1)], node[at(j - 1)]
        j -= 1
    best[at(j)], node[at(j)] = p, item


@kernel
def _top_k(ordered, about, out_node, out_p):
    (slots, probability, territory, _), (size, stop, node, share, most) = ordered, about
    for r in range(len(slots)):
        for s in range(slots.shape[1]):
            b = slots[r, s]
            if b < 0:
                break
            if size[at(b)] == 1 or _without(territory[r, s]):
                _offer_node(node[at(stop[at(b)])], probability[r, s], out_node[r], out_p[r])
        last = out_p.shape[1] - 1
        for s in range(slots.shape[1]):
            b = slots[r, s]
            if b < 0:
                break
            if size[at(b)] == 1 or _without(territory[r, s]):
                continue
            one = probability[r, s] / territory[r, s]
            if one * most[at(b)] <= out_p[r, last]:
                continue
            t, end = (
                s + 1,
                b + size[at(b)],
            )  # the places of the territory, which may be many, where one may be among the best
            i = b
            while i < end:
                while t < slots.shape[1] and slots[r, t] >= 0 and slots[r, t] < i:
                    t += 1
                if t < slots.shape[1] and slots[r, t] == i:
                    i += size[at(i)]
                    continue
                if one * most[at(i)] <= out_p[r, last] and (
                    t >= slots.shape[1] or slots[r, t] < 0 or slots[r, t] >= i + size[at(i)]
                ):
                    i += size[at(i)]
                    continue
                if size[at(i)] == 1 and share[at(i)] > 0:
                    _offer_node(node[at(i)], one * share[at(i)], out_node[r], out_p[r])
                i += 1


@helper
def _ball(r, low, high, ordered, size, below):
    """The probability of the block [low, high): of the slots in it, and of its part of the territory that it lies in."""
    slots, probability, territory, up = ordered
    total, holder = 0.0, -1
    for s in range(slots.shape[1]):
        b = slots[r, s]
        if b < 0 or b >= high:
            break
        if b < low:
            holder = s
        else:
            total += probability[r, s]
    while holder >= 0 and slots[r, holder] + size[at(slots[r, holder])] < high:
        holder = up[r, holder]
    if holder >= 0 and not _without(territory[r, holder]):
        part = below[at(low)]
        for s in range(holder + 1, slots.shape[1]):
            b = slots[r, s]
            if b < 0 or b >= high:
                break
            if b >= low and up[r, s] == holder:
                part -= below[at(b)]
        total += probability[r, holder] * part / territory[r, holder]
    return total


@kernel
def _chain(ordered, about, tree, ids, balls, p):
    (size, ball, below), (parent, depth) = about, tree
    for r in range(len(ids)):
        v = ids[r]
        for d in range(depth[at(v)], -1, -1):
            b = ball[at(v)]
            balls[r, d], p[r, d] = v, _ball(r, b, b + size[at(b)], ordered, size, below)
            v = parent[at(v)]


@kernel
def _deepest(ordered, about, threshold, room, out):
    slots, probability, territory, _ = ordered
    (parent, size, stop, node, below, heaviest), (here, deeper, met) = about, room
    for r in range(len(out)):
        here[0], n = 0, 1
        while n:
            more, best = 0, -1.0
            for i in range(n):
                v = here[i]
                end = v + size[at(v)]
                dense = 0.0  # what one share is worth at most in the territories that v lies in or holds
                for s in range(slots.shape[1]):
                    b = slots[r, s]
                    if b < 0 or b >= end:
                        break
                    if b <= v and v < b + size[at(b)]:
                        dense = 0.0 if _without(territory[r, s]) else probability[r, s] / territory[r, s]
                    if b > v:
                        c = b
                        while parent[at(c)] != v:
                            c = parent[at(c)]
                        more = _more(r, c, v, ordered, (size, stop, below), threshold, met, deeper, more)
                if dense * heaviest[at(v)] >= threshold:
                    c = v + 1
                    while c < end:
                        more = _more(r, c, v, ordered, (size, stop, below), threshold, met, deeper, more)
                        c += size[at(c)]
            for i in range(n):
                v = here[i]
                mass = _ball(r, v, v + size[at(v)], ordered, size, below)
                if mass > best or (mass == best and node[at(v)] < out[r]):
                    best, out[r] = mass, node[at(v)]
            for i in range(more):
                here[i], met[at(deeper[i])] = deeper[i], -1
            n = more


@helper
def _more(r, c, v, ordered, about, threshold, met, deeper, n):
    """Note a child that is likely enough, once."""
    size, stop, below = about
    if c == stop[at(v)] or met[at(c)] == r or n == len(deeper):
        return n
    if _ball(r, c, c + size[at(c)], ordered, size, below) < threshold:
        return n
    met[at(c)], deeper[at(n)] = r, c
    return n + 1
