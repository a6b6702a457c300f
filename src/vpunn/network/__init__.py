"""Van der Put networks: one coefficient per ball, summed along the ancestor chain; layers, gauges, exact interpolation."""

from vpunn.network._vpunn import LEAK, BallNeuron, VanDerPutLayer, VPuNN, indicator, parameter_counts

__all__ = ["LEAK", "BallNeuron", "VPuNN", "VanDerPutLayer", "indicator", "parameter_counts"]
