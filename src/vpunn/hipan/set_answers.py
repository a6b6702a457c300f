"""What `HiPaNClassifier` does when rows have several labels: every method of it that differs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from vpunn._rows import row_groups
from vpunn._seed import generator_of
from vpunn._threads import in_threads
from vpunn.errors import VpunnError, check_choice
from vpunn.hipan import holding, inputs, label_sets, set_targets, targets
from vpunn.hipan.layout import Layout
from vpunn.hipan.set_experts import BATCH, words_of
from vpunn.hipan.set_nodes import closed_sets
from vpunn.hipan.set_posterior import SetPosterior, deepest_only
from vpunn.hipan.set_targets import LabelSets
from vpunn.hipan.set_words import Pairs

if TYPE_CHECKING:
    from vpunn._types import (
        Descriptions,
        FeatureNames,
        Features,
        Groups,
        Label,
        Labels,
        SetTargets,
        Validation,
        Weights,
    )
    from vpunn.hipan.answering import Answering
    from vpunn.hipan.classifier import HiPaNClassifier
    from vpunn.hipan.experts import Rows

#: Ways to cut marginals to answers.
STOPS = ("threshold", "risk", "size")


def fit(
    model: HiPaNClassifier,
    X: Features,
    sets: LabelSets,
    sample_weight: Weights,
    X_nodes: Descriptions,
    groups: Groups,
    validation: Validation,
) -> HiPaNClassifier:
    """Fit ``model`` on label sets."""
    blocks = inputs.checked_blocks(model, X)
    n = next(iter(blocks.values())).shape[0]
    if len(sets) != n:
        raise VpunnError(f"X has {n:,} rows but there are {len(sets):,} label sets; one per row.")
    tree, node, flat = set_targets.place_sets(sets, model.tree)
    weight = inputs.checked_weight(sample_weight, n)
    group = row_groups(groups, n)
    model.tree_, model.layout_, model.flat_, model.multilabel_ = tree, Layout.of(blocks), flat is not None, True
    keep, counts = np.flatnonzero(weight > 0), np.diff(sets.start)
    chosen = np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.int64), node[np.repeat(weight > 0, counts)]
    texts = () if X_nodes is None else _texts(model, X_nodes)
    if flat is not None:
        known = np.arange(1, tree.n_nodes)
    elif sets.classes is None:
        known = np.unique(node)
    else:
        known = np.unique(targets.check_in_tree(tree, sets.classes.tolist()))
    rows = model.layout_.read(blocks).take(keep)
    asked = None if validation is None else _asked(model, validation, flat)
    with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
        model.sets_ = label_sets.fit(
            tree,
            rows,
            chosen,
            known[known > 0],
            weight[keep],
            generator_of(model.random_state),
            groups=None if group is None else group[keep],
            texts=texts,
            validation=asked,
        )
    model.changed_rows_ = 0
    set_classes(model, flat)
    return model


def _asked(model: HiPaNClassifier, validation: Validation, flat: np.ndarray | None) -> tuple[Rows, sparse.csr_matrix]:
    """Rows of the caller's own to learn the combiner from, and their nodes."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise VpunnError(f"validation is a pair (X, y) of rows and their labels, got {type(validation).__name__}.")
    X, y = validation
    if flat is not None:
        model.classes_ = flat
    rows = model._rows(X)
    closed = closed_truth(model, y)
    if closed.shape[0] != len(rows) or not len(rows):
        raise VpunnError(
            f"validation has {len(rows):,} rows and {closed.shape[0]:,} label sets; at least one, and one each."
        )
    return rows, closed


def learn_more(model: HiPaNClassifier, X: Features, y: SetTargets, sample_weight: Weights, classes: Labels) -> None:
    """More rows for a fitted model of sets: all experts are fitted on all rows, the combiner stays as it is."""
    rows = model._rows(X)
    sets = _nodes_of(model, y, classes)
    if len(sets[0]) - 1 != len(rows):
        raise VpunnError(f"X has {len(rows):,} rows but there are {len(sets[0]) - 1:,} label sets; one per row.")
    weight = inputs.checked_weight(sample_weight, len(rows))
    keep = np.flatnonzero(weight > 0)
    closed = closed_sets(model.tree_, sets)[keep]
    with threadpool_limits(1, user_api="blas"):
        grown = model.sets_.with_rows(rows.take(keep), closed, weight[keep], generator_of(model.random_state))
    known = np.union1d(model.sets_.class_nodes, sets[1][sets[1] > 0])
    model.sets_ = replace(grown, class_nodes=known)
    model.changed_rows_ += len(keep)
    set_classes(model, model.classes_ if model.flat_ else None)


