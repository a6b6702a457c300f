"""What `HiPaNClassifier` does when rows have several labels: every method of it that differs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from vpunn._rows import row_groups
from vpunn._seed import generator_of
from vpunn.errors import VpunnError, check_choice
from vpunn.hipan import _targets as targets
from vpunn.hipan._holdout import units
from vpunn.hipan._inputs import descriptions, half_precision
from vpunn.hipan._store import write_layout
from vpunn.hipan._views import Layout, Rows, checked_blocks
from vpunn.hipan.sets._targets import LabelSets, place_sets, read_sets
from vpunn.hipan.sets._trust import weighed
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

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
    from vpunn.hipan._answering import Answering
    from vpunn.hipan.classifier import HiPaNClassifier
    from vpunn.hipan.sets._posterior import SetPosterior

__all__ = [
    "calibrate",
    "explain_sets",
    "fit_label_sets",
    "learn_more",
    "predict_sets",
    "read",
    "read_sets",
    "score",
    "single_pair",
    "write",
]

#: Where fewer rows differ from each other, copies of them are what will be asked: then copies are not held out together.
DISTINCT = 10
#: Ways to cut marginals to answers.
STOPS = ("threshold", "risk", "size")


def fit_label_sets(
    model: HiPaNClassifier,
    X: Features,
    sets: LabelSets,
    sample_weight: Weights,
    X_nodes: Descriptions,
    groups: Groups,
    validation: Validation,
) -> HiPaNClassifier:
    """Fit ``model`` (a `HiPaNClassifier`) on label sets."""
    from vpunn.hipan.sets._model import fit_sets

    settings = model._settings()
    blocks = checked_blocks(model, X)
    first = next(iter(blocks.values()))
    if len(sets) != first.shape[0]:
        raise VpunnError(f"X has {first.shape[0]:,} rows but there are {len(sets):,} label sets; one per row.")
    tree, node, flat = place_sets(sets, model.tree)
    weight = targets.checked_weight(sample_weight, first)
    group = row_groups(groups, first.shape[0])
    keep = np.flatnonzero(weight > 0)
    model.tree_, model.layout_, model.flat_ = tree, Layout.of(blocks), flat is not None
    rows = half_precision(model.layout_.read({name: block[keep] for name, block in blocks.items()}))
    counts = np.diff(sets.start)[keep]
    chosen = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), node[np.repeat(weight > 0, np.diff(sets.start))]
    alike = _alike(counts, chosen[1], tree.n_nodes)
    unit = units(rows.words, list(rows.dense.values()), None if group is None else group[keep], alike)
    if group is None and len(np.unique(unit)) < DISTINCT:
        unit = np.arange(len(unit))
    texts = [] if X_nodes is None else _texts(model, X_nodes)
    known = np.unique(node) if sets.classes is None or model.tree is None else np.unique(_columns(sets, tree))
    rng = generator_of(model.random_state)
    if flat is not None:
        known, model.classes_ = np.arange(1, tree.n_nodes), flat
    known, asked = known[known > 0], None if validation is None else _asked(model, validation)
    with threadpool_limits(1, user_api="blas"):  # sums in another order are other bytes
        model.sets_ = fit_sets(tree, rows, chosen, texts, known, weight[keep], unit, settings, rng, asked)
    set_classes(model, flat)
    return model


def _alike(counts: np.ndarray, node: np.ndarray, n_nodes: int) -> np.ndarray:
    """Equal numbers for rows with equal sets, by a random sum of their labels."""
    sign = np.random.default_rng(21).standard_normal(n_nodes)[node]
    row = np.repeat(np.arange(len(counts)), counts)
    return np.unique(np.bincount(row, sign, minlength=len(counts)), return_inverse=True)[1].ravel().astype(np.int64)


def _asked(model: HiPaNClassifier, validation: Validation) -> tuple[Rows, sparse.csr_matrix]:
    """Rows of the caller's own to learn the combiner from, and their balls."""
    X, y = _pair(validation)
    rows = half_precision(model.layout_.read(checked_blocks(model, X, model.layout_)))
    closed = closed_truth(model, y)
    if closed.shape[0] != len(rows) or not len(rows):
        raise VpunnError(
            f"validation has {len(rows):,} rows and {closed.shape[0]:,} label sets; at least one, and one each."
        )
    return rows, closed


def _pair(validation: Validation) -> Validation:
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise VpunnError(f"validation is a pair (X, y) of rows and their labels, got {type(validation).__name__}.")
    return validation


