"""Scores of predicted nodes (`nodes`) and of probabilities (`confidence`), sums of both that add up (`sums`), and maps that repair
probabilities (`calibration`)."""

from vpunn.metrics.confidence import (
    Brier,
    CalibrationInterval,
    Reliability,
    RiskCoverage,
    brier_score,
    calibration_error,
    calibration_error_interval,
    negative_log_likelihood,
    path_probabilities,
    reliability,
    reliability_by_depth,
    risk_coverage,
)
from vpunn.metrics.mistakes import Mistakes, mistakes, node_heights
from vpunn.metrics.nodes import (
    HierarchicalScores,
    bayes_nodes,
    depth_weights,
    hierarchical_scores,
    leaf_accuracy,
    mean_lca_depth,
    prefix_accuracy,
    root_accuracy,
    ultrametric_loss,
    wu_palmer,
)
from vpunn.metrics.sums import CalibrationSums, HierarchicalSums, hierarchical_summary
from vpunn.metrics.triplets import closest_pairs, triplet_accuracy

__all__ = [
    "Brier",
    "CalibrationInterval",
    "CalibrationSums",
    "HierarchicalScores",
    "HierarchicalSums",
    "Mistakes",
    "Reliability",
    "RiskCoverage",
    "bayes_nodes",
    "brier_score",
    "calibration_error",
    "calibration_error_interval",
    "closest_pairs",
    "depth_weights",
    "hierarchical_scores",
    "hierarchical_summary",
    "leaf_accuracy",
    "mean_lca_depth",
    "mistakes",
    "negative_log_likelihood",
    "node_heights",
    "path_probabilities",
    "prefix_accuracy",
    "reliability",
    "reliability_by_depth",
    "risk_coverage",
    "root_accuracy",
    "triplet_accuracy",
    "ultrametric_loss",
    "wu_palmer",
]
