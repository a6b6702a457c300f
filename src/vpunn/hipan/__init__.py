"""The classifier that places items on a tree; see `HiPaNClassifier`."""

from vpunn.hipan.classifier import HiPaNClassifier

__all__ = ["HiPaNClassifier"]
