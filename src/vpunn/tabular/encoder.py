"""`LatentTreeEncoder`: learn a tree from the rows of a table, then write every row, seen or not, as a p-adic code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from vpunn._rows import row_weights, uneven_weights
from vpunn._seed import random_of
from vpunn._sklearn import BaseEstimator, TransformerMixin, check_array, check_is_fitted, validate_data
from vpunn._threads import check_n_jobs
from vpunn._types import FeatureNames, Features, Label, Seed, Targets, Weights
from vpunn.codes import PadicCode
from vpunn.errors import VpunnError, check_choice, examples, refuse_lazy
from vpunn.padic import next_prime
from vpunn.store import Draft, Storable, Stored
from vpunn.tabular._columns import TableCoder
from vpunn.tabular._growing import (
    BallTree,
    balls_with_cells,
    check_counts,
    cut_by_branching,
    cut_by_counts,
    draw_by_weight,
    fine_clusters,
    grow_kmeans,
    leaf_of_rows,
)
from vpunn.tabular._profiles import LEAST_WEIGHT, BallProfile, BallStatistics
from vpunn.tabular.ward import ward_linkage
from vpunn.tree import Tree

METHODS = ("ward", "two-stage", "kmeans")
OUTPUTS = ("digits", "codes", "prefixes", "one-hot")
#: Rows of the sample that the prototypes of "two-stage" are learned from, per prototype.
SAMPLE_PER_PROTOTYPE = 50


class LatentTreeEncoder(TransformerMixin, Storable, BaseEstimator):
    """Find a tree in a table and encode rows by the balls they fall into.

    ``fit`` scales the columns (see `TableCoder`: numbers, categories, missing values), learns a tree of at most ``K``
    levels with at most ``p − 1`` children a ball, and routes rows by nearest prototype (see `balls`). Training rows take
    the same route as unseen ones, so ``transform`` sends every training row to its own leaf.

    Parameters
    ----------
    method : {"ward", "two-stage", "kmeans"}
        ``"ward"``: exact Ward clustering, O(n²·d) time and O(n·d) memory; the estimate is shown before a long run.
        ``"two-stage"``: Ward on ``n_prototypes`` weighted k-means prototypes, O(n) for any number of rows.
        ``"kmeans"``: balanced divisive k-means from the root down, O(n·p·K·d).
    p, K : int
        At most ``p − 1`` children a ball, ``K`` digits. The paper's wine setting p = 3, K = 6 is the default.
    nodes_per_level : sequence of int, optional
        For the two Ward methods, instead of ``p`` and ``K``: how many balls each level has, such as ``[5, 20, 60]``.
    output : {"digits", "codes", "prefixes", "one-hot"}
        What ``transform`` returns: K digit columns (0 after the path ends); one integer code Σ a_k p^k; the node id of
        the ball at each depth (a categorical feature that means something by itself, as a digit below the root does
        not); or a sparse indicator of every ball that contains the row.
    categorical : sequence, optional
        Columns to read as categories; found by their values if not given.
    refine : bool
        Improve the tree by local moves under a description length (see `refine_tree`) before settling.
    n_prototypes : int
        Prototypes of the two Ward methods: more keep Ward's clusters more exactly and make ``transform`` slower.
    random_state : int, RandomState instance or None
        For the k-means parts; Ward has no chance in it.
    n_jobs : int, optional
        Threads that send rows to their balls, in ``fit`` too (None: one, −1: one per core); the answer is the same.
    verbose : bool, optional
        Show progress; by default when a step is expected to take over two seconds.

    Attributes
    ----------
    tree_ : Tree
        The balls, labelled by their digits, with the column ``rows``: how many training rows, or their summed weights.
    code_ : PadicCode
        The codes of the balls.
    leaf_ : array of node ids
        The leaf ball of every training row, those of weight 0 too.
    kept_ : float
        Share of the training rows whose leaf by nearest prototype is the leaf that clustering had put them in.
    linkage_ : array or None
        The Ward linkage the tree was cut from.

    >>> rows = np.array([[0.0, 0], [0, 1], [10, 0], [10, 1], [10.2, 1]])
    >>> encoder = LatentTreeEncoder(p=3, K=2).fit(rows)
    >>> encoder.transform([[0.1, 0.0], [10.1, 1.0]])
    array([[2, 1],
           [1, 1]])
    >>> print(encoder.tree_.show())
    all
    ├─ 1
    │  ├─ 1.1
    │  └─ 1.2
    └─ 2
       ├─ 2.1
       └─ 2.2
    """

    _balls: BallTree

    def __init__(
        self,
        method: str = "ward",
        *,
        p: int = 3,
        K: int = 6,
        nodes_per_level: Sequence[int] | None = None,
        output: str = "digits",
        categorical: Sequence[Any] | None = None,
        refine: bool = False,
        n_prototypes: int = 1000,
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.method = method
        self.p = p
        self.K = K
        self.nodes_per_level = nodes_per_level
        self.output = output
        self.categorical = categorical
        self.refine = refine
        self.n_prototypes = n_prototypes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---- fitting -----------------------------------------------------------------------------------------------

    def fit(self, X: Features, y: Targets = None, *, sample_weight: Weights = None) -> LatentTreeEncoder:
        """Learn columns, tree and prototypes from a data frame or array; ``y`` is never looked at.

        A row counts like as many copies as it weighs, so the tree depends on the ratios of the weights alone; rows of weight 0 are
        encoded and take no part. ``refine`` moves whole rows and takes no weights that differ.
        """
        self._check_parameters()
        X = self._read(X, reset=True)
        given = None if sample_weight is None else _in_range(row_weights(sample_weight, X.shape[0]))
        self.table_ = TableCoder(self.categorical).fit(X, given)
        numbers, codes = self.table_.split(X)
        if given is None:
            self._fit_rows(numbers, codes, None)
            return self
        used = given > 0
        self._fit_rows(numbers[used], codes[used], given[used])
        if not used.all():
            leaf = self._balls.router.route(self.table_.scale(numbers, codes), self.n_jobs)
            self._balls = replace(self._balls, leaf=leaf)
            self.leaf_ = leaf
        return self

    def _fit_rows(self, numbers: np.ndarray, codes: np.ndarray, weights: np.ndarray | None) -> None:
        """Grow the tree from rows that all weigh something."""
        uneven = None if weights is None else uneven_weights(weights)
        if self.refine and uneven is not None:
            raise VpunnError(
                f"refine=True takes no weights that differ; got {examples(np.unique(uneven))}; set refine=False."
            )
        rows = self.table_.scale(numbers, codes)
        self.linkage_: np.ndarray | None = None
        self._balls, first_leaf = self._grow(rows, uneven)
        if self.refine:
            self._refine(rows)
        self.kept_ = _agreement(first_leaf, self._balls.leaf, uneven)
        tree, self.leaf_ = self._balls.tree, self._balls.leaf
        self.statistics_ = BallStatistics.of(tree, self.table_, self.leaf_, numbers, codes, weights)
        if weights is not None and (weights != 1.0).any():
            tree = tree.replace(columns={"rows": self.statistics_.rows})
            self._balls = replace(self._balls, tree=tree)
        self.tree_ = self.statistics_.tree = tree
        self.code_ = PadicCode(self.tree_, self._prime())

    def _check_parameters(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("output", self.output, OUTPUTS)
        whole = {"p": self.p, "K": self.K, "n_prototypes": self.n_prototypes}
        check_n_jobs(self.n_jobs)
        for name, value in whole.items():
            if not isinstance(value, Integral):
                raise VpunnError(f"{name} must be a whole number; got {value!r}.")
        if self.p < 3 or self.K < 1:
            raise VpunnError(
                f"a tree needs p ≥ 3 (p − 1 children a ball) and K ≥ 1 (levels); got p={self.p}, K={self.K}."
            )
        if self.nodes_per_level is not None and self.method == "kmeans":
            raise VpunnError('nodes_per_level cuts a dendrogram; with method="kmeans" give p and K instead.')
        if self.n_prototypes < 2:
            raise VpunnError(f"n_prototypes must be at least 2; got {self.n_prototypes}.")

    def _grow(self, rows: np.ndarray, row_weights: np.ndarray | None) -> tuple[BallTree, np.ndarray | None]:
        """The tree of balls, and the leaves that clustering itself gave the rows, where it did."""
        random = random_of(self.random_state)
        if self.method == "kmeans":
            seed = int(random.randint(2**31 - 1))
            balls = grow_kmeans(rows, self.p - 1, self.K, seed=seed, weights=row_weights, n_jobs=self.n_jobs)
            return balls, None
        if self.method == "two-stage" and len(rows) > self.n_prototypes:
            items, weights = _prototypes(rows, self.n_prototypes, random, row_weights)
        else:
            items, weights = rows, np.ones(len(rows)) if row_weights is None else row_weights
        if len(items) < 2:
            nothing = np.zeros(len(items), np.int64)
            root = np.array([-1])
            return balls_with_cells(rows, root, items, weights, nothing, nothing, row_weights=row_weights), None
        linkage = self.linkage_ = ward_linkage(items, weights, verbose=self.verbose)
        if self.nodes_per_level is not None:
            parent, member = cut_by_counts(linkage, check_counts(self.nodes_per_level))
        else:
            parent, member = cut_by_branching(linkage, self.p - 1, self.K)
        leaf = leaf_of_rows(linkage, member)
        fine = fine_clusters(linkage, self.n_prototypes)
        balls = balls_with_cells(rows, parent, items, weights, leaf, fine, self.n_jobs, row_weights=row_weights)
        return balls, leaf if items is rows else None

    def _refine(self, rows: np.ndarray) -> None:
        from vpunn.tabular.refine import refine_tree

        start = self._balls
        widest = max(self.p - 1, start.tree.max_branching)
        self.refinement_ = refine_tree(rows, start.tree, start.leaf, max_children=widest)
        better = self.refinement_
        cell = start.router.cell(rows, self.n_jobs)
        self._balls = balls_with_cells(
            rows, better.tree.parent, rows, np.ones(len(rows)), better.leaf, cell, self.n_jobs
        )

    def _prime(self) -> int:
        return next_prime(max(self.p, self.tree_.max_branching + 1))

    # ---- using the tree ------------------------------------------------------------------------------------------

    def apply(self, X: Features) -> np.ndarray:
        """Leaf ball (node id in ``tree_``) of every row, by descent along nearest prototypes."""
        check_is_fitted(self)
        check_n_jobs(self.n_jobs)
        return self._balls.router.route(self.table_.matrix(self._read(X, reset=False)), self.n_jobs)

    def transform(self, X: Features) -> Any:
        """Encode rows; see ``output``. A row's result does not depend on the other rows."""
        return self._write(self.apply(X))

    def _write(self, leaf: np.ndarray) -> Any:
        """Leaves in the form that ``output`` asks for."""
        if self.output == "digits":
            return self.code_.digits(leaf).astype(np.int64)
        if self.output == "codes":
            return np.asarray(self.code_.encode(leaf)).reshape(-1, 1)
        if self.output == "prefixes":
            path = self.tree_.paths(leaf)[:, 1:]
            return np.where(path >= 0, path, leaf[:, None])
        return _one_hot(self.tree_, leaf)

    def inverse_transform(self, X: Features) -> Any:
        """The typical row of each ball: means of numbers, the commonest category, in original units."""
        check_is_fitted(self)
        return self.statistics_.typical(self._nodes(X))

    def _nodes(self, encoded: Any) -> np.ndarray:
        """Balls back from what ``transform`` returned."""
        if self.output == "one-hot":
            member = sparse.csr_matrix(encoded)
            node = np.zeros(member.shape[0], np.int64)
            np.maximum.at(node, *_entries(member))  # a ball's descendants have higher ids, so the leaf is the last one
            return node
        encoded = np.asarray(encoded)
        if self.output == "prefixes":
            return self.tree_.check_nodes(encoded[:, -1])
        if self.output == "codes":
            return np.asarray(self.code_.decode(encoded.ravel()), dtype=np.int64)
        powers = np.array([self.code_.p**k for k in range(encoded.shape[1])], dtype=object)
        return np.asarray(self.code_.decode((encoded.astype(object) * powers).sum(axis=1)), dtype=np.int64)

    def describe(self, ball: Label = 0, columns: int = 3) -> BallProfile:
        """What sets a ball apart from its siblings, in original units; ``ball`` is a node id, a label or digits.

        Columns come by |mean here − mean among the siblings| over the parent's standard deviation.
        """
        check_is_fitted(self)
        return self.statistics_.describe(self.find(ball), columns)

    def find(self, ball: Label) -> int:
        """Node id of a ball given as node id, label ``"2.1"``, or digits ``(2, 1)``."""
        check_is_fitted(self)
        if isinstance(ball, str):
            return int(self.tree_.index(ball))
        if isinstance(ball, Sequence | np.ndarray):
            return int(self.tree_.index(".".join(map(str, ball)))) if len(ball) else 0
        return int(self.tree_.check_nodes(ball))

    # ---- files ---------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        check_is_fitted(self)
        draft.params(self, skip=())
        draft.settings |= {"n_features": int(self.n_features_in_), "kept": self.kept_, "prime": self.code_.p}
        draft.settings["rows"] = len(self.leaf_)
        draft.add("tree", self.tree_)
        draft.add("table", self.table_)
        self._balls.put(draft)
        self.statistics_.put(draft)
        if self.linkage_ is not None:
            draft.array("linkage", self.linkage_)
        if hasattr(self, "feature_names_in_"):
            draft.labels("feature_names", self.feature_names_in_)
        if hasattr(self, "refinement_"):
            draft.add("refined", self.refinement_)

    @classmethod
    def _from_store(cls, stored: Stored) -> LatentTreeEncoder:
        encoder = cls(**stored.params(cls))
        encoder.n_features_in_ = stored.setting("n_features", int)
        if "feature_names" in stored:
            encoder.feature_names_in_ = stored.labels("feature_names", encoder.n_features_in_)
        encoder.table_ = table = stored.get("table", TableCoder)
        if len(table.names) != encoder.n_features_in_:
            raise VpunnError(f"the table has {len(table.names)} columns, not {encoder.n_features_in_}.")
        encoder.tree_ = tree = stored.get("tree", Tree)
        encoder._balls = BallTree.get(stored, tree, table.width)
        encoder.leaf_ = encoder._balls.leaf
        encoder.kept_ = float(stored.setting("kept", (int, float)))
        encoder.code_ = PadicCode(tree, stored.setting("prime", int))
        encoder.linkage_ = stored.array("linkage", dtype="f8", shape=(None, 4)) if "linkage" in stored else None
        encoder.statistics_ = BallStatistics.get(stored, tree, table)
        if "refined" in stored:
            from vpunn.tabular.refine import Refinement

            encoder.refinement_ = stored.get("refined", Refinement)
            if encoder.refinement_.leaf.shape != encoder.leaf_.shape:
                raise VpunnError(
                    f"the refined tree has {len(encoder.refinement_.leaf)} rows, not {len(encoder.leaf_)}."
                )
        return encoder

    # ---- scikit-learn --------------------------------------------------------------------------------------------

    def _read(self, X: Features, reset: bool) -> Any:
        """Check shape, names and number of columns; frames pass as they are, arrays become two-dimensional arrays."""
        refuse_lazy(X)
        if hasattr(X, "iloc"):
            twice = list(X.columns[X.columns.duplicated()]) if X.ndim == 2 else []
            if twice:
                raise VpunnError(f"the column name {examples(twice)} occurs more than once; rename the columns.")
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) == 0 or X.shape[1] == 0:
                raise VpunnError(
                    f"the table has {len(X)} rows and {X.shape[1]} columns; it needs at least one of each."
                )
            return X
        kind = "numeric" if np.asarray(X).dtype.kind in "fiubc" or sparse.issparse(X) else None
        checked = check_array(X, dtype=kind, ensure_all_finite=False, estimator=self)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return checked

    def get_feature_names_out(self, input_features: FeatureNames = None) -> np.ndarray:
        """Names of the columns that ``transform`` returns."""
        check_is_fitted(self)
        depth = self.tree_.max_depth
        names = {
            "digits": [f"digit{k + 1}" for k in range(depth)],
            "codes": ["code"],
            "prefixes": [f"ball{k + 1}" for k in range(depth)],
            "one-hot": [f"ball {label}" for label in self.tree_.labels[1:]],
        }[self.output]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _in_range(weights: np.ndarray) -> np.ndarray:
    """Weights whose products keep their digits."""
    least, most = weights[weights > 0].min(), weights.max()
    if least < LEAST_WEIGHT or most > 1.0 / LEAST_WEIGHT:
        raise VpunnError(
            f"sample weights from {least:g} to {most:g} are too far from 1; divide them by the largest, "
            "and set those that are next to nothing to 0."
        )
    return weights


