"""Methods that score every ball of every test row, each in a process of its own, so that CPU and memory are its own.

``Y`` are the training sets with all ancestors by any path, one column per ball that some training row has. Peers that need an
environment of their own run in it: VPUNN_PEERS="pecos=/path/to/python,napkinxc=/path/to/python".
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.sets import peer

Scores = sparse.csr_matrix
#: Interpreters of peers.
PEERS = dict(part.split("=", 1) for part in os.environ.get("VPUNN_PEERS", "").split(",") if "=" in part)
#: What a method costs that is not run itself.
FREE = {"fit CPU s": np.nan, "rows/s": np.nan, "peak MB": np.nan}


def fit_vpunn(X: Any, Y: Any, seed: int, folder: Path) -> Any:
    """`HiPaNClassifier` on the sets as annotated; compiled loops are ready before the clock starts (`_warm`)."""
    from vpunn import HiPaNClassifier

    with np.load(folder / "sets.npz") as stored:
        start, ids = stored["start"], stored["ids"]
    tree = _tree(folder)
    labels = [set(tree.labels[ids[a:b]].tolist()) for a, b in itertools.pairwise(start)]
    nodes = sparse.load_npz(folder / "nodes.npz")
    return HiPaNClassifier(tree, random_state=seed).fit(X, labels, X_nodes=nodes if nodes.shape[0] else None)


def score_vpunn(model: Any, test: Any, width: int) -> Scores:
    """Marginals of at least 0.005, by ball."""
    parts = []
    for part in (posterior := model.posterior(test)).parts():
        p = posterior.marginals(part)
        parts.append(sparse.csr_matrix(np.where(p >= 0.005, p, 0.0)))
    return sparse.csr_matrix(sparse.vstack(parts))


def fit_nearest(X: Any, Y: Any, seed: int, folder: Path) -> Any:
    """Nothing to fit."""
    return X, Y


def score_nearest(model: Any, test: Any, width: int, k: int = 10, power: float = 3.0) -> Scores:
    """Votes of the ten nearest rows, weighted by a power of the cosine (the best of 0 to 3)."""
    X, Y = model
    parts = []
    for at in range(0, test.shape[0], 500):
        similarity = sparse.csr_matrix(test[at : at + 500] @ X.T)
        rows, columns, values = [], [], []
        for i in range(similarity.shape[0]):
            low, high = similarity.indptr[i], similarity.indptr[i + 1]
            order = np.argsort(-similarity.data[low:high], kind="stable")[:k]
            weight = similarity.data[low:high][order] ** power
            rows += [i] * len(order)
            columns += similarity.indices[low:high][order].tolist()
            values += (weight / max(weight.sum(), 1e-12)).tolist()
        parts.append(sparse.csr_matrix((values, (rows, columns)), shape=similarity.shape) @ Y)
    return sparse.csr_matrix(sparse.vstack(parts))


def fit_svm(X: Any, Y: Any, seed: int, folder: Path) -> Any:
    """One `LinearSVC` per ball against all other rows; weights (balls × features) and offsets. Balls of all rows are sure."""
    from sklearn.svm import LinearSVC

    columns = Y.tocsc()
    weights, offset = [], np.full(Y.shape[1], 9.0)
    for ball in range(Y.shape[1]):
        target = np.zeros(X.shape[0], int)
        target[columns.indices[columns.indptr[ball] : columns.indptr[ball + 1]]] = 1
        if target.all():
            weights.append(sparse.csr_matrix((1, X.shape[1]), dtype=np.float32))
            continue
        model = LinearSVC(random_state=seed).fit(X, target)
        weights.append(sparse.csr_matrix(model.coef_.astype(np.float32)))
        offset[ball] = model.intercept_[0]
    return sparse.csr_matrix(sparse.vstack(weights)), offset


def score_svm(model: Any, test: Any, width: int) -> Scores:
    """1/(1 + exp(−3·margin)) of at least 0.02."""
    weights, offset = model
    parts = []
    for at in range(0, test.shape[0], 500):
        margin = (test[at : at + 500] @ weights.T).toarray() + offset
        score = 1.0 / (1.0 + np.exp(-3.0 * margin))
        parts.append(sparse.csr_matrix(np.where(score >= 0.02, score, 0.0)))
    return sparse.csr_matrix(sparse.vstack(parts))


METHODS = {
    "vpunn": (fit_vpunn, score_vpunn),
    "10-NN": (fit_nearest, score_nearest),
    "one-vs-rest SVM": (fit_svm, score_svm),
}


def run(
    name: str, X: Any, Y: Any, test: Any, nodes: Any, task: Any, seed: int, limit: float
) -> tuple[Scores, dict[str, float]]:
    """Scores (rows × nodes) of a method and what it cost; TimeoutError after ``limit`` seconds by the clock.

    ``nodes`` are descriptions of all nodes, or has no rows.
    """
    kept = np.flatnonzero(np.asarray(Y.sum(0)).ravel() > 0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for part, matrix in (("X", X), ("Y", Y[:, kept]), ("test", test), ("nodes", nodes)):
            sparse.save_npz(folder / part, sparse.csr_matrix(matrix, dtype=np.float32), compressed=False)
        rows = task.nodes["train"]
        start = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        np.savez(folder / "sets.npz", start=start, ids=np.concatenate(rows))
        task.tree.save(folder / "tree")
        command = (
            [PEERS[name.split("-")[0]], peer.__file__] if name in peer.METHODS else [sys.executable, "-m", __name__]
        )
        try:
            subprocess.run([*command, name, temporary, str(seed)], check=True, capture_output=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{name} did not finish in {limit:.0f} s") from None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{name} failed: {error.stderr.decode()[-500:]}") from None
        found = sparse.load_npz(folder / "scores.npz").tocoo()
        cost = json.loads((folder / "cost.json").read_text())
    return sparse.csr_matrix((found.data, (found.row, kept[found.col])), shape=(test.shape[0], Y.shape[1])), cost


def _tree(folder: Path) -> Any:
    from vpunn import Tree

    return Tree.load(folder / "tree")


def _warm() -> None:
    """Compile, or read compiled loops from the cache, before any clock starts."""
    from vpunn import HiPaNClassifier

    X = sparse.random(60, 30, 0.3, random_state=0, format="csr")
    model = HiPaNClassifier(random_state=0).fit(X, [{"a", "b"}, {"b"}, {"a"}] * 20)
    model.predict_proba(X)


if __name__ == "__main__":
    if sys.argv[1] == "vpunn":
        _warm()
    peer.run(*METHODS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]))