def single_pair(validation: Validation) -> Validation:
    """Validation rows of a model of one label per row, whose label sets have one label each."""
    if validation is None:
        return None
    X, y = _pair(validation)
    sets = read_sets(y)
    if sets is not None and not sets.single():
        raise VpunnError("validation has rows with several labels or none, and every training row has one label.")
    return X, y if sets is None else sets.column()


def learn_more(model: HiPaNClassifier, X: Features, y: SetTargets, sample_weight: Weights, classes: Labels) -> None:
    """More rows for a fitted model of sets: words, memory and heads are those of all rows, the combiner stays as it is."""
    from vpunn.hipan.sets._model import closed_sets, with_rows

    rows = half_precision(model._rows(X))
    start, node = _nodes_of(model, y, classes)
    if len(start) - 1 != len(rows):
        raise VpunnError(f"X has {len(rows):,} rows but there are {len(start) - 1:,} label sets; one per row.")
    closed = closed_sets(model.tree_, (start, node))
    weight = targets.checked_weight(sample_weight, rows.words)
    keep = np.flatnonzero(weight > 0)
    rng = generator_of(model.random_state)
    crew, engine = model._settings().crew, model.sets_
    grown = with_rows(engine, rows[keep], closed[keep], weight[keep], rng, crew)
    known = np.union1d(engine.class_nodes, node[node > 0])
    model.sets_ = replace(grown, class_nodes=known)
    set_classes(model, model.classes_ if model.flat_ else None)


def set_classes(model: Answering, flat: np.ndarray | None) -> None:
    """What is left to say about a model of sets."""
    model.multilabel_ = True
    model.class_nodes_ = model.sets_.class_nodes
    labels = model.tree_.labels
    model.labels_ = labels if flat is None else np.concatenate([flat[:1], flat])
    model.classes_ = model.labels_[model.class_nodes_]


def _columns(sets: LabelSets, tree: Tree) -> np.ndarray:
    assert sets.classes is not None
    return targets.check_in_tree(tree, sets.classes.tolist())


def _texts(model: HiPaNClassifier, X_nodes: Descriptions) -> list[sparse.csr_matrix]:
    """Descriptions of nodes in words, one matrix a kind."""
    if not model.layout_.words():
        raise VpunnError(
            "descriptions of nodes (X_nodes) are compared with sparse features when rows have several labels."
        )
    tables = descriptions(X_nodes, model.layout_, model.tree_)
    kinds = max(map(len, tables.values()))
    return [half_precision(model.layout_.read({name: t[k] for name, t in tables.items()})).words for k in range(kinds)]


def predict_sets(
    model: Answering, posterior: SetPosterior, stop: str, *, threshold: float, alpha: float, size: int
) -> list[set[Label]]:
    """The most specific balls that are likely enough, as one set of labels per row."""
    from vpunn.hipan.sets._posterior import deepest_only

    check_choice("stop", stop, STOPS)
    if stop == "size":
        if not isinstance(size, int | np.integer) or size < 1:
            raise VpunnError(f"size must be a whole number of at least 1, got {size!r}.")
        nodes, p = posterior.top_k(int(size))
        return [set(model.labels_[row[q > 0]].tolist()) for row, q in zip(nodes, p, strict=True)]
    if stop == "risk":
        threshold = posterior.model.threshold_for(alpha)
    elif not isinstance(threshold, int | float | np.integer | np.floating) or not 0 <= threshold <= 1:
        raise VpunnError(f"threshold is a probability between 0 and 1, got {threshold!r}.")
    kept = deepest_only(model.tree_, posterior.above(threshold))
    labels = model.labels_
    return [set(labels[kept.indices[a:b]].tolist()) for a, b in zip(kept.indptr[:-1], kept.indptr[1:], strict=True)]


def closed_truth(model: Answering, y: SetTargets) -> sparse.csr_matrix:
    """The balls of true label sets, (rows × nodes), without the root; labels that are not in the tree are refused."""
    from vpunn.hipan.sets._model import closed_sets

    return closed_sets(model.tree_, _nodes_of(model, y))