def forget(model: HiPaNClassifier, rows: Labels) -> None:
    """Fewer rows: all experts are fitted on the others, the combiner stays as it is."""
    gone = holding.row_numbers(rows, len(model.sets_.rows))
    with threadpool_limits(1, user_api="blas"):
        model.sets_ = model.sets_.without_rows(gone, generator_of(model.random_state))
    model.changed_rows_ += len(gone)


def refresh(model: HiPaNClassifier) -> None:
    """The fit anew on the rows that the model holds, some of them held out for the combiner."""
    sets = model.sets_
    known = sets.closed.indptr.astype(np.int64), sets.closed.indices
    with threadpool_limits(1, user_api="blas"):
        model.sets_ = label_sets.fit(
            sets.tree,
            sets.rows,
            known,
            sets.class_nodes,
            sets.weight,
            generator_of(model.random_state),
            groups=sets.groups,
            texts=sets.experts.texts,
        )
    model.changed_rows_ = 0


def set_classes(model: Answering, flat: np.ndarray | None) -> None:
    """What is left to say about a model of sets."""
    model.multilabel_, model.flat_ = True, flat is not None
    model.class_nodes_ = model.sets_.class_nodes
    labels = model.tree_.labels
    model.labels_ = labels if flat is None else np.concatenate([flat[:1], flat])
    model.classes_ = model.labels_[model.class_nodes_]


def _texts(model: HiPaNClassifier, X_nodes: Descriptions) -> tuple[sparse.csr_matrix, ...]:
    """Descriptions of nodes in words, one matrix a kind."""
    if all(model.layout_.dense):
        raise VpunnError(
            "descriptions of nodes (X_nodes) are compared with sparse features when rows have several labels."
        )
    tables = inputs.descriptions(X_nodes, model.layout_, model.tree_)
    kinds = max(map(len, tables.values()))
    read = (model.layout_.read({name: t[k] for name, t in tables.items()}) for k in range(kinds))
    return tuple(words_of(rows) for rows in read)


def posterior(model: Answering, X: Features, evidence: bool) -> SetPosterior:
    """The marginals of every row, batches of them in threads."""
    rows, sets = model._rows(X), model.sets_
    step = BATCH
    parts = [slice(start, start + step) for start in range(0, len(rows), step)] or [slice(0, 0)]
    with threadpool_limits(1, user_api="blas"):
        seen = in_threads(lambda part: sets.experts.examine(rows.take(part)), parts, model.n_jobs)
    return sets.judge(Pairs.joined(seen), evidence=evidence)


def predict_sets(
    model: Answering, found: SetPosterior, stop: str, *, threshold: float, alpha: float, size: int
) -> list[set[Label]]:
    """The most specific nodes that are likely enough, as one set of labels per row."""
    check_choice("stop", stop, STOPS)
    if stop == "size":
        if not isinstance(size, int | np.integer) or size < 1:
            raise VpunnError(f"size must be a whole number of at least 1, got {size!r}.")
        nodes, p = found.top_k(int(size))
        return [set(model.labels_[row[q > 0]].tolist()) for row, q in zip(nodes, p, strict=True)]
    if stop == "risk":
        threshold = model.sets_.threshold_for(alpha)
    elif not isinstance(threshold, int | float | np.integer | np.floating) or not 0 <= threshold <= 1:
        raise VpunnError(f"threshold is a probability between 0 and 1, got {threshold!r}.")
    kept = deepest_only(model.tree_, found.above(threshold))
    labels = model.labels_
    return [set(labels[kept.indices[a:b]].tolist()) for a, b in zip(kept.indptr[:-1], kept.indptr[1:], strict=True)]


def closed_truth(model: Answering, y: SetTargets) -> sparse.csr_matrix:
    """The nodes of true label sets, (rows, nodes), without the root; labels that are not in the tree are refused."""
    return closed_sets(model.tree_, _nodes_of(model, y))


