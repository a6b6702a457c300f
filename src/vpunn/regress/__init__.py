"""Shrinkage along ancestors: exact ridge on van der Put differences, as regressor, classifier and encoders."""

from vpunn.regress._explain import BallSum, BallTerm
from vpunn.regress.bandit import TreeBandit
from vpunn.regress.encoders import PadicEncoder, PadicTargetEncoder
from vpunn.regress.estimators import VPuNNClassifier, VPuNNRegressor

__all__ = [
    "BallSum",
    "BallTerm",
    "PadicEncoder",
    "PadicTargetEncoder",
    "TreeBandit",
    "VPuNNClassifier",
    "VPuNNRegressor",
]
