"""All experts of rows with several labels, side by side: words, numbers, and descriptions of the nodes themselves (`X_nodes`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn._rows import slices
from vpunn.hipan.experts import Rows
from vpunn.hipan.layout import unit_rows
from vpunn.hipan.set_nodes import Nodes
from vpunn.hipan.set_numbers import NAMES, TRUST, NumberExperts
from vpunn.hipan.set_words import COLUMNS, SAYS, Pairs, Words, weighed

#: Rows that are examined at a time; answers do not depend on it.
BATCH = 512
#: Log-odds of the pooled experts of numbers from which a node is a candidate, and the largest log-odds of one expert.
NUMBERS_CUT, FAR = -5.3, 12.0
#: A node is a candidate if the cosine with its description, or the share of its words in the row, is above these.
COSINE_CUT, SHARE_CUT = 0.3, 0.5
CUTS = COSINE_CUT, SHARE_CUT, SHARE_CUT


@dataclass(frozen=True)
class SetExperts:
    """Experts of words, of every block of numbers and of every kind of description, fitted on the same rows."""

    nodes: Nodes
    words: Words
    numbers: tuple[NumberExperts, ...]
    texts: tuple[sp.csr_matrix, ...]  # descriptions, (nodes of the tree, features)

    @classmethod
    def fit(
        cls,
        rows: Rows,
        nodes: Nodes,
        truth: sp.csr_matrix,
        weight: np.ndarray,
        texts: tuple[sp.csr_matrix, ...],
        rng: np.random.Generator,
    ) -> SetExperts:
        """From rows and the nodes of each, ancestors included."""
        words = Words.fit(words_of(rows), truth, weight, rng)
        numbers = tuple(NumberExperts.fit(x, truth, weight, rng) for x in rows.blocks if not sp.issparse(x))
        return cls(nodes, words, numbers, texts)

    @cached_property
    def descriptions(self) -> list[Description]:
        """Every kind, of the nodes that rows have."""
        return [Description.of(text, self.words.trust) for text in of_nodes(self.texts, self.nodes)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of evidence."""
        many = len(self.numbers) > 1
        of = [f" of block {i + 1}" if many else "" for i in range(len(self.numbers))]
        numbers = tuple(f"log-odds, {name}{block}" for block in of for name in (*NAMES, "mean of the experts"))
        return COLUMNS + numbers + tuple(name for k in range(len(self.texts)) for name in description_names(k))

    @property
    def alone(self) -> np.ndarray:
        """How much each column counts as log-odds before any row is held out: the pooled experts of numbers answer alone."""
        out = np.zeros(len(self.names))
        out[[len(COLUMNS) + (len(NAMES) + 1) * (k + 1) - 1 for k in range(len(self.numbers))]] = 1 / max(
            len(self.numbers), 1
        )
        return out

    def examine(self, rows: Rows) -> Pairs:
        """Candidates and the evidence about them, a batch at a time."""
        cuts = [*(np.inf,) * len(NAMES), NUMBERS_CUT] * len(self.numbers) + list(CUTS) * len(self.texts)
        parts = []
        for part in list(slices(len(rows), BATCH)) or [slice(0, 0)]:
            some = rows.take(part)
            words = words_of(some)
            read = self.words.read(words)
            planes = [plane for i, x in enumerate(dense_of(some)) for plane in self._of_numbers(i, x)]
            planes += [plane for kind in self.descriptions for plane in kind.planes(words, read, self.nodes)]
            shape = (len(planes), len(some), len(self.nodes.node))
            stacked = np.stack(planes) if planes else np.zeros(shape, np.float32)
            parts.append(self.words.examine(read, self.nodes, stacked, np.array(cuts, np.float32)))
        return Pairs.joined(parts)

    def _of_numbers(self, i: int, x: np.ndarray) -> list[np.ndarray]:
        p = self.numbers[i].read(x)
        every = [*p, np.tensordot(TRUST.astype(np.float32), p, 1)]
        return [log_odds(q) for q in every]

    def unknown(self, evidence: np.ndarray) -> np.ndarray:
        """Pairs of rows of which nothing is known."""
        silent = ~evidence[:, SAYS].any(1) & (not self.numbers)
        return np.asarray(silent & ~evidence[:, len(COLUMNS) :].any(1))


def words_of(rows: Rows) -> sp.csr_matrix:
    """All blocks of words side by side, at unit length; without any, rows of no words."""
    sparse = [x for x in rows.blocks if sp.issparse(x)]
    if not sparse:
        return sp.csr_matrix((len(rows), 0), dtype=np.float32)
    return sparse[0] if len(sparse) == 1 else unit_rows(sp.csr_matrix(sp.hstack(sparse)))


def dense_of(rows: Rows) -> list[np.ndarray]:
    return [x for x in rows.blocks if not sp.issparse(x)]


def log_odds(p: np.ndarray) -> np.ndarray:
    least = np.float32(np.exp(-FAR))
    q = np.clip(p, least, 1 - least)
    return np.asarray(np.log(q) - np.log1p(-q), np.float32)


class Description(NamedTuple):
    """One kind of description of every node: its words at unit length, and the share that each word has of it."""

    words: sp.csr_matrix  # (nodes, features) weighed
    share: sp.csr_matrix  # (nodes, features); the shares of a node sum to 1

    @classmethod
    def of(cls, text: sp.csr_matrix, trust: np.ndarray) -> Description:
        """From the description of every node, (nodes, features)."""
        share = unit_rows(text)
        share.data = share.data**2
        return cls(weighed(text, trust), share)

    def planes(self, rows: sp.csr_matrix, weighed_rows: sp.csr_matrix, nodes: Nodes) -> list[np.ndarray]:
        """Cosine with every node's description, how much of it the row says, and the most it says of one below."""
        present = sp.csr_matrix((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)
        near = sp.csr_matrix(weighed_rows @ self.words.T).toarray().astype(np.float32)
        said = sp.csr_matrix(present @ self.share.T).toarray().astype(np.float32)
        return [near, said, nodes.raised(said)]


def description_names(kind: int) -> tuple[str, ...]:
    """Names of the planes of the first, second, … kind."""
    of = f"description {kind + 1}"
    return f"similarity with {of}", f"share of the words of {of}", f"largest share of the words of {of} below it"


def readable(texts: tuple[sp.csr_matrix, ...], words: sp.csr_matrix) -> tuple[sp.csr_matrix, ...]:
    """Descriptions without the words that no row has: held-out rows may have such words, and new rows cannot, if the features
    were made of the training rows alone."""
    known = np.bincount(words.indices, minlength=words.shape[1]) > 0
    return tuple(sp.csr_matrix(text @ sp.diags(known.astype(np.float32))) for text in texts)


def beyond(texts: tuple[sp.csr_matrix, ...], words: sp.csr_matrix) -> bool:
    """Whether descriptions have words that no row has: then features were made of both, and new rows may have them."""
    known = np.bincount(words.indices, minlength=words.shape[1]) > 0
    return any(not known[text.indices].all() for text in texts)


def of_nodes(texts: tuple[sp.csr_matrix, ...], nodes: Nodes) -> tuple[sp.csr_matrix, ...]:
    """Descriptions of some nodes of the tree."""
    return tuple(sp.csr_matrix(text[nodes.node]) for text in texts)
