"""Hierarchical categories as features for other models: `PadicEncoder` and `PadicTargetEncoder`.

Both read X as `regress` does: one column of node labels with ``tree=``, or level columns, broadest first. Unseen labels take
the features of their deepest known ancestor; a missing level ends the path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vpunn._rows import check_no_missing, counting_weights, row_groups
from vpunn._sklearn import TransformerMixin, check_feature_names_in, check_is_fitted, type_of_target, validate_data
from vpunn._types import FeatureNames, Features, Groups, Seed, Targets, Weights
from vpunn.errors import VpunnError, check_choice, examples, refuse_lazy
from vpunn.regress.base import HierarchicalInput
from vpunn.regress.explanation import NumberExplanation, check_one_row, explained
from vpunn.regress.shrinkage import fit_class_shrinkage, fit_moments, fit_shrinkage
from vpunn.store import Draft, Stored
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.scale import BallSums, ClassSums

FloatArray = np.ndarray


class PadicEncoder(TransformerMixin, HierarchicalInput):
    """The path of each row as features.

    ``output="digits"`` gives K columns, the p-adic digits (child index + 1 at each depth, 0 past the end of the path);
    ``"prefixes"`` gives K columns, the id of the ball at each depth (−1 past the end), which suits models with native
    categories such as LightGBM; ``"balls"`` gives one 0/1 column per node below the root, the indicators of the balls
    around the row: a linear model on them is the van der Put expansion (sparse unless ``sparse_output=False``).

    >>> X = [["bird", "owl"], ["bird", "robin"], ["fish", "cod"]]
    >>> PadicEncoder().fit(X).transform([["bird", "robin"], ["bird", "emu"], ["fish", "cod"]])
    array([[1, 2],
           [1, 0],
           [2, 1]])
    """

    def __init__(self, tree: Tree | None = None, *, output: str = "digits", sparse_output: bool = True) -> None:
        self.tree = tree
        self.output = output
        self.sparse_output = sparse_output

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # digits and ids are integers whatever the labels are
        return tags

    def fit(self, X: Features, y: Targets = None) -> PadicEncoder:
        """Build the tree from X, or check that X is in the given one."""
        check_choice("output", self.output, ("digits", "prefixes", "balls"))
        refuse_lazy(X)
        X = validate_data(self, X, dtype=None, ensure_all_finite=False)
        self._read_for_fit(X)
        return self

    def _check_output(self) -> None:
        check_choice("output", self.output, ("digits", "prefixes", "balls"))

    def transform(self, X: Features) -> Any:
        """The features of each row; integer arrays, or floats for balls."""
        self._check_output()
        nodes, _, _ = self._place(X)
        path = self.tree_.paths(nodes)[:, 1:]
        if self.output == "prefixes":
            return path
        if self.output == "digits":
            return np.where(path >= 0, self.tree_.digit[path], 0).astype(np.int64)
        from scipy import sparse

        inside = path >= 0
        start = np.append(0, np.cumsum(inside.sum(axis=1)))
        shape = (len(nodes), self.tree_.n_nodes - 1)
        balls = sparse.csr_array((np.ones(start[-1]), path[inside] - 1, start), shape=shape)
        return balls if self.sparse_output else balls.toarray()

    def get_feature_names_out(self, input_features: FeatureNames = None) -> np.ndarray:
        """``digit1``…, ``prefix1``…, or the balls' label paths joined with ``/``."""
        check_is_fitted(self)
        check_feature_names_in(self, input_features)
        tree = self.tree_
        if self.output == "balls":
            names = [""] + [str(label) for label in tree.labels[1:]]
            for node in range(1, tree.n_nodes):
                above = names[tree.parent[node]]
                names[node] = f"{above}/{names[node]}" if above else names[node]
            return np.array(names[1:], dtype=object)
        stem = {"digits": "digit", "prefixes": "prefix"}[self.output]
        return np.array([f"{stem}{k}" for k in range(1, tree.max_depth + 1)], dtype=object)

    def _to_store(self, draft: Draft) -> None:
        self._write_input(draft)

    @classmethod
    def _from_store(cls, stored: Stored) -> PadicEncoder:
        model = cls._read_input(stored)
        model._check_output()
        return model


@dataclass(frozen=True)
class _Task:
    """One column of y: how to encode it and what its features are called."""

    name: str
    classes: np.ndarray | None  # None for a continuous target

    @property
    def feature_names(self) -> list[str]:
        if self.classes is None or len(self.classes) == 2:
            return [self.name]
        return [f"{self.name}_{label}" for label in self.classes.tolist()]

    def node_values(self, tree: Tree, nodes: np.ndarray, y: np.ndarray, weight: FloatArray) -> FloatArray:
        """(nodes × features): the shrunken mean, or the probability of each class (of the second, if there are two)."""
        if self.classes is None:
            return fit_shrinkage(tree, nodes, y, weight=weight).values[:, None]
        proba = fit_class_shrinkage(tree, nodes, y, len(self.classes), weight).proba
        return proba[:, 1:] if len(self.classes) == 2 else proba


