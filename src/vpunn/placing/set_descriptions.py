"""Descriptions of the nodes themselves (`X_nodes`), compared with rows that have several labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from vpunn.placing.layout import unit_rows
from vpunn.placing.set_nodes import Nodes
from vpunn.placing.set_trust import weighed

#: A node is a candidate if the cosine with its description, or the share of its words in the row, is above these.
COSINE_CUT, SHARE_CUT = 0.3, 0.5
CUTS = COSINE_CUT, SHARE_CUT, SHARE_CUT


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


def names(kind: int) -> tuple[str, ...]:
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
