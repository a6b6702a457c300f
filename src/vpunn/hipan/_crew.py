"""Who does the work of a fit: blocks of rows and shards of classes, one after another here, or on other machines.

Proposing and judging treat every row by itself, so blocks of rows give the same bytes as all rows at once. Heads are trained by
passes over the rows in turn; of several shards each passes over the rows of its own classes, all from the same weights, and what
each has changed is added up in the order of the shards. The classes of a shard are neighbours in preorder: whole subtrees, so that
nearly all balls are changed by one shard alone. What comes out depends on the number of shards, not on who did the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vpunn._rows import slices
from vpunn._threads import in_threads
from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._views import Rows
from vpunn.hipan._weights import Heads, add_by_heads, propose_for_items, train_pass

if TYPE_CHECKING:
    from vpunn.hipan._experts import Experts


Arrays = tuple[np.ndarray, ...]
#: What `Crew.share` gave: the thing itself, or where other processes find it.
Shared: TypeAlias = Any

#: Rows of a block of work.
BLOCK = 4096
#: How often the shards of a pass are added up: weights that are old by a whole pass cost a point of accuracy.
SYNCS = 8


class Crew:
    """Works through the parts in this process, in ``n_jobs`` threads; a cluster overrides `share` and `run`."""

    def __init__(self, shards: int = 1, n_jobs: int | None = None) -> None:
        self.shards, self.n_jobs = shards, n_jobs

    def share(self, thing: object) -> Shared:
        """Something that many parts read, put where they are worked on."""
        return thing

    def run(
        self, work: Callable[..., Arrays], shared: tuple[Any, ...], parts: Iterable[tuple[Any, ...]]
    ) -> list[Arrays]:
        """``work(*shared, *part)`` of every part, in order."""
        return in_threads(lambda part: work(*shared, *part), parts, self.n_jobs)

    # ---- the steps of a fit ------------------------------------------------------------------------------------------

    def nearest(self, balls: Shared, rows: np.ndarray, limit: int) -> np.ndarray:
        """`propose_for_items` of some items."""
        return _joined(self.run(_nearest, (balls, limit), ((part,) for part in self._blocks(rows))))

    def confused(self, balls: Shared, heads: Shared, rows: np.ndarray, first: np.ndarray, limit: int) -> np.ndarray:
        """`add_by_heads` of some items."""
        blocks = ((rows[part], first[part]) for part in self.slices(len(rows)))
        return _joined(self.run(_confused, (balls, heads, limit), blocks))

    def examined(self, experts: Experts, rows: Rows, parts: Sequence[slice], limit: int) -> list[Arrays]:
        """What experts say about rows they have not seen."""
        return self.run(_examined, (self.share(experts), limit), ((rows[part],) for part in parts))

    def passed(
        self, balls: Balls, there: Shared, heads: Heads, candidates: np.ndarray, order: np.ndarray, losses: np.ndarray
    ) -> None:
        """One pass over the items in ``order``, as `train_pass` makes it; ``there`` is `share` of the balls."""
        if self.shards == 1:
            return train_pass(balls, heads, candidates, order, losses)
        for rows in np.array_split(order, SYNCS):
            owner = shard_of(balls.items.node, self.shards)[rows]
            mine = [rows[owner == shard] for shard in range(self.shards)]
            now = self.share(heads.arrays())
            found = self.run(_shard_pass, (there, now), ((own, candidates[own]) for own in mine))
            for own, part in zip(mine, found, strict=True):
                losses[own] = part[-1]
            add_up(heads.weight, heads.energy, [part[:3] for part in found])
            everywhere = np.arange(len(heads.bias))
            add_up(heads.bias, heads.bias_energy, [(everywhere, *part[3:5]) for part in found])
        return None

    @staticmethod
    def slices(rows: int) -> list[slice]:
        """Blocks of rows, at least one."""
        return list(slices(rows, BLOCK)) or [slice(0, 0)]

    def _blocks(self, rows: np.ndarray) -> list[np.ndarray]:
        return [rows[part] for part in self.slices(len(rows))]


def shard_of(node: np.ndarray, shards: int) -> np.ndarray:
    """For every item the shard of its node: nodes in preorder, cut between nodes so that each shard has about as many items."""
    cuts = np.sort(node, kind="stable")[(np.arange(1, shards) * len(node)) // shards]
    return np.searchsorted(np.unique(cuts), node, side="right")


def add_up(value: np.ndarray, energy: np.ndarray, parts: Sequence[Arrays]) -> None:
    """Add what several shards did to some entries: places, changes of their values and of AdaGrad's energies.

    A shard that knew what the others did would have taken smaller steps, by √(its energy / energy of all); n shards that all push
    one entry would otherwise move it √n times too far. An entry that one shard changed gets that shard's value exactly.
    """
    before = energy.copy()
    for place, _, more in parts:
        energy[place] += more
    for place, change, more in parts:
        value[place] += change * np.sqrt((before[place] + more) / energy[place])


def _joined(parts: list[Arrays]) -> np.ndarray:
    return np.concatenate([part[0] for part in parts])


def _nearest(balls: Balls, limit: int, rows: np.ndarray) -> Arrays:
    return (propose_for_items(balls, balls.items.take(rows), limit),)


def _confused(balls: Balls, heads: Arrays, limit: int, rows: np.ndarray, first: np.ndarray) -> Arrays:
    return (add_by_heads(balls, Heads(*heads), Sparse.of(balls.items.X[rows]), np.ascontiguousarray(first), limit),)


def _examined(experts: Experts, limit: int, rows: Rows) -> Arrays:
    return tuple(experts.examine(rows, limit))


def _shard_pass(balls: Balls, heads: Arrays, rows: np.ndarray, candidates: np.ndarray) -> Arrays:
    """One pass over a shard's rows on a copy of the heads: the entries it changed and by how much, and the loss of each row."""
    weight, bias, energy, bias_energy, branch = heads
    own = Heads(weight.copy(), bias.copy(), energy.copy(), bias_energy.copy(), branch)
    losses = np.full(len(rows), np.inf, np.float32)
    train_pass(_with(balls, balls.items.take(rows)), own, candidates, np.arange(len(rows)), losses)
    entry = np.flatnonzero((own.weight != weight) | (own.energy != energy))
    change = (own.weight[entry] - weight[entry], own.energy[entry] - energy[entry])
    return entry, *change, own.bias - bias, own.bias_energy - bias_energy, losses


def _with(balls: Balls, items: Items) -> Balls:
    """The same numbers, read by other items."""
    other = object.__new__(Balls)
    other.__dict__ |= balls.__dict__ | {"items": items}
    return other
