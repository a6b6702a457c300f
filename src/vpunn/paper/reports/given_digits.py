"""T14 as the paper ran it: six baselines are given the digits of the answer and asked for the leaf; training items = test items.

The parameter counts of the paper's table fix the inputs (audit E-62): K raw digits for the MLP and "hierarchical" naive Bayes,
their one-hot columns for logistic regression and the Huffman soft-max, one class per leaf. Every method is run on random leaves,
twice as many each time, until the next size would break its budget of CPU seconds or memory; the growth from the last two
sizes says what all leaves would take.
"""

from __future__ import annotations

import heapq
import importlib.util
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from scipy.special import expit

from vpunn._cost import Cost, measured
from vpunn._rows import slices
from vpunn.paper import printed
from vpunn.paper.contents import captions
from vpunn.paper.hybrid import paper_digits
from vpunn.paper.reports._run import Shelf
from vpunn.report import Report
from vpunn.tree import Tree

#: Leaves of the first size.
SMALLEST = 250
#: Megabytes that a method may be expected to take.
MEMORY = 4096.0


class Columns:
    """Digits as one-hot columns: which column each item's digit at each position is."""

    def __init__(self, digits: np.ndarray) -> None:
        self.values = [np.unique(column) for column in digits.T]
        self.start = np.cumsum([0, *(len(v) for v in self.values)])
        self.n = int(self.start[-1])

    def of(self, digits: np.ndarray) -> np.ndarray:
        """(items, K) column numbers."""
        found = [np.searchsorted(v, column) for v, column in zip(self.values, digits.T, strict=True)]
        return np.asarray(np.stack(found, axis=1) + self.start[:-1])


