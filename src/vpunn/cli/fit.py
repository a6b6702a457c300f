"""``vpunn fit``: from a table (or a named task) to a model folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vpunn._progress import progress_bar
from vpunn.cli.common import JsonFlag, add, beside, emit, folded, refuse_unused, say
from vpunn.cli.source import Format, Options, read_source
from vpunn.cli.tables import AS_FOUND, Reading, provenance_of
from vpunn.errors import VpunnError, check_choice, counted, examples

if TYPE_CHECKING:
    from vpunn.tables.fits import FitPlan
    from vpunn.tables.inputs import Inputs
    from vpunn.tables.models import TableModel
    from vpunn.tables.samples import TableRows
    from vpunn.tree import Tree


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, fit)


@dataclass(frozen=True)
class Columns:
    """Which columns are what."""

    target: Annotated[
        str | None, typer.Option(help="Column of labels (default: label), or level columns separated by commas.")
    ] = None
    label_sep: Annotated[
        str | None, typer.Option(help="Rows have several labels, separated by this in the target's cells, such as ';'.")
    ] = None
    path_sep: Annotated[
        str | None,
        typer.Option(help="The target's cells are paths, their levels separated by this, such as '>'."),
    ] = None
    levels: Annotated[
        str | None,
        typer.Option(
            help="Level columns, broadest first: the target, or with --regress and --classify what is known of a row."
        ),
    ] = None
    text: Annotated[str | None, typer.Option(help="Text columns, separated by commas.")] = None
    columns: Annotated[
        str | None, typer.Option(help="Numeric columns, separated by commas; alone or beside --text.")
    ] = None
    categories: Annotated[
        str | None, typer.Option(help="Columns of a few names each, such as colour, separated by commas.")
    ] = None
    regress: Annotated[
        str | None, typer.Option(help="Predict the number in this column from --levels (and --columns).")
    ] = None
    classify: Annotated[
        str | None, typer.Option(help="Predict the class in this column (diet, habitat) from --levels (and --columns).")
    ] = None
    groups: Annotated[
        str | None, typer.Option(help="Column that says where a row is from (a shop, a patient): held out together.")
    ] = None

    @property
    def from_levels(self) -> bool:
        """Whether levels predict, and are not predicted."""
        return self.regress is not None or self.classify is not None

    @property
    def named(self) -> bool:
        """Whether columns to read were named."""
        return any(value is not None for value in (self.text, self.columns, self.categories))

    def given(self) -> dict[str, str | None]:
        """Options and what was said."""
        names = (
            "target",
            "levels",
            "text",
            "columns",
            "categories",
            "regress",
            "classify",
            "label_sep",
            "path_sep",
            "groups",
        )
        return {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}

    def inputs(self) -> Inputs:
        """The columns as a model keeps them."""
        from vpunn.tables.inputs import Inputs, split_names

        given = {name: value for name, value in self.given().items() if not name.endswith("-sep")}
        empty = [name for name, value in given.items() if value is not None and not split_names(value)]
        if empty:
            raise VpunnError(f"name at least one column after {empty[0]}.")
        names = {name: tuple(split_names(value)) for name, value in given.items()}
        for name in ("--regress", "--classify", "--groups"):
            if len(names[name]) > 1:
                raise VpunnError(f"{name} takes one column, got {examples(names[name])}.")
        group = next(iter(names["--groups"]), None)
        if self.from_levels:
            option, what = ("--regress", "a number") if self.regress is not None else ("--classify", "a class")
            unused = {"--target": self.target, "--text": self.text, "--path-sep": self.path_sep}
            unused |= {"--categories": self.categories, "--classify": self.classify if self.regress else None}
            refuse_unused(unused, f"{option} predicts {what} from --levels and --columns")
            if self.levels is None:
                raise VpunnError(
                    f"{option} needs --levels with the level columns (or the label column of --tree), broadest first."
                )
            classes = self.regress is None
            return Inputs(names[option], (), names["--columns"], names["--levels"], group, classes=classes)
        if self.target is not None and self.levels is not None:
            raise VpunnError("--target and --levels both name the target; give one of them.")
        if not self.named:
            raise VpunnError("say --text, --columns (numbers) or --categories with the columns to read.")
        target = names["--levels"] or names["--target"] or ("label",)
        inputs = Inputs(target, names["--text"], names["--columns"], groups=group, categories=names["--categories"])
        if self.label_sep == "":
            raise VpunnError("--label-sep needs the text between two labels of a cell, such as ';'.")
        if self.path_sep is not None:
            refuse_unused({"--label-sep": self.label_sep}, "--path-sep says that a cell is one path")
            if not self.path_sep.strip() or len(target) > 1:
                raise VpunnError(
                    f"--path-sep needs the text between two levels, such as '>', and one target column; got {self.path_sep!r} and "
                    f"{examples(target)}."
                )
        return replace(inputs, label_sep=self.label_sep, path_sep=self.path_sep)


@dataclass(frozen=True)
class Places:
    """The tree of the labels, and rows without a place in it."""

    tree: Annotated[str | None, typer.Option(help="Tree file (or data set) whose labels the table uses.")] = None
    match: Annotated[
        str | None,
        typer.Option(help="exact, or loose: Garden, garden and ' GARDEN.' are one name, and so is the tree's."),
    ] = None
    missing: Annotated[
        str,
        typer.Option(
            help="Rows with blanks: median (a number of --columns is read as its column's median; rows without a label or number "
            "to learn are left out), drop (all rows with a blank are left out), or error."
        ),
    ] = "median"
    unseen: Annotated[
        str | None, typer.Option(help="With --tree: rows whose label is not in it, error (the default) or skip.")
    ] = None
    format: Format = None
    policy: Annotated[str | None, typer.Option(help="For --tree: which parent a node with several keeps.")] = None
    tree_name: Annotated[
        str | None,
        typer.Option(help="Which tree of a file with several (default: the first); all: --regress averages over them."),
    ] = None
    option: Options = None

    def read(self) -> Tree | None:
        """The tree, if one was named."""
        if self.tree is None:
            told = {"--format": self.format, "--policy": self.policy, "--option": self.option, "--unseen": self.unseen}
            refuse_unused(told | {"--tree-name": self.tree_name}, "there is no --tree")
            return None
        named = [] if self.tree_name is None else [f"tree_name={self.tree_name}"]
        return read_source(self.tree, self.format, self.policy or "first", [*(self.option or []), *named])

    def read_all(self, regress: bool) -> list[Tree]:
        """The tree, or all trees of the file where answers are averaged over them; none if no tree was named."""
        if self.tree is None or self.tree_name != "all":
            tree = self.read()
            return [] if tree is None else [tree]
        from vpunn.io import read_trees

        if not regress:
            raise VpunnError("--tree-name all averages what --regress predicts; name one tree for anything else.")
        told = {"--format": self.format, "--policy": self.policy, "--option": self.option}
        refuse_unused(told, "--tree-name all reads every tree of a NEXUS or Newick file")
        return list(read_trees(self.tree).values())


@dataclass(frozen=True)
class Evolving:
    """How the numbers of --regress and classes of --classify came about."""

    evolution: Annotated[
        str | None,
        typer.Option(
            help="Along the branches of --tree: brownian, lambda, ou, kappa or auto (the likeliest); of classes mk, which they "
            "have if the tree has lengths, or none."
        ),
    ] = None
    lengths: Annotated[
        str | None, typer.Option(help="Branch lengths for --evolution: a column of the tree, or one number for all.")
    ] = None
    log: Annotated[
        bool, typer.Option("--log", help="--regress learns log10 of the number, which is positive and skewed.")
    ] = False

    def options(self, which: Columns, tree: Tree | None) -> dict[str, Any]:
        """Options of the estimator."""
        told = {"--evolution": self.evolution, "--lengths": self.lengths, "--log": self.log or None}
        if not which.from_levels:
            refuse_unused(told, "they belong to --regress and --classify")
            return {}
        if which.regress is None:
            refuse_unused({"--log": self.log or None}, "--classify predicts a class")
        told.pop("--log")
        if tree is None:
            refuse_unused(told, "there is no --tree")
            return {}
        model = self.evolution
        if which.classify is not None and model is None and "length" in tree.columns and which.columns is None:
            model = "mk"
            say("classes evolve along the branches (Mk model); --evolution none mixes groups by depth")
        if model in (None, "none"):
            refuse_unused({"--lengths": self.lengths}, "it belongs to --evolution")
            return {}
        lengths: Any = self.lengths
        if lengths is not None and lengths not in tree.columns:
            try:
                lengths = float(lengths)
            except ValueError:
                raise VpunnError(
                    f"--lengths takes a column of the tree ({examples(list(tree.columns))}) or a number, got {lengths!r}."
                ) from None
        return {"evolution": model, "lengths": lengths}


@dataclass(frozen=True)
class Words:
    """How texts become features."""

    characters: Annotated[bool | None, typer.Option(help="Also read the text by groups of letters.")] = None
    mixed: Annotated[
        str | None,
        typer.Option(
            help="Words that mix letters and digits: cut where they meet (default), whole, or whole and starts."
        ),
    ] = None

    def check(self, which: Columns) -> None:
        """Refuse what does not exist, or has no text to work on."""
        from vpunn.text.ngrams import MIXED

        if self.mixed is not None:
            check_choice("--mixed", self.mixed, MIXED)
        if which.text is None:
            refuse_unused({"--characters": self.characters, "--mixed": self.mixed}, "there is no --text")


@dataclass(frozen=True)
class HeldOut:
    """Rows that are scored before the model of all rows is fitted."""

    test_size: Annotated[
        float | None, typer.Option(help="First fit without this share of the rows and score them.")
    ] = None
    folds: Annotated[
        int | None, typer.Option(help="First score every row by a model fitted without its part of so many.")
    ] = None

    def given(self) -> dict[str, Any]:
        """Options and what was said."""
        return {"--test-size": self.test_size, "--folds": self.folds}


NO_COLUMNS, NO_TREE, AS_LEVELS, AS_WORDS, NONE_HELD = Columns(), Places(), Evolving(), Words(), HeldOut()


def fit(
    table: Annotated[
        Path,
        typer.Argument(
            help="A table (CSV, TSV, Excel, Parquet, JSON lines, Feather), or the name of a task (wordnet, go, …)."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the model; beside the table, called TABLE-model, if not given.")
    ] = None,
    which: Columns = NO_COLUMNS,
    places: Places = NO_TREE,
    evolving: Evolving = AS_LEVELS,
    words: Words = AS_WORDS,
    held: HeldOut = NONE_HELD,
    keep: Annotated[
        str | None,
        typer.Option(help="What the folder holds of the training rows: rows, or sums (a weaker model, no row)."),
    ] = None,
    leaves: Annotated[
        bool, typer.Option("--leaves", help="Answer with leaves of the tree only, never with a branch.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    reading: Reading = AS_FOUND,
    json: JsonFlag = False,
) -> None:
    """Fit a model on a table; without options, show its columns.

    The columns are shown with what they look like, and with a command to copy. A model is written to a folder and has seen all
    rows."""
    from vpunn.files import make_folder
    from vpunn.store import check_replaceable

    if keep is not None:
        check_choice("--keep", keep, ("rows", "sums"))
    if table.exists() and not any(value is not None for value in which.given().values()):
        _suggest(table, places, reading, json)
        return
    out = out or beside(table)
    make_folder(out.parent)
    check_replaceable(out)
    facts: dict[str, Any] = {}
    if not table.exists() and task_name(table) is not None:
        unused = {**which.given(), "--tree": places.tree, "--unseen": places.unseen, **held.given()}
        refuse_unused(
            unused | {"--mixed": words.mixed}, f"{table} is a task, which brings its own columns, tree and test rows"
        )
        model = _task_model(table, words.characters is not False, seed)
    else:
        if which.from_levels:
            refuse_unused({"--keep": keep}, "--regress and --classify keep no rows")
        elif not which.named:
            which = _guessed(table, which, reading)
        words.check(which)
        inputs = replace(which.inputs(), match=places.match or "exact", log=evolving.log)
        sample, plan = _planned(table, inputs, which, places, evolving, reading)
        more: Any = {"characters": words.characters is not False, "mixed": words.mixed or "cut"}
        plan = replace(plan, **more, answers="leaves" if leaves else "auto", seed=seed)
        model, facts = _fitted(sample, replace(plan, test_size=held.test_size, folds=held.folds), json)
    kept: dict[str, Any] = {} if keep is None else {"keep": keep}
    model.save(out, {**provenance_of(table), "command": "vpunn fit"}, **kept)
    size = sum(f.stat().st_size for f in out.iterdir())
    if held == NONE_HELD and hasattr(model.model, "held_out_exact_"):
        facts["exact on rows held out in turn"] = model.model.held_out_exact_
    emit({**facts, "nodes": model.model.tree_.n_nodes, "MB": size / 1e6, "model": str(out)}, json)
    if not json:
        typer.echo(f"\nNext: vpunn predict {shlex.quote(str(out))} NEW.csv --out answers.csv")


def _planned(
    table: Path, inputs: Inputs, which: Columns, places: Places, evolving: Evolving, reading: Reading
) -> tuple[TableRows, FitPlan]:
    """The rows of a table, checked, and what is to be fitted on them."""
    from vpunn.tables.fits import FitPlan
    from vpunn.tables.samples import read_sample

    if which.label_sep is not None:
        told = {"--levels": which.levels, "--regress": which.regress, "--classify": which.classify}
        refuse_unused(told, "--label-sep cuts one column")
    trees = places.read_all(which.regress is not None)
    tree = trees[0] if trees else None
    numbers = evolving.options(which, tree) | ({"trees": trees} if len(trees) > 1 else {})
    frame = reading.read(table, inputs, [inputs.groups] if inputs.groups else [])
    how: dict[str, Any] = {"regress": which.from_levels, "match": inputs.match, "missing": places.missing}
    sample = read_sample(frame, inputs, table, tree=tree, unseen=places.unseen or "error", **how)
    return sample, FitPlan(inputs, tree, which.from_levels, numbers)


def _fitted(sample: TableRows, plan: FitPlan, json: bool) -> tuple[TableModel, dict[str, Any]]:
    """The model of all rows, and the scores of rows held out first; what was read is said before."""
    from vpunn.tables.answers import called

    if not json:
        typer.echo(folded(str(sample.report)))
    if plan.regress and plan.test_size is None and plan.folds is None:
        refuse_unused({"--groups": plan.inputs.groups}, "--regress uses it to hold rows out (--test-size or --folds)")
    facts: dict[str, Any] = dict(plan.held_out(sample))
    if json:
        facts = {"read": sample.report.facts()} | facts
    elif plan.folds is not None:
        _say_folds(facts, plan.folds)
        facts = {}
    with progress_bar("fitting…", 100) as bar:
        model = plan.model(sample, bar)
    return model, facts if json else {called(name): value for name, value in facts.items()}


def _suggest(table: Path, places: Places, reading: Reading, json: bool) -> None:
    """What the columns of a table look like, and the commands that fit a model on it."""
    from vpunn.tables.guess import guess_columns, suggestions
    from vpunn.tables.inputs import join_names

    frame = reading.read_plain(table)
    guesses = guess_columns(frame)
    rows = [{"column": name, "looks like": guess.kind, "because": guess.why} for name, guess in guesses.items()]
    commands = {}
    for options in suggestions(frame, guesses, places.read()):
        words = ["vpunn", "fit", str(table), *(["--tree", places.tree] if places.tree else [])]
        for name, columns in options.items():
            words += [f"--{name}", join_names(columns)]
        from_levels = options.get("regress") or options.get("classify")
        what = " > ".join(from_levels or options.get("levels") or options["target"])
        commands[what] = f"from {' > '.join(options['levels'])}" if from_levels else "from the rest", words
    if json:
        emit({"columns": rows, "commands": [words for _, words in commands.values()]}, True)
        return
    emit(rows, False, f"{table}: {counted(len(frame), 'row')}")
    for what, (rest, words) in commands.items():
        typer.echo(f"\nTo predict {what} {rest}:\n\n    {shlex.join(words)}")
    if commands:
        typer.echo("\nLeave out or rename what is wrong.")
    else:
        typer.echo("\nNo column looks like labels. Name one with --target, or a number with --regress and --levels.")
    if places.tree is None:
        typer.echo("If a column names places in a tree that you have, such as species, add --tree FILE.")


def _guessed(table: Path, which: Columns, reading: Reading) -> Columns:
    """The options with the columns that nobody has named, as they look."""
    from vpunn.tables.guess import columns_of, guess_columns, said_of
    from vpunn.tables.inputs import join_names, split_names

    target = split_names(which.levels or which.target or "label")
    guesses = guess_columns(reading.read_plain(table))
    taken = [*target, *split_names(which.groups)]
    say("; ".join(said_of({name: guess for name, guess in guesses.items() if name not in taken}, taken)))
    text, columns, categories = (
        join_names(columns_of(guesses, kind, taken)) or None for kind in ("text", "number", "category")
    )
    return replace(which, text=text, columns=columns, categories=categories)


def _say_folds(scores: Mapping[str, Any], folds: int) -> None:
    """Scores of rows held out in parts: their mean and standard deviation between the parts, side by side."""
    from vpunn.tables.answers import called

    rows = [
        {"score": called(name.removeprefix("held-out ")), "mean": scores[name], "sd": scores[f"{name}, sd"]}
        for name in scores
        if f"{name}, sd" in scores
    ]
    emit(rows, False, f"{counted(int(scores['held-out rows']), 'row')} held out in {folds} parts:")
    typer.echo()


def _task_model(table: Path, characters: bool, seed: int) -> TableModel:
    from vpunn.tables.fits import fit_task

    with progress_bar("fitting…", 100) as bar:
        return fit_task(task_name(table) or "", characters=characters, seed=seed, bar=bar)


def task_name(table: Path) -> str | None:
    """The task that a word means; None for what is meant as a file."""
    from vpunn.datasets.tasks import TASKS

    name = {"wordnet-3.0": "wordnet"}.get(str(table), str(table))
    return name if name in TASKS else None
