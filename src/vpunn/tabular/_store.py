"""What the tabular models consist of on disk: columns, routes, statistics, boosters and generator, all as plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.codes import PadicCode
from vpunn.errors import VpunnError
from vpunn.store import Draft, Stored
from vpunn.tabular._boost import Booster
from vpunn.tabular._describe import LEAST_WEIGHT, BallStatistics
from vpunn.tabular._forest import Forest
from vpunn.tabular._growing import BallTree, Cells, Descent
from vpunn.tabular._table import TableCoder
from vpunn.tabular._vae import CodeVAE, NormalScores, import_torch
from vpunn.tabular.refine import Refinement
from vpunn.tree import Tree

if TYPE_CHECKING:
    from vpunn.tabular.encoder import LatentTreeEncoder

_STATISTICS = ("count", "mean", "spread")
_VAE_SETTINGS = {"latent": int, "hidden": int, "epochs": int, "batch": int, "rate": float, "seed": int}


# ---- columns -------------------------------------------------------------------------------------------------------------


def put_table(draft: Draft, table: TableCoder) -> None:
    """The columns of a table: names, kinds, means, scales, categories."""
    draft.settings["is_frame"] = table.is_frame
    draft.labels("table.names", list(table.names))
    draft.labels("table.flat", list(table.flat))
    for name in ("numeric", "symbolic", "mean", "spread", "whole", "missing", "weight"):
        draft.array(f"table.{name}", np.asarray(getattr(table, name), None if len(getattr(table, name)) else float))
    for k, (levels, share) in enumerate(zip(table.levels, table.shares, strict=True)):
        draft.labels(f"table.levels{k}", list(levels))
        draft.array(f"table.share{k}", share)


def get_table(stored: Stored, categorical: Any) -> TableCoder:
    """The columns of `put_table`."""
    import pandas as pd

    table = TableCoder(categorical)
    table.is_frame = stored.setting("is_frame", bool)
    table.names = stored.labels("table.names").tolist()
    table.flat = stored.labels("table.flat").tolist()
    n = len(table.names)
    m = len(stored.array("table.mean", dtype="f8", shape=(None,)))
    for name, many in (("numeric", m), ("symbolic", n - m)):
        places = stored.array(f"table.{name}", shape=(many,), low=0, high=n)
        setattr(table, name, places.astype(np.int64))
    if len({*table.numeric.tolist(), *table.symbolic.tolist()}) != n:
        raise VpunnError("some column is both numeric and a category.")
    for name in ("mean", "spread", "missing"):
        setattr(table, name, stored.array(f"table.{name}", dtype="f8", shape=(m,), low=None if name == "mean" else 0))
    table.whole = stored.array("table.whole", shape=(m,)).astype(bool)
    table.levels = [pd.Index(stored.labels(f"table.levels{k}"), dtype=object) for k in range(n - m)]
    table.shares = [
        stored.array(f"table.share{k}", dtype="f8", shape=(len(levels),), low=0)
        for k, levels in enumerate(table.levels)
    ]
    table.weight = stored.array("table.weight", dtype="f8", shape=(n - m,), low=0).tolist()
    return table


# ---- balls and routes ----------------------------------------------------------------------------------------------------


def put_balls(draft: Draft, balls: BallTree) -> None:
    """The leaf of every training row, and the prototypes that route other rows; the tree stands elsewhere."""
    draft.array("leaf", balls.leaf)
    draft.array("prototypes", balls.router.prototypes, balls=True)
    if isinstance(balls.router, Cells):
        draft.array("prototype_ball", balls.router.ball)
    else:
        draft.array("prices", balls.router.prices, balls=True)


def get_balls(stored: Stored, tree: Tree, width: int | None = None) -> BallTree:
    """The balls of `put_balls`; ``width`` is the number of columns a row has."""
    leaf = stored.array("leaf", dtype="i8", shape=(None,), low=0, high=tree.n_nodes)
    prototypes = stored.array("prototypes", dtype="f8", shape=(None, width))
    router: Cells | Descent
    if "prototype_ball" in stored:
        ball = stored.array("prototype_ball", dtype="i8", shape=(len(prototypes),), low=0, high=tree.n_nodes)
        if not len(ball) or not tree.is_leaf[ball].all():
            raise VpunnError("a prototype belongs to no leaf ball.")
        router = Cells(prototypes, ball)
    else:
        if len(prototypes) != tree.n_nodes:
            raise VpunnError(f"there are {len(prototypes)} prototypes for {tree.n_nodes} balls.")
        router = Descent(tree, prototypes, stored.array("prices", dtype="f8", shape=(tree.n_nodes,)))
    return BallTree(tree, leaf, router)


# ---- the encoder ---------------------------------------------------------------------------------------------------------


def put_encoder(draft: Draft, encoder: LatentTreeEncoder) -> None:
    """A fitted `LatentTreeEncoder`."""
    draft.params(encoder, skip=())
    draft.settings |= {"n_features": int(encoder.n_features_in_), "kept": encoder.kept_, "prime": encoder.code_.p}
    draft.settings["rows"] = len(encoder.leaf_)
    draft.add("tree", encoder.tree_)
    put_table(draft, encoder.table_)
    put_balls(draft, encoder._balls)
    statistics = encoder.statistics_
    draft.array("statistics.rows", statistics.rows, balls=True)
    for name in _STATISTICS:
        draft.array(f"statistics.{name}", getattr(statistics, name), balls=True)
    for k, share in enumerate(statistics.shares):
        draft.array(f"statistics.share{k}", share, balls=True)
    if encoder.linkage_ is not None:
        draft.array("linkage", encoder.linkage_)
    if hasattr(encoder, "feature_names_in_"):
        draft.labels("feature_names", encoder.feature_names_in_)
    if hasattr(encoder, "refinement_"):
        draft.add("refined", encoder.refinement_.tree)
        draft.array("refined_leaf", encoder.refinement_.leaf)
        draft.settings["refinement"] = {
            "history": list(encoder.refinement_.history),
            "moves": encoder.refinement_.moves,
        }


def get_encoder(cls: type[LatentTreeEncoder], stored: Stored) -> LatentTreeEncoder:
    """The encoder of `put_encoder`."""
    encoder = cls(**stored.params(cls))
    encoder.n_features_in_ = stored.setting("n_features", int)
    if "feature_names" in stored:
        encoder.feature_names_in_ = stored.labels("feature_names", encoder.n_features_in_)
    encoder.table_ = table = get_table(stored, encoder.categorical)
    if len(table.names) != encoder.n_features_in_:
        raise VpunnError(f"the table has {len(table.names)} columns, not {encoder.n_features_in_}.")
    encoder.tree_ = tree = stored.get("tree", Tree)
    encoder._balls = get_balls(stored, tree, table.width)
    encoder.leaf_ = encoder._balls.leaf
    encoder.kept_ = float(stored.setting("kept", (int, float)))
    encoder.code_ = PadicCode(tree, stored.setting("prime", int))
    encoder.linkage_ = stored.array("linkage", dtype="f8", shape=(None, 4)) if "linkage" in stored else None
    encoder.statistics_ = _statistics(stored, tree, table)
    if "refined" in stored:
        better = stored.get("refined", Tree)
        leaf = stored.array("refined_leaf", dtype="iu", shape=encoder.leaf_.shape, low=0, high=better.n_nodes)
        about = stored.setting("refinement", dict)
        history = tuple(float(score) for score in about["history"])
        encoder.refinement_ = Refinement(better, leaf, history, {str(k): int(v) for k, v in about["moves"].items()})
    return encoder


def _statistics(stored: Stored, tree: Tree, table: TableCoder) -> BallStatistics:
    found = object.__new__(BallStatistics)
    found.tree, found.table = tree, table
    n, m = tree.n_nodes, len(table.numeric)
    found.rows = stored.array("statistics.rows", dtype="f8", shape=(n,), low=LEAST_WEIGHT)
    for name in _STATISTICS:  # a column that a ball never observed has mean NaN there
        setattr(found, name, stored.array(f"statistics.{name}", dtype="f8", shape=(n, m), finite=name == "count"))
    found.shares = [
        stored.array(f"statistics.share{k}", dtype="f8", shape=(n, len(levels)), low=0)
        for k, levels in enumerate(table.levels)
    ]
    return found


# ---- predictors ----------------------------------------------------------------------------------------------------------


def booster_draft(booster: Booster) -> Draft:
    """A fitted `Booster`: LightGBM's own text, or the trees of scikit-learn's boosting as arrays."""
    settings = {"kind": booster.kind, "categorical": booster.categorical, "rounds": booster.rounds}
    draft = Draft("Booster", {**settings, "seed": booster.seed, "engine": booster.engine})
    if booster.engine == "lightgbm":
        draft.text("lightgbm", booster.model_.model_to_string())
    else:
        draft.settings |= {"width": booster.model_.width, "binned": list(booster.model_.known)}
        booster.model_.put(draft)
    if booster.kind == "classification":
        draft.labels("classes", booster.classes_)
    return draft


def get_booster(stored: Stored) -> Booster:
    """The booster of `booster_draft`."""
    kind, categorical = stored.setting("kind", str), stored.setting("categorical", list)
    rounds, seed = stored.setting("rounds", int), stored.setting("seed", int)
    found = Booster(kind, categorical, rounds=rounds, seed=seed, engine=stored.setting("engine", str))
    if kind == "classification":
        found.classes_ = stored.labels("classes")
    if found.engine == "lightgbm":
        found.model_ = _lightgbm(stored.text("lightgbm"))
    else:
        width, binned = stored.setting("width", int), stored.setting("binned", list)
        if any(type(j) is not int or not 0 <= j < width for j in binned):
            raise VpunnError(f"the columns of categories {binned!r} are not among {width} columns.")
        classes = len(found.classes_) if kind == "classification" else 0
        found.model_ = Forest.get(stored, width, binned, classes)
    return found


def _lightgbm(text: str) -> Any:
    try:
        import lightgbm
    except (ImportError, OSError):
        raise VpunnError("its predictors need LightGBM; install it with: pip install 'vpunn[tab]'.") from None
    try:
        return lightgbm.Booster(model_str=text)
    except (lightgbm.basic.LightGBMError, ValueError, IndexError) as error:
        raise VpunnError(f"LightGBM cannot read its model: {error}.") from None


# ---- the generator -------------------------------------------------------------------------------------------------------


def vae_draft(vae: CodeVAE) -> Draft:
    """A fitted `CodeVAE`: settings, quantiles and weights; table and tree stand elsewhere."""
    draft = Draft("CodeVAE", {name: getattr(vae, name) for name in _VAE_SETTINGS})
    draft.array("history", np.asarray(vae.history, dtype=float))
    draft.array("gaps", vae.gaps)
    draft.array("score", vae.scores.score)
    draft.array("values", vae.scores.values)
    for name, weight in vae.net.state_dict().items():
        draft.array(f"net.{name}", weight.numpy(), balls=name == "balls.weight")
    return draft


def get_vae(stored: Stored, table: TableCoder, tree: Tree) -> CodeVAE:
    """The generator of `vae_draft`."""
    torch = import_torch()
    settings = {
        name: stored.setting(name, (int, float) if kind is float else kind) for name, kind in _VAE_SETTINGS.items()
    }
    vae = CodeVAE(table, tree, **settings)
    vae.history = stored.array("history", dtype="f8", shape=(None,), finite=False).tolist()
    m = len(table.numeric)
    vae.gaps = stored.array("gaps", dtype="iu", shape=(None,), low=0, high=m)
    vae.scores = object.__new__(NormalScores)
    vae.scores.score = stored.array("score", dtype="f8", shape=(None,), monotone=True)
    vae.scores.values = stored.array("values", dtype="f8", shape=(m, len(vae.scores.score)))
    with torch.random.fork_rng(devices=[]):
        vae.net = vae._build()
    weights = {
        name: torch.tensor(stored.array(f"net.{name}", dtype="f4", shape=tuple(weight.shape)))
        for name, weight in vae.net.state_dict().items()
    }
    vae.net.load_state_dict(weights)
    return vae
