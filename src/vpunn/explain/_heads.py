"""A classifier's head weights, ball by ball over all columns of X, and one row as the heads hear it."""

from __future__ import annotations

import numpy as np

from vpunn._types import Features, HasTree
from vpunn.tree import Tree


def column_places(model: HasTree) -> list[tuple[str | None, np.ndarray]]:
    """Blocks of words (None) with their columns of X, then what has a space of its own with its columns, maybe some of those."""
    layout = model.layout_
    begin = dict(zip(layout.names, np.cumsum([0, *layout.columns[:-1]]).tolist(), strict=True))
    kinds = zip(layout.names, layout.dense, layout.columns, strict=True)
    words: list[tuple[str | None, np.ndarray]] = [
        (None, np.arange(begin[name], begin[name] + width)) for name, dense, width in kinds if not dense
    ]
    return words + [(called, begin[name] + columns) for called, (name, columns) in layout.numbers().items()]


def heard_row(model: HasTree, rows: Features) -> np.ndarray:
    """One row over all columns of X, as the heads read it: words of unit length, dense columns standardised."""
    values, at = np.zeros(model.n_features_in_), 0
    for kind, columns in column_places(model):
        if kind is None:
            words = rows.words.toarray()[0]
            values[columns] = words[at : at + len(columns)]
            at += len(columns)
        elif kind in model.dense_:
            values[columns] = model.dense_[kind].hears(rows.dense[kind])[0]
    return values


class HeardRow:
    """One row as the heads hear it: its columns that are not 0 and the weights that any ball has for them."""

    def __init__(self, model: HasTree, row: np.ndarray) -> None:
        self.columns = np.flatnonzero(row)
        self.values = row[self.columns]
        self.model, self.places = model, column_places(model)
        start, word, feature = model.balls_.feature_start, 0, np.full(len(self.columns), -1, np.int64)
        for kind, columns in self.places:
            if kind is None:
                inside = self._inside(columns)
                feature[inside] = self.columns[inside] - columns[0] + word
                word += len(columns)
        owners = np.flatnonzero(feature >= 0)
        first, stop = start[feature[owners]], start[feature[owners] + 1]
        self.entry = np.concatenate(
            [np.arange(a, b) for a, b in zip(first, stop, strict=True)] or [np.zeros(0, np.int64)]
        )
        self.owner = np.repeat(owners, stop - first)
        self.block = model.balls_.entry_block[self.entry]

    def _inside(self, columns: np.ndarray) -> np.ndarray:
        return np.isin(self.columns, columns, assume_unique=True)

    def parts(self, block: int) -> np.ndarray:
        """What each of the row's columns adds to the head score of a ball."""
        here = self.block == block
        weight = np.asarray(self.model.heads_.weight[self.entry[here]], np.float64)
        found = np.bincount(self.owner[here], weight, len(self.columns)).astype(np.float64)  # of no entries: integers
        for kind, columns in self.places:
            if kind in self.model.dense_:
                inside = self._inside(columns)
                at = np.searchsorted(columns, self.columns[inside])
                found[inside] = self.model.dense_[kind].ball_head(block)[0][at]
        return np.asarray(found * self.values)


def chain_blocks(tree: Tree, i: int) -> list[int]:
    chain = tree.ancestors(i).tolist()
    return [i] + [tree.n_nodes + u for u in chain if u and not tree.is_leaf[u]]


def ball_weights(model: HasTree, *blocks: int) -> np.ndarray:
    """The weights of one ball, or the mean of several, over all columns of X."""
    balls = model.balls_
    at = np.flatnonzero(np.isin(balls.entry_block, blocks))
    words = np.zeros(len(balls.feature_start) - 1)
    np.add.at(words, np.searchsorted(balls.feature_start, at, side="right") - 1, model.heads_.weight[at])
    weights, start = np.zeros(model.n_features_in_), 0
    for kind, columns in column_places(model):
        if kind is None:
            weights[columns] = words[start : start + len(columns)] / len(blocks)
            start += len(columns)
        elif kind in model.dense_:
            weights[columns] = np.mean([model.dense_[kind].ball_head(b)[0] for b in blocks], 0)
    return weights


def above_siblings(model: HasTree, i: int) -> np.ndarray:
    tree = model.tree_
    if i == 0:
        return np.zeros(model.n_features_in_)
    blocks = [tree.n_nodes + j if not tree.is_leaf[j] else j for j in tree.children(int(tree.parent[i])).tolist()]
    mine = tree.n_nodes + i if not tree.is_leaf[i] else i
    siblings = [b for b in blocks if b != mine]
    own = ball_weights(model, mine)
    if not siblings:
        return own
    return np.asarray(own - ball_weights(model, *siblings))
