"""Run one other tool on one task and write what it answered. Started by `baselines` in an interpreter that has the tool.

    python peer_runner.py METHOD FOLDER

FOLDER holds train.npz, test.npz (sparse features), train_nodes.npy, parent.npy (a tree in preorder), and train.txt, test.txt;
the answer goes to METHOD.npz: nodes (rows, 5) best first, scores, seconds and bytes. Needs only numpy and scipy and the tool.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

TOP = 5


def main(method: str, folder: str) -> None:
    """Train, predict, write."""
    here = Path(folder)
    data = {
        "train": sparse.load_npz(here / "train.npz").tocsr().astype(np.float32),
        "test": sparse.load_npz(here / "test.npz").tocsr().astype(np.float32),
        "nodes": np.load(here / "train_nodes.npy"),
        "parent": np.load(here / "parent.npy"),
        "folder": here,
    }
    runner = METHODS[method]
    nodes, scores, fit_seconds, predict_seconds, size = runner(data)
    part = here / f"{method}.part.npz"
    np.savez(part, nodes=nodes, scores=scores, fit_seconds=fit_seconds, predict_seconds=predict_seconds, bytes=size)
    os.replace(part, here / f"{method}.npz")


def _size(path: Path) -> int:
    """Bytes of a file or folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def _best(rows: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """The largest entries of each row of a sparse score matrix."""
    nodes, scores = np.full((rows.shape[0], TOP), -1), np.zeros((rows.shape[0], TOP))
    for i in range(rows.shape[0]):
        part = slice(rows.indptr[i], rows.indptr[i + 1])
        order = np.argsort(-rows.data[part], kind="stable")[:TOP]
        nodes[i, : len(order)], scores[i, : len(order)] = rows.indices[part][order], rows.data[part][order]
    return nodes, scores


def _levels(parent: np.ndarray) -> list[np.ndarray]:
    """For every depth the cluster of each node: its ancestor there, or (shallower nodes) a pseudo-leaf chain of its own."""
    n = len(parent)
    depth = np.zeros(n, np.int64)
    for i in range(1, n):
        depth[i] = depth[parent[i]] + 1
    inner = np.zeros(n, bool)
    inner[parent[1:]] = True
    levels = []
    for k in range(1, int(depth.max()) + 1):
        ancestor = np.arange(n)
        for _ in range(int(depth.max())):
            deeper = depth[ancestor] > k
            ancestor[deeper] = parent[ancestor[deeper]]
        levels.append(np.where((depth < k) & inner, n + np.arange(n), ancestor))
    return levels


def run_pecos(data: dict[str, Any]) -> tuple[Any, ...]:
    """PECOS XR-Linear with its defaults on our tree; inner nodes become pseudo-leaves."""
    from pecos.utils.cluster_util import ClusterChain
    from pecos.xmc.xlinear.model import XLinearModel

    n = len(data["parent"])
    chain, above, width = [], np.zeros(n, np.int64), 1
    for clusters in _levels(data["parent"]):
        names, group = np.unique(clusters, return_inverse=True)
        if len(names) == n:
            break
        up = np.zeros(len(names), np.int64)
        up[group] = above
        chain.append(
            sparse.csc_matrix((np.ones(len(names), np.float32), (np.arange(len(names)), up)), shape=(len(names), width))
        )
        above, width = group, len(names)
    chain.append(sparse.csc_matrix((np.ones(n, np.float32), (np.arange(n), above)), shape=(n, width)))
    rows = len(data["nodes"])
    targets = sparse.csr_matrix((np.ones(rows, np.float32), (np.arange(rows), data["nodes"])), shape=(rows, n))
    start = time.perf_counter()
    model = XLinearModel.train(data["train"], targets, C=ClusterChain(chain), threads=1)
    fitted = time.perf_counter()
    found = model.predict(data["test"], only_topk=TOP, threads=1).tocsr()
    done = time.perf_counter()
    folder = data["folder"] / "pecos-model"
    shutil.rmtree(folder, ignore_errors=True)
    model.save(str(folder))
    return (*_best(found), fitted - start, done - fitted, _size(folder))


def _run_napkin(data: dict[str, Any], kind: str) -> tuple[Any, ...]:
    from napkinxc import models

    parent = data["parent"]
    n = len(parent)
    inner = np.zeros(n, bool)
    inner[parent[1:]] = True
    # (parent, node, label) with −1 for "no label": an inner node gets a pseudo-leaf child that carries its label.
    structure = [(-1, 0, -1)]
    structure += [(int(parent[i]), i, -1 if inner[i] else i) for i in range(1, n)]
    structure += [(int(i), n + k, int(i)) for k, i in enumerate(np.flatnonzero(inner))]
    folder = data["folder"] / f"napkin-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    model = getattr(models, kind)(str(folder), threads=1, tree_structure=structure, verbose=False)
    start = time.perf_counter()
    model.fit(data["train"], [[int(y)] for y in data["nodes"]])
    fitted = time.perf_counter()
    answers = model.predict_proba(data["test"], top_k=TOP)
    done = time.perf_counter()
    nodes, scores = np.full((len(answers), TOP), -1), np.zeros((len(answers), TOP))
    for i, pairs in enumerate(answers):
        for j, (label, p) in enumerate(pairs[:TOP]):
            nodes[i, j], scores[i, j] = label, p
    return nodes, scores, fitted - start, done - fitted, _size(folder)


def run_napkin_plt(data: dict[str, Any]) -> tuple[Any, ...]:
    """napkinXC probabilistic label tree on our tree."""
    return _run_napkin(data, "PLT")


def run_napkin_hsm(data: dict[str, Any]) -> tuple[Any, ...]:
    """napkinXC hierarchical soft-max on our tree."""
    return _run_napkin(data, "HSM")


def run_fasttext(data: dict[str, Any]) -> tuple[Any, ...]:
    """fastText with Huffman hierarchical soft-max on the raw words and word pairs (it makes its own features)."""
    import fasttext

    folder = data["folder"]
    texts = (folder / "train.txt").read_text(encoding="utf-8").split("\n")
    lines = [f"__label__{y} {text}" for y, text in zip(data["nodes"], texts)]  # noqa: B905 (old interpreters)
    (folder / "fasttext.txt").write_text("\n".join(lines), encoding="utf-8")
    start = time.perf_counter()
    model = fasttext.train_supervised(
        str(folder / "fasttext.txt"),
        loss="hs",
        wordNgrams=2,
        epoch=50,
        lr=0.5,
        dim=100,
        thread=1,
        verbose=0,
        bucket=200000,
    )
    fitted = time.perf_counter()
    queries = (folder / "test.txt").read_text(encoding="utf-8").split("\n")
    labels, p = model.predict(queries, k=TOP)
    done = time.perf_counter()
    nodes, scores = np.full((len(queries), TOP), -1), np.zeros((len(queries), TOP))
    for i, (names, values) in enumerate(zip(labels, p)):  # noqa: B905
        nodes[i, : len(names)] = [int(name[9:]) for name in names]
        scores[i, : len(names)] = values
    model.save_model(str(folder / "fasttext.bin"))
    return nodes, scores, fitted - start, done - fitted, _size(folder / "fasttext.bin")


def _flat(data: dict[str, Any], model: Any) -> tuple[Any, ...]:
    """A scikit-learn style classifier on node ids."""
    import pickle

    classes, y = np.unique(data["nodes"], return_inverse=True)
    start = time.perf_counter()
    model.fit(data["train"], y)
    fitted = time.perf_counter()
    answer = model.predict_proba(data["test"])
    done = time.perf_counter()
    order = np.argsort(-answer, axis=1, kind="stable")[:, :TOP]
    size = len(pickle.dumps(model))
    return classes[order], np.take_along_axis(answer, order, 1), fitted - start, done - fitted, size


def run_sgd(data: dict[str, Any]) -> tuple[Any, ...]:
    """The paper's B1: logistic regression by SGD, one classifier per class."""
    from sklearn.linear_model import SGDClassifier

    return _flat(data, SGDClassifier(loss="log_loss", random_state=0))


def run_mlp(data: dict[str, Any]) -> tuple[Any, ...]:
    """The paper's B2: one hidden layer of 256 ReLU units."""
    from sklearn.neural_network import MLPClassifier

    return _flat(data, MLPClassifier((256,), early_stopping=True, max_iter=20, random_state=0))


def run_xgboost(data: dict[str, Any]) -> tuple[Any, ...]:
    """The paper's B5."""
    from xgboost import XGBClassifier

    return _flat(data, XGBClassifier(n_jobs=1, n_estimators=100, random_state=0))


def run_lightgbm(data: dict[str, Any]) -> tuple[Any, ...]:
    """The paper's B6."""
    from lightgbm import LGBMClassifier

    return _flat(data, LGBMClassifier(n_jobs=1, n_estimators=100, random_state=0, verbose=-1))


def run_hiclass(data: dict[str, Any]) -> tuple[Any, ...]:
    """hiclass, one logistic regression per parent node (it returns the best path only, without probabilities)."""
    import pickle

    from hiclass import LocalClassifierPerParentNode
    from sklearn.linear_model import LogisticRegression

    parent, nodes = data["parent"], data["nodes"]
    paths = []
    for node in nodes:
        path = [int(node)]
        while parent[path[-1]] >= 0:
            path.append(int(parent[path[-1]]))
        paths.append([str(i) for i in path[::-1][1:]])
    depth = max(map(len, paths))
    table = np.array([path + [""] * (depth - len(path)) for path in paths], dtype=object)
    model = LocalClassifierPerParentNode(local_classifier=LogisticRegression(max_iter=100), n_jobs=1)
    start = time.perf_counter()
    model.fit(data["train"], table)
    fitted = time.perf_counter()
    answer = model.predict(data["test"])
    done = time.perf_counter()
    best = np.full((len(answer), TOP), -1)
    for i, row in enumerate(answer):
        path = [cell for cell in row if cell != ""]
        best[i, 0] = int(path[-1]) if path else 0
    return best, np.full((len(answer), TOP), np.nan), fitted - start, done - fitted, len(pickle.dumps(model))


METHODS = {
    "pecos": run_pecos,
    "napkinxc-plt": run_napkin_plt,
    "napkinxc-hsm": run_napkin_hsm,
    "fasttext": run_fasttext,
    "hiclass": run_hiclass,
    "sgd-logistic": run_sgd,
    "mlp-256": run_mlp,
    "xgboost": run_xgboost,
    "lightgbm": run_lightgbm,
}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
