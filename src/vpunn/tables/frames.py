"""`vpunn.fit`: a model of a data frame as it is, with text, numbers, categories and blanks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._progress import progress_bar
from vpunn.errors import VpunnError, check_choice, examples
from vpunn.io.frames import check_columns
from vpunn.tables.cells import written_numbers
from vpunn.tables.fits import FitPlan
from vpunn.tables.guess import Guess, columns_of, guess_columns, guess_target, names_in, said_of
from vpunn.tables.inputs import Inputs
from vpunn.tables.samples import read_sample

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tables.models import TableModel
    from vpunn.tree import Tree

#: What a column can be said to be.
KINDS = ("text", "number", "category", "skip")


def fit(
    frame: pd.DataFrame,
    target: Any = None,
    *,
    tree: Tree | None = None,
    kinds: Mapping[str, str] | None = None,
    levels: Sequence[str] = (),
    groups: str | None = None,
    label_sep: str | None = None,
    path_sep: str | None = None,
    match: str = "exact",
    unseen: str = "error",
    answers: str = "auto",
    random_state: int = 0,
    verbose: bool = True,
) -> TableModel:
    """Fit a model on a data frame as it is; ``predict`` of the model takes such frames and gives values of the target.

    Text columns become words, numbers stay numbers, categories become one column for each value. A missing number is read as the
    median of its column, a missing category as what is usual; rows without a target are left out. What was done is printed, and
    kept as ``model.report``. ``vpunn fit`` does the same in the shell.

    Parameters
    ----------
    target : a column, a list of level columns (broadest first), or a series, list or frame of as many rows. Decimal numbers that
        hardly repeat are predicted as numbers (`TableRegressor`), all else as places on a tree (`TableClassifier`).
    tree : the tree whose labels the target uses; without one it is made from the target.
    kinds : what columns are, where the guess is wrong: ``{"zip": "category", "note": "skip"}``; text, number, category or skip.
    levels : the level columns, broadest first (or the column of names in the ``tree``), that a number or class is predicted from.
    groups : a column that says where a row is from, such as a shop; its rows are held out together when the model is calibrated.
    label_sep : what separates the labels of a cell, if rows have several; cells may also hold lists or sets.
    path_sep : what separates the levels of a cell, such as ">", if the target holds paths.
    match : "loose" reads names that differ in case, blanks and the like as one.
    unseen : with a ``tree``, what happens to rows whose label is not in it: "error", or "skip", which leaves them out.
    answers : "leaves", "all" or "auto": which nodes may be answers; see `HiPaNClassifier`.

    >>> import pandas as pd
    >>> shop = pd.DataFrame({
    ...     "text": ["espresso beans", "green tea", "rye loaf", "black tea", "ground espresso", "white loaf"] * 4,
    ...     "price": [9.5, 4.0, 3.2, None, 8.0, 2.9] * 4,
    ...     "kind": ["coffee", "tea", "bread", "tea", "coffee", "bread"] * 4})
    >>> model = fit(shop, "kind", kinds={"text": "text"}, verbose=False)
    >>> model.predict(pd.DataFrame({"text": ["espresso", "tea leaves"], "price": [8.5, None]})).tolist()
    ['coffee', 'tea']
    """
    _check_frame(frame)
    frame, names = _with_target(frame, target)
    guesses = guessed(frame, kinds or {}, [*names, *levels, *([groups] if groups else [])])
    levels = levels or _levels_of(frame, names, guesses, tree)
    if label_sep is None and not levels and guess_columns(frame[names[:1]])[names[0]].kind == "list":
        label_sep = _unused_separator(frame[names[0]])
    how = {"groups": groups, "label_sep": label_sep, "path_sep": path_sep, "match": match}
    inputs = _inputs(frame, names, levels, guesses, how)
    if not inputs.names:
        raise VpunnError(f"no column is left to predict {examples(names)} from; {'; '.join(said_of(guesses, names))}.")
    regress = bool(levels)
    sample = read_sample(frame, inputs, "the frame", regress=regress, tree=tree, match=match, unseen=unseen)
    notes = (*_said(inputs, guesses), *sample.report.notes)
    sample = replace(sample, report=replace(sample.report, notes=notes))
    if verbose:
        print(sample.report)
    with progress_bar("fitting…", 100, None if verbose else 0.0) as bar:
        model = FitPlan(inputs, tree, regress, answers=answers, seed=random_state).model(sample, bar)
    model.report = sample.report
    return model


def _check_frame(frame: Any) -> None:
    """Refuse what is no data frame, or one whose columns have no names."""
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):  # in this order: a lazy frame looks for its columns
        name = f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}".removeprefix("builtins ")
        other = "give its .to_pandas()" if hasattr(frame, "to_pandas") else "HiPaNClassifier().fit(X, y) takes matrices"
        raise VpunnError(f"vpunn.fit takes a pandas DataFrame, got {name}; {other}.")
    odd = [name for name in frame.columns if not isinstance(name, str)]
    if odd:
        raise VpunnError(
            f"columns are named by texts, got {examples(odd)}; set frame.columns = frame.columns.map(str) first."
        )


def _levels_of(
    frame: pd.DataFrame, names: Sequence[str], guesses: Mapping[str, Guess], tree: Tree | None
) -> tuple[str, ...]:
    """What a measured number is predicted from: level columns, or the names of a tree; () of labels, which are answers."""
    if len(names) > 1 or not _is_measured(frame[names[0]]):
        return ()
    if tree is None:
        levels = guess_target(frame, guesses, names)
    else:
        named = names_in(frame, {name: guess for name, guess in guesses.items() if name not in names}, tree)[0]
        levels = () if named is None else (named,)
    if not levels:
        what = "categories, broadest first" if tree is None else "a column of names in the tree"
        raise VpunnError(
            f"the target {names[0]!r} holds numbers such as {examples(frame[names[0]].dropna().tolist(), limit=2)}, which are "
            f"predicted from level columns ({what}), and none was found; name them in levels=[…]."
        )
    return levels


def _inputs(
    frame: pd.DataFrame,
    names: Sequence[str],
    levels: Sequence[str],
    guesses: Mapping[str, Guess],
    how: Mapping[str, Any],
) -> Inputs:
    """The columns that a model reads: levels and numbers where levels predict, else words, numbers and categories."""
    import pandas as pd

    taken = {*names, *levels}
    numbers = columns_of(guesses, "number", taken)
    if levels:
        target = frame[names[0]]
        classes = not pd.api.types.is_numeric_dtype(target.dtype) and written_numbers(target) is None
        return Inputs(tuple(names), (), numbers, tuple(levels), classes=classes, **how)
    text, categories = columns_of(guesses, "text", taken), columns_of(guesses, "category", taken)
    return Inputs(tuple(names), text, numbers, categories=categories, **how)


def _said(inputs: Inputs, guesses: Mapping[str, Guess]) -> list[str]:
    """How every column is read, or why it is not."""
    taken = {*inputs.target, *inputs.levels, inputs.groups}
    shown = {name: guess for name, guess in guesses.items() if name not in taken}
    if not inputs.levels:
        return said_of(shown, inputs.target)
    words = "words; levels and numbers alone are read here"
    unread = {
        name: replace(g, kind="other", why=words) if g.kind in ("text", "category") else g for name, g in shown.items()
    }
    return [f"levels of {inputs.target[0]}: {' > '.join(inputs.levels)}", *said_of(unread, inputs.target)]


def guessed(frame: pd.DataFrame, kinds: Mapping[str, str], without: Sequence[str] = ()) -> dict[str, Guess]:
    """What every column is: as the caller says, else as it looks."""
    check_columns(frame, [*kinds, *without], "the frame")
    for name, kind in kinds.items():
        check_choice(f"kinds[{name!r}]", kind, KINDS)
    guesses = guess_columns(frame)
    check_columns(frame, list(guesses), "the frame")
    for name, kind in kinds.items():
        guesses[name] = Guess("constant" if kind == "skip" else kind, "as you say")  # type: ignore[arg-type]
    return guesses


def _with_target(frame: pd.DataFrame, target: Any) -> tuple[pd.DataFrame, list[str]]:
    """The frame with the target as columns of it, and their names."""
    import pandas as pd

    if target is None:
        likely = guess_target(frame, guess_columns(frame))
        like = repr(likely[0] if len(likely) == 1 else list(likely)) if likely else "…"
        raise VpunnError(
            f"say which column to predict: vpunn.fit(df, target={like}); the frame has {examples(frame.columns)}."
        )
    if isinstance(target, str) or (
        isinstance(target, list | tuple) and target and all(t in frame for t in _texts(target))
    ):
        names = [target] if isinstance(target, str) else list(target)
        check_columns(frame, names, "the frame")
        return frame, names
    if isinstance(target, pd.DataFrame):
        columns = {str(name): target[name].to_numpy() for name in target}
    elif not hasattr(target, "__len__"):
        raise VpunnError(f"the target is the name of a column, or a label or number a row, got {target!r}.")
    else:
        columns = {str(getattr(target, "name", None) or "target"): _cells(target)}
    wrong = next((len(cells) for cells in columns.values() if len(cells) != len(frame)), None)
    if wrong is not None:
        raise VpunnError(
            f"the target has {wrong:,} rows and the frame {len(frame):,}; name a column of the frame, or give as many values."
        )
    twice = [name for name in columns if name in frame]
    if twice:
        raise VpunnError(f"the target {examples(twice)} is also a column of the frame; give its name, or rename one.")
    return frame.assign(**columns), list(columns)


def _texts(target: Sequence[Any]) -> list[str]:
    """Names that a list may hold; a cell that is no text is none."""
    return [name if isinstance(name, str) else "" for name in target]


def _cells(target: Any) -> np.ndarray:
    if hasattr(target, "to_numpy"):
        return np.asarray(target.to_numpy())
    cells = np.empty(len(target), object)
    cells[:] = list(target)
    return cells


def _is_measured(column: pd.Series) -> bool:
    """Whether a column holds decimal numbers that hardly repeat: a quantity, not a class."""
    import pandas as pd

    numbers = column.to_numpy(float) if pd.api.types.is_float_dtype(column.dtype) else written_numbers(column)
    if numbers is None:
        return False
    there = numbers[~np.isnan(numbers)]
    return len(np.unique(there)) > max(len(there) / 2, 3) and not (there == np.round(there)).all()


def _unused_separator(column: pd.Series) -> str:
    """A separator that no label holds."""
    labels = {str(label) for cell in column.dropna() if not isinstance(cell, str) for label in cell}
    return next(sep for sep in (";", "|", "/", "\x1f") if not any(sep in label for label in labels))
