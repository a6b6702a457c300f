"""Whose rows a model holds: rows are forgotten, left out of what is saved, and what was learned from them is renewed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from vpunn.errors import VpunnError, examples
from vpunn.hipan import engine
from vpunn.hipan.engine import Task
from vpunn.hipan.experts import Rows, sums_alone
from vpunn.hipan.layout import Layout

if TYPE_CHECKING:
    from vpunn.hipan.classifier import HiPaNClassifier


def held(model: HiPaNClassifier) -> Task:
    """The rows that a model was fitted on."""
    from vpunn._sklearn import check_is_fitted

    check_is_fitted(model)
    if model.task_ is None:
        raise VpunnError(
            "this model was saved without its rows (keep='sums'); fit a new one on the rows it shall know."
        )
    return model.task_


def row_numbers(rows: object, held: int) -> np.ndarray:
    """Numbers of training rows, checked, every one once."""
    given = np.asarray(rows)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise VpunnError(f"rows are numbers of training rows in a list, such as [0, 17], got {repr(rows)[:60]}.")
    wrong = given[(given < 0) | (given >= held)]
    if len(wrong):
        raise VpunnError(f"the model holds the training rows 0 to {held - 1:,}, not {examples(wrong.tolist())}.")
    gone = np.unique(given)
    if len(gone) == held:
        raise VpunnError(f"these are all {held:,} training rows; at least one has to stay.")
    return gone


def without(task: Task, gone: np.ndarray) -> Task:
    """The task without some of its rows."""
    stay = np.setdiff1d(np.arange(len(task.node)), gone, assume_unique=True)
    groups = None if task.groups is None else task.groups[stay[stay < task.n]]
    n = task.n - len(gone)
    return replace(task, rows=task.rows.take(stay), node=task.node[stay], weight=task.weight[stay], n=n, groups=groups)


def with_more(task: Task, rows: Rows, node: np.ndarray, weight: np.ndarray) -> Task:
    """The task with further rows behind its own; descriptions of nodes stay at the end."""
    first, last = slice(0, task.n), slice(task.n, None)
    groups = (
        None if task.groups is None else np.concatenate([task.groups, task.groups.max() + 1 + np.arange(len(node))])
    )
    return replace(
        task,
        rows=stacked([task.rows.take(first), rows, task.rows.take(last)]),
        node=np.concatenate([task.node[first], node, task.node[last]]).astype(np.int32),
        weight=np.concatenate([task.weight[first], weight, task.weight[last]]),
        n=task.n + len(node),
        groups=groups,
    )


def stacked(parts: list[Rows]) -> Rows:
    """Rows one after the other."""
    return Rows(
        tuple(
            sp.csr_matrix(sp.vstack(same)) if sp.issparse(same[0]) else np.concatenate(same)
            for same in zip(*(part.blocks for part in parts), strict=True)
        )
    )


def learned(model: HiPaNClassifier, task: Task, changed: int) -> None:
    """Experts of other rows, so many of them new or gone; the combiner and the calibration stay as they are."""
    with threadpool_limits(1, user_api="blas"):
        model.model_ = engine.learned_more(model.model_, task)
    model.task_, model.rows_at_ = task, counts(task)
    model.changed_rows_ += changed
    model._set_classes(model.classes_ if model.flat_ else None)
    model._weigh_classes()


def renewed(model: HiPaNClassifier, task: Task) -> None:
    """Everything learned again from rows at hand."""
    novelty = model.model_.novelty if model.novelty == "auto" else model.novelty
    model._learn(task, novelty, model.classes_ if model.flat_ else None)


def without_rows(model: HiPaNClassifier) -> HiPaNClassifier:
    """A model of sums and heads, with a combiner of their own and no row; what is forgotten once is gone."""
    if model._several():
        raise VpunnError(
            "a model of label sets answers from its rows (nearest rows, kernels, trees), so it cannot be saved without them."
        )
    if model.task_ is None:
        return model
    some = copy(model)
    renewed(some, replace(model.task_, experts=sums_alone(model.task_.experts)))
    some.task_ = None
    return some


def counts(task: Task) -> np.ndarray:
    """Training rows at each node: (nodes,)."""
    return np.bincount(task.node[: task.n], minlength=task.tree.n_nodes)


def unheard(layout: Layout, rows: Rows, texts: tuple[tuple[Any, ...], ...], block: str) -> np.ndarray:
    """Columns of a block of words that no row has and no description (of each block, one matrix a kind)."""
    if block not in layout.names or layout.dense[layout.names.index(block)]:
        raise VpunnError(f"{block!r} is no block of words of this model; its blocks are {examples(layout.names)}.")
    i = layout.names.index(block)
    told = [rows.blocks[i], *(texts[i] if texts else ())]
    met = sum(np.bincount(part.indices, minlength=layout.columns[i]) for part in told)
    return np.flatnonzero(met == 0)
