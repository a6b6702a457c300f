"""Shrinkage along ancestors: exact ridge on van der Put differences, as regressor, classifier and encoders."""

from vpunn.regress.bandit import TreeBandit
from vpunn.regress.boosted import BoostedTrees
from vpunn.regress.classifier import VPuNNClassifier
from vpunn.regress.effects import EffectsExplanation, TreeEffects
from vpunn.regress.encoders import PadicEncoder, PadicTargetEncoder
from vpunn.regress.explanation import BallTerm, NumberExplanation
from vpunn.regress.regressor import VPuNNRegressor
from vpunn.regress.tree_sample import TreeSampleRegressor
from vpunn.regress.value import Boxes, TreeValue
from vpunn.regress.variances import branch_lengths

__all__ = [
    "BallTerm",
    "BoostedTrees",
    "Boxes",
    "EffectsExplanation",
    "NumberExplanation",
    "PadicEncoder",
    "PadicTargetEncoder",
    "TreeBandit",
    "TreeEffects",
    "TreeSampleRegressor",
    "TreeValue",
    "VPuNNClassifier",
    "VPuNNRegressor",
    "branch_lengths",
]
