"""scikit-learn's base classes and checks, their complaints as errors of this library, without two packages that it loads beside
them and hardly ever reads.

`sklearn.base` imports a module of workarounds, which imports all of pandas (with Arrow) and scipy.stats for a line each: 100 MB
and most of the time that the import takes. Here these lines find modules that load themselves when they are first read. Whoever
imports scikit-learn before has it as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from vpunn.errors import VpunnError

HEAVY = ("pandas", "scipy.stats")


class _Later(ModuleType):
    """Stands for a module until one of its names is read."""

    def __getattr__(self, name: str) -> Any:
        _clear(self)
        return getattr(import_module(self.__name__), name)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)


def _clear(standing_in: _Later) -> None:
    """Make room for the module itself."""
    if sys.modules.get(standing_in.__name__) is standing_in:
        del sys.modules[standing_in.__name__]


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, None if it cannot be found."""
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


@contextmanager
def lightly() -> Iterator[None]:
    """Imports in this block leave both out; afterwards anyone's import loads them."""
    standing_in: list[_Later] = []
    try:
        for name in HEAVY:
            spec = None if name in sys.modules else _spec(name)
            if spec is not None:
                module = _Later(name)
                module.__spec__ = spec  # whoever looks it up meanwhile finds that it is there
                standing_in.append(module)
                sys.modules.setdefault(name, module)  # unless another thread has begun to load it
        yield
    finally:
        for module in standing_in:
            _clear(module)


with lightly():
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
    from sklearn.utils.multiclass import check_classification_targets as _check_targets
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import (
        _check_feature_names_in as check_feature_names_in,
    )
    from sklearn.utils.validation import check_array as _check_array
    from sklearn.utils.validation import check_is_fitted, column_or_1d
    from sklearn.utils.validation import validate_data as _validate_data


def validate_data(estimator: Any, X: Any, *y: Any, **how: Any) -> Any:
    """As scikit-learn's."""
    with _one_sentence(X):
        return _validate_data(estimator, X, *y, **how)


def check_array(X: Any, **how: Any) -> Any:
    """As scikit-learn's."""
    with _one_sentence(X):
        return _check_array(X, **how)


def check_classification_targets(y: Any) -> None:
    """Refuse targets that are no classes."""
    with _one_sentence(None):
        _check_targets(y)


@contextmanager
def _one_sentence(X: Any) -> Iterator[None]:
    """What scikit-learn or NumPy complain of: the first line, and the way out; arrays are not printed."""
    try:
        with np.errstate(invalid="ignore"):  # infinities of both signs are complained of afterwards
            yield
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, VpunnError) or (isinstance(error, TypeError) and isinstance(X, np.ndarray)):
            raise  # scikit-learn's own checks ask for a TypeError
        said = str(error).splitlines()[0].rstrip(".:")
        if "names" in said:  # which ones is said on lines of their own
            said = " ".join(str(error).split()).rstrip(".:")
        if isinstance(error, TypeError) and X is not None:
            said = f"X must be a table of numbers, got {type(X).__name__} ({said})"
        elif said.startswith("Expected 2D"):
            said += "; Reshape your data: one column is X.reshape(-1, 1), one row X.reshape(1, -1)"
        elif said.startswith("Input "):  # what follows there is advice on other estimators
            said += "; fill in or leave out the rows concerned"
        elif said.startswith("Complex data"):
            said += "; give the real and imaginary parts as columns of their own"
        raise VpunnError(f"{said}.") from error


__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "TransformerMixin",
    "check_array",
    "check_classification_targets",
    "check_feature_names_in",
    "check_is_fitted",
    "clone",
    "column_or_1d",
    "lightly",
    "type_of_target",
    "validate_data",
]
