"""The classifier that places items on a tree; see `HiPaNClassifier`. `Views` names several blocks of features for the same rows."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vpunn.hipan.classifier import HiPaNClassifier
    from vpunn.hipan.layout import Views

__all__ = ["HiPaNClassifier", "Views"]


def __getattr__(name: str) -> Any:
    """Each is imported when it is asked for: answering from a folder does without scikit-learn."""
    if name not in __all__:
        raise AttributeError(f"module 'vpunn.hipan' has no attribute {name!r}")
    from importlib import import_module

    home = "classifier" if name == "HiPaNClassifier" else "layout"
    globals()[name] = getattr(import_module(f"vpunn.hipan.{home}"), name)
    return globals()[name]
