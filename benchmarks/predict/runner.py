"""Run one method on one case and write what it answered; works in any interpreter that has the method, numpy and scipy.

    python runner.py METHOD FOLDER

FOLDER holds, for the parts train, validation and test, a matrix per block (BLOCK-PART.npz or .npy) and PART-nodes.npy; tree.npy
(parents in preorder), the descriptions BLOCK-nodes-K.npz or .npy, groups.npy if there are groups, and PART.txt if there are texts.
The answer goes to METHOD.npz: nodes (rows, 5), best first, and scores of validation and test rows, CPU seconds, bytes, and the
memory of the whole process, at its largest and when the fit began.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

TOP = 5
#: The threshold of the cautious answer that F is taken of.
CAUTIOUS = 0.7
#: Settings tried by the tuned methods; validation rows decide.
GRID = (0.1, 0.4, 1.5, 6.0)


def main(method: str, folder: str) -> None:
    """Train, predict, write."""
    here = Path(folder)
    data = Data(here)
    nodes, scores, fit_seconds, predict_seconds, size, *more = METHODS[method](data)
    cut = len(data.truth["validation"])
    part = here / f"{method}.part.npz"
    told = {"rss": _memory_mb("VmHWM"), **(more[0] if more else {})}
    np.savez(
        part,
        **{f"{p}_nodes": nodes[s] for p, s in (("validation", slice(0, cut)), ("test", slice(cut, None)))},
        **{f"{p}_scores": scores[s] for p, s in (("validation", slice(0, cut)), ("test", slice(cut, None)))},
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        bytes=size,
        rss_before=BEFORE[0],
        **told,
    )
    os.replace(part, here / f"{method}.npz")


class Data:
    """What a folder holds; ``train`` and ``asked`` (validation, then test) are single matrices for methods that know no blocks.

    Descriptions are further training rows there. Dense blocks are standardised and all blocks put side by side.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about = json.loads((folder / "about.json").read_text())
        self.parent = np.load(folder / "tree.npy")
        self.truth = {part: np.load(folder / f"{part}-nodes.npy") for part in ("train", "validation", "test")}
        self.blocks = {b: {p: self.matrix(f"{b}-{p}") for p in self.truth} for b in self.about["blocks"]}
        self.described = {
            b: [self.matrix(f"{b}-nodes-{k}") for k in range(n)] for b, n in self.about["described"].items()
        }
        self.groups = np.load(folder / "groups.npy") if (folder / "groups.npy").exists() else None
        self._join()

    def matrix(self, name: str) -> Any:
        if (self.folder / f"{name}.npz").exists():
            return sparse.load_npz(self.folder / f"{name}.npz").tocsr().astype(np.float32)
        return np.load(self.folder / f"{name}.npy").astype(np.float32)

    def _join(self) -> None:
        kinds = max([0, *self.about["described"].values()])
        has = [
            np.flatnonzero(
                sum(
                    np.abs(self.described[b][k]).sum(1).A1
                    if sparse.issparse(self.described[b][k])
                    else np.abs(self.described[b][k]).sum(1)
                    for b in self.described
                )
                > 0
            )
            for k in range(kinds)
        ]
        self.nodes = np.concatenate([self.truth["train"], *has]).astype(np.int64)
        train, asked = [], []
        for name, parts in self.blocks.items():
            rows = [
                parts["train"],
                *(
                    self.described[name][k][has[k]] if name in self.described else parts["train"][:0]
                    for k in range(kinds)
                ),
            ]
            new = [parts["validation"], parts["test"]]
            if sparse.issparse(parts["train"]):
                train.append(sparse.vstack(rows).tocsr())
                asked.append(sparse.vstack(new).tocsr())
            else:
                centre, scale = parts["train"].mean(0), np.maximum(parts["train"].std(0), 1e-9)
                train.append((np.concatenate(rows) - centre) / scale)
                asked.append((np.concatenate(new) - centre) / scale)
        self.is_dense = not any(sparse.issparse(a) for a in train)
        join = np.concatenate if self.is_dense else lambda parts, axis: sparse.hstack(parts).tocsr()
        if self.is_dense:
            self.train, self.asked = join(train, axis=1), join(asked, axis=1)
        elif len(train) == 1:
            self.train, self.asked = train[0], asked[0]
        else:  # dense numbers weigh as much as the unit rows of words
            scaled = [a if sparse.issparse(a) else sparse.csr_matrix(a / np.sqrt(a.shape[1])) for a in train]
            self.train = sparse.hstack(scaled).tocsr()
            scaled = [a if sparse.issparse(a) else sparse.csr_matrix(a / np.sqrt(a.shape[1])) for a in asked]
            self.asked = sparse.hstack(scaled).tocsr()

    def forget(self, *names: str) -> None:
        """Let go of forms of the data that a method does not read, so that they do not count as its memory."""
        for name in names:
            setattr(self, name, None)

    def sparse_train(self) -> Any:
        return sparse.csr_matrix(self.train, dtype=np.float32)

    def sparse_asked(self) -> Any:
        return sparse.csr_matrix(self.asked, dtype=np.float32)