def _nodes_of(model: Answering, y: SetTargets, classes: Labels = None) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of label sets, ``(start, ids)``."""
    sets = read_sets(y, True, classes)
    if sets is None:
        raise VpunnError(
            "this model has several labels per row; give one set of labels per row, such as [{'a', 'b'}, set()]."
        )
    node = targets.check_in_tree(model.label_tree_, list(sets.labels)) if sets.labels else np.zeros(0, np.int32)
    return sets.start, node.astype(np.int32)


def calibrate(model: Answering, posterior: SetPosterior, y: SetTargets) -> None:
    """Set the promise of ``stop="risk"`` on rows that ``fit`` has not seen."""
    truth = closed_truth(model, y)
    if truth.shape[0] != len(posterior):
        raise VpunnError(f"X has {len(posterior):,} rows but y has {truth.shape[0]:,}; one label set per row.")
    model.sets_ = model.sets_.calibrated(posterior, truth)


def score(model: Answering, X: Features, y: SetTargets) -> float:
    """Mean F1 of the predicted and the true sets with their ancestors; two empty sets agree."""
    from vpunn.metrics import sets as metrics

    truth = closed_truth(model, y)
    return metrics.example_f1(truth, model.posterior(X).above(0.5))


@dataclass(frozen=True)
class SetExplanation:
    """Why a label has its marginal: the evidence by name, the words that speak for it, and the nearest rows that have it."""

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
        return "\n".join(lines)


def explain_sets(
    model: Answering, x: Features, node: Label = None, k: int = 5, feature_names: FeatureNames = None
) -> SetExplanation:
    """Why one label (default: the likeliest) of one row has its marginal."""
    posterior = model.posterior(x, evidence=True)
    if len(posterior) != 1:
        raise VpunnError(f"explain takes one row, got {len(posterior):,}; pass X[[i]] to keep it two-dimensional.")
    engine = posterior.model
    at = int(posterior.best()[0]) if node is None else int(model.label_tree_.find(node))
    place = int(np.searchsorted(engine.ball, at))
    if place >= len(engine.ball) or engine.ball[place] != at:
        raise VpunnError(
            f"no training row has {model.labels_[at]!r} or anything below it, so there is nothing to explain."
        )
    p = float(posterior.marginals(slice(0, 1))[0, place])
    words = weighed(model._rows(x).words, engine.trust)
    weight = np.asarray(engine.heads[words.indices, place].todense()).ravel() * words.data if words.nnz else np.zeros(0)
    names = feature_names if feature_names is not None else getattr(model, "feature_names_in_", None)
    order = np.argsort(-np.abs(weight), kind="stable")[:k]
    features = [
        (str(words.indices[j] if names is None else names[words.indices[j]]), float(weight[j]))
        for j in order
        if weight[j]
    ]
    similar = (
        np.asarray((weighed(engine.rows.words, engine.trust) @ words.T).todense()).ravel() if words.nnz else np.zeros(0)
    )
    having = np.flatnonzero(np.asarray(engine.Y[:, place].todense()).ravel() > 0)
    near = having[np.argsort(-similar[having], kind="stable")[:k]] if len(similar) else having[:0]
    pairs = np.flatnonzero(posterior.label == place)
    evidence = {}
    if len(pairs) and posterior.evidence is not None:
        evidence = dict(zip(engine.names(), posterior.evidence[pairs[0]].tolist(), strict=True))
    return SetExplanation(
        at,
        model.labels_[at],
        p,
        float(np.log(max(p, 1e-12)) - np.log(max(1 - p, 1e-12))),
        float(weight.sum() + engine.offset[place]),
        features,
        [(int(row), float(similar[row])) for row in near if similar[row] > 0],
        evidence,
    )


def write(model: Answering, draft: Draft) -> None:
    """Put a fitted model of sets into a draft."""
    from vpunn.hipan.sets import _store

    draft.params(model)
    draft.settings |= {"multilabel": True, "flat": model.flat_, "n_features": int(model.n_features_in_)}
    write_layout(model.layout_, draft)
    draft.add("tree", model.tree_)
    if model.flat_:
        draft.labels("classes", model.classes_)
    if hasattr(model, "feature_names_in_"):
        draft.labels("feature_names", model.feature_names_in_)
    _store.write(model.sets_, draft)


def read(cls: type[Answering], stored: Stored, layout: Layout) -> Answering:
    """The fitted model of sets."""
    from vpunn.hipan.sets import _store

    tree, flat = stored.get("tree", Tree), stored.setting("flat", bool)
    model = cls(None if flat else tree, **stored.params(cls))
    model.tree_, model.layout_, model.flat_ = tree, layout, flat
    model.n_features_in_ = stored.setting("n_features", int)
    if "feature_names" in stored:
        model.feature_names_in_ = stored.labels("feature_names", model.n_features_in_)
    model._check_params()
    model.sets_ = _store.read(stored, tree, layout)
    set_classes(model, stored.labels("classes", tree.n_nodes - 1) if flat else None)
    return model
