"""T2 measured: the exact code beside Euclidean and hyperbolic embeddings of one tree, WordNet's mammals.

Two questions. How faithful is each to the tree it was made from? And where does each put leaves that it has never seen, when all
are given the same texts? Embeddings are asked in the way that suits them best: how far down two points share their way from the
root is the Gromov product (d(o, x) + d(o, y) − d(x, y)) / 2, which is the depth of the common ancestor for an exact tree metric.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vpunn._cost import measured
from vpunn.codes import PadicCode
from vpunn.metrics import triplet_accuracy
from vpunn.paper.contents import captions
from vpunn.paper.reports._run import Bench, spread
from vpunn.report import Report
from vpunn.tree import Tree

#: The subtree every embedding is made of, splits of its leaves, neighbours a new leaf is put between, triples judged.
ROOT, SPLITS, NEIGHBOURS, TRIPLES = "mammal.n.01", 3, 5, 200_000
#: Settings of the Poincaré embedding (gensim's defaults but for the size): dimensions, epochs, negatives.
POINCARE = {"size": 10, "epochs": 50, "negative": 10}
HIDDEN = 0.2


@dataclass(frozen=True)
class Cloud:
    """Points of some nodes and the distance they are compared by."""

    points: np.ndarray
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def shared(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Gromov products of rows of points, seen from point 0."""
        o = self.points[:1]
        return np.asarray((self.distance(o, u) + self.distance(o, v) - self.distance(u, v)) / 2)


