"""``vpunn discover`` and ``vpunn tabular``: find the hierarchy in a table, predict, generate and edit with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, add, beside, emit
from vpunn.cli.tables import AS_FOUND, Reading
from vpunn.errors import VpunnError, counted

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tabular.encoder import LatentTreeEncoder


Table = Annotated[Path, typer.Argument(help="Table file, or a data set: wine-quality or pantheria.")]
Model = Annotated[Path, typer.Argument(help="Folder that 'vpunn tabular fit' wrote.")]
FIGURES = (".png", ".svg", ".pdf")
Seed = Annotated[int, typer.Option(help="Random seed.")]
#: Held-out losses that ``tabular fit`` shows.
COMPARED = ("columns only", "+ balls", "+ random balls")


@dataclass(frozen=True)
class Latent:
    """How a tree is found in a table."""

    method: Annotated[str, typer.Option(help="ward (exact), two-stage (any number of rows) or kmeans (balanced).")] = (
        "ward"
    )
    p: Annotated[int, typer.Option("--p", help="At most p − 1 children a branch.")] = 3
    K: Annotated[int, typer.Option("--K", help="Digits of a code.")] = 6
    levels: Annotated[str | None, typer.Option(help="Branches per level instead of p and K, such as 5,20,60.")] = None
    refine: Annotated[bool, typer.Option("--refine", help="Improve the tree by local moves.")] = False
    seed: Seed = 0

    def encoder(self) -> LatentTreeEncoder:
        """The encoder to fit."""
        from vpunn.tabular.encoder import LatentTreeEncoder

        counts = None
        if self.levels is not None:
            try:
                counts = [int(part) for part in self.levels.split(",")]
            except ValueError:
                raise VpunnError(
                    f"--levels takes numbers separated by commas, such as 5,20,60; got {self.levels!r}."
                ) from None
        how: Any = {"nodes_per_level": counts, "refine": self.refine, "random_state": self.seed}
        return LatentTreeEncoder(self.method, p=self.p, K=self.K, **how)


BY_WARD = Latent()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, discover)
    family = typer.Typer(no_args_is_help=True, help="Generate and edit rows by a tree found in a table.")
    for command in (fit, generate, edit):
        add(family, command)
    app.add_typer(family, name="tabular")


def discover(
    table: Table,
    drop: Annotated[
        list[str] | None, typer.Option(help="Leave out a column, such as the target or an id (repeatable).")
    ] = None,
    latent: Latent = BY_WARD,
    depth: Annotated[int, typer.Option(min=0, help="Describe branches down to this depth.")] = 2,
    codes: Annotated[
        Path | None, typer.Option(help="Write branch, code and digits of every row to this table.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a picture of the top branches (.png, .svg or .pdf).")
    ] = None,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Learn a tree from a table and describe its top branches."""
    from vpunn.files import check_not_read, check_writable
    from vpunn.io.frames import ENDINGS, pop_column

    for path, endings in ((codes, tuple(ENDINGS)), (figure, FIGURES)):
        if path is not None:
            check_writable(path, endings)
            check_not_read(path, table)
    rows = _rows(table, reading)
    for name in drop or ():
        rows, _ = pop_column(rows, name)
    encoder = latent.encoder().fit(rows)
    tree = encoder.tree_
    described = [encoder.describe(node) for node in range(1, tree.n_nodes) if tree.depth[node] <= depth]
    if codes is not None:
        _write_codes(encoder, codes)
    if figure is not None:
        _write_figure(encoder, figure, max(depth, 1))
    code = encoder.code_
    if json:
        facts = {"rows": len(rows), "nodes": tree.n_nodes, "leaves": tree.n_leaves, "p": code.p, "K": code.K}
        emit({**facts, "flat columns": encoder.table_.flat, "balls": [asdict(d) for d in described]}, json)
        return
    typer.echo(f"{len(rows):,} rows, {rows.shape[1]} columns: {tree.n_leaves} leaves, p = {code.p}, K = {code.K}")
    if encoder.table_.flat:
        typer.echo(f"columns that never vary and were left out: {', '.join(map(str, encoder.table_.flat))}")
    if latent.refine:
        typer.echo(str(encoder.refinement_))
    for description in described:
        indent = "  " * description.ball.count(".")
        typer.echo("\n".join(indent + line for line in str(description).splitlines()))
    for written in (codes, figure):
        if written is not None:
            typer.echo(f"written: {written}")