def _nodes_of(model: Answering, y: SetTargets, classes: Labels = None) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of label sets, ``(start, ids)``."""
    sets = set_targets.read_sets(y, True, classes)
    if sets is None:
        raise VpunnError(
            "this model has several labels per row; give one set of labels per row, such as [{'a', 'b'}, set()]."
        )
    node = targets.check_in_tree(model.label_tree_, list(sets.labels)) if sets.labels else np.zeros(0, np.int32)
    return sets.start, node.astype(np.int32)


def calibrate(model: Answering, found: SetPosterior, y: SetTargets) -> None:
    """Set the promise of ``stop="risk"`` on rows that ``fit`` has not seen."""
    truth = closed_truth(model, y)
    if truth.shape[0] != len(found):
        raise VpunnError(f"X has {len(found):,} rows but y has {truth.shape[0]:,}; one label set per row.")
    model.sets_ = model.sets_.calibrated(found, truth)


def score(model: Answering, X: Features, y: SetTargets) -> float:
    """Mean F1 of the predicted and the true sets with their ancestors; two empty sets agree."""
    from vpunn.metrics import sets as metrics

    truth = closed_truth(model, y)
    return metrics.example_f1(truth, posterior(model, X, False).above(0.5))


@dataclass(frozen=True)
class SetExplanation:
    """Why a label has its marginal: what every expert says by name, the words that speak for it, and the nearest rows that have
    it."""

    node: int
    label: Any
    probability: float
    log_odds: float
    head: float
    features: list[tuple[str, float]]
    neighbours: list[tuple[int, float]]
    evidence: dict[str, float]

    def __str__(self) -> str:
        lines = [f"{self.label}: probability {self.probability:.3f}, head score {self.head:+.3f}"]
        if self.features:
            lines.append("  speaks for it: " + ", ".join(f"{name} {value:+.2f}" for name, value in self.features))
        if self.neighbours:
            lines.append("  near rows that have it: " + ", ".join(f"{row} ({s:.2f})" for row, s in self.neighbours))
        numbers = [(name, value) for name, value in self.evidence.items() if name.startswith("log-odds, ")]
        if numbers:
            said = (f"{name.removeprefix('log-odds, ')} {1 / (1 + np.exp(-value)):.3f}" for name, value in numbers)
            lines.append("  by the experts of numbers: " + ", ".join(said))
        return "\n".join(lines)


def explain_sets(
    model: Answering, x: Features, node: Label = None, k: int = 5, feature_names: FeatureNames = None
) -> SetExplanation:
    """Why one label (default: the likeliest) of one row has its marginal."""
    found = posterior(model, x, True)
    if len(found) != 1:
        raise VpunnError(f"explain takes one row, got {len(found):,}; pass X[[i]] to keep it two-dimensional.")
    sets = model.sets_
    at = int(found.best()[0]) if node is None else int(model.label_tree_.find(node))
    place = int(np.searchsorted(sets.ball, at))
    if place >= len(sets.ball) or sets.ball[place] != at:
        raise VpunnError(
            f"no training row has {model.labels_[at]!r} or anything below it, so there is nothing to explain."
        )
    p = float(found.marginals(slice(0, 1))[0, place])
    words = sets.experts.words
    read = words.read(words_of(model._rows(x)))
    weight = np.asarray(words.heads[read.indices, place].todense()).ravel() * read.data if read.nnz else np.zeros(0)
    names = feature_names if feature_names is not None else getattr(model, "feature_names_in_", None)
    order = np.argsort(-np.abs(weight), kind="stable")[:k]
    features = [
        (str(read.indices[j] if names is None else names[read.indices[j]]), float(weight[j]))
        for j in order
        if weight[j]
    ]
    similar = np.asarray((words.rows @ read.T).todense()).ravel() if read.nnz else np.zeros(0)
    having = np.flatnonzero(np.asarray(words.truth[:, place].todense()).ravel() > 0)
    near = having[np.argsort(-similar[having], kind="stable")[:k]] if len(similar) else having[:0]
    pairs, evidence = np.flatnonzero(found.place == place), {}
    if len(pairs) and found.evidence is not None:
        evidence = dict(zip(sets.names(), found.evidence[pairs[0]].tolist(), strict=True))
    return SetExplanation(
        at,
        model.labels_[at],
        p,
        float(np.log(max(p, 1e-12)) - np.log(max(1 - p, 1e-12))),
        float(weight.sum() + words.offset[place]),
        features,
        [(int(row), float(similar[row])) for row in near if similar[row] > 0],
        evidence,
    )