def _memory_mb(which: str) -> float:
    """Resident memory, now (VmRSS) or at its largest (VmHWM); getrusage would count the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(which)), float("nan"))


def _size(path: Path) -> int:
    """Bytes of a file or folder."""
    return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


clock = time.process_time
#: Resident memory when the fit began: imports, the data, and what a method needs of its own before.
BEFORE: list[float] = []


def begin() -> float:
    """The clock when a fit begins; the memory that is there by then is kept."""
    BEFORE.append(_memory_mb("VmRSS"))
    return clock()


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


def run_pecos(data: Data) -> tuple[Any, ...]:
    """PECOS XR-Linear with its defaults on our tree; inner nodes become pseudo-leaves."""
    from pecos.utils.cluster_util import ClusterChain
    from pecos.xmc.xlinear.model import XLinearModel

    n = len(data.parent)
    chain, above, width = [], np.zeros(n, np.int64), 1
    for clusters in _levels(data.parent):
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
    rows = len(data.nodes)
    targets = sparse.csr_matrix((np.ones(rows, np.float32), (np.arange(rows), data.nodes)), shape=(rows, n))
    rows, asked = data.sparse_train(), data.sparse_asked()
    data.forget("blocks", "described", "train", "asked")
    start = begin()
    model = XLinearModel.train(rows, targets, C=ClusterChain(chain), threads=1)
    fitted = clock()
    found = model.predict(asked, only_topk=TOP, threads=1).tocsr()
    done = clock()
    folder = data.folder / "pecos-model"
    shutil.rmtree(folder, ignore_errors=True)
    model.save(str(folder))
    return (*_best(found), fitted - start, done - fitted, _size(folder))


def _run_napkin(data: Data, kind: str) -> tuple[Any, ...]:
    from napkinxc import models

    parent = data.parent
    n = len(parent)
    inner = np.zeros(n, bool)
    inner[parent[1:]] = True
    # (parent, node, label) with −1 for "no label": an inner node gets a pseudo-leaf child that carries its label.
    structure = [(-1, 0, -1)]
    structure += [(int(parent[i]), i, -1 if inner[i] else i) for i in range(1, n)]
    structure += [(int(i), n + k, int(i)) for k, i in enumerate(np.flatnonzero(inner))]
    folder = data.folder / f"napkin-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    model = getattr(models, kind)(str(folder), threads=1, tree_structure=structure, verbose=False)
    start = begin()
    model.fit(data.sparse_train(), [[int(y)] for y in data.nodes])
    fitted = clock()
    answers = model.predict_proba(data.sparse_asked(), top_k=TOP)
    done = clock()
    nodes, scores = np.full((len(answers), TOP), -1), np.zeros((len(answers), TOP))
    for i, pairs in enumerate(answers):
        for j, (label, p) in enumerate(pairs[:TOP]):
            nodes[i, j], scores[i, j] = label, p
    return nodes, scores, fitted - start, done - fitted, _size(folder)


def run_napkin_plt(data: Data) -> tuple[Any, ...]:
    """napkinXC probabilistic label tree on our tree."""
    return _run_napkin(data, "PLT")


def run_napkin_hsm(data: Data) -> tuple[Any, ...]:
    """napkinXC hierarchical soft-max on our tree."""
    return _run_napkin(data, "HSM")


def run_fasttext(data: Data) -> tuple[Any, ...]:
    """fastText with Huffman hierarchical soft-max on the raw words and word pairs (it makes its own features)."""
    import fasttext

    folder = data.folder
    texts = (folder / "train.txt").read_text(encoding="utf-8").split("\n")
    lines = [f"__label__{y} {text}" for y, text in zip(data.nodes, texts)]  # noqa: B905 (old interpreters)
    (folder / "fasttext.txt").write_text("\n".join(lines), encoding="utf-8")
    start = begin()
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
    fitted = clock()
    queries = [
        line for part in ("validation", "test") for line in (folder / f"{part}.txt").read_text("utf-8").split("\n")
    ]
    labels, p = model.predict(queries, k=TOP)
    done = clock()
    nodes, scores = np.full((len(queries), TOP), -1), np.zeros((len(queries), TOP))
    for i, (names, values) in enumerate(zip(labels, p)):  # noqa: B905
        nodes[i, : len(names)] = [int(name[9:]) for name in names]
        scores[i, : len(names)] = values
    model.save_model(str(folder / "fasttext.bin"))
    return nodes, scores, fitted - start, done - fitted, _size(folder / "fasttext.bin")


def _flat(data: Data, model: Any) -> tuple[Any, ...]:
    """A scikit-learn style classifier on node ids."""
    import pickle

    classes, y = np.unique(data.nodes, return_inverse=True)
    start = begin()
    model.fit(data.train, y)
    fitted = clock()
    answer = model.predict_proba(data.asked)
    done = clock()
    return (*_top(answer, classes), fitted - start, done - fitted, len(pickle.dumps(model)))


def _top(values: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best five of every row, −1 padded."""
    order = np.argsort(-values, axis=1, kind="stable")[:, :TOP]
    best, value = nodes[order], np.take_along_axis(values, order, 1)
    short = TOP - best.shape[1]
    return np.pad(best, ((0, 0), (0, max(short, 0))), constant_values=-1), np.pad(value, ((0, 0), (0, max(short, 0))))


