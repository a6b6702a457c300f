"""No table crashes: 500 random ones, of all sizes, kinds and flaws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from vpunn.hipan import HiPaNClassifier
from vpunn.tree import Tree


def table(seed: int):
    """1 to 3,000 rows of 1 to 200 classes; words, numbers or both; copies, constant columns, units apart, weights of 0."""
    rng = np.random.default_rng(seed)
    n, k = (int(np.exp(rng.uniform(0, np.log(most)))) for most in (3000, 200))
    y = rng.integers(0, k, n) if rng.random() < 0.7 else np.minimum(rng.geometric(min(1, 3 / k), n) - 1, k - 1)
    blocks = {}
    if rng.random() < 0.6:
        f = int(np.exp(rng.uniform(0, np.log(500))))
        some = sp.random_array((n, f), density=min(1, rng.uniform(0, 8) / f), rng=rng, format="csr")
        own = sp.csr_array((np.ones(n), (np.arange(n), (7 * y + rng.integers(0, 3, n)) % f)), shape=(n, f))
        blocks["words"] = sp.csr_matrix(some + own * float(rng.random() < 0.8))
    if not blocks or rng.random() < 0.4:
        f = int(np.exp(rng.uniform(0, np.log(60))))
        X = rng.normal(size=(n, f)) * 10.0 ** rng.uniform(-8, 8, f) + (y[:, None] % (np.arange(f) + 2)) * rng.random()
        for column in rng.integers(0, f, 2):
            X[:, column] = (rng.normal() * 10.0 ** rng.uniform(-6, 9), X[:, 0], X[:, column])[rng.integers(0, 3)]
        blocks["numbers"] = np.round(X) if rng.random() < 0.3 else X
    if rng.random() < 0.4:
        at = rng.integers(0, max(1, n // 3), n)
        blocks, y = {name: X[at] for name, X in blocks.items()}, y[at] if rng.random() < 0.7 else y
    weight = rng.choice([0, 1, 2, 0.001, 1e6], n) if rng.random() < 0.3 else np.ones(n)
    weight[0] = max(weight[0], 0.5)
    names = [(f"g{c % 7}", f"g{c % 7}h{c % 3}", f"c{c}")[: 3 if c % 5 else 2] for c in range(k)]
    kind = rng.integers(0, 3)
    tree = Tree.from_paths(sorted(set(names)), root="all") if kind == 0 else None
    labels = [names[c][-1] for c in y] if kind == 0 else y if kind == 1 else [(f"g{c % 7}", f"c{c}") for c in y]
    novelty = ("auto", True, False)[rng.integers(0, 3)]
    X = blocks if len(blocks) > 1 else next(iter(blocks.values()))
    return HiPaNClassifier(tree, novelty=novelty, random_state=0), X, labels, weight


@pytest.mark.parametrize(
    "seeds", [range(3), *(pytest.param(range(k, k + 50), marks=pytest.mark.slow) for k in range(0, 500, 50))]
)
def test_random_tables_have_distributions(seeds):
    for seed in seeds:
        model, X, labels, weight = table(seed)
        model.fit(X, labels, sample_weight=weight)
        p = model.predict_node_proba(X)
        assert np.isfinite(p).all() and (p > -1e-9).all() and np.allclose(p[:, 0], 1, atol=1e-5), seed
        model.top_k(X, 3), model.predict(X, stop="risk"), model.predict(X, stop="threshold", threshold=0.7)
