"""`HiPaN`: the paper's own model in one object, trained and judged as the paper says, and as it should be.

Nothing here is recommended for prediction: the model has no input but the label's own code. `vpunn.HiPaNClassifier` is the
classifier that sees features. This one exists so that every number of the paper can be run and understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from vpunn import vapo
from vpunn._types import Items, Label, Numbers
from vpunn.errors import CodeError, DataError, VpunnError, check_choice, examples
from vpunn.paper.hybrid import RULES, HybridLoss, Prefix, Rule, Weighting, find_keys, paper_digits
from vpunn.paper.likelihood import Likelihood
from vpunn.store import Draft, Storable, Stored
from vpunn.tree import Tree
from vpunn.vapo.leaky import LEAK
from vpunn.vapo.schedule import Schedule, find_schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Optimizer = Literal["adam", "gist"]

#: Pairs drawn for Spearman's ρ.
PAIRS = 200_000

#: Probabilities that are given at once, items times leaves: 2 GB.
MOST = 250_000_000


@dataclass(frozen=True)
class HiPaNScore:
    """Shares of right digits under one protocol. ``leaf`` is the paper's LeafAcc, the *last* of K digits with padding; ``path``
    the share of items with every digit right; ``rho`` Spearman's ρ between the distance of two predicted codes and the depth of
    the items' common ancestor (NaN if all codes are equal)."""

    rule: str
    prefix: str
    n_items: int
    leaf: float
    root: float
    digit: float
    path: float
    rho: float
    by_position: np.ndarray

    @property
    def verdict(self) -> str:
        """What the numbers mean, in a sentence."""
        if self.rule == "given":
            return (
                f"Shown the true digit, {100 * self.leaf:.2f} % of last digits and {100 * self.path:.2f} % of whole paths come "
                "back; this checks given answers and predicts nothing."
            )
        told = "the true parent digits" if self.prefix == "true" else "nothing"
        return (
            f"Told {told}, the model names {100 * self.path:.2f} % of whole paths and {100 * self.digit:.2f} % of digits, "
            "padding included."
        )

    def __str__(self) -> str:
        return (
            f"rule {self.rule}, prefix {self.prefix}, {self.n_items:,} items: LeafAcc {100 * self.leaf:.2f} %, RootAcc "
            f"{100 * self.root:.2f} %, digits {100 * self.digit:.2f} %, whole paths {100 * self.path:.2f} %, ρ "
            f"{'undefined' if np.isnan(self.rho) else f'{self.rho:.3f}'}\n"
            f"{self.verdict}"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Accuracy of every digit position."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(figsize=(6, 3.2), layout="constrained").add_subplot()
        ax.plot(100 * self.by_position, marker="o", label=f"{self.rule} rule")
        ax.set(xlabel="digit position (root = 0)", ylabel="right, %", ylim=(-2, 102))
        ax.legend(frameon=False)
        return ax


class HiPaN(Storable):
    """The paper's HiPaN: a root soft-max, `DenseMSEHead` at depth 1, `TwoLogitCEHead` below, trained on the hybrid loss (Eq. 2).

    ``optimizer`` is ``adam`` (Algorithm 5, the curriculum ``schedule`` with digit-wise shuffling) or ``gist`` (Algorithm 4,
    ``sweeps`` sweeps; `HiPaN.DS` is that variant; with ``batch``, the stochastic one, sweeps are judged on that many drawn items
    until two in a row bring the loss no new minimum). Values are kept per (position, parent digit, child digit), as in the
    paper, so balls that share a sibling index share their values (AUDIT E-19). Items are the leaves, and a leaf's only input is
    its own code. Same seed, same bytes.

    There are two rules. ``given`` (older name: ``paper``) reads the deep heads at the *true* digit t and answers t if z_good >
    z_other: it is shown what it should predict (AUDIT E-43). ``predicted`` (older name: ``honest``) scores every child digit and
    shows nothing. `predict_digits` gives digits, `predict_proba` the likelihood of every leaf, `predict` its arg-max.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 1, 3, 3], labels=["a", "b", "c", "d", "e", "f", "g", "h"])
    >>> model = HiPaN(tree).fit()
    >>> model.encode("h").tolist(), model.decode([0, 0, 1])
    ([0, 0, 1], 'h')
    >>> model.score(rule="given").leaf, model.score(rule="predicted").leaf
    (1.0, 0.8)
    >>> model.predict_digits(["h", "c"]).tolist()                               # one path for every item: there is no input
    [[0, 1, 0], [0, 1, 0]]
    >>> dict(zip(model.classes_, model.predict_proba(["h"], rule="given")[0].round(2).tolist()))
    {'g': 0.01, 'h': 0.25, 'e': 0.42, 'f': 0.09, 'c': 0.24}
    >>> HiPaN.DS(tree).fit()
    HiPaN(8 nodes, p=5, K=3, optimizer='gist', fitted: 5 epochs)
    """

    def __init__(
        self,
        tree: Tree,
        optimizer: Optimizer = "adam",
        schedule: str | Schedule = "paper-main",
        *,
        split_depth: int = 1,
        tau: float = 0.5,
        leak: float = LEAK,
        weighting: Weighting = "inverse-sqrt",
        depths: Any = None,
        sweeps: int = 10,
        batch: int | None = None,
        p: int | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(tree, Tree):
            raise VpunnError(f"HiPaN needs a Tree, got {type(tree).__name__}; vpunn.read_tree makes one from a file.")
        check_choice("optimizer", optimizer, get_args(Optimizer))
        self.tree, self.optimizer, self.schedule = tree, optimizer, find_schedule(schedule)
        if batch is not None and optimizer != "gist":
            raise VpunnError(
                f"batch={batch!r} is for optimizer='gist'; with adam the schedule has the batch, Schedule(batch=…)."
            )
        self.sweeps, self.batch, self.seed = sweeps, batch, seed
        self._options: dict[str, Any] = {
            "split_depth": split_depth,
            "tau": tau,
            "leak": leak,
            "weighting": weighting,
            "depths": depths,
            "p": p,
        }
        self.problem_ = HybridLoss(tree, **self._options)  # laid out again on the items of fit
        self.result_: vapo.VapoResult | None = None
        #: What `calibrate` found, by rule: one temperature a depth.
        self.temperatures_: dict[str, np.ndarray] = {}

    @classmethod
    def DS(cls, tree: Tree, **options: Any) -> HiPaN:
        """HiPaN-DS, the deterministic-search variant: GIST-VAPO, ten sweeps of θ ± 1 mod p."""
        return cls(tree, **{"optimizer": "gist", **options})

    def __repr__(self) -> str:
        state = "not fitted" if self.result_ is None else f"fitted: {self.result_.epochs} epochs"
        return f"HiPaN({self.tree.n_nodes:,} nodes, p={self.p}, K={self.K}, optimizer={self.optimizer!r}, {state})"

    @property
    def p(self) -> int:
        """The prime: the smallest ≥ branching + 1 unless given."""
        return self.problem_.p

    @property
    def K(self) -> int:
        """Digits of a code: the depth of the tree in edges."""
        return self.problem_.K

    @property
    def theta_(self) -> np.ndarray:
        """The fitted values: p root logits, one per context, one per slot (see `HybridLoss`)."""
        if self.result_ is None:
            raise VpunnError("this HiPaN has not been fitted; call fit() first.")
        return self.result_.parameters

    @property
    def n_parameters(self) -> dict[str, int]:
        """How many numbers there are: as the paper counts, as stored, and how many of those belong to one ball alone."""
        problem, tree = self.problem_, self.tree
        pairs = []  # (context, ball of the items that read it); a context's values belong to a ball if it is the only one
        for k, slots in problem.slot_of.items():
            ball = tree.ancestor_at(problem.nodes, np.minimum(tree.depth[problem.nodes], k))
            pairs.append(problem.context[slots] * tree.n_nodes + ball)
        readers = np.unique(np.concatenate(pairs)) // tree.n_nodes if pairs else np.zeros(0, np.int64)
        alone = np.bincount(readers, minlength=len(problem.context_key)) == 1
        own = int(alone.sum() + alone[problem.context].sum())
        return {"printed": problem.n_printed, "stored": problem.n_parameters, "of one ball": own + self.p}

    # ---- training --------------------------------------------------------------------------------------------------

    def fit(
        self,
        items: Items = None,
        *,
        start: Numbers | None = None,
        checkpoint: Any = None,
        checkpoint_every: int = 20,
        resume: bool = False,
        progress: bool = False,
    ) -> HiPaN:
        """Train on the leaves, or on the given items (labels, or an integer array of node ids).

        ``checkpoint`` names a file written every ``checkpoint_every`` epochs; with ``resume`` training goes on from it, to the
        same bytes.
        """
        self.problem_ = HybridLoss(self.tree, items=None if items is None else self._nodes(items), **self._options)
        self.temperatures_ = {}
        gist = {"max_sweeps": self.sweeps, "batch": self.batch}
        own: dict[str, Any] = {"schedule": self.schedule} if self.optimizer == "adam" else gist
        self.result_ = vapo.minimize(
            self.problem_,
            self.optimizer,
            seed=self.seed,
            start=start,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            progress=progress,
            **own,
        )
        return self

    # ---- codes -----------------------------------------------------------------------------------------------------

    def _nodes(self, items: Items) -> np.ndarray:
        """Node ids of an integer array, which holds them already, or of what `Tree.find` understands."""
        if items is None:
            return self.tree.leaves
        if isinstance(items, np.ndarray) and items.dtype.kind in "iu":
            return np.atleast_1d(self.tree.check_nodes(items))
        return np.atleast_1d(self.tree.find(items))

    def encode(self, items: Items) -> np.ndarray:
        """The paper's K digits of items (labels, or an integer array of node ids); one label gives one row.

        Child indices from 0, root first, zero-padded.

        Injective on leaves; an inner node has the digits of its first leaf, which `PadicCode` avoids (AUDIT E-02).
        """
        if items is None:
            raise VpunnError("encode takes labels or an integer array of node ids, got None.")
        table = paper_digits(self.tree, self._nodes(items))
        return table[0] if isinstance(items, str) or np.ndim(items) == 0 else table

    def decode(self, digits: Numbers) -> Any:
        """The label of the leaf reached by digits (Algorithm 3, root first); rows of digits give a list.

        A digit beyond the number of children, or anything but 0 after a leaf, is an error that says where.
        """
        from vpunn.codes import _kernels

        table = np.asarray(digits)
        if table.shape[-1:] != (self.K,) or table.dtype.kind not in "iu" or table.ndim > 2:
            raise CodeError(
                f"decode takes rows of K = {self.K} whole digits, got {table.dtype} of shape {table.shape}."
            )
        rows = np.atleast_2d(table).astype(np.int64)
        ended = self.tree.n_children == 0
        # A leaf's path stops: from there on zeros are padding, which the codes of this package write as "no digit".
        safe = np.where(rows < 0, self.tree.n_nodes, rows) + 1
        found, _ = _kernels.descend(*self.tree.child_index, safe)
        depth = self.tree.depth[found]
        wrong = ~ended[found] | (np.where(np.arange(self.K) >= depth[:, None], rows, 0) != 0).any(axis=1)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            at = self.tree.labels[found[row]]
            raise CodeError(
                f"the digits {examples([rows[row].tolist()])} lead to {examples([at])} at depth {depth[row]} and no leaf beyond "
                f"it; {int(wrong.sum()):,} of {len(rows):,} rows are no paths of this tree."
            )
        labels = self.tree.labels[found].tolist()
        return labels[0] if table.ndim == 1 else labels

    # ---- prediction ------------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> np.ndarray:
        """Labels of the leaves: the columns of `predict_proba`."""
        return np.asarray(self.tree.labels[self.tree.leaves])

    def likelihood(self, rule: Rule = "predicted") -> Likelihood:
        """The law of the leaves that this model stands for, with the temperatures of `calibrate`."""
        check_choice("rule", rule, RULES)
        temperature = self.temperatures_.get(RULES[rule], np.ones(self.K))
        return Likelihood(self.problem_, np.asarray(self.theta_, float), temperature)

    def predict_log_proba(self, items: Items = None, rule: Rule = "predicted") -> np.ndarray:
        """Log-likelihood of every leaf for each item (default: all leaves), (items, leaves); columns are `classes_`.

        The soft-max of the digit heads along the path, over the children that exist (see `Likelihood`): every row sums to one.
        With ``rule="predicted"`` all rows are equal, because the model has no input.
        """
        law, nodes, leaves = self.likelihood(rule), self._nodes(items), self.tree.leaves
        if len(nodes) * len(leaves) > MOST:
            raise VpunnError(
                f"probabilities of {len(leaves):,} leaves for {len(nodes):,} items are {len(nodes) * len(leaves):,} numbers; give "
                f"at most {max(1, MOST // len(leaves)):,} items at a time."
            )
        if RULES[rule] == "predicted":
            return np.tile(law.common()[leaves], (len(nodes), 1))
        digits, found = paper_digits(self.tree, nodes), np.empty((len(nodes), len(leaves)))
        for part in law.parts(len(nodes)):
            found[part] = law.shown(digits[part])[leaves].T
        return found

    def predict_proba(self, items: Items = None, rule: Rule = "predicted") -> np.ndarray:
        """Probability of every leaf for each item; see `predict_log_proba`."""
        return np.asarray(np.exp(self.predict_log_proba(items, rule)))

    def predict(self, items: Items = None, rule: Rule = "predicted") -> np.ndarray:
        """Label of the likeliest leaf for each item (default: all leaves), the first of several."""
        law, nodes, leaves = self.likelihood(rule), self._nodes(items), self.tree.leaves
        if RULES[rule] == "predicted":
            best = np.full(len(nodes), law.common()[leaves].argmax())
        else:
            digits = paper_digits(self.tree, nodes)
            best = np.concatenate([law.shown(digits[part])[leaves].argmax(axis=0) for part in law.parts(len(nodes))])
        return np.asarray(self.classes_[best])

    def calibrate(self, items: Items, rule: Rule = "predicted") -> HiPaN:
        """Fit one temperature a depth on items (better not those of `fit`), so that their true children become most likely.

        Each rule has temperatures of its own. A depth that these items do not reach keeps its temperature of 1.
        """
        check_choice("rule", rule, RULES)
        nodes = self._nodes(items)
        if not len(nodes):
            raise VpunnError("calibrate needs at least one item; give leaves that fit has not seen.")
        plain = Likelihood(self.problem_, np.asarray(self.theta_, float), np.ones(self.K))
        given = RULES[rule] == "given"
        self.temperatures_[RULES[rule]] = plain.fit_temperatures(nodes, paper_digits(self.tree, nodes), given)
        return self

    def predict_digits(self, items: Items = None, rule: Rule = "predicted", prefix: Prefix = "predicted") -> np.ndarray:
        """Predicted digits of items (labels, or an integer array of node ids; default: all leaves), one row of K each.

        Position 0 is the arg-max of the root logits; up to ``split_depth`` the value of the parent digit, rounded mod p; below,
        by ``rule``: ``given`` compares the two logits at the item's true digit and answers with it or with round(v_other),
        ``predicted`` takes the child digit with the largest −τ(v_c − c)². Heads are conditioned on the digit predicted above, as
        printed, or with ``prefix="true"`` on the true one. Contexts no training item reached have the values they started with.
        """
        check_choice("rule", rule, RULES)
        check_choice("prefix", prefix, get_args(Prefix))
        return self.problem_.predict(self.theta_, paper_digits(self.tree, self._nodes(items)), rule, prefix)

    def digit_rows(self, items: Items = None) -> np.ndarray:
        """Predicted digits, the answer not shown, as the package writes codes: a child counts from 1, and 0 stands after the
        path's end where it ends at a leaf. What `vpunn.structure` looks at.

        >>> HiPaN(Tree.from_parents([-1, 0, 0, 1, 1])).fit().digit_rows().tolist()
        [[1, 1], [1, 1], [1, 1]]
        """
        from vpunn.codes import _kernels

        rows = self.predict_digits(items).astype(np.int64) + 1
        end, _ = _kernels.descend(*self.tree.child_index, rows)
        beyond = self.tree.is_leaf[end][:, None] & (np.arange(self.K) >= self.tree.depth[end][:, None])
        return np.asarray(np.where(beyond, 0, rows))

    def score(
        self, items: Items = None, rule: Rule = "predicted", prefix: Prefix = "predicted", seed: int = 0
    ) -> HiPaNScore:
        """Judge predictions on items (default: all leaves); ρ on ``PAIRS`` random pairs."""
        nodes = self._nodes(items)
        return score_digits(
            self.tree, nodes, self.predict_digits(nodes, rule, prefix), rule=RULES[rule], prefix=prefix, seed=seed
        )

    def printed_digits(self, digits: np.ndarray) -> np.ndarray:
        """K + 1 columns, as the paper prints them for WordNet: the last is a copy of the one before ("weight-tied")."""
        return np.concatenate([digits, digits[..., -1:]], axis=-1)

    # ---- inspection ------------------------------------------------------------------------------------------------

    def sparse_activation_path(self, item: Label) -> np.ndarray:
        """The balls that contain an item: its ancestor chain, root first."""
        return self.tree.ancestors(int(self._nodes(item)[0]))

    def describe_ball(self, theta: Label, k: int | None = None, *, show: int = 10) -> Any:
        """`vpunn.explanations.describe_ball` of this model's tree."""
        from vpunn.explanations import describe_ball

        return describe_ball(self.tree, theta, k, show=show)

    def export_tree_for_viz(self, *, max_nodes: int | None = None) -> str:
        """`vpunn.explanations.export_tree_for_viz` of this model: each ball with digit, code and the value of its edge."""
        from vpunn.explanations import export_tree_for_viz

        return export_tree_for_viz(self, max_nodes=max_nodes)

    @property
    def coefficients_(self) -> np.ndarray:
        """The value each ball's edge reads: its logit at depth 1, the context's value up to ``split_depth`` + 1, v_good below.

        Indexed by node; NaN at the root and where no value is stored.
        """
        problem, tree = self.problem_, self.tree
        root, over, good = problem.parts(self.theta_)
        values = np.full(tree.n_nodes, np.nan)
        index = np.maximum(tree.digit.astype(np.int64) - 1, 0)
        above = index[np.maximum(tree.parent, 0)]
        for k in problem.depths:
            nodes = np.flatnonzero(tree.depth == k + 1)
            if k == 0:
                values[nodes] = root[index[nodes]]
                continue
            if k <= problem.split_depth:
                at, known = find_keys(problem.context_key, k * self.p + above[nodes])
                values[nodes] = np.where(known, over[at], np.nan)
            else:
                at, known = find_keys(problem.slot_key, problem._key(k, above[nodes], index[nodes]))
                values[nodes] = np.where(known, good[at], np.nan)
        return values

    def with_result(self, result: vapo.VapoResult, items: Items = None) -> HiPaN:
        """The same model with the result of an earlier training on these items, without training."""
        own: dict[str, Any] = {"sweeps": self.sweeps, "batch": self.batch, "seed": self.seed}
        twin = HiPaN(self.tree, self.optimizer, self.schedule, **own, **self._options)
        twin.problem_ = HybridLoss(self.tree, items=None if items is None else self._nodes(items), **self._options)
        twin.problem_.parts(result.parameters)
        twin.result_ = result
        return twin

    # ---- saving ----------------------------------------------------------------------------------------------------

    def _to_store(self, draft: Draft) -> None:
        draft.settings |= {
            "optimizer": self.optimizer,
            "schedule": self.schedule.settings(),
            "sweeps": self.sweeps,
            "batch": self.batch,
            "seed": self.seed,
            "options": {**self._options, "depths": list(self.problem_.depths), "p": self.p},
            "numbers": self.n_parameters,
        }
        draft.add("tree", self.tree)
        draft.array("items", self.problem_.nodes)
        for rule, temperature in self.temperatures_.items():
            draft.array(f"temperature-{rule}", temperature)
        if self.result_ is not None:
            draft.add("result", self.result_)

    @classmethod
    def _from_store(cls, stored: Stored) -> HiPaN:
        tree = stored.get("tree", Tree)
        options = stored.setting("options", dict)
        try:
            model = cls(
                tree,
                stored.setting("optimizer", str),
                Schedule.from_settings(stored.setting("schedule", dict)),
                sweeps=stored.setting("sweeps", int),
                batch=stored.setting("batch", int | type(None)),  # type: ignore[arg-type]
                seed=stored.setting("seed", int),
                **options,
            )
            items = stored.array("items", dtype="iu", shape=(None,), low=0, high=tree.n_nodes)
            model.problem_ = HybridLoss(tree, items=np.array(items), **options)
        except (TypeError, KeyError, VpunnError) as error:
            raise DataError(f"{str(stored.path)!r} holds no HiPaN: {error}") from None
        if "result" in stored.part_names:
            model.result_ = stored.get("result", vapo.VapoResult)
            model.problem_.parts(model.result_.parameters)
        for rule in ("given", "predicted"):
            if f"temperature-{rule}" in stored:
                model.temperatures_[rule] = stored.array(f"temperature-{rule}", dtype="f", shape=(model.K,))
        return model


def score_digits(
    tree: Tree, nodes: np.ndarray, predicted: np.ndarray, *, rule: str, prefix: str = "predicted", seed: int = 0
) -> HiPaNScore:
    """Judge any predicted digits of nodes, the way the paper counts; see `HiPaNScore`."""
    right = predicted == paper_digits(tree, nodes)
    return HiPaNScore(
        rule,
        prefix,
        len(nodes),
        float(right[:, -1].mean()),
        float(right[:, 0].mean()),
        float(right.mean()),
        float(right.all(axis=1).mean()),
        code_correlation(tree, nodes, predicted, seed),
        right.mean(axis=0),
    )


def code_correlation(tree: Tree, nodes: np.ndarray, digits: np.ndarray, seed: int = 0) -> float:
    """Spearman's ρ between |f(x) − f(y)|_p of root-first digits and the depth of the common ancestor, over random pairs of
    distinct items; NaN if one of the two never varies.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1, 1, 3, 3])
    >>> round(code_correlation(tree, tree.leaves, paper_digits(tree)), 9)
    -1.0
    """
    from scipy.stats import rankdata

    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, len(nodes), (2, PAIRS))
    a, b = a[a != b], b[a != b]
    if not len(a):
        return float("nan")
    differs = digits[a] != digits[b]
    shared = np.where(differs.any(axis=1), differs.argmax(axis=1), digits.shape[1])  # the larger, the closer
    x, y = rankdata(-shared), rankdata(tree.lca_depth(nodes[a], nodes[b]))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