def huffman_paths(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inner nodes and turns (0 or 1; −1 beyond the end) on the way to each class in the Huffman tree of ``counts``.

    >>> nodes, turns = huffman_paths(np.array([5, 1, 1]))
    >>> (turns >= 0).sum(axis=1).tolist()                       # the common class has the short code
    [1, 2, 2]
    """
    n = len(counts)
    heap = [(float(c), i) for i, c in enumerate(counts.tolist())]
    heapq.heapify(heap)
    above = np.full(2 * n - 1, -1)
    turn = np.zeros(2 * n - 1, np.int8)
    for made in range(n, 2 * n - 1):
        (a, left), (b, right) = heapq.heappop(heap), heapq.heappop(heap)
        above[[left, right]], turn[right] = made, 1
        heapq.heappush(heap, (a + b, made))
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    here = np.arange(n)
    while (above[here] >= 0).any():
        up = above[here]
        steps.append((np.where(up >= 0, up - n, -1), np.where(up >= 0, turn[here], -1)))
        here = np.where(up >= 0, up, here)
    nodes, turns = (
        np.stack(side[::-1], axis=1) if steps else np.zeros((n, 0), int) for side in zip(*steps, strict=True)
    )
    return nodes, turns


class HuffmanSoftmax:
    """One logistic regression on one-hot columns at every inner node of the Huffman tree of the classes."""

    def __init__(self, epochs: int = 50, rate: float = 0.5, batch: int = 64, seed: int = 0) -> None:
        self.epochs, self.rate, self.batch, self.seed = epochs, rate, batch, seed

    def fit(self, digits: np.ndarray, y: np.ndarray) -> HuffmanSoftmax:
        """Train by mini-batches; y are classes 0 … n − 1."""
        self.columns = Columns(digits)
        at = self.columns.of(digits)
        self.nodes, self.turns = huffman_paths(np.bincount(y))
        self.weights = np.zeros((max(len(self.nodes) - 1, 1), self.columns.n), np.float32)
        rng = np.random.default_rng(self.seed)
        for _ in range(self.epochs):
            order = rng.permutation(len(y))
            for first in range(0, len(order), self.batch):
                rows = order[first : first + self.batch]
                nodes, turns = self.nodes[y[rows]], self.turns[y[rows]]
                cells = (nodes[:, :, None], at[rows][:, None, :])
                score = self.weights[cells].sum(axis=2)
                pull = np.where(turns >= 0, turns - expit(score), 0.0)
                np.add.at(self.weights, cells, (self.rate * pull[:, :, None]).astype(np.float32))
        children = np.full((len(self.weights), 2), -1)
        for k in range(self.nodes.shape[1]):
            real = self.turns[:, k] >= 0
            last = real & ((self.turns[:, k + 1 :] < 0).all(axis=1))
            children[self.nodes[real, k], self.turns[real, k]] = np.where(
                last[real],
                -2 - np.flatnonzero(real),
                self.nodes[real, min(k + 1, self.nodes.shape[1] - 1)],
            )
        self.children = children
        return self

    def predict(self, digits: np.ndarray) -> np.ndarray:
        """The class at the end of the likelier turns."""
        at = self.columns.of(digits)
        here = np.full(len(at), self.nodes[0, 0] if self.nodes.size else -2)
        while (here >= 0).any():
            going = here >= 0
            score = self.weights[here[going][:, None], at[going]].sum(axis=1)
            here[going] = self.children[here[going], (score > 0).astype(int)]
        return -2 - here

    @property
    def n_parameters(self) -> int:
        """Weights."""
        return int(self.weights.size)


def _one_hot(digits: np.ndarray) -> Any:
    from scipy.sparse import csr_matrix

    columns = Columns(digits)
    at = columns.of(digits)
    rows = np.repeat(np.arange(len(at)), at.shape[1])
    return csr_matrix((np.ones(at.size), (rows, at.ravel())), shape=(len(at), columns.n))


def _by_digit(make: Callable[[], Any], digits: np.ndarray) -> tuple[np.ndarray, int]:
    """One ensemble per digit, each given all digits, also the one it predicts: the paper prints no leaf accuracy for these."""
    found = np.zeros_like(digits)
    for k, column in enumerate(digits.T):
        kinds, y = np.unique(column, return_inverse=True)
        found[:, k] = (
            kinds[0] if len(kinds) == 1 else kinds[np.asarray(make().fit(digits, y).predict(digits)).astype(int)]
        )
    return found, 0


def _in_parts(model: Any, x: Any) -> np.ndarray:
    """What a model of scikit-learn answers, some rows at a time: it holds a score for every row and class."""
    return np.concatenate([model.predict(x[part]) for part in slices(x.shape[0], 500)])


def methods() -> dict[str, Callable[[np.ndarray], tuple[np.ndarray, int]]]:
    """Each maps the digits of n leaves to predicted digits of the same leaves, and its number of parameters (0: not counted)."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    def logistic(digits: np.ndarray) -> tuple[np.ndarray, int]:
        x, y = _one_hot(digits), np.arange(len(digits))
        model = SGDClassifier(loss="log_loss", max_iter=5, tol=None, n_jobs=1, random_state=0).fit(x, y)
        return digits[_in_parts(model, x)], int(model.coef_.size + model.intercept_.size)

    def layers(digits: np.ndarray) -> tuple[np.ndarray, int]:
        x, y = digits / max(int(digits.max()), 1), np.arange(len(digits))
        model = MLPClassifier((256,), batch_size=min(64, len(digits)), max_iter=20, random_state=0).fit(x, y)
        return digits[_in_parts(model, x)], sum(w.size for w in (*model.coefs_, *model.intercepts_))

    def bayes(digits: np.ndarray) -> tuple[np.ndarray, int]:
        model = GaussianNB().fit(digits, np.arange(len(digits)))
        return digits[_in_parts(model, digits)], int(model.theta_.size + model.var_.size)

    def huffman(digits: np.ndarray) -> tuple[np.ndarray, int]:
        model = HuffmanSoftmax().fit(digits, np.arange(len(digits)))
        return digits[model.predict(digits)], model.n_parameters

    found: dict[str, Callable[[np.ndarray], tuple[np.ndarray, int]]] = {
        "SGD-LR": logistic,
        "MLP-256 (ReLU)": layers,
        "Hierarchical NB": bayes,
        "Huffman soft-max": huffman,
    }
    if importlib.util.find_spec("xgboost") is not None:
        from xgboost import XGBClassifier

        found["XGBoost"] = lambda digits: _by_digit(
            lambda: XGBClassifier(n_estimators=20, n_jobs=1, verbosity=0), digits
        )
    if importlib.util.find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        found["LightGBM"] = lambda digits: _by_digit(
            lambda: LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, min_child_samples=1), digits
        )
    return found


def grow(
    method: Callable[[np.ndarray], tuple[np.ndarray, int]],
    tree: Tree,
    budget: float,
    *,
    memory: float = MEMORY,
    cost_of: Callable[[], AbstractContextManager[Cost]] = measured,
) -> list[dict[str, Any]]:
    """Run a method on 250, 500, … random leaves until the next size, or all leaves, would break its budget.

    That is ``budget`` CPU seconds for all sizes and ``memory`` megabytes for one, as ``cost_of`` measures them.
    """
    order = np.random.default_rng(0).permutation(tree.leaves)
    digits, rows = paper_digits(tree, order), list[dict[str, Any]]()
    n, spent = min(SMALLEST, len(order)), 0.0
    while True:
        part = digits[:n]
        with warnings.catch_warnings(), cost_of() as cost:
            warnings.simplefilter("ignore")  # peers warn that they have not converged, which the accuracy shows
            predicted, parameters = method(part)
        spent += cost.seconds
        right = predicted == part
        rows.append(
            {
                "leaves": n,
                "leaf": float(right.all(axis=1).mean()),
                "digit": float(right.mean()),
                "parameters": parameters,
                "seconds": cost.seconds,
                "MB": cost.peak_mb,
            }
        )
        larger = min(2 * n, len(order))
        times = larger / n
        if n == len(order) or spent + cost.seconds * times ** _growth(rows) > budget:
            return rows
        # At worst memory grows as labels one-hot do; where it is not measured it is taken to be two such tables.
        peak = 16e-6 * n * n if cost.peak_mb is None else cost.peak_mb
        if peak * times**2 > memory:
            return rows
        n = larger


