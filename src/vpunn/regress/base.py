"""How estimators read X: which columns are levels or labels, which are covariates, and the node of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from vpunn._rows import squarable
from vpunn._sklearn import BaseEstimator, check_is_fitted, validate_data
from vpunn._types import Features
from vpunn.errors import TreeError, VpunnError, examples, refuse_lazy
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree
from vpunn.tree.lookup import Located

FloatArray = np.ndarray

#: More columns than any table has; a folder that claims more is damaged.
MAX_COLUMNS = 1_000_000


class HierarchicalInput(Storable, BaseEstimator):
    """How estimators read X: which columns are levels or labels, which are covariates, and which node each row is at.

    Subclasses have the parameter ``tree`` and may have ``covariates``, and ``y_error`` (the column of a measurement's error).
    """

    tree: Tree | None
    covariates: Sequence[str | int] | None = None
    y_error: str | int | None = None
    _error_column: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True  # a missing level ends the path
        return tags

    def _write_input(self, draft: Draft) -> None:
        """Add to a draft what reading X needs: tree, columns and their names."""
        check_is_fitted(self)
        draft.params(self)
        draft.add("tree", self.tree_)
        draft.settings |= {
            "given_tree": self.tree is not None,
            "by_label": self._by_label,
            "n_features": int(self.n_features_in_),
            "covariate_columns": self._covariate_columns,
        }
        if self._error_column is not None:
            draft.settings["error_column"] = self._error_column
        if hasattr(self, "feature_names_in_"):
            draft.labels("feature_names", self.feature_names_in_)

    @classmethod
    def _read_input(cls, stored: Stored) -> Self:
        """An estimator that reads X as the saved one did."""
        tree, n = stored.get("tree", Tree), stored.setting("n_features", int)
        model = cls(tree if stored.setting("given_tree", bool) else None, **stored.params(cls))
        if not 0 < n <= MAX_COLUMNS:
            raise VpunnError(f"it cannot have {n} columns.")
        model._covariate_columns = [int(j) for j in stored.setting("covariate_columns", list)]
        if "error_column" in stored.settings:
            model._error_column = stored.setting("error_column", int)
        model._level_columns = [j for j in range(n) if j not in (*model._covariate_columns, model._error_column)]
        if not model._level_columns or not set(model._covariate_columns) <= set(range(n)):
            raise VpunnError(f"columns {model._covariate_columns} are no covariates among {n}.")
        model._by_label = stored.setting("by_label", bool)
        if model._by_label and len(model._level_columns) > 1:
            raise VpunnError(f"{len(model._level_columns)} columns cannot hold one label.")
        model.tree_, model.n_features_in_ = tree, n
        if "feature_names" in stored:
            model.feature_names_in_ = stored.labels("feature_names", n)
        return model

    @classmethod
    def _reading(cls, tree: Tree, levels: int | None, n_covariates: int, **params: Any) -> Self:
        """An estimator without rows: X begins with a column of labels, or with ``levels`` level columns, then covariates."""
        if levels is not None and not 0 < levels <= MAX_COLUMNS:
            raise VpunnError(
                f"levels={levels!r} must be the number of level columns, or None for one column of labels."
            )
        first = levels or 1
        covariates = list(range(first, first + n_covariates))
        model = cls(tree, **({"covariates": covariates} if covariates else {}), **params)
        model._covariate_columns, model._level_columns = covariates, list(range(first))
        model._by_label = levels is None
        model.tree_, model.n_features_in_ = tree, first + n_covariates
        return model

    def _read_for_fit(self, X: FloatArray) -> tuple[np.ndarray, FloatArray | None]:
        """Build or take the tree and place the training rows, all of which must be in it."""
        if self.tree is not None and not isinstance(self.tree, Tree):
            raise VpunnError(f"tree must be a vpunn.Tree or None, got a {type(self.tree).__name__}.")
        self._covariate_columns = self._columns_named("covariate", self.covariates or (), X.shape[1])
        errors = [] if self.y_error is None else [self.y_error]
        self._error_column = next(iter(self._columns_named("error", errors, X.shape[1])), None)
        beside = (*self._covariate_columns, self._error_column)
        self._level_columns = [j for j in range(X.shape[1]) if j not in beside]
        if not self._level_columns:
            raise VpunnError("every column is a covariate; X needs at least one column of labels or levels.")
        self._by_label = self.tree is not None and len(self._level_columns) == 1
        self.tree_ = self.tree or _grown(X[:, self._level_columns])
        nodes, depths = self._located(X)
        lost = np.flatnonzero(self.tree_.depth[nodes] < depths)
        if len(lost):
            rows = X[lost[:5]][:, self._level_columns].tolist()
            shown = [row[0] if len(row) == 1 else tuple(row) for row in rows]
            raise TreeError(
                f"{len(lost):,} training rows are not in the tree: {examples(shown, total=len(lost))}; add them with "
                "tree.insert, or drop them, or pass tree=None to build the tree from X."
            )
        return nodes, self._covariates_of(X)

    def _place(self, X: Features) -> tuple[np.ndarray, np.ndarray, FloatArray | None]:
        """Nodes of new rows, the depths of their own paths (deeper than the node where labels are unseen), covariates."""
        check_is_fitted(self)
        refuse_lazy(X)
        X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=False)
        nodes, depths = self._located(X)
        return nodes, depths, self._covariates_of(X)

    def _located(self, X: FloatArray) -> Located:
        """The deepest known node of every row, and the depth of what the row names: of a label, or of a path of levels."""
        rows = X[:, self._level_columns[0]] if self._by_label else X[:, self._level_columns]
        return self.tree_.locate(rows, unseen="ancestor")

    def nodes_of(self, X: Features) -> np.ndarray:
        """The deepest known node of every row, as `predict` finds it."""
        return self._place(X)[0]

    def _columns_named(self, what: str, asked: Sequence[str | int], n_columns: int) -> list[int]:
        if isinstance(asked, str | int):
            raise VpunnError(f"covariates must be a list of names or positions; write [{asked!r}].")
        names = list(getattr(self, "feature_names_in_", ()))
        columns = []
        for wanted in asked:
            if isinstance(wanted, str):
                if wanted not in names:
                    raise VpunnError(f"there is no {what} column {wanted!r} in X, which has {examples(names)}.")
                columns.append(names.index(wanted))
            else:
                if not isinstance(wanted, int | np.integer) or not -n_columns <= wanted < n_columns:
                    raise VpunnError(f"{what} column {wanted!r} is no position in X, which has {n_columns} columns.")
                columns.append(int(wanted) % n_columns)
        return columns

    def _covariates_of(self, X: FloatArray) -> FloatArray | None:
        if not self._covariate_columns:
            return None
        return squarable(X[:, self._covariate_columns], "covariates")


def _grown(cells: np.ndarray) -> Tree:
    """The tree of the paths in level columns, one path per row."""
    import pandas as pd

    return Tree.from_levels(pd.DataFrame(cells), root="root", gaps="fill")
