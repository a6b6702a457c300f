"""scikit-learn's base classes, joined when something imports scikit-learn.

Importing scikit-learn takes 127 MB where pandas is installed, because it imports pandas and pandas imports Arrow: more than a small
fit. Whoever only fits and asks a model need not pay that. So an estimator is declared with the stand-ins of this module as
its bases, and `joins_scikit_learn` puts the real classes in their places as soon as ``sklearn.base`` is there: at once if it is
there already, else when it is imported, by anyone. There is no moment at which somebody who knows `BaseEstimator` could see that a
model is none: ``isinstance``, clones, pipelines, searches, tags, routing and pictures in notebooks are scikit-learn's own.
"""

from __future__ import annotations

import inspect
import sys
import threading
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin
else:

    class ClassifierMixin:
        """Stands in for scikit-learn's."""

    class BaseEstimator:
        """Stands in for scikit-learn's; what only that knows is asked of it, which imports it."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters by name; `vpunn` estimators that wait for scikit-learn have no estimators among them."""
            return {name: getattr(self, name) for name in sorted(inspect.signature(type(self)).parameters)}

        def __repr__(self) -> str:
            join()
            return repr(self)

        def __getattr__(self, name: str) -> Any:
            if name in ASKED or (name.startswith("set_") and name.endswith("_request")):
                join()
                return getattr(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


__all__ = ["BaseEstimator", "ClassifierMixin", "join", "joins_scikit_learn"]

HOME = "sklearn.base"
#: What is asked of an estimator before anything of scikit-learn was imported.
ASKED = ("set_params", "get_metadata_routing", "_repr_html_", "_repr_mimebundle_")

_waiting: list[type] = []
_lock = threading.RLock()

Kind = TypeVar("Kind", bound=type)


def joins_scikit_learn(kind: Kind) -> Kind:
    """Decorator of a class whose bases include the stand-ins."""
    _waiting.append(kind)
    if HOME in sys.modules:
        join()
    elif _WATCH not in sys.meta_path:
        sys.meta_path.insert(0, _WATCH)
    return kind


def join() -> None:
    """Put scikit-learn's classes into the places of the stand-ins, which imports it."""
    home = import_module(HOME)  # not by a statement: while it is being imported its package does not know it
    own = {ClassifierMixin: home.ClassifierMixin, BaseEstimator: home.BaseEstimator}
    with _lock:
        while _waiting:
            kind = _waiting.pop(0)
            kind.__bases__ = tuple(own.get(base, base) for base in kind.__bases__)
            for each in (kind, *_below(kind)):
                # Where scikit-learn adds set_fit_request and its like.
                super(each, each).__init_subclass__()  # type: ignore[arg-type]


def _below(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [found for child in children for found in (child, *_below(child))]


class _Watch(MetaPathFinder):
    """Finds ``sklearn.base`` as the others do, and is told when it has been imported."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != HOME:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Joining(spec.loader)
        return spec


class _Joining(Loader):
    """Loads a module as its own loader does, and joins."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        module.__loader__ = self.own
        self.own.exec_module(module)
        if _WATCH in sys.meta_path:
            sys.meta_path.remove(_WATCH)
        join()


_WATCH = _Watch()