class PadicTargetEncoder(TransformerMixin, HierarchicalInput):
    """Target encoding of a hierarchical category: the mean of y at the row's node, every ball shrunk to its parent.

    A flat target encoder shrinks every category to the grand mean; this one shrinks a genus to its family, the family to
    its order, by as much as the marginal likelihood says (`VPuNNRegressor`, and for classes `VPuNNClassifier`).

    ``fit_transform`` is *cross-fitted*: each row is encoded by a fit to the other folds, grand mean and shrinkage too, and
    the folds do not look at y. So a row's own y changes nothing in its own encoding, to the bit. Hence
    ``fit(X, y).transform(X)``, which is for new rows, gives other values.

    Parameters
    ----------
    tree : as in `VPuNNRegressor`.
    target_type : "auto" (scikit-learn's rule: floats with a fraction are continuous, whole numbers and texts are classes,
        so say "continuous" for counts), "continuous", or "classes". A continuous y gives one feature, two classes give
        one (probability of the larger), more give one each; several columns of y are encoded one after the other.
    per_depth : also encode the ancestors: one feature per depth, from the broadest ball to the row's own.
    cv : number of shuffled folds of ``fit_transform``, or a scikit-learn splitter (one that looks at y lets it into the folds).
    random_state : seed of the shuffling when ``cv`` is a number.

    >>> X = [["cat", "lion"], ["cat", "lion"], ["cat", "tiger"], ["dog", "wolf"], ["dog", "fox"], ["dog", "fox"]]
    >>> encoder = PadicTargetEncoder(cv=3, random_state=0).fit(X, [9.0, 9.5, 9.1, 5.0, 4.0, 4.2])
    >>> encoder.transform([["cat", "puma"], ["dog", "fox"]]).round(1)
    array([[9.1],
           [4.2]])
    """

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        target_type: str = "auto",
        per_depth: bool = False,
        cv: Any = 5,
        random_state: Seed = None,
    ) -> None:
        self.tree = tree
        self.target_type = target_type
        self.per_depth = per_depth
        self.cv = cv
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None) -> PadicTargetEncoder:
        """Learn the encodings from all rows, weighted as `VPuNNRegressor.fit` and `VPuNNClassifier.fit` weight them."""
        self._fit(X, y, sample_weight)
        return self

    @classmethod
    def from_sums(
        cls, sums: BallSums | ClassSums, *, levels: int | None = None, per_depth: bool = False
    ) -> PadicTargetEncoder:
        """The encoder of `vpunn.scale.BallSums` (numbers) or `ClassSums` (classes); see `VPuNNRegressor.from_sums`.

        For new rows: `fit_transform`, which encodes each training row by the other folds, needs the rows themselves.
        """
        counts: Any = getattr(sums, "counts", None)  # of classes
        kind = "continuous" if counts is None else "classes"
        model = cls._reading(sums.tree, levels, 0, target_type=kind, per_depth=per_depth)
        if counts is not None:
            if not len(counts):
                raise VpunnError("no rows were counted, so there is nothing to fit.")
            cells = cast("ClassSums", sums)
            task = _Task("padic", cells.classes)
            model._tasks = [task]
            model.node_values_ = task.node_values(sums.tree, cells.nodes, cells.column, counts.astype(float))
            return model
        sums = cast("BallSums", sums)
        if sums.n_covariates:
            raise VpunnError(f"a target encoder has no covariates, and these sums have {sums.n_covariates}.")
        names = ["padic"] if sums.n_targets == 1 else [f"padic{j}" for j in range(sums.n_targets)]
        model._tasks = [_Task(name, None) for name in names]
        values = [fit_moments(sums.tree, sums.moments(j)).values for j in range(sums.n_targets)]
        model.node_values_ = np.column_stack(values)
        return model

    def fit_transform(
        self, X: Features, y: Targets, *, sample_weight: Weights = None, groups: Groups = None
    ) -> FloatArray:
        """Fit, and encode each training row by a fit to the other folds; rows of one of the ``groups`` share a fold."""
        nodes, targets, weight = self._fit(X, y, sample_weight)
        out = np.empty((len(nodes), len(self.get_feature_names_out())))
        folds = list(self._folds(targets, row_groups(groups, len(nodes))))
        if not np.array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(len(nodes))):
            raise VpunnError(
                f"cv={self.cv!r} does not put every row into exactly one test fold; use a K-fold splitter."
            )
        for train, test in folds:
            values = self._node_values(nodes[train], [target[train] for target in targets], weight[train])
            out[test] = self._features(values, nodes[test])
        return out

    def transform(self, X: Features) -> FloatArray:
        """Encode new rows by the fit to all training rows."""
        nodes, _, _ = self._place(X)
        return self._features(self.node_values_, nodes)

    def explain(self, X: Features, feature: int = 0) -> NumberExplanation:
        """Which balls made one feature of one row: what every ball on its chain adds to the one above.

        ``feature`` counts the columns of y and their classes, in the order of `get_feature_names_out` without ``per_depth``.
        """
        nodes, depths, _ = self._place(X)
        check_one_row(nodes, X)
        width = self.node_values_.shape[1]
        if not 0 <= feature < width:
            raise VpunnError(f"feature {feature} is no column of the encoding, which has {width}.")
        values = self.node_values_[:, feature]
        return explained(self.tree_, int(nodes[0]), values, [], float(values[nodes[0]]), int(depths[0]))

    def get_feature_names_out(self, input_features: FeatureNames = None) -> np.ndarray:
        """``padic`` (or ``padic0``, ``padic1``… for several targets), then the class, then ``_depth1``…"""
        check_is_fitted(self)
        check_feature_names_in(self, input_features)
        names = [name for task in self._tasks for name in task.feature_names]
        if self.per_depth:
            names = [f"{name}_depth{k}" for k in range(1, self.tree_.max_depth + 1) for name in names]
        return np.array(names, dtype=object)

    def _fit(self, X: Features, y: Targets, sample_weight: Weights) -> tuple[np.ndarray, list[np.ndarray], FloatArray]:
        check_choice("target_type", self.target_type, ("auto", "continuous", "classes"))
        refuse_lazy(X, y)
        X, y = validate_data(self, X, y, dtype=None, ensure_all_finite=False, multi_output=True)
        check_no_missing(y)
        weight = counting_weights(sample_weight, len(X))
        nodes, _ = self._read_for_fit(X)
        table = np.asarray(y).reshape(len(y), -1)
        self._tasks, targets = [], []
        for j, column in enumerate(table.T):
            name = "padic" if y.ndim == 1 else f"padic{j}"
            if self._is_continuous(column):
                self._tasks.append(_Task(name, None))
                targets.append(_as_float(column))
            else:
                classes, codes = np.unique(column, return_inverse=True)
                self._tasks.append(_Task(name, classes))
                targets.append(codes)
        self.node_values_ = self._node_values(nodes, targets, weight)
        return nodes, targets, weight

    def _node_values(self, nodes: np.ndarray, targets: list[np.ndarray], weight: FloatArray) -> FloatArray:
        tasks = zip(self._tasks, targets, strict=True)
        return np.hstack([task.node_values(self.tree_, nodes, target, weight) for task, target in tasks])

    def _is_continuous(self, column: np.ndarray) -> bool:
        if self.target_type != "auto":
            return self.target_type == "continuous"
        return bool(type_of_target(column) == "continuous")

    def _folds(self, targets: list[np.ndarray], group: np.ndarray | None) -> Any:
        n = len(targets[0])
        if hasattr(self.cv, "split") and not isinstance(self.cv, str):
            return self.cv.split(np.zeros((n, 1)), targets[0], group)
        if not isinstance(self.cv, int | np.integer):
            raise VpunnError(f"cv must be a number of folds or a scikit-learn splitter, got {self.cv!r}.")
        folds = min(self.cv, n)
        if folds < 2:
            raise VpunnError(f"cross-fitting needs at least 2 rows and cv ≥ 2, got {n} rows and cv={self.cv}.")
        from sklearn.model_selection import GroupKFold, KFold  # slow to import, and seldom needed

        if group is not None:
            folds = min(folds, int(group.max()) + 1)
            if folds < 2:
                raise VpunnError(
                    "cross-fitting needs rows of at least 2 groups, and all rows are of one; leave groups out."
                )
            return GroupKFold(folds, shuffle=True, random_state=self.random_state).split(targets[0], groups=group)
        return KFold(folds, shuffle=True, random_state=self.random_state).split(targets[0])

    def _features(self, values: FloatArray, nodes: np.ndarray) -> FloatArray:
        if not self.per_depth:
            return np.asarray(values[nodes])
        path = self.tree_.paths(nodes)[:, 1:]
        path = np.where(path >= 0, path, nodes[:, None])
        return np.asarray(values[path].reshape(len(nodes), -1))

    def _to_store(self, draft: Draft) -> None:
        self._write_input(draft)
        draft.array("node_values", self.node_values_, balls=True)
        draft.settings["tasks"] = [task.name for task in self._tasks]
        for j, task in enumerate(self._tasks):
            if task.classes is not None:
                draft.labels(f"classes{j}", task.classes)

    @classmethod
    def _from_store(cls, stored: Stored) -> PadicTargetEncoder:
        model = cls._read_input(stored)
        model._tasks = [
            _Task(str(name), stored.labels(f"classes{j}") if f"classes{j}" in stored else None)
            for j, name in enumerate(stored.setting("tasks", list))
        ]
        width = sum(len(task.feature_names) for task in model._tasks)
        model.node_values_ = stored.array("node_values", dtype="f8", shape=(model.tree_.n_nodes, width))
        return model


def _as_float(column: np.ndarray) -> FloatArray:
    try:
        return column.astype(float)
    except (TypeError, ValueError):
        raise VpunnError(f"a continuous target must be numeric, got {examples(column)}.") from None
