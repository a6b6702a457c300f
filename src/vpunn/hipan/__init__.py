"""The classifier that places items on a tree; see `HiPaNClassifier`. `Views` names several blocks of features for the same rows."""

from typing import TYPE_CHECKING, Any

from vpunn.hipan._views import Views

if TYPE_CHECKING:
    from vpunn.hipan.classifier import HiPaNClassifier

__all__ = ["HiPaNClassifier", "Views"]


def __getattr__(name: str) -> Any:
    """The classifier is imported when it is asked for: answering from a folder does without scikit-learn."""
    if name != "HiPaNClassifier":
        raise AttributeError(f"module 'vpunn.hipan' has no attribute {name!r}")
    from vpunn.hipan.classifier import HiPaNClassifier

    globals()[name] = HiPaNClassifier
    return HiPaNClassifier