def fit(
    table: Table,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the model; beside the table, called TABLE-model, if not given.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict; it never enters the tree.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="regression or classification; guessed from the target by default.")
    ] = None,
    latent: Latent = BY_WARD,
    rounds: Annotated[int, typer.Option(min=1, help="Boosting rounds of the predictors.")] = 300,
    epochs: Annotated[int, typer.Option(min=0, help="Training of the generator; 0 for none.")] = 100,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Learn a tree, predictors and a generator from a table.

    With a target, held-out losses with and without the code are reported."""
    from vpunn.io.frames import pop_column
    from vpunn.paper.trials import prediction_trial
    from vpunn.store import check_replaceable
    from vpunn.tabular.tabhipan import Generator, TabHiPaN

    out = out or beside(table)
    check_replaceable(out)
    rows, wanted = pop_column(_rows(table, reading), target)
    if wanted is not None and wanted.isna().any():
        raise VpunnError(f"the target {target!r} is missing in {int(wanted.isna().sum())} rows; drop those rows first.")
    encoder = latent.encoder()
    generator = Generator(epochs) if epochs else None
    model = TabHiPaN(encoder, kind=kind, rounds=rounds, generator=generator, random_state=latent.seed).fit(rows, wanted)
    code = model.encoder_.code_
    facts: dict[str, Any] = {"rows": len(rows), "leaves": model.tree_.n_leaves, "p": code.p, "K": code.K}
    if wanted is not None:
        trial = prediction_trial(rows, wanted.to_numpy(), model.kind_, latent.seed, model.rounds, encoder)
        loss = "RMSE" if model.kind_ == "regression" else "log loss"
        facts |= {f"held-out {loss}, {name.replace('balls', 'branches')}": trial[name] for name in COMPARED}
    if epochs:
        facts["generator loss, nats a row"] = model.vae_.history[-1]
    model.save(out, provenance={"data": str(table), "command": "vpunn tabular fit"})
    emit({**facts, "written": str(out)}, json)


def generate(
    model: Model,
    out: Annotated[Path, typer.Option(help="Table file for the new rows.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 100,
    branch: Annotated[str, typer.Option(help="Branch to generate from, such as 2.1; all for the whole tree.")] = "all",
    seed: Seed = 0,
) -> None:
    """Generate rows, all over the tree or from one branch."""
    import pandas as pd

    from vpunn.io.frames import check_table_path, write_table
    from vpunn.tabular.tabhipan import TabHiPaN

    check_table_path(out)
    made = pd.DataFrame(TabHiPaN.load(model).sample(n, branch, seed=seed))
    typer.echo(f"written: {write_table(made, out)} ({counted(n, 'row')} from branch {branch})")


def edit(
    model: Model,
    table: Table,
    row: Annotated[int, typer.Option(help="Row of the table to edit, counted from 0.")],
    depth: Annotated[int, typer.Option(min=1, help="Which digit to change; 1 is the root digit.")] = 3,
    digit: Annotated[int | None, typer.Option(help="New digit; the nearest sibling by default.")] = None,
    twins: Annotated[int, typer.Option(min=1, help="How many twins.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Write the twins to this table.")] = None,
    seed: Seed = 0,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Move a row to a sibling branch, its nearest twin beside it."""
    import pandas as pd

    from vpunn.files import check_not_read
    from vpunn.io.frames import check_table_path, write_table
    from vpunn.tabular.tabhipan import TabHiPaN

    if out is not None:
        check_table_path(out)
        check_not_read(out, table)
    loaded = TabHiPaN.load(model)
    rows = _rows(table, reading)
    missing = [c for c in loaded.encoder_.table_.names if c not in rows.columns]
    if missing:
        raise VpunnError(f"{table} lacks the column {missing[0]!r} that the model was fitted with.")
    if not 0 <= row < len(rows):
        raise VpunnError(f"row {row} is outside {table}, which has rows 0 to {len(rows) - 1}.")
    found = loaded.edit(rows[loaded.encoder_.table_.names].iloc[[row]], depth, digit=digit, twins=twins, seed=seed)
    best = found.best()
    twin = pd.DataFrame(found.rows).iloc[best]
    lines = [
        {"column": name, "original": found.original.iloc[0][name], "twin": twin[name], "s.d.": shift}
        for name, shift in zip(found.names, found.shift[best], strict=True)
    ]
    if out is not None:
        made = pd.DataFrame(found.rows).assign(distance=found.distance, landed=found.landed)
        write_table(made, out)
    if json:
        facts = {"branch": found.ball, "target": found.target, "hit rate": found.hit_rate}
        emit({**facts, "distance": found.distance, "landed": found.landed, "nearest": lines}, json)
        return
    typer.echo(str(found))
    emit(lines, json)


def _rows(table: Path, reading: Reading) -> pd.DataFrame:
    """The rows of a file, or of a data set (a file of that name comes first)."""
    from vpunn import datasets

    known = {"wine-quality": datasets.load_wine_quality, "pantheria": datasets.load_pantheria}
    return known[str(table)]() if str(table) in known and not table.exists() else reading.read_plain(table)


def _write_codes(encoder: LatentTreeEncoder, path: Path) -> None:
    import pandas as pd

    from vpunn.io import write_table

    leaf = encoder.leaf_
    digits = encoder.code_.digits(leaf)
    columns = {
        "row": range(len(leaf)),
        "branch": encoder.tree_.labels[leaf],
        "code": encoder.code_.encode(leaf).astype(str),
    }
    write_table(pd.DataFrame({**columns, **{f"digit{k + 1}": digits[:, k] for k in range(digits.shape[1])}}), path)


def _write_figure(encoder: LatentTreeEncoder, path: Path, depth: int) -> None:
    from matplotlib.figure import Figure

    from vpunn import plot
    from vpunn.files import written_beside

    levels = min(depth, encoder.tree_.max_depth) + 1
    figure = Figure(figsize=(11.0, 1.0 + 1.25 * levels), layout="constrained")
    plot.latent_tree(encoder, figure.subplots(), depth=depth)
    with written_beside(path) as beside:
        figure.savefig(beside, dpi=130)
