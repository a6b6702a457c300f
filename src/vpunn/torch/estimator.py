"""`HeadClassifier`: a `HierarchicalHead` on given vectors as a scikit-learn classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vpunn._rows import row_groups, row_weights
from vpunn._seed import seed_of
from vpunn._sklearn import BaseEstimator, ClassifierMixin, check_is_fitted, validate_data
from vpunn._types import FeatureNames, Features, Groups, Label, Seed, Targets, TensorLike, Weights
from vpunn.errors import VpunnError, check_whole, examples
from vpunn.hipan.distribution import Stop
from vpunn.store import Storable
from vpunn.torch.head import HierarchicalHead
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.explanations import Explanation
    from vpunn.store import Draft, Stored
    from vpunn.torch.posterior import HeadPosterior

#: Fewer held-out rows than this are not worth a conformal threshold.
FEW = 20


class HeadClassifier(ClassifierMixin, BaseEstimator, Storable):
    """Labels that are nodes of a tree from dense vectors (frozen embeddings, say): `HierarchicalHead` trained by Adagrad.

    Columns are standardised. A share ``holdout`` of the rows is kept out of training for the conformal threshold of
    ``predict(stop="risk")``. For text or sparse features, and for the best accuracy, see `HiPaNClassifier`; this is the
    plain linear head, and a check of what it can do before it goes into a deep model.

    Parameters
    ----------
    tree : the hierarchy; without one the classes hang below one root.
    rank : see `HierarchicalHead`. Inner nodes can be answers if any label in ``fit`` is one.
    epochs, batch_size, learning_rate : of Adagrad.
    ridge : weight of the touched differences' squares in every step.
    random_state : seed of the order of rows; the same seed gives the same bytes on one thread. (torch's threads sum in
        another order, so there is no ``n_jobs``; ``torch.set_num_threads`` sets them for the whole process.)

    >>> tree = Tree.from_paths([("animal", "bird"), ("animal", "fish"), ("plant", "fern")], root="life")
    >>> X = np.array([[2.0, 0, 1], [0, 2, 1], [0, 0, -2]] * 10)
    >>> model = HeadClassifier(tree).fit(X, ["bird", "fish", "fern"] * 10)
    >>> model.predict(X[:3]).tolist()
    ['bird', 'fish', 'fern']
    """

    def __init__(
        self,
        tree: Tree | None = None,
        *,
        rank: int | None = None,
        epochs: int = 20,
        batch_size: int = 256,
        learning_rate: float = 0.1,
        ridge: float = 0.0,
        holdout: float = 0.1,
        random_state: Seed = 0,
    ) -> None:
        self.tree = tree
        self.rank = rank
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.holdout = holdout
        self.random_state = random_state

    def fit(self, X: Features, y: Targets, *, sample_weight: Weights = None, groups: Groups = None) -> HeadClassifier:
        """Fit on rows ``X`` (dense, finite) and labels ``y``.

        ``sample_weight`` weighs rows in the loss and in the standardisation; rows of weight 0 are left out. Rows of one of the
        ``groups`` (texts of one source) are held out together.
        """
        self._check_settings()
        X = validate_data(self, X, dtype=np.float64)
        labels = np.asarray(y)
        if labels.shape != (len(X),):
            raise VpunnError(f"y must hold one label per row: got shape {labels.shape} for {len(X):,} rows.")
        missing = np.flatnonzero([label is None or label != label for label in labels.tolist()])
        if len(missing):
            raise VpunnError(f"y has no label in rows {examples(missing)}; leave these rows out.")
        weight, group = row_weights(sample_weight, len(X)), row_groups(groups, len(X))
        kept = weight > 0
        X, labels, weight = X[kept], labels[kept], weight[kept]
        tree = self.tree
        if tree is None:
            tree = Tree.from_paths([(label,) for label in np.unique(labels).tolist()], root="(all)")
        self.tree_: Tree = tree
        node = self.nodes_of(labels)
        self.centre_ = np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.average((X - self.centre_) ** 2, axis=0, weights=weight))
        self.scale_ = np.where(spread > 1e-12, spread, 1.0)
        inner = np.unique(node[~self.tree_.is_leaf[node]])
        self.head_ = HierarchicalHead(
            self.tree_,
            X.shape[1],
            inner_answers=~self.tree_.is_leaf if len(inner) else False,
            rank=self.rank,
            sparse=True,
        )
        self._train(self._rows(X), node, weight, None if group is None else group[kept])
        self.classes_ = np.unique(labels)
        return self

    def _check_settings(self) -> None:
        for name in ("epochs", "batch_size"):
            check_whole(name, getattr(self, name))
        for name, low, high, what in (
            ("holdout", 0.0, 1.0, "a share of the rows in [0, 1)"),
            ("learning_rate", 1e-30, np.inf, "a positive number"),
            ("ridge", 0.0, np.inf, "a number ≥ 0"),
        ):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float | np.number)
                or not low <= float(value) < high
            ):
                raise VpunnError(f"{name} is {what}, got {value!r}.")

    def _train(self, rows: torch.Tensor, node: np.ndarray, weight: np.ndarray, group: np.ndarray | None) -> None:
        head, target = self.head_, torch.from_numpy(node)
        random = torch.Generator().manual_seed(seed_of(self.random_state))
        if head.project is not None:
            with torch.no_grad():
                head.project.weight.normal_(std=head.in_features**-0.5, generator=random)
        held, used = self._held_out(torch.randperm(len(rows), generator=random), group)
        # mean weight 1: a batch of light rows takes a small step instead of being blown up to a full one
        share = torch.from_numpy(weight / weight[used.numpy()].mean())
        optimiser = torch.optim.Adagrad(head.parameters(), lr=self.learning_rate)
        with torch.sparse.check_sparse_tensor_invariants(False):  # ours hold them; said aloud, torch does not warn
            for _ in range(self.epochs):
                for batch in torch.split(used[torch.randperm(len(used), generator=random)], int(self.batch_size)):
                    optimiser.zero_grad()
                    total = head.loss(rows[batch], target[batch], sample_weight=share[batch], reduction="sum")
                    loss = total / len(batch)
                    if self.ridge:
                        loss = loss + self.ridge * head.penalty(target[batch])
                    loss.backward()
                    optimiser.step()
        if len(held):
            head.calibrate(rows[held], node[held.numpy()])

    def _held_out(self, order: torch.Tensor, group: np.ndarray | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows for the conformal threshold, and the rest: the first of a random order; of groups the first that fit in whole."""
        many = int(len(order) * self.holdout)
        held = np.arange(len(order)) < many
        if group is not None:
            shuffled = group[order.numpy()]
            found, first, size = np.unique(shuffled, return_index=True, return_counts=True)
            turn = np.argsort(first)
            held = np.isin(shuffled, found[turn][np.cumsum(size[turn]) <= many])
        if held.sum() < FEW:
            held[:] = False
        chosen = torch.from_numpy(held)
        return order[chosen], order[~chosen]

    def _rows(self, X: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((X - self.centre_) / self.scale_).astype(np.float32))

    def _read(self, X: Features) -> torch.Tensor:
        check_is_fitted(self, "head_")
        return self._rows(validate_data(self, X, dtype=np.float64, reset=False))

    def nodes_of(self, y: Targets) -> np.ndarray:
        """Node ids of labels; unknown ones are refused."""
        return np.atleast_1d(self.tree_.index(np.asarray(y)))

    @property
    def label_tree_(self) -> Tree:
        """The tree whose labels `predict` answers with."""
        return self.tree_

    @property
    def miss_scores_(self) -> np.ndarray | None:
        """Conformal scores of the rows held out."""
        return self.head_.miss_scores_

    def posterior(self, X: Features) -> HeadPosterior:
        """The distribution of each row over nodes; see `HeadPosterior`."""
        return self.head_.posterior(self._read(X))

    def predict(self, X: Features, stop: Stop | None = None, **options: Any) -> np.ndarray:
        """One label per row; see `HierarchicalHead.predict` for ``stop`` and its options."""
        return self.head_.predict(self._read(X), stop, **options)

    def top_k(self, X: Features, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels and their probabilities."""
        return self.head_.top_k(self._read(X), k)

    def predict_proba(self, X: Features) -> np.ndarray:
        """Probability of every class in ``classes_``; classes of the tree that ``fit`` has not seen take the rest."""
        nodes = self.nodes_of(self.classes_)
        posterior = self.posterior(X)
        out = np.empty((len(posterior), len(nodes)))
        for part in posterior.parts():
            out[part] = posterior.masses(part)[:, nodes]
        return out

    def calibrate(self, X: Features, y: Targets) -> HeadClassifier:
        """Set the threshold of ``predict(stop="risk")`` on rows that ``fit`` has not seen."""
        self.head_.calibrate(self._read(X), self.nodes_of(y))
        return self

    def explain(
        self, x: TensorLike, node: Label = None, *, k: int = 5, feature_names: FeatureNames = None
    ) -> Explanation:
        """Why one row is placed where it is, in standardised features; see `HierarchicalHead.explain`."""
        names = getattr(self, "feature_names_in_", None) if feature_names is None else feature_names
        return self.head_.explain(self._read(x), node, k=k, feature_names=names)

    def _to_store(self, draft: Draft) -> None:
        check_is_fitted(self, "head_")
        draft.params(self)
        draft.array("centre", self.centre_)
        draft.array("scale", self.scale_)
        draft.labels("classes", self.classes_)
        draft.settings["own_tree"] = self.tree is None
        draft.add("head", self.head_)

    @classmethod
    def _from_store(cls, stored: Stored) -> HeadClassifier:
        head = stored.get("head", HierarchicalHead)
        model = cls(None if stored.setting("own_tree", bool) else head.tree, **stored.params(cls))
        model.head_, model.tree_ = head, head.tree
        width = (head.in_features,)
        model.centre_ = stored.array("centre", dtype="f", shape=width)
        model.scale_ = stored.array("scale", dtype="f", shape=width)
        model.n_features_in_ = head.in_features
        model.classes_ = stored.labels("classes")
        return model