def euclid(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x − y| row by row."""
    return np.asarray(np.linalg.norm(x - y, axis=-1))


def hyperbolic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Distance in the Poincaré ball, arcosh(1 + 2|x − y|² / ((1 − |x|²)(1 − |y|²))).

    >>> round(float(hyperbolic(np.array([[0.0]]), np.array([[0.5]]))[0]), 4)          # ln 3
    1.0986
    """
    gap = ((x - y) ** 2).sum(axis=-1)
    room = (1 - (x**2).sum(axis=-1)) * (1 - (y**2).sum(axis=-1))
    return np.asarray(np.arccosh(1 + 2 * gap / np.maximum(room, 1e-15)))


def classical_scaling(tree: Tree, dimensions: int) -> Cloud:
    """The best Euclidean points for the path lengths of a tree (classical multidimensional scaling)."""
    n = tree.n_nodes
    every = np.arange(n)
    d = _path_lengths(tree, np.repeat(every, n), np.tile(every, n)).reshape(n, n).astype(float)
    centred = d**2 - (d**2).mean(axis=0) - (d**2).mean(axis=1)[:, None] + (d**2).mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    top = np.argsort(values)[::-1][:dimensions]
    return Cloud(vectors[:, top] * np.sqrt(np.maximum(values[top], 0)), euclid)


def poincare(tree: Tree, seed: int = 0) -> Cloud:
    """Nickel and Kiela's embedding by gensim, trained on all (node, ancestor) pairs."""
    import gensim.models.poincare

    path = tree.paths(np.arange(tree.n_nodes))
    node, k = np.nonzero((path >= 0) & (np.arange(path.shape[1]) < tree.depth[:, None]))
    pairs = [(str(a), str(b)) for a, b in zip(node.tolist(), path[node, k].tolist(), strict=True)]
    settings = {**POINCARE}
    epochs = settings.pop("epochs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = gensim.models.poincare.PoincareModel(pairs, seed=seed, burn_in=10, **settings)
        model.train(epochs=epochs)
    return Cloud(np.array([model.kv[str(i)] for i in range(tree.n_nodes)]), hyperbolic)


#: How each geometry is made of a tree.
MADE: dict[str, Callable[[Tree], Cloud]] = {
    "Euclidean, 10 dimensions": lambda tree: classical_scaling(tree, 10),
    "Euclidean, 100 dimensions": lambda tree: classical_scaling(tree, 100),
    f"Poincaré ball, {POINCARE['size']} dimensions": poincare,
}


def made_here() -> dict[str, Callable[[Tree], Cloud]]:
    """The geometries whose library is installed."""
    have = importlib.util.find_spec("gensim") is not None
    return {name: make for name, make in MADE.items() if have or not name.startswith("Poincaré")}


# ---- how faithful ----------------------------------------------------------------------------------------------------------


def faithful(
    tree: Tree, triples: int = TRIPLES, made: dict[str, Callable[[Tree], Cloud]] | None = None
) -> list[dict[str, Any]]:
    """One row per geometry of the whole tree: size, cost, distortion of path lengths, ρ, triplets, ultrametric defects."""
    rng = np.random.default_rng(0)
    u, v = _different(rng, tree.n_nodes, triples)
    truth, length = tree.lca_depth(u, v), _path_lengths(tree, u, v)
    with measured() as spent:
        code = PadicCode(tree)
        codes = code.encode()
    digits = code.digits()
    depth = (digits > 0).sum(axis=1)  # read off the codes, not off the tree
    shared = _common_prefix(digits[u], digits[v])
    rows = [
        {
            "geometry": f"exact code, p = {code.p}",
            "numbers": tree.n_nodes,
            "CPU s": round(spent.seconds, 3),
            "MB": round(sum(number.bit_length() // 8 + 1 for number in codes.tolist()) / 1e6, 3),
            **_fidelity(shared.astype(float), depth[u] + depth[v] - 2 * shared, truth, length),
            **_triples(
                lambda a, b: _common_prefix(digits[a], digits[b]).astype(float), tree, np.arange(tree.n_nodes), triples
            ),
        }
    ]
    for name, make in (made or made_here()).items():
        with measured() as spent:
            cloud = make(tree)
        at = cloud.points
        rows.append(
            {
                "geometry": name,
                "numbers": int(at.size),
                "CPU s": round(spent.seconds, 3),
                "MB": round(at.size * 4 / 1e6, 3),
                **_fidelity(cloud.shared(at[u], at[v]), cloud.distance(at[u], at[v]), truth, length),
                **_triples(partial(_between, cloud), tree, np.arange(tree.n_nodes), triples),
            }
        )
    return rows


def _between(cloud: Cloud, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return cloud.shared(cloud.points[a], cloud.points[b])


def _fidelity(shared: np.ndarray, distance: np.ndarray, truth: np.ndarray, length: np.ndarray) -> dict[str, Any]:
    from scipy.stats import spearmanr

    ratio = np.maximum(distance, 1e-12) / length
    return {
        "distortion, worst": float(ratio.max() / ratio.min()) if ratio.min() > 1e-9 else np.inf,
        "distortion, 5–95 %": float(np.quantile(ratio, 0.95) / np.quantile(ratio, 0.05)),
        "ρ(shared way, LCA depth)": float(spearmanr(shared, truth).statistic),
    }


def _triples(shared: Callable[[Any, Any], np.ndarray], tree: Tree, nodes: np.ndarray, triples: int) -> dict[str, float]:
    """Triplet accuracy and the share of triples in which the two shorter shared ways differ (an ultrametric has them equal)."""
    rng = np.random.default_rng(1)
    i, j, k = (rng.integers(0, len(nodes), triples) for _ in range(3))
    apart = (i != j) & (j != k) & (i != k)
    i, j, k = i[apart], j[apart], k[apart]
    pairs = ((i, j), (i, k), (j, k))
    said = np.stack([shared(a, b) for a, b in pairs])
    right = triplet_accuracy([tree.lca_depth(nodes[a], nodes[b]) for a, b in pairs], said)
    ordered = np.sort(said, axis=0)
    unit = max(float(np.quantile(ordered[2], 0.95)), 1e-9)  # the usual longest shared way
    return {
        "triplets right %": 100 * right,
        "ultrametric defects %": 100 * float((ordered[1] - ordered[0] > 0.05 * unit).mean()),
    }


# ---- where new leaves go -----------------------------------------------------------------------------------------------------


def placed(
    tree: Tree,
    texts: np.ndarray,
    seed: int,
    triples: int = TRIPLES,
    made: dict[str, Callable[[Tree], Cloud]] | None = None,
) -> dict[str, dict[str, float]]:
    """Hidden leaves placed by their texts in every geometry: ρ and triplet accuracy among them.

    The code's leaf goes below the node that `HiPaNClassifier` names, or below the parent of its nearest seen text; a point goes to
    the mean of the points of its five nearest texts, or to the point of the node that the classifier names.
    """
    from scipy.stats import spearmanr

    order = np.random.default_rng([seed, 7]).permutation(tree.leaves)
    hidden = np.sort(order[: int(HIDDEN * len(order))])
    kept = np.setdiff1d(np.arange(tree.n_nodes), hidden)
    seen = _without(tree, kept)
    leaves = np.setdiff1d(tree.leaves, hidden)
    parent, near = _by_text(tree, texts, leaves, hidden, seed)
    a, b = np.triu_indices(len(hidden), 1)
    truth = tree.lca_depth(hidden[a], hidden[b])
    at = np.searchsorted(kept, leaves[near])  # neighbours among the rows of the seen tree

    def judge(shared: Callable[[Any, Any], np.ndarray]) -> dict[str, float]:
        return {"rho": float(spearmanr(shared(a, b), truth).statistic), **_triples(shared, tree, hidden, triples)}

    def below(nodes: np.ndarray) -> Callable[[Any, Any], np.ndarray]:
        return lambda x, y: np.asarray(tree.lca_depth(nodes[x], nodes[y]), float)

    found = {
        "exact code, HiPaNClassifier": judge(below(parent)),
        "exact code, nearest text": judge(below(tree.parent[leaves[near[:, 0]]])),
    }
    for name, make in (made or made_here()).items():
        cloud = make(seen)
        points = cloud.points[at].mean(axis=1)
        home = cloud.points[np.searchsorted(kept, parent)]
        for how, p in ((f"{NEIGHBOURS} nearest texts", points), ("HiPaNClassifier", home)):
            found[f"{name}, {how}"] = judge(lambda x, y, c=cloud, p=p: c.shared(p[x], p[y]))  # type: ignore[misc]
    return found


def _without(tree: Tree, kept: np.ndarray) -> Tree:
    """The tree of some nodes that contain the parent of each of them, in the same order."""
    place = np.full(tree.n_nodes + 1, -1, np.int64)
    place[kept] = np.arange(len(kept))
    return Tree.from_parents(place[tree.parent[kept]])


def _by_text(
    tree: Tree, texts: np.ndarray, leaves: np.ndarray, hidden: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """For every hidden leaf the parent that the classifier names, and its nearest seen leaves by text."""
    from sklearn.neighbors import NearestNeighbors

    from vpunn.hipan import HiPaNClassifier
    from vpunn.text import text_features

    features = text_features(characters=None)
    rows = features.fit_transform(texts[leaves])
    asked = features.transform(texts[hidden])
    inner = np.flatnonzero(~tree.is_leaf)
    answers = _without(tree, inner)
    model = HiPaNClassifier(answers, random_state=seed).fit(
        rows, answers.labels[np.searchsorted(inner, tree.parent[leaves])]
    )
    parent = inner[model.posterior(asked).best()]
    near = NearestNeighbors(n_neighbors=NEIGHBOURS, metric="cosine").fit(rows).kneighbors(asked)[1]
    return parent, near


# ---- the section -------------------------------------------------------------------------------------------------------------


def measure(bench: Bench) -> dict[str, Any]:
    """Both questions on the mammals of the bench's WordNet."""
    whole = bench.tree
    node = int(whole.index(ROOT)) if ROOT in set(whole.labels.tolist()) else 0
    tree = whole.subtree(node)
    texts = (tree.columns["lemmas"].astype(object) + " " + tree.columns["gloss"].astype(object)).astype(object)
    splits = min(bench.seeds, SPLITS)
    return {
        "nodes": tree.n_nodes,
        "leaves": tree.n_leaves,
        "faithful": faithful(tree),
        "placed": [placed(tree, texts, seed) for seed in range(splits)],
    }


def comparison(bench: Bench, report: Report) -> None:
    """T2."""
    found = bench.fact("T2", lambda: measure(bench))
    report.table(
        f"{captions('T2')}: {found['nodes']:,} mammals of WordNet, how faithful each geometry is to its own tree",
        found["faithful"],
        name="T2",
    )
    splits = found["placed"]
    rows = [
        {
            "placement": name,
            "ρ with the true LCA depth": spread([split[name]["rho"] for split in splits], ".3f"),
            "triplets right %": spread([split[name]["triplets right %"] for split in splits], ".1f"),
        }
        for name in splits[0]
    ]
    report.table(
        f"T2: leaves never seen, placed by their texts ({len(splits)} splits, 20 % hidden)", rows, name="T2-held-out"
    )
    missing = (
        "" if any("Poincaré" in name for name in splits[0]) else " The Poincaré rows need gensim (extra `geometry`)."
    )
    report.text(
        "Distortion compares distances with path lengths (1 is exact; the code's are depth + depth − 2·shared digits, from codes "
        f"alone). Poincaré: gensim, {POINCARE['epochs']} epochs, {POINCARE['negative']} negatives. A defect is a triple whose two "
        "shorter shared ways differ by more than 5 % of the longest. The code is exact because it is read off the tree and not "
        f"learned; what is learned is the second table.{missing} The paper's T2 has no measurement behind any row, and its "
        "rows on graph networks, transformers and tree ensembles were not run here either: they embed nothing to compare."
    )
    report.text(verdict(splits))


def verdict(splits: list[dict[str, dict[str, float]]]) -> str:
    """Who places unseen leaves best, by mean triplet accuracy and the spread between splits."""
    mean = {name: np.mean([split[name]["triplets right %"] for split in splits]) for name in splits[0]}
    best = max(mean, key=lambda name: mean[name])
    ours = "exact code, HiPaNClassifier"
    others = [name for name in mean if not name.startswith("exact")]
    rival = max(others, key=lambda name: mean[name], default=None)
    if rival is None:
        return f"Verdict: {best} places unseen leaves best ({mean[best]:.1f} % of triplets)."
    beaten = all(split[ours]["triplets right %"] > split[rival]["triplets right %"] for split in splits)
    return (
        f"Verdict: {best} places unseen leaves best ({mean[best]:.1f} % of triplets). The classifier's code has "
        f"{mean[ours]:.1f} %, the best embedding ({rival}) {mean[rival]:.1f} %; the code is "
        f"{'ahead' if beaten else 'not ahead'} in every split."
    )


def _path_lengths(tree: Tree, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.asarray(tree.depth[u] + tree.depth[v] - 2 * tree.lca_depth(u, v))


def _common_prefix(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many leading digits agree, up to where one of the codes ends."""
    same = (a == b) & (a > 0)
    return np.asarray(np.cumprod(same, axis=1).sum(axis=1))


def _different(rng: np.random.Generator, n: int, many: int) -> tuple[np.ndarray, np.ndarray]:
    u, v = rng.integers(0, n, (2, many))
    return u[u != v], v[u != v]
