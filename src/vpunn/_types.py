"""Names for what callers pass at the border. pandas, SciPy and Arrow are optional or untyped there, so for the type checker most
of these are open; the name says what is meant, and the functions check it."""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

#: Rows of features: an array, a SciPy sparse matrix or a DataFrame.
Features: TypeAlias = Any
#: One target per row: a list, array or Series of labels or numbers, tuples as paths, or level columns; `SetTargets` where a
#: row may have several labels.
Targets: TypeAlias = Any
#: One weight ≥ 0 per row, or None.
Weights: TypeAlias = Any
#: One group per row, of any values that have an order, or None.
Groups: TypeAlias = Any
#: A seed, a NumPy RandomState or None, as scikit-learn takes it.
Seed: TypeAlias = Any
#: A pandas DataFrame, an Arrow table, a mapping of columns, or anything a DataFrame is made from.
Table: TypeAlias = Any
#: Numbers in any shape: one, a list, nested lists or an array.
Numbers: TypeAlias = npt.ArrayLike
#: One result for one question, an array of them for an array.
OneOrMany: TypeAlias = Any
#: Names of the columns of X, in order; None for x0, x1, …
FeatureNames: TypeAlias = Sequence[str] | npt.NDArray[Any] | None
#: One label, or a list or array of them.
Labels: TypeAlias = Any
#: Codes: exact integers, one or an array of them.
Codes: TypeAlias = Any
#: Variance ratios or ridges: one number for all depths, one per depth, or None where they are learned.
Ratios: TypeAlias = npt.ArrayLike | None
#: Texts, one per row: a list, an array or a Series.
Texts: TypeAlias = Any
#: A tensor, an array or a list of numbers.
TensorLike: TypeAlias = Any
#: Rows in a file, a folder, an Arrow dataset, a dask DataFrame or an iterable of batches.
DataSource: TypeAlias = Any
#: Who does the work: None for this process, or a dask.distributed client.
Engine: TypeAlias = Any
#: Leaves by label or node id, or None for all of them.
Items: TypeAlias = Any
#: Whatever names a node: text, a number, a tuple.
Label: TypeAlias = Any
#: What a tree can be read from: a tree, a code, a network or a fitted model.
HasTree: TypeAlias = Any
#: A fitted model, or whatever has the methods that are asked of it.
FittedModel: TypeAlias = Any
#: Distributions over nodes, one per row: a `Posterior`, of label sets a `SetPosterior`.
Beliefs: TypeAlias = Any
#: Features of nodes, a row each: a matrix, a dict of blocks, a list of them as several kinds, or None.
Descriptions: TypeAlias = Any
#: Rows and labels to learn the combiner from, a pair (X, y), or None.
Validation: TypeAlias = Any
#: A set of labels per row: sets, lists, or an indicator of 0 and 1, dense or sparse.
SetTargets: TypeAlias = Any
#: A table of 0 and 1, rows × labels: nested lists, an array or a sparse matrix.
Indicator: TypeAlias = Any
#: A table of numbers, rows × labels: nested lists, an array or a sparse matrix.
Scores: TypeAlias = Any
#: What turns texts into rows of features by its `transform`, or None.
Vectorizer: TypeAlias = Any
#: A path, text or not.
FilePath: TypeAlias = str | os.PathLike[str]
#: What is read: a path, an open file, or "-" for standard input.
FileSource: TypeAlias = Any
#: A dtype, or the letters of the kinds that are allowed, such as "iu".
DTypeOrKinds: TypeAlias = Any
#: A cell of a table: text, a number, a date, a list, or None.
Cell: TypeAlias = Any
#: What JSON can say: a dict, a list, text, a number, true, false or null.
Json: TypeAlias = Any
#: An Arrow array, whole or in chunks.
ArrowArray: TypeAlias = Any