def _prototypes(
    rows: np.ndarray, many: int, random: np.random.RandomState, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """k-means prototypes of (a sample of) the rows, and how many sampled rows (or what weight) each stands for."""
    from sklearn.cluster import MiniBatchKMeans

    size = many * SAMPLE_PER_PROTOTYPE
    sample = rows
    if weights is None:
        sample = rows if len(rows) <= size else rows[random.choice(len(rows), size, replace=False)]
    elif len(rows) > size:
        drawn, weights = draw_by_weight(np.arange(len(rows)), weights, size, random)
        sample, many = rows[drawn], min(many, len(drawn))  # a few heavy rows may be all that is drawn
    model = MiniBatchKMeans(many, batch_size=10_000, n_init=1, max_iter=10, init_size=3 * many, random_state=random)
    model.fit(sample, sample_weight=weights)
    count = np.bincount(model.labels_, weights, minlength=many)
    return model.cluster_centers_[count > 0], count[count > 0].astype(float)


def _agreement(before: np.ndarray | None, after: np.ndarray, weights: np.ndarray | None) -> float:
    """Share of rows (or of their weight) in the majority of their old leaf; 1.0 when clustering never assigned the rows itself."""
    if before is None:
        return 1.0
    pairs, place = np.unique(np.column_stack([before, after]), axis=0, return_inverse=True)
    count = np.bincount(place.ravel(), weights)
    most = np.zeros(before.max() + 1, count.dtype)
    np.maximum.at(most, pairs[:, 0], count)
    return min(float(most.sum() / (len(after) if weights is None else weights.sum())), 1.0)


def _one_hot(tree: Tree, leaf: np.ndarray) -> sparse.csr_matrix:
    """Which balls below the root contain each row."""
    depth = tree.depth[leaf].astype(np.int64)
    start = np.concatenate([[0], np.cumsum(depth)])
    row = np.repeat(np.arange(len(leaf)), depth)
    level = np.arange(start[-1]) - start[row] + 1
    column = tree.paths(leaf)[row, level] - 1
    return sparse.csr_matrix((np.ones(len(row)), column, start), shape=(len(leaf), tree.n_nodes - 1))


def _entries(member: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """(row, node id) of every indicator."""
    entries = member.tocoo()
    return entries.row, entries.col + 1
