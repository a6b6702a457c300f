"""``vpunn hipan``: the paper's own model on a tree of one's own: trained, asked for digits and probabilities, judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, add, beside, emit
from vpunn.cli.source import AS_NAMED, Source, TreeFile
from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.paper import HiPaN

Model = Annotated[Path, typer.Argument(help="A folder made by vpunn hipan fit.")]
Items = Annotated[list[str] | None, typer.Argument(help="Labels of leaves; all of them if none is given.")]
RuleOption = Annotated[
    str, typer.Option(help="given: the true digit is shown, as in the paper; predicted: nothing is shown.")
]


def register(app: typer.Typer) -> None:
    """Add the family of commands."""
    family = typer.Typer(
        no_args_is_help=True,
        help="The paper's HiPaN on your tree. It reads no features: vpunn fit is for rows with features.",
    )
    for command in (fit, digits, proba, score):
        add(family, command)
    app.add_typer(family, name="hipan")


def fit(
    tree: Source,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the model; beside the tree, called TREE-hipan, if not given.")
    ] = None,
    optimizer: Annotated[str, typer.Option(help="adam, or gist (HiPaN-DS).")] = "adam",
    schedule: Annotated[str, typer.Option(help="adam: paper-main or paper-appendix.")] = "paper-main",
    sweeps: Annotated[int, typer.Option(min=1, help="gist: sweeps of θ ± 1 mod p.")] = 10,
    hidden: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Share of the leaves hidden from training; they set the temperatures."),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """Train HiPaN on the leaves of a tree and save it."""
    import numpy as np

    from vpunn._progress import progress_bar
    from vpunn.files import make_folder
    from vpunn.paper import HiPaN
    from vpunn.store import check_replaceable

    found = how.read(tree)
    out = out or beside(tree, "hipan")
    check_replaceable(out)
    made: Any = {"optimizer": optimizer, "schedule": schedule, "sweeps": sweeps, "seed": seed}
    model = HiPaN(found, **made)
    make_folder(out.parent)
    order = np.random.default_rng(seed).permutation(found.leaves)
    left_out, seen = np.split(order, [int(hidden * len(order))])
    with progress_bar("training", 1):
        model.fit(np.sort(seen))
        for rule in ("given", "predicted") if len(left_out) else ():
            model.calibrate(left_out, rule)
    model.save(out)
    numbers = model.n_parameters
    facts = {"model": str(out), "leaves": found.n_leaves, "hidden": len(left_out), "p": model.p, "K": model.K}
    emit({**facts, "numbers": numbers["stored"], "printed in the paper": numbers["printed"]}, json)


def digits(
    model: Model,
    items: Items = None,
    rule: RuleOption = "predicted",
    json: JsonFlag = False,
) -> None:
    """True and predicted digits of leaves, root first."""
    found = _model(model)
    nodes, labels = _leaves(found, items)
    rows = zip(labels, found.encode(nodes).tolist(), found.predict_digits(nodes, _rule(rule)).tolist(), strict=True)
    emit(
        [
            {"leaf": label, "digits": _joined(true), "predicted": _joined(said), "right": true == said}
            for label, true, said in rows
        ],
        json,
        f"digits by rule {rule}",
    )


def proba(
    model: Model,
    items: Items = None,
    rule: RuleOption = "predicted",
    top: Annotated[int, typer.Option(min=1, help="How many leaves to name for each item.")] = 3,
    json: JsonFlag = False,
) -> None:
    """The likeliest leaves of each item, with probabilities."""
    import numpy as np

    found = _model(model)
    nodes, labels = _leaves(found, items)
    p, own = found.predict_proba(nodes, _rule(rule)), np.searchsorted(found.tree.leaves, nodes)
    best = np.argsort(-p, axis=1, kind="stable")[:, :top]
    rows = [
        {"item": label, "its own": float(p[i, own[i]]), "leaf": found.classes_[at], "probability": float(p[i, at])}
        for i, label in enumerate(labels)
        for at in best[i]
    ]
    emit(rows, json, f"probabilities by rule {rule}")


def score(
    model: Model,
    items: Items = None,
    json: JsonFlag = False,
) -> None:
    """Shares of right digits, with the true digit shown and without."""
    found = _model(model)
    nodes, _ = _leaves(found, items)
    rows = []
    for rule in ("given", "predicted"):
        one = found.score(nodes, rule)
        shares = {"LeafAcc": one.leaf, "RootAcc": one.root, "digits": one.digit, "whole paths": one.path}
        rho = None if one.rho != one.rho else one.rho  # undefined where all codes are equal
        rows.append({"rule": rule, "items": one.n_items, **shares, "ρ": rho, "verdict": one.verdict})
    emit(rows, json)


def _model(folder: Path) -> HiPaN:
    from vpunn.paper import HiPaN
    from vpunn.store import load

    found = load(folder)
    if not isinstance(found, HiPaN):
        raise VpunnError(f"{str(folder)!r} holds a {type(found).__name__}, not a HiPaN; vpunn hipan fit makes one.")
    return found


def _leaves(model: HiPaN, items: list[str] | None) -> tuple[Any, list[Any]]:
    import numpy as np

    nodes = model.tree.leaves if items is None else np.atleast_1d(model.tree.find(list(items)))
    inner = nodes[model.tree.n_children[nodes] > 0]
    if len(inner):
        raise VpunnError(f"{model.tree.labels[inner[0]]!r} is no leaf, and HiPaN's items are leaves.")
    return nodes, model.tree.labels[nodes].tolist()


def _rule(rule: str) -> Any:
    from vpunn.errors import check_choice
    from vpunn.paper.hybrid import RULES

    check_choice("rule", rule, RULES)
    return rule


def _joined(digits: list[int]) -> str:
    return ".".join(map(str, digits))