def _tuned(data: Data, make: Any, score: Any) -> tuple[Any, ...]:
    """The setting of `GRID` that is best on validation rows; scores become probabilities by one temperature fitted there too.

    The time is that of the chosen fit.
    """
    import pickle

    classes, y = np.unique(data.nodes, return_inverse=True)
    cut = len(data.truth["validation"])
    truth = np.searchsorted(classes, data.truth["validation"])
    known = (truth < len(classes)) & (classes[np.minimum(truth, len(classes) - 1)] == data.truth["validation"])
    found = None
    for setting in GRID:
        start = begin()
        model = make(setting).fit(data.train, y)
        fitted = clock()
        values = score(model, data.asked)
        if values.ndim == 1:
            values = np.stack([-values, values], 1)
        done = clock()
        right = ((values[:cut].argmax(1) == truth) & known).mean()
        if found is None or right > found[0]:
            found = (right, values, fitted - start, done - fitted, model)
        elif right < found[0] - 0.02:
            break  # past the best
    _, values, fit_seconds, predict_seconds, model = found
    values = values - values.max(1, keepdims=True)
    at = np.flatnonzero(known)
    loss = []
    heats = np.geomspace(0.2, 60, 40)
    for heat in heats:
        loss.append(np.log(np.exp(heat * values[:cut][at]).sum(1)).sum() - heat * values[at, truth[at]].sum())
    p = np.exp(heats[int(np.argmin(loss))] * values)
    p /= p.sum(1, keepdims=True)
    return (*_top(p, classes), fit_seconds, predict_seconds, len(pickle.dumps(model)))


def run_linear_svm(data: Data) -> tuple[Any, ...]:
    """scikit-learn's LinearSVC, one class against the rest, C chosen on validation rows."""
    from sklearn.svm import LinearSVC

    return _tuned(
        data,
        lambda C: LinearSVC(C=C, dual="auto", tol=1e-3, max_iter=2000),
        lambda model, X: model.decision_function(X),
    )


