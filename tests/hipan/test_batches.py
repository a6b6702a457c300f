"""A row's numbers are the same bits alone, in a batch of seven and among many, with more classes than candidates."""

import numpy as np
import pytest
from scipy import sparse

from vpunn import Tree
from vpunn.hipan import HiPaNClassifier

RNG = np.random.default_rng(0)
TREE = Tree.from_parents([-1] + [0] * 12 + [1 + i // 12 for i in range(144)])
LEAVES = TREE.leaves
Y = RNG.integers(0, len(LEAVES), 900)
NUMBERS = RNG.normal(size=(len(LEAVES), 32))[Y] + RNG.normal(size=(900, 32)) * 1.2
WIDER = np.hstack([NUMBERS, RNG.normal(size=(900, 40))])
MARKS = RNG.integers(0, 400, (len(LEAVES), 4))[Y]
WORDS = sparse.csr_matrix((np.ones(3600), (np.repeat(np.arange(900), 4), MARKS.ravel())), shape=(900, 400))
WORDS = sparse.csr_matrix(WORDS + sparse.random(900, 400, 0.03, random_state=0, format="csr"))


@pytest.mark.parametrize("kind", ["words", "numbers", "both", "many items"])
def test_a_row_alone_equals_the_row_in_a_batch(kind, monkeypatch):
    if kind == "many items":  # products are made a block at a time and not kept
        monkeypatch.setattr("vpunn.hipan._dense.CROWD", 0)

    def rows(part):
        if kind in ("both", "many items"):
            return {"words": WORDS[part], "numbers": (NUMBERS if kind == "both" else WIDER)[part]}
        return WORDS[part] if kind == "words" else NUMBERS[part]

    model = HiPaNClassifier(TREE, random_state=0).fit(rows(slice(None)), TREE.labels[LEAVES[Y]])
    together = model.predict_node_proba(rows(slice(0, 56)))
    for width in (1, 7):
        for start in range(0, 56, width):
            part = slice(start, start + width)
            assert np.array_equal(model.predict_node_proba(rows(part)), together[part])


def test_the_order_of_an_array_in_memory_is_no_matter():
    rng, y = np.random.default_rng(5), np.arange(300) % 5
    X = np.round(np.eye(20)[y] + rng.normal(size=(300, 20)), 1)
    by_row, by_column = (HiPaNClassifier(random_state=0).fit(a, y).predict_proba(X) for a in (X, np.asfortranarray(X)))
    assert by_row.tobytes() == by_column.tobytes()
