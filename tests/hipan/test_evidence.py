"""Every evidence column of the words, recomputed from the items with dense arrays and plain loops."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vpunn.hipan._arrays import Sparse
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._combiner import EVIDENCE, KIND_EVIDENCE, evidence_names
from vpunn.hipan._experts import Experts
from vpunn.hipan._linear import Linear
from vpunn.hipan._views import Rows, unit_rows
from vpunn.hipan._weights import Heads, by_likelihood
from vpunn.hipan.kernels.evidence import N_EVIDENCE, N_PER_KIND
from vpunn.tree import Tree


def as_dense(rows, shape):
    return sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=shape).toarray().astype(float)


class Twin:
    """What the kernels read, as dense arrays."""

    def __init__(self, tree, balls, heads, dense, nodes, weight, kind):
        self.tree, self.heads, self.dense, self.nodes, self.kind = tree, heads, dense, nodes, kind
        n = tree.n_nodes
        self.own = np.array([(weight[nodes == c, None] * dense[nodes == c]).sum(0) for c in range(n)])
        self.ball = np.array([self.own[b : b + tree.size[b]].sum(0) for b in range(n)])
        self.count = np.array([weight[(nodes == c) & (kind == 0)].sum() for c in range(n)])
        self.W = np.zeros((2 * n, dense.shape[1]))
        self.W[balls.entry_block, np.repeat(np.arange(dense.shape[1]), np.diff(balls.feature_start))] = heads.weight
        self.background = self.own.sum(0) / self.own.sum()
        self.typical = self.own[self.own > 0].mean()

    def above(self, c):
        """Inner balls around node c, outermost first, without the root."""
        return [u for u in self.tree.ancestors(int(c)) if u and not self.tree.is_leaf[u]]

    def likelihood(self, sums, x):
        share = self.background
        for total in sums:
            news = (total > 0).sum() * self.typical
            share = (total + news * share) / (total.sum() + news)
        seen = self.background > 0
        return (x[seen] * np.log(share[seen] / self.background[seen])).sum()

    def by_own_rows(self, own, x):
        """Before any row a node is expected to have met as much as all have in the mean where they have a feature at all."""
        nodes_of_a_feature = (self.own > 0).sum() / (self.background > 0).sum()
        before = self.own.sum() / nodes_of_a_feature
        seen = self.background > 0
        share = (own + before * self.background) / (own.sum() + before)
        return (x[seen] * np.log(share[seen] / self.background[seen])).sum()

    def score(self, x, c):
        return self.W[c] @ x + self.heads.bias[c]

    def path(self, x, c):
        return sum(self.score(x, self.tree.n_nodes + u) for u in self.above(c))

    def of(self, x, read, candidates):
        """A dict of columns for one row and its candidates."""
        tree, own, ball = self.tree, self.own, self.ball
        parent = [int(tree.parent[c]) for c in candidates]
        first = np.flatnonzero(tree.depth == 1)
        branch = [int((first <= c).sum()) for c in candidates]

        def cosine(sums, y):
            return sums @ y / np.linalg.norm(sums) if np.linalg.norm(sums) > 1e-3 else 0.0

        def cover(sums):
            return (x[sums != 0] ** 2).sum()

        def items(c, y, k=0):
            return np.sort(self.dense[(self.nodes == c) & (self.kind == k)] @ y)[::-1]

        def best(values, place=0):
            return max(values[place], 0.0) if len(values) > place else 0.0

        up = [ball[p] if p > 0 else np.zeros_like(x) for p in parent]
        far = [ball[tree.parent[p]] if p > 0 and tree.parent[p] > 0 else np.zeros_like(x) for p in parent]
        whole = [ball[c] if not tree.is_leaf[c] and c else own[c] for c in candidates]
        z = {
            "cosine with the node's own centroid": [cosine(own[c], x) for c in candidates],
            "cosine with its ball's centroid": [cosine(s, x) for s in whole],
            "cosine with the parent ball's centroid": [cosine(s, x) for s in up],
            "cosine with the grandparent ball's centroid": [cosine(s, x) for s in far],
            "similarity of the nearest training item": [best(items(c, x)) for c in candidates],
            "similarity of the second nearest item": [best(items(c, x), 1) for c in candidates],
            "share of the row the node has seen": [cover(own[c]) for c in candidates],
            "share of the row its ball has seen": [cover(s) for s in whole],
            "share of the row the parent ball has seen": [cover(s) for s in up],
            "head score of the node's own block": [self.score(x, c) for c in candidates],
            "log count of training items": [np.log1p(self.count[c]) for c in candidates],
            "log count in the parent ball": [
                np.log1p(self.count[p : p + tree.size[p]].sum() if p >= 0 else self.count.sum()) for p in parent
            ],
            "depth": [0.1 * tree.depth[c] for c in candidates],
            "inner node": [float(not tree.is_leaf[c]) for c in candidates],
            "none of the candidates": [0.0] * len(candidates),
            "log number of siblings": [np.log1p(tree.n_children[p] if p >= 0 else 0) for p in parent],
            "log number of features in the row": [np.log1p((x != 0).sum())] * len(candidates),
            "nearest item, row read through the dictionary": [best(items(c, read)) for c in candidates],
            "cosine with the node's centroid, row read through the dictionary": [
                cosine(own[c], read) for c in candidates
            ],
        }
        z = {name: np.array(values, float) for name, values in z.items()}
        like = [self.likelihood([ball[u] for u in self.above(c)] + [own[c]], x) for c in candidates]
        z["log-likelihood shrunk along the ancestors, below the best"] = below(like)
        alone = [self.by_own_rows(own[c], x) for c in candidates]
        z["log-likelihood by the node's own rows, below the best"] = below(alone)
        head = np.array([self.path(x, c) + self.score(x, c) for c in candidates])
        z["head score below the best"] = below(head)
        z["head score of the parent's path, below the best"] = below(
            [self.path(x, p) if p > 0 else 0.0 for p in parent]
        )
        p = np.exp(below(head))
        z["log-probability by the heads"] = np.log(p / p.sum())
        z["log-probability of the parent by the heads"] = together(p, parent)
        outer = [
            self.above(c)[0] if self.above(c) else -int(c) for c in candidates
        ]  # the outermost block around a node
        z["log-probability of the depth-1 ball by the heads"] = together(p, outer)
        nearest = z["similarity of the nearest training item"]
        product = z["cosine with the node's own centroid"] * z["share of the row the node has seen"]
        z["coverage × cosine below the best"] = below(product)
        z["nearest-item similarity below the best"] = below(nearest)
        z["cosine below the best"] = below(z["cosine with the node's own centroid"])
        z["nearest item among siblings, below the best"] = (
            np.array([max(nearest[i] for i in range(len(parent)) if parent[i] == q) for q in parent]) - nearest.max()
        )
        z["nearest item through the dictionary, below the best"] = below(
            z["nearest item, row read through the dictionary"]
        )
        z["cosine through the dictionary, below the best"] = below(
            z["cosine with the node's centroid, row read through the dictionary"]
        )
        fits = [self.likelihood([ball[u] for u in self.above(c)[:1]] or [own[c]], x) for c in candidates]
        z["log-likelihood of the depth-1 ball, below the best"] = below(fits)
        score = x @ self.heads.branch[:-1] + self.heads.branch[-1]
        z["score of the depth-1 ball among all of them, below the best"] = np.array(
            [score[b - 1] - score.max() if b else 0.0 for b in branch]
        )
        said = np.array([[self.described(c, x, read)[k] for c in candidates] for k in range(3)])
        for k, name in enumerate(
            (
                "similarity with description 1",
                "share of description 1",
                "similarity with description 1 through the dictionary",
            )
        ):
            z[f"{name}, below the best"] = below(said[k])
        z["similarity with description 1"], z["share of description 1 that the row has"] = said[0], said[1]
        z["similarity with description 1, row read through the dictionary"] = said[2]
        return z, score

    def described(self, c, x, read):
        found = self.dense[(self.nodes == c) & (self.kind == 1)]
        return [found[0] @ x, (found[0][x != 0] ** 2).sum(), found[0] @ read] if len(found) else [0.0, 0.0, 0.0]


def below(values):
    return np.asarray(values, float) - np.max(values)


def together(p, group):
    return np.array([np.log(sum(p[i] for i in range(len(p)) if group[i] == g) / p.sum()) for g in group])


def small_model():
    """A tree with rows and descriptions at inner nodes and leaves, random heads, rows to ask about, and the twin."""
    rng = np.random.default_rng(1)
    tree = Tree.from_parents(np.array([-1, 0, 1, 2, 2, 1, 5, 5, 0, 8, 8, 10, 10, 0, 13]))
    X = unit_rows(sparse.csr_matrix(rng.random((80, 25)) * (rng.random((80, 25)) < 0.25)))
    nodes = rng.integers(0, tree.n_nodes, 80)
    weight = rng.random(80).astype(np.float32) + 0.5
    kind = np.zeros(80, np.int8)
    kind[np.unique(nodes, return_index=True)[1][:6]] = 1  # a description for six of the nodes
    balls = Balls(tree, Items(X, nodes.astype(np.int32), weight, kind))
    heads = Heads.zeros(balls)
    heads.branch[:] = rng.normal(size=heads.branch.shape)
    heads.weight[:] = rng.normal(size=balls.n_entries)
    heads.bias[:] = rng.normal(size=2 * tree.n_nodes)
    queries = unit_rows(sparse.csr_matrix(rng.random((8, 25)) * (rng.random((8, 25)) < 0.4)))
    return balls, heads, queries, Twin(tree, balls, heads, X.toarray().astype(float), nodes, weight, kind)


def test_all_evidence_of_words_matches_a_slow_twin():
    balls, heads, queries, twin = small_model()
    experts = Experts(balls, heads, Linear.none(balls), {})
    candidates, evidence, branch_score = experts.examine(Rows(queries, {}), 6)
    names = evidence_names(1)
    assert len(EVIDENCE) == N_EVIDENCE and len(KIND_EVIDENCE) == N_PER_KIND
    assert evidence.shape[2] == len(experts.names()) and experts.names()[: len(names)] == names
    read = as_dense(balls.dictionary.read(Sparse.of(queries)), queries.shape)
    for r, x in enumerate(queries.toarray().astype(float)):
        here = candidates[r][candidates[r] >= 0]
        expected, score = twin.of(x, read[r], here)
        assert set(expected) == set(names)
        np.testing.assert_allclose(branch_score[r], score, rtol=1e-3, atol=1e-4)
        for k, name in enumerate(names):
            np.testing.assert_allclose(evidence[r, : len(here), k], expected[name], rtol=2e-3, atol=2e-4, err_msg=name)
        assert evidence[r, -1, names.index("none of the candidates")] == 1


def test_nodes_are_proposed_by_the_likelihood_of_the_row():
    balls, _, queries, twin = small_model()
    proposed = by_likelihood(balls, Sparse.of(queries), 6)
    for r, x in enumerate(queries.toarray().astype(float)):
        there = np.flatnonzero((twin.own[:, x > 0] > 0).any(1))  # nodes that have met a feature of the row
        alone = np.array([twin.by_own_rows(twin.own[c], x) for c in there])
        assert proposed[r].tolist() == there[np.argsort(-alone)][:6].tolist()
    one = np.concatenate([by_likelihood(balls, Sparse.of(queries[r : r + 1]), 6) for r in range(queries.shape[0])])
    assert np.array_equal(one, proposed)