def run_logistic(data: Data) -> tuple[Any, ...]:
    """Multinomial logistic regression, C chosen on validation rows."""
    from sklearn.linear_model import LogisticRegression

    def make(C: float) -> Any:
        return LogisticRegression(C=10 * C, max_iter=200, solver="lbfgs", tol=1e-3)

    return _tuned(data, make, lambda model, X: model.decision_function(X))


def _unit(X: Any) -> Any:
    norm = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel() if sparse.issparse(X) else (X * X).sum(1))
    norm = np.where(norm > 0, norm, 1.0)
    return sparse.diags(1 / norm) @ X if sparse.issparse(X) else X / norm[:, None]


def _products(asked: Any, matrix: Any, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best columns of asked · matrixᵀ, a few rows at a time."""
    found = []
    turned = matrix.T.tocsr() if sparse.issparse(matrix) else matrix.T
    for start in range(0, asked.shape[0], 500):
        block = asked[start : start + 500] @ turned
        found.append(_top(block.toarray() if sparse.issparse(block) else block, nodes))
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def run_nearest(data: Data) -> tuple[Any, ...]:
    """1-NN by cosine (top 5: the classes of the five nearest rows)."""
    start = begin()
    X = _unit(data.train)
    fitted = clock()
    best, value = _products(_unit(data.asked), X, data.nodes)
    return best, np.clip(value, 0, 1), fitted - start, clock() - fitted, 4 * np.prod(X.shape)


def run_centroid(data: Data) -> tuple[Any, ...]:
    """Cosine with the mean of each class; dense features are whitened by the spread within classes first."""
    start = begin()
    X, asked = _unit(data.train), _unit(data.asked)
    classes, y = np.unique(data.nodes, return_inverse=True)
    member = sparse.csr_matrix((np.ones(len(y)), (y, np.arange(len(y)))))
    if data.is_dense:
        count = np.maximum(np.bincount(y), 1)[:, None]
        inside = X - ((member @ X) / count)[y]
        value, axes = np.linalg.eigh(inside.T @ inside / len(X))
        turn = axes / np.sqrt(np.maximum(value, 0) + 0.1 * value.mean() + 1e-9)
        middle = X.mean(0)
        X, asked = _unit((X - middle) @ turn), _unit((asked - middle) @ turn)
    means = _unit(member @ X)
    fitted = clock()
    best, value = _products(asked, means, classes)
    return best, np.clip(value, 0, 1), fitted - start, clock() - fitted, 4 * np.prod(means.shape)


def run_hierarchical_nb(data: Data) -> tuple[Any, ...]:
    """The paper's B3 as its name says: multinomial naïve Bayes per class, shrunk to the parent ball (20 rows' worth)."""
    start, alpha = begin(), 20.0
    parent, X = data.parent, data.sparse_train()
    n = len(parent)
    own = sparse.csr_matrix(
        sparse.csr_matrix(
            (np.ones(len(data.nodes)), (data.nodes, np.arange(len(data.nodes)))), shape=(n, len(data.nodes))
        )
        @ X
    )
    ball = own
    step = sparse.csr_matrix((np.ones(n - 1), (parent[1:], np.arange(1, n))), shape=(n, n))
    lifted = own
    while (lifted := sparse.csr_matrix(step @ lifted)).nnz:
        ball = sparse.csr_matrix(ball + lifted)
    up = ball[np.maximum(parent, 0)]
    back = np.asarray(own.sum(0)).ravel() / own.sum()
    total, total_up = np.asarray(own.sum(1)).ravel(), np.asarray(up.sum(1)).ravel()
    gain = up.tocoo()
    share = (gain.data + alpha * back[gain.col]) / (total_up[gain.row] + alpha)
    miss_up, miss = np.log(alpha / (total_up + alpha)), np.log(alpha / (total + alpha))
    first = sparse.csr_matrix(
        (np.log(share / back[gain.col]) - miss_up[gain.row], (gain.row, gain.col)), shape=own.shape
    )
    parents = sparse.csr_matrix((share, (gain.row, gain.col)), shape=own.shape)
    mine = own.tocoo()
    prior = np.asarray(parents[mine.row, mine.col]).ravel()
    prior = np.where(prior > 0, prior, alpha * back[mine.col] / (total_up[mine.row] + alpha))
    inside = (mine.data + alpha * prior) / (total[mine.row] + alpha)
    second = sparse.csr_matrix((np.log(inside / prior) - miss[mine.row], (mine.row, mine.col)), shape=own.shape)
    log_odds = sparse.csr_matrix(first + second)
    count = np.bincount(data.nodes, minlength=n)
    offset = np.where(count > 0, np.log(np.maximum(count, 1)), -1e6)
    fitted = clock()
    asked = data.sparse_asked()
    length = np.asarray(asked.sum(1)).ravel()
    found = []
    turned = log_odds.T.tocsr()
    for at in range(0, asked.shape[0], 500):
        score = (asked[at : at + 500] @ turned).toarray() + length[at : at + 500, None] * (miss + miss_up) + offset
        score = np.exp(score - score.max(1, keepdims=True))
        found.append(_top(score / score.sum(1, keepdims=True), np.arange(n)))
    best, value = np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])
    return best, value, fitted - start, clock() - fitted, log_odds.data.nbytes + log_odds.indices.nbytes


def run_vpunn(data: Data) -> tuple[Any, ...]:
    """Ours, with its defaults."""
    return _vpunn(data)


def _vpunn(data: Data, shuffled: bool = False, **options: Any) -> tuple[Any, ...]:
    """Our classifier; ``shuffled`` is the control that keeps the tree's shape and permutes which node sits where."""
    import tempfile

    from vpunn.hipan import HiPaNClassifier, conformal
    from vpunn.tree import Tree

    tree = Tree.from_parents(data.parent)
    place = np.arange(tree.n_nodes)
    if shuffled:
        rng = np.random.default_rng(0)
        for group in (np.flatnonzero(tree.is_leaf), np.flatnonzero(~tree.is_leaf)):
            place[group] = rng.permutation(group)
    back = np.argsort(place)
    single = len(data.blocks) == 1
    only = next(iter(data.blocks))

    def rows(part: str) -> Any:
        return data.blocks[only][part] if single else {b: parts[part] for b, parts in data.blocks.items()}

    def asked(stop: int | None = None) -> Any:
        join = {
            b: (
                sparse.vstack([p["validation"], p["test"]]).tocsr()
                if sparse.issparse(p["test"])
                else np.concatenate([p["validation"], p["test"]])
            )[:stop]
            for b, p in data.blocks.items()
        }
        return join[only] if single else join

    described: Any = data.described
    if shuffled:
        described = {b: [table[back] for table in tables] for b, tables in described.items()}
    data.forget("train", "asked", "described")
    if single:
        described = described.get(only)
    described = described or None
    labels = tree.labels[place[data.truth["train"]]]
    more = {} if data.groups is None else {"groups": data.groups}
    few = slice(0, min(300, len(labels)))
    some = rows("train")[few] if single else {b: X[few] for b, X in rows("train").items()}
    little = HiPaNClassifier(tree).fit(some, labels[few], X_nodes=described, **{k: v[few] for k, v in more.items()})
    little.posterior(asked(5)).top_k(2)  # compiled once, as the peers come compiled
    del little, some
    start = begin()
    options = {"novelty": data.about["novelty"]} | options if "novelty" in data.about else options
    model = HiPaNClassifier(tree, random_state=0, **options).fit(rows("train"), labels, X_nodes=described, **more)
    fitted = clock()
    posterior = model.posterior(asked())
    nodes, p = posterior.top_k(min(TOP, len(model.class_nodes_)))
    answer = posterior.best()
    done, rss = clock(), _memory_mb("VmHWM")  # dense tables are asked for below, to measure
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        size = _size(Path(folder) / "model")
    nodes, p = (np.pad(a, ((0, 0), (0, TOP - a.shape[1])), constant_values=-1) for a in (back[nodes], p))
    cautious = conformal.cautious_nodes(posterior, conformal.conformal_threshold(model.miss_scores_, 0.1))
    covered = tree.is_ancestor(cautious, place[np.concatenate([data.truth["validation"], data.truth["test"]])])
    cut = len(data.truth["validation"])
    found = {"test_covered": covered[cut:].mean()} | ({"validation_covered": covered[:cut].mean()} if cut else {})
    answer, found["rss"] = back[answer], np.float64(rss)
    if shuffled:  # balls of the shuffled tree are none of this one
        found |= {"validation_answer": answer[:cut], "test_answer": answer[cut:]}
    else:
        every = asked()
        found |= _asked_of(posterior, data, answer, lambda r: model.posterior(_row(every, r)).best())
    return nodes, p, fitted - start, done - fitted, size, found


