"""Shrinkage along ancestors: exact ridge on van der Put differences, as regressor, classifier and encoders."""

from vpunn.regress.encoders import PadicEncoder, PadicTargetEncoder
from vpunn.regress.estimators import VPuNNClassifier, VPuNNRegressor

__all__ = ["PadicEncoder", "PadicTargetEncoder", "VPuNNClassifier", "VPuNNRegressor"]