def _growth(rows: list[dict[str, Any]]) -> float:
    """Exponent of the time in the number of leaves, from the last two sizes (2, the number of pairs, before there are two)."""
    if len(rows) < 2 or rows[-1]["seconds"] < 0.05:
        return 2.0 if len(rows) < 2 else 1.0
    a, b = rows[-2:]
    return float(np.log(max(b["seconds"], 1e-3) / max(a["seconds"], 1e-3)) / np.log(b["leaves"] / a["leaves"]))


def compared(tree: Tree, budget: float) -> dict[str, list[dict[str, Any]]]:
    """Every method that is installed, grown to its budget."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return {name: grow(method, tree, budget) for name, method in methods().items()}


def section(shelf: Shelf, report: Report, tree: Tree, budget: float) -> None:
    """T14: the paper's rows, where it has some, and ours below them."""
    paper = getattr(shelf, "kind", "wordnet") == "wordnet"
    found = shelf.fact("T14", lambda: {"budget": budget, "memory": MEMORY, "rows": compared(tree, budget)})
    rows = table(tree, found["rows"], found["budget"], paper)
    report.table(f"{captions('T14')}: the paper's protocol, training items = test items", rows, name="T14")
    sizes = [{"method": name, **row} for name, grown in found["rows"].items() for row in grown]
    report.table("T14: leaf and digit accuracy and CPU seconds by number of leaves", sizes, name="T14-sizes")
    report.text(
        f"{tree.n_leaves:,} leaves, one class and one example each; the input is the code of the answer (E-62), so a table that "
        "sorts codes has 100 %, and none of these numbers says how a new word would be placed: on held-out leaves every one of "
        "them scores 0, because their class has no example. Methods ran on random leaves, twice as many each time, with "
        f"{found['budget']:g} CPU seconds and {found['memory'] / 1024:g} GB each; what all leaves would take follows from the "
        "growth of the last two sizes; `vpunn reproduce baselines --hour` gives each the paper's. "
        "One-against-all logistic regression and the network grow with the square of the leaves; the paper prints 741.7 and "
        "7,353.4 s for them without an accuracy (E-63). “Hierarchical” naive Bayes is the flat Gaussian one, by its count of "
        "parameters; the Huffman soft-max has a logistic regression at every inner node of the Huffman tree of equal counts, so "
        "its code says nothing about the hierarchy. Ensembles predict digit by digit, the digit itself among their inputs."
    )


def table(
    tree: Tree, found: dict[str, list[dict[str, Any]]], budget: float, paper: bool = True
) -> list[dict[str, Any]]:
    """Rows of T14."""
    rows = []
    for name, (leaf, digit, parameters, seconds) in printed.BASELINES.items():
        if paper:
            said = {"method": name, "row": "paper", "leaves": 52_427, "leaf acc.": leaf, "avg. digit acc.": digit}
            rows.append({**said, "parameters": parameters, "CPU s": seconds, "all leaves in an hour?": ""})
        if name == "HiPaN":
            continue
        if name not in found:
            rows.append({"method": name, "row": "ours: not installed (pip install 'vpunn[bench]')"})
            continue
        last = found[name][-1]
        done = last["leaves"] == tree.n_leaves
        spent = sum(row["seconds"] for row in found[name])
        rows.append(
            {
                "method": name,
                "row": "ours, all leaves" if done else f"ours, stopped after {spent:,.0f} s of {budget:,g}",
                "leaves": last["leaves"],
                "leaf acc.": round(last["leaf"], 4),
                "avg. digit acc.": round(last["digit"], 4),
                "parameters": last["parameters"] or None,
                "CPU s": round(last["seconds"], 1),
                "all leaves in an hour?": _in_an_hour(found[name], tree.n_leaves),
            }
        )
    return rows


def _in_an_hour(rows: list[dict[str, Any]], n: int) -> str:
    """Whether all n leaves fit into the paper's hour: measured, or by the growth of the last two sizes."""
    last = rows[-1]
    if last["leaves"] == n:
        return f"{'yes' if last['seconds'] <= 3600 else 'no'}, {last['seconds']:,.0f} s"
    if len(rows) < 2:
        return "not known: one size only fits the budget"
    growth = _growth(rows)
    whole = last["seconds"] * (n / last["leaves"]) ** max(growth, 0.0)
    return f"{'yes' if whole <= 3600 else 'no'}, about {whole:,.0f} s (time grows as n^{growth:.1f})"
