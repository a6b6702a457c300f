"""The classifier that places items on a tree; see `HiPaNClassifier`. `Views` names several blocks of features for the same rows."""

from vpunn.hipan._views import Views
from vpunn.hipan.classifier import HiPaNClassifier

__all__ = ["HiPaNClassifier", "Views"]
