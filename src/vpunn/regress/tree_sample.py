"""`TreeSampleRegressor`: a regression on each tree of a sample, averaged, so that answers know how unsure the tree is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vpunn._sklearn import BaseEstimator, RegressorMixin, check_is_fitted, clone
from vpunn._types import Features, Targets, Weights
from vpunn.errors import TreeError, VpunnError, examples
from vpunn.regress.regressor import VPuNNRegressor
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree

#: More trees than any sample has; a folder that claims more is damaged.
MAX_TREES = 1_000_000


class TreeSampleRegressor(RegressorMixin, Storable, BaseEstimator):
    """A `VPuNNRegressor` on every tree of a sample (of a posterior, of bootstraps), whose answers are averaged.

    A prediction is the mean over trees. Its variance is the mean of the trees' variances and the variance of their
    predictions: that of a number drawn from a tree drawn from the sample.

    Parameters
    ----------
    trees : trees with the same tips, as a list or by name (`vpunn.io.read_trees`).
    estimator : a `VPuNNRegressor` without a tree, whose settings each tree's model has; None: with the default settings.

    Attributes
    ----------
    models_ (the fitted model of each tree, each with its own parameters and ancestors), tree_ (the first tree).

    >>> import io, vpunn
    >>> newick = "((owl:1,hawk:1):1,emu:2); ((owl:1,emu:1):1,hawk:2);"     # who is next to the owl?
    >>> trees = vpunn.io.read_trees(io.StringIO(newick))
    >>> model = TreeSampleRegressor(trees, estimator=VPuNNRegressor(evolution="brownian"))
    >>> mean, sd = model.fit([["hawk"], ["emu"]], [1.0, 3.0]).predict([["owl"]], return_std=True)
    >>> [one.predict([["owl"]]).round(2).item() for one in model.models_], mean.round(2).item(), sd.round(2).item()
    ([1.5, 2.5], 2.0, 1.41)
    """

    def __init__(
        self, trees: Sequence[Tree] | Mapping[str, Tree] | None = None, *, estimator: VPuNNRegressor | None = None
    ) -> None:
        self.trees = trees
        self.estimator = estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = VPuNNRegressor().__sklearn_tags__().input_tags
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None) -> TreeSampleRegressor:
        """Fit the model of each tree, as `VPuNNRegressor.fit` does."""
        trees = _checked(self.trees)
        estimator = VPuNNRegressor() if self.estimator is None else self.estimator
        if not isinstance(estimator, VPuNNRegressor) or estimator.tree is not None:
            raise VpunnError("estimator must be a VPuNNRegressor without a tree; the trees are given by trees=.")
        self._take([clone(estimator).set_params(tree=tree).fit(X, y, sample_weight=sample_weight) for tree in trees])
        return self

    def _take(self, models: list[VPuNNRegressor]) -> None:
        """The fitted attributes."""
        self.models_, self.tree_ = models, models[0].tree_
        self.n_features_in_ = models[0].n_features_in_
        if hasattr(models[0], "feature_names_in_"):
            self.feature_names_in_ = models[0].feature_names_in_

    def predict(self, X: Features, return_std: bool = False) -> Any:
        """The mean over trees; with ``return_std`` also the standard deviation of a new observation, the tree's being unsure in it.

        A label that only some of the trees have (an inner node's) is refused; tips are in all of them.
        """
        check_is_fitted(self)
        means, variances, known = [], [], None
        for model in self.models_:
            nodes, depths, covariates = model._place(X)
            found = model.tree_.depth[nodes] >= depths
            known = found if known is None else known
            if (found != known).any():
                rows = np.flatnonzero(found != known)
                raise TreeError(
                    f"row {examples(rows, limit=3)} (counted from 0) names a node that only some of the trees have; ask for tips, "
                    "or ask the models in models_."
                )
            mean, sd = model._answer(nodes, depths, covariates, return_std)
            means.append(mean)
            variances.append(np.zeros(1) if sd is None else sd**2)
        if not return_std:
            return np.mean(means, axis=0)
        return np.mean(means, axis=0), np.sqrt(np.mean(variances, axis=0) + np.var(means, axis=0))

    def _to_store(self, draft: Draft) -> None:
        check_is_fitted(self)
        draft.settings |= {"trees": len(self.models_), "default": self.estimator is None}
        for j, model in enumerate(self.models_):
            draft.add(f"model{j}", model)

    @classmethod
    def _from_store(cls, stored: Stored) -> TreeSampleRegressor:
        count = stored.setting("trees", int)
        if not 0 < count <= MAX_TREES:
            raise VpunnError(f"it cannot have {count} trees.")
        models = [stored.get(f"model{j}", VPuNNRegressor) for j in range(count)]
        settings = (
            None if stored.setting("default", bool) else VPuNNRegressor(**models[0].get_params() | {"tree": None})
        )
        model = cls(_checked([one.tree_ for one in models]), estimator=settings)
        if len({one.n_features_in_ for one in models}) > 1:
            raise VpunnError("the models of its trees read different columns.")
        model._take(models)
        return model


def _checked(given: Sequence[Tree] | Mapping[str, Tree] | None) -> list[Tree]:
    """The trees, all of which have the tips of the first."""
    many = given if isinstance(given, Iterable) else ()
    named = many.items() if isinstance(many, Mapping) else enumerate(many, 1)
    pairs = [(str(name), tree) for name, tree in named]
    if not pairs or not all(isinstance(tree, Tree) for _, tree in pairs):
        raise VpunnError("trees must be a list of vpunn.Tree, or what vpunn.io.read_trees returns, with at least one.")
    first = set(pairs[0][1].labels[pairs[0][1].leaves].tolist())
    for name, tree in pairs[1:]:
        odd = first.symmetric_difference(tree.labels[tree.leaves].tolist())
        if odd:
            raise TreeError(
                f"tree {name} has other tips than tree {pairs[0][0]}: {examples(sorted(map(str, odd)))} in one of the two only; a "
                "sample has the same tips in all trees, so prune them to those they share."
            )
    return [tree for _, tree in pairs]