def _asked_of(posterior: Any, data: Data, answer: np.ndarray, one: Any) -> dict[str, Any]:
    """What else a distribution over all nodes says: balls, the truth's probability, a cautious answer; and the time of one row."""
    cut = len(data.truth["validation"])
    truth = np.concatenate([data.truth["validation"], data.truth["test"]])
    rows = range(0, len(truth), max(1, len(truth) // 30))
    times = []
    for r in rows:
        start = clock()
        one(r)
        times.append(clock() - start)
    told = {
        "answer": answer,
        "ball": posterior.at_depth(1),
        "deepest": posterior.deepest(CAUTIOUS),
        "of_truth": posterior.exact(truth),
    }
    halves = {"validation": slice(0, cut), "test": slice(cut, None)}
    found = {f"{part}_{name}": value[s] for part, s in halves.items() for name, value in told.items()}
    return found | {"one_row": float(np.median(times))}


def _row(rows: Any, r: int) -> Any:
    return {b: _row(X, r) for b, X in rows.items()} if isinstance(rows, dict) else rows[[r]]


def run_shuffled(data: Data) -> tuple[Any, ...]:
    """The control."""
    return _vpunn(data, shuffled=True)


def run_sgd(data: Data) -> tuple[Any, ...]:
    """The paper's B1: logistic regression by SGD, one classifier per class."""
    from sklearn.linear_model import SGDClassifier

    return _flat(data, SGDClassifier(loss="log_loss", random_state=0))


def run_mlp(data: Data) -> tuple[Any, ...]:
    """The paper's B2: one hidden layer of 256 ReLU units."""
    from sklearn.neural_network import MLPClassifier

    return _flat(data, MLPClassifier((256,), early_stopping=True, max_iter=20, random_state=0))


def run_xgboost(data: Data) -> tuple[Any, ...]:
    """The paper's B5."""
    from xgboost import XGBClassifier

    return _flat(data, XGBClassifier(n_jobs=1, n_estimators=100, random_state=0))


def run_lightgbm(data: Data) -> tuple[Any, ...]:
    """The paper's B6."""
    from lightgbm import LGBMClassifier

    return _flat(data, LGBMClassifier(n_jobs=1, n_estimators=100, random_state=0, verbose=-1))


def run_hiclass(data: Data) -> tuple[Any, ...]:
    """hiclass, one logistic regression per parent node (it returns the best path only, without probabilities)."""
    import pickle

    from hiclass import LocalClassifierPerParentNode
    from sklearn.linear_model import LogisticRegression

    parent, nodes = data.parent, data.nodes
    paths = []
    for node in nodes:
        path = [int(node)]
        while parent[path[-1]] >= 0:
            path.append(int(parent[path[-1]]))
        paths.append([str(i) for i in path[::-1][1:]])
    depth = max(map(len, paths))
    table = np.array([path + [""] * (depth - len(path)) for path in paths], dtype=object)
    model = LocalClassifierPerParentNode(local_classifier=LogisticRegression(max_iter=100), n_jobs=1)
    start = begin()
    model.fit(data.train, table)
    fitted = clock()
    answer = model.predict(data.asked)
    done = clock()
    best = np.full((len(answer), TOP), -1)
    for i, row in enumerate(answer):
        path = [cell for cell in row if cell != ""]
        best[i, 0] = int(path[-1]) if path else 0
    return best, np.full((len(answer), TOP), np.nan), fitted - start, done - fitted, len(pickle.dumps(model))


METHODS = {
    "vpunn": run_vpunn,
    "vpunn-shuffled": run_shuffled,
    "linear-svm": run_linear_svm,
    "logistic": run_logistic,
    "nearest": run_nearest,
    "centroid": run_centroid,
    "hierarchical-nb": run_hierarchical_nb,
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
