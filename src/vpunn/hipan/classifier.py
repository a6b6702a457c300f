"""`HiPaNClassifier`: place items on a tree, with a probability for every ball, calibrated on held-out rows."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vpunn._progress import announced_compiling
from vpunn.errors import VpunnError, check_choice
from vpunn.hipan import _store, conformal
from vpunn.hipan import _targets as targets
from vpunn.hipan._balls import Balls, Items
from vpunn.hipan._combiner import Combiner
from vpunn.hipan._rest import fit_rings, rings_around, rounded
from vpunn.hipan._training import HeldOut, Settings, fit_parts, judge, learn_to_combine, slots, train, unit_rows
from vpunn.hipan._weights import Heads, Seen, examine, train_branch
from vpunn.hipan.posterior import Posterior, Rule
from vpunn.io.store import Draft, Storable, Stored
from vpunn.tree import Tree

#: Rows predicted at once; the answer for a row does not depend on it.
BATCH = 1024
#: Descriptions are numbered in one signed byte.
MAX_DESCRIPTIONS = 127
#: Fewer held-out rows than this are not worth a combiner of their own.
FEW = 50


class HiPaNClassifier(ClassifierMixin, Storable, BaseEstimator):
    """Classifier whose labels are nodes of a tree, leaves or inner nodes of any depth.

    The model is a van der Put expansion with one block of numbers per ball B: the sum of its training rows and a weight
    vector w_B, so that the head score of a node is s(node) = Σ_{B∋node} ⟨w_B, x⟩ and siblings share what their ancestors
    know. The balls propose a few candidates per row; evidence about each (head score, centroid, likelihood shrunk along
    the ancestors, nearest training items, counts, at the node and at its parent, also with the row read through a
    dictionary learned across classes) goes through one small combiner that is fitted on rows held out inside ``fit``.
    What comes out is a probability distribution over nodes.

    Parameters
    ----------
    tree : the tree whose labels ``y`` uses. Without one it is built from ``y``: level columns or tuples give their
        paths, plain labels a root with one child per class.
    candidates : nodes proposed per row by the centroids, again by the heads, and half as many through the dictionary.
    epochs : passes over the data; rows that the heads explain well are left out of the later ones.
    holdout : least share of the rows held out for the combiner (more, and in several rounds, if there are few).
    hidden : units of the combiner.
    random_state : seed; the same seed gives the same bytes.

    Cost: O(non-zeros of X · depth) memory, a few passes of O(candidates · depth) per non-zero to fit, about 0.1–0.2 ms a
    row to predict. Sparse X is used as it is, dense X is standardised; rows are scaled to unit length. Features never
    seen carry no weight; an empty row gets the prior. A node without training rows stays possible through the
    rest mass, and becomes a candidate of its own through ``X_nodes``.

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "tree"), ("plant", "fern")], root="life")
    >>> X = np.array([[2, 0, 1, 0], [0, 2, 1, 0], [2, 0, 0, 1], [0, 2, 0, 1]] * 5, dtype=float)
    >>> model = HiPaNClassifier(tree, random_state=0).fit(X, ["bird", "fish", "tree", "fern"] * 5)
    >>> model.predict(X[:2]).tolist()
    ['bird', 'fish']
    >>> p = model.predict_node_proba(X[:1])[0]
    >>> bool(p[tree.index("animal")] >= p[tree.index("bird")]), round(float(p[0]), 6)
    (True, 1.0)
    """

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        candidates: int = 12,
        epochs: int = 4,
        holdout: float = 0.1,
        hidden: int = 32,
        random_state: Any = 0,
    ) -> None:
        self.tree = tree
        self.candidates = candidates
        self.epochs = epochs
        self.holdout = holdout
        self.hidden = hidden
        self.random_state = random_state

    # ---- fitting -----------------------------------------------------------------------------------------------------

    @announced_compiling()
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None, X_nodes: Any = None) -> HiPaNClassifier:
        """Fit on rows ``X`` and their labels; ``X_nodes`` has one row of features per node of the tree (may be empty rows).

        Several kinds of description (names, definitions) are given as a list of such matrices. Descriptions count as training
        rows of their node, and each kind is also compared directly.
        """
        settings = self._settings()
        if y is None:
            raise VpunnError("requires y to be passed, but the target y is None.")
        flat: np.ndarray | None = None
        if self.tree is None:
            X, y = self._checked_pair(X, y)
            self.tree_, node, flat = targets.tree_of(y)
        else:
            X, y = self._checked_pair(X, y)
            self.tree_ = self.tree
            node = targets.check_in_tree(self.tree_, y)
        weight = targets.checked_weight(sample_weight, X)
        self._learn_scale(X)
        rows = self._rows(X)
        keep = weight > 0
        rows, node, weight = rows[keep], node[keep], weight[keep]
        kind = np.zeros(len(node), np.int8)
        if X_nodes is not None:
            rows, node, weight, kind = self._with_descriptions(X_nodes, rows, node, weight, flat is not None)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        items = Items(_half_precision(rows), node, weight, kind)
        self.balls_, self.heads_, held = fit_parts(self.tree_, items, settings, rng)
        self._set_classes(flat)
        self.combiner_ = self._learned_combiner(held, settings, rng)
        self._calibrate_on(held, settings, rng)
        return self

    def _settings(self) -> Settings:
        for name, low in (("candidates", 1), ("epochs", 1), ("hidden", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < low:
                raise VpunnError(f"{name} must be a whole number of at least {low}, got {value!r}.")
        if not _is_number(self.holdout) or not 0 < self.holdout <= 0.5:
            raise VpunnError(f"holdout is a share of the rows in (0, 0.5], got {self.holdout!r}.")
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise VpunnError(
                f"tree must be a vpunn Tree or None, got {type(self.tree).__name__}; Tree.from_edges builds one."
            )
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise VpunnError(
                f"random_state must be a seed from 0 to 2**32 - 1 or None, got {self.random_state!r}."
            ) from error
        return Settings(int(self.candidates), int(self.epochs), float(self.holdout), int(self.hidden))

    def _checked_pair(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Features checked as scikit-learn does; targets only counted, because tuples and level columns are allowed."""
        X = targets.checked_features(self, X)
        if not isinstance(y, list | tuple):
            y = np.asarray(y)
        _check_length(X, y)
        column = np.asarray(y, dtype=object) if not hasattr(y, "dtype") else np.asarray(y)
        if column.ndim == 1 and column.dtype.kind == "f":
            from sklearn.utils.multiclass import check_classification_targets

            if not np.isfinite(column).all():
                raise VpunnError("Input y contains NaN or infinity; every row needs a label.")
            try:
                check_classification_targets(column)
            except ValueError as error:
                raise VpunnError(str(error)) from error
        if column.ndim == 2 and column.shape[1] == 1:
            y = targets.as_column(np.asarray(y))
        return X, y

    def _learn_scale(self, X: Any) -> None:
        """Dense features are standardised; sparse ones are taken as they are, zero meaning absent."""
        if sparse.issparse(X):
            self.centre_ = self.scale_ = None
            return
        self.centre_, scale = X.mean(0), X.std(0)
        self.scale_ = np.where(scale > 1e-12, scale, 1.0)

    def _rows(self, X: Any) -> sparse.csr_matrix:
        """Features as unit rows in float32, sorted, without stored zeros."""
        if self.centre_ is not None:
            X = (X.toarray() if sparse.issparse(X) else X) - self.centre_
            X /= self.scale_
        X = sparse.csr_matrix(X, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        return unit_rows(X)

    def _with_descriptions(
        self, X_nodes: Any, rows: sparse.csr_matrix, node: np.ndarray, weight: np.ndarray, flat: bool
    ) -> tuple[Any, ...]:
        """The training rows followed by the descriptions that are not empty; the root of flat classes takes none."""
        given = X_nodes if isinstance(X_nodes, list | tuple) else [X_nodes]
        if len(given) > MAX_DESCRIPTIONS:
            raise VpunnError(f"X_nodes can hold at most {MAX_DESCRIPTIONS} descriptions per node, got {len(given):,}.")
        texts, described, kinds = [rows], [node], [np.zeros(len(node), np.int8)]
        for k, features in enumerate(given):
            table = self._checked_descriptions(features)
            has = np.flatnonzero(np.diff(table.indptr))  # before scaling, which moves zero
            text = self._rows(table[has])
            kept = (np.diff(text.indptr) > 0) & ((has > 0) | (not flat))
            has = has[kept]
            texts.append(text[kept])
            described.append(has.astype(np.int32))
            kinds.append(np.full(len(has), k + 1, np.int8))
        extra = sum(map(len, described[1:]))
        return (
            sparse.vstack(texts).tocsr(),
            np.concatenate(described),
            np.concatenate([weight, np.ones(extra, np.float32)]),
            np.concatenate(kinds),
        )

    def _checked_descriptions(self, given: Any) -> sparse.csr_matrix:
        """One table of descriptions: finite numbers, a row per node and the columns of X."""
        expected = (self.tree_.n_nodes, self.n_features_in_)
        try:
            table = given if sparse.issparse(given) else np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise VpunnError(f"X_nodes must be a table of numbers of shape {expected}, or a list of them.") from None
        if table.shape != expected:
            raise VpunnError(
                f"X_nodes needs one row per node of the tree and the columns of X, {expected}, got {table.shape}."
            )
        table = sparse.csr_matrix(table, dtype=np.float64, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        if not np.isfinite(table.data).all():
            raise VpunnError("X_nodes contains NaN or infinity; leave rows of nodes without a description at zero.")
        targets.refuse_huge(table, "X_nodes")
        return table

    def _set_classes(self, flat: np.ndarray | None) -> None:
        """Nodes that can be an answer: all leaves, and inner nodes too if any row or description was labelled with one."""
        self.flat_ = flat is not None
        tree, counts = self.tree_, self.balls_.counts[: self.tree_.n_nodes]
        possible = tree.is_leaf | (counts > 0)
        possible[self.balls_.classes] = True
        if (counts[~tree.is_leaf] > 0).any():
            possible[:] = True
        share = np.where(possible, counts + 0.5, 0.0).astype(np.float64)
        if flat is not None:  # the root only holds the classes together
            share[0] = 0.0
        self.prior_ = rounded(share / share.sum())
        branch = self.balls_.branch_of
        self.branch_share_ = np.bincount(branch, self.prior_, minlength=branch.max() + 1)[1:]
        self.class_nodes_ = np.flatnonzero(share)
        labels = tree.labels[self.class_nodes_]
        self.classes_ = flat if flat is not None else labels
        self.labels_ = tree.labels
        if flat is not None:
            self.labels_ = np.concatenate(
                [flat[:1], flat]
            )  # the root cannot be answered; its label only fills the place

    def _learned_combiner(
        self, held: HeldOut, settings: Settings, rng: np.random.Generator, effort: float = 1.0
    ) -> Combiner:
        """The combiner of some held-out rows; those whose node was no candidate teach it where such answers lie."""
        n_classes = len(self.class_nodes_)
        combiner = learn_to_combine(held, self.balls_, n_classes, self.branch_share_, settings, rng, effort)
        candidates = held.seen.candidates
        missed = np.flatnonzero((candidates != held.node[:, None]).all(1) & (candidates[:, 0] >= 0))
        if not len(missed):
            return combiner
        found = self._posterior_of(held.take(missed).seen, combiner)
        rings = rings_around(self.tree_, found.candidates, found.probability, found.prior, found.branch, found.tilt)
        return combiner._replace(ring_weights=fit_rings(rings, self.tree_, held.node[missed]))

    def _calibrate_on(self, held: HeldOut, settings: Settings, rng: np.random.Generator) -> None:
        """Conformal scores of the held-out rows, each half by a combiner of the other half: one that has not seen them."""
        scores = np.empty(len(held.node))
        one, other = np.array_split(rng.permutation(len(held.node)), 2)
        for rows, rest in ((one, other), (other, one)):
            combiner = self.combiner_
            if len(rest) >= FEW:
                combiner = self._learned_combiner(held.take(rest), settings, rng, effort=0.5)
            if len(rows):
                posterior = self._posterior_of(held.take(rows).seen, combiner)
                scores[rows] = conformal.miss_scores(posterior, held.node[rows])
        self.miss_scores_ = scores

    def calibrate(self, X: Any, y: Any) -> HiPaNClassifier:
        """Recalibrate on rows that ``fit`` has not seen.

        The conformal threshold of ``predict(stop="risk")`` is then set on rows the model knows nothing of, which is what its
        guarantee asks for (after ``fit`` alone it rests on rows held out in turn, which is close but not exact).
        Probabilities do not change.
        """
        posterior = self.posterior(X)
        _check_length(np.empty((len(posterior), 0)), y)
        node = self.nodes_of(y)
        self.miss_scores_ = conformal.miss_scores(posterior, node)
        return self

    def nodes_of(self, y: Any) -> np.ndarray:
        """Node ids of labels as `fit` takes them; labels that are not in the tree are refused."""
        return targets.check_in_tree(self.label_tree_, y)

    @property
    def label_tree_(self) -> Tree:
        """The tree under the labels that `predict` answers with; flat classes keep their own type."""
        if not self.flat_:
            return self.tree_
        labels = np.concatenate([np.array([_Root()], object), self.classes_.astype(object)])
        return self.tree_.relabel(labels)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, sample_weight: Any = None) -> HiPaNClassifier:
        """Learn more rows of the same tree: they join the sums and the memory and the heads are trained on them (the depth-1 balls'
        weights on all rows again).

        The first call is a ``fit`` (with ``classes`` as the tree's leaves if there is no tree). The combiner stays as it is.
        """
        if not hasattr(self, "balls_"):
            if self.tree is None and classes is not None and y is not None:
                known = np.unique(np.asarray(classes))
                missing = np.setdiff1d(known, np.unique(targets.as_column(y)))
                if len(missing):
                    raise VpunnError(
                        "the first partial_fit without a tree must see every class; pass tree=Tree.from_paths([(c,) for c in "
                        "classes]) to learn classes later."
                    )
            return self.fit(X, y, sample_weight=sample_weight)
        X = targets.checked_features(self, X, reset=False)
        _check_length(X, y)
        node = self.nodes_of(y)
        weight = targets.checked_weight(sample_weight, X)
        keep = weight > 0
        node, weight = node[keep], weight[keep]
        old, rows = self.balls_, _half_precision(self._rows(X[keep]))
        items = Items(
            sparse.vstack([old.items.X, rows]).tocsr(),
            np.concatenate([old.items.node, node]),
            np.concatenate([old.items.weight, weight]),
            np.concatenate([old.items.kind, np.zeros(len(node), np.int8)]),
        )
        self.balls_ = Balls(self.tree_, items)
        heads = self.heads_.carried(old, self.balls_)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        train_branch(self.balls_, heads, rng)
        train(self.balls_, heads, np.arange(len(old.items.node), len(items.node)), self._settings(), rng)
        self.heads_ = heads.rounded()
        self._set_classes(self.classes_ if self.flat_ else None)
        return self

    # ---- answers -----------------------------------------------------------------------------------------------------

    @announced_compiling()
    def posterior(self, X: Any, *, evidence: bool = False) -> Posterior:
        """The distribution over nodes of each row: the one object behind `predict`, `top_k`, the stop rules and explanations.

        With ``evidence`` it keeps what the combiner read, which takes rows × candidates × columns of memory.
        """
        check_is_fitted(self, "balls_")
        limit = self._settings().candidates
        rows = self._rows(targets.checked_features(self, X, reset=False))
        found, read = [], []
        for start in range(0, rows.shape[0], BATCH):
            seen = examine(self.balls_, self.heads_, rows[start : start + BATCH], limit)
            found.append(self._posterior_of(seen, self.combiner_))
            if evidence:
                read.append(seen.evidence)
        return Posterior(
            self.tree_,
            np.concatenate([p.candidates for p in found]),
            np.concatenate([p.probability for p in found]),
            np.concatenate([p.rest for p in found]),
            self.prior_,
            self.balls_.branch_of,
            np.concatenate([p.tilt for p in found]),
            self.combiner_.ring_weights,
            rows if evidence else None,
            np.concatenate(read) if evidence else None,
        )

    def _posterior_of(self, seen: Seen, combiner: Combiner) -> Posterior:
        """Softmax of the combiner's scores over candidates and "none"."""
        candidates = seen.candidates
        score = combiner.scores(seen.evidence, candidates).astype(np.float64)
        valid, _ = slots(candidates, None, len(self.class_nodes_))
        score[~valid[:, -1], -1] = -np.inf
        top = score.max(1, keepdims=True)
        if not np.isfinite(top).all():
            raise VpunnError("the combiner's scores are not finite; the model is damaged, fit or load it again.")
        p = np.exp(score - top)
        p /= p.sum(1, keepdims=True)
        tilt = combiner.tilt(seen.branch_score, self.branch_share_, candidates[:, 0] >= 0)
        return Posterior(
            self.tree_,
            candidates,
            np.ascontiguousarray(p[:, :-1]),
            p[:, -1],
            self.prior_,
            self.balls_.branch_of,
            tilt,
            combiner.ring_weights,
        )

    def locate(self, X: Any, rule: Rule = "node") -> np.ndarray:
        """Node id of the place of each row: the answer of `predict`."""
        return self.posterior(X).best(rule)

    def predict(
        self,
        X: Any,
        stop: Literal["threshold", "risk", "depth"] | None = None,
        *,
        threshold: float = 0.5,
        alpha: float = 0.1,
        depth: int = 1,
        rule: Rule = "node",
    ) -> np.ndarray:
        """One label per row: the most probable node, the first of `top_k`. With ``rule="path"`` one that shares most of its path
        with all likely ones (`Posterior.best`): a little less often exact, nearer to the truth when wrong.

        With ``stop`` the answer may be a ball that is surer than any node.

        ``"threshold"``: the deepest ball with probability ≥ ``threshold``. ``"risk"``: the smallest ball around this
        answer that contains the truth with probability ≥ 1 − ``alpha`` (see `calibrate`). ``"depth"``: the
        best answer cut at ``depth``.
        """
        check_choice("rule", rule, get_args(Rule))
        if stop is not None and rule != "node":
            raise VpunnError(f"rule={rule!r} chooses among nodes and stop={stop!r} among balls; give one of them.")
        posterior = self.posterior(X)
        if stop is None:
            return np.asarray(self.labels_[posterior.best(rule)])
        if stop == "threshold":
            if not _is_number(threshold) or not 0 <= threshold <= 1:
                raise VpunnError(f"threshold is a probability between 0 and 1, got {threshold!r}.")
            nodes = posterior.deepest(threshold)
        elif stop == "risk":
            nodes = conformal.cautious_nodes(posterior, conformal.conformal_threshold(self.miss_scores_, alpha))
        elif stop == "depth":
            if not isinstance(depth, int | np.integer) or not 0 <= depth <= self.tree_.max_depth:
                deepest = self.tree_.max_depth
                raise VpunnError(
                    f"depth must lie between 0 and {deepest}, the depth of the tree, and be whole; got {depth!r}."
                )
            nodes = posterior.at_depth(depth)
        else:
            raise VpunnError(f"stop must be 'threshold', 'risk', 'depth' or None, got {stop!r}.")
        return np.asarray(self.tree_.labels[nodes])

    def explore(self, features: Any = None, **options: Any) -> Any:
        """Walk the tree with the model's beliefs on it, in a browser or a notebook; ``features`` turns texts into rows.

        See `vpunn.web.explore` for the options.
        """
        from vpunn.web import explore

        return explore(self, features=features, **options)

    def predict_path(self, X: Any) -> list[tuple[Any, ...]]:
        """Labels from the root down to the answer of `predict`."""
        return [self.tree_.path(int(node)) for node in self.locate(X)]

    def top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row and their probabilities, both (rows, k); exact."""
        _check_k(k)
        nodes, p = self.posterior(X).top_k(min(int(k), len(self.class_nodes_)))
        return self.labels_[nodes], p

    def predict_proba(self, X: Any, k: int | None = None) -> Any:
        """Probability of every class in ``classes_``, dense; with ``k`` a sparse matrix of each row's k largest."""
        if k is not None:
            _check_k(k)
        posterior = self.posterior(X)
        place = np.full(self.tree_.n_nodes, -1, np.int64)
        place[self.class_nodes_] = np.arange(len(self.class_nodes_))
        if k is not None:
            nodes, p = posterior.top_k(min(int(k), len(self.class_nodes_)))
            start = np.arange(len(nodes) + 1) * nodes.shape[1]
            return sparse.csr_matrix(
                (p.ravel(), place[nodes].ravel(), start), shape=(len(nodes), len(self.class_nodes_))
            )
        out = np.empty((len(posterior), len(self.class_nodes_)))
        for part in posterior.parts():
            out[part] = posterior.masses(part)[:, self.class_nodes_]
        return out

    def predict_node_proba(self, X: Any) -> np.ndarray:
        """Probability of every ball, (rows, nodes): a ball's is its own stop mass plus that of its children; the root has 1."""
        posterior = self.posterior(X)
        out = np.empty((len(posterior), self.tree_.n_nodes))
        for part, p in posterior.chunks():
            out[part] = p
        return out

    # ---- keeping -----------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        _store.write(self, draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> HiPaNClassifier:
        return cast(HiPaNClassifier, _store.read(cls, stored))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Root:
    """Label of the root over flat classes: equal to no label that a caller can ask for."""

    def __repr__(self) -> str:
        return "(all)"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def _check_k(k: Any) -> None:
    if not isinstance(k, int | np.integer) or k < 1:
        raise VpunnError(f"k must be a whole number of at least 1, got {k!r}.")


def _check_length(X: Any, y: Any) -> None:
    """One label per row."""
    if y is None or not hasattr(y, "__len__") or isinstance(y, str | bytes) or (hasattr(y, "ndim") and y.ndim == 0):
        raise VpunnError(f"y must hold one label per row, got {y!r}.")
    if len(y) != X.shape[0]:
        raise VpunnError(
            f"X has {X.shape[0]:,} rows but y has {len(y):,}; one label per row (inconsistent numbers of samples)."
        )


def _half_precision(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Values as they will be stored, so that a loaded model equals the fitted one."""
    X.data = X.data.astype(np.float16).astype(np.float32)
    return X


__all__ = ["Combiner", "Heads", "HiPaNClassifier", "judge"]
