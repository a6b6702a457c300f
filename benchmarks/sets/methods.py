"""Methods that score every ball of every test row; each is a function (X, Y, X_test, task, seed) → scores (rows × nodes).

``Y`` are the training sets with all ancestors by any path. Peers that need an environment of their own run in it (`peer.py`).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

Scores = sparse.csr_matrix
#: Interpreters of peers, from VPUNN_PEERS="pecos=/path/to/python,napkinxc=/path/to/python".
PEERS = dict(part.split("=", 1) for part in os.environ.get("VPUNN_PEERS", "").split(",") if "=" in part)


def vpunn(X: Any, Y: Any, X_test: Any, task: Any, seed: int) -> Scores:
    """`HiPaNClassifier` on the sets as annotated."""
    from vpunn import HiPaNClassifier

    model = HiPaNClassifier(task.tree, random_state=seed).fit(X, task.labels("train"))
    parts = []
    for _, p in model.posterior(X_test).chunks():
        p[:, 0] = 0.0
        parts.append(sparse.csr_matrix(np.where(p >= 0.005, p, 0.0)))
    return sparse.csr_matrix(sparse.vstack(parts))


def nearest(X: Any, Y: Any, X_test: Any, task: Any, seed: int, k: int = 10, power: float = 3.0) -> Scores:
    """Votes of the ten nearest rows, weighted by a power of the cosine (the best of 0 to 3)."""
    similarity = sparse.csr_matrix(X_test @ X.T)
    rows, columns, values = [], [], []
    for i in range(similarity.shape[0]):
        low, high = similarity.indptr[i], similarity.indptr[i + 1]
        order = np.argsort(-similarity.data[low:high], kind="stable")[:k]
        weight = similarity.data[low:high][order] ** power
        rows += [i] * len(order)
        columns += similarity.indices[low:high][order].tolist()
        values += (weight / max(weight.sum(), 1e-12)).tolist()
    return sparse.csr_matrix(sparse.csr_matrix((values, (rows, columns)), shape=similarity.shape) @ Y)


def linear_svm(X: Any, Y: Any, X_test: Any, task: Any, seed: int) -> Scores:
    """One `LinearSVC` per ball against all other rows; 1/(1 + exp(−3·margin)) as the score."""
    from sklearn.svm import LinearSVC

    columns = Y.tocsc()
    rows, places, values = [], [], []
    for ball in np.flatnonzero(np.diff(columns.indptr)):
        target = np.zeros(X.shape[0], int)
        target[columns.indices[columns.indptr[ball] : columns.indptr[ball + 1]]] = 1
        if target.all():
            score = np.ones(X_test.shape[0])
        else:
            margin = LinearSVC(random_state=seed).fit(X, target).decision_function(X_test)
            score = 1.0 / (1.0 + np.exp(-3.0 * margin))
        at = np.flatnonzero(score >= 0.02)
        rows.append(at)
        places.append(np.full(len(at), ball))
        values.append(score[at])
    where = np.concatenate(rows), np.concatenate(places)
    return sparse.csr_matrix((np.concatenate(values), where), shape=(X_test.shape[0], Y.shape[1]))


def _peer(name: str, X: Any, Y: Any, X_test: Any, seed: int) -> tuple[Scores, float]:
    """A peer in its own environment, and its own CPU seconds for training and prediction."""
    kept = np.flatnonzero(np.asarray(Y.sum(0)).ravel() > 0)
    with tempfile.TemporaryDirectory() as folder:
        for part, matrix in (("X", X), ("Y", Y[:, kept]), ("test", X_test)):
            sparse.save_npz(Path(folder) / part, sparse.csr_matrix(matrix, dtype=np.float32))
        script = Path(__file__).parent / "peer.py"
        interpreter = PEERS["pecos" if name == "pecos" else "napkinxc"]
        subprocess.run([interpreter, str(script), name, folder, str(seed)], check=True, capture_output=True)
        found = sparse.load_npz(Path(folder) / "scores.npz").tocoo()
        seconds = float((Path(folder) / "cpu.txt").read_text())
    return sparse.csr_matrix((found.data, (found.row, kept[found.col])), shape=(X_test.shape[0], Y.shape[1])), seconds


METHODS = {"vpunn": vpunn, "10-NN": nearest, "one-vs-rest SVM": linear_svm}


def run(name: str, X: Any, Y: Any, X_test: Any, task: Any, seed: int) -> tuple[Scores, float]:
    """Scores of a method and its CPU seconds."""
    if name not in METHODS:
        return _peer(name, X, Y, X_test, seed)
    start = time.process_time()
    scores = METHODS[name](X, Y, X_test, task, seed)
    return scores, time.process_time() - start
