"""Van der Put networks: one coefficient per ball, summed along the ancestor chain; layers, gauges, exact interpolation."""

from vpunn.network.vpunn import VanDerPutLayer, VPuNN

__all__ = ["VPuNN", "VanDerPutLayer"]
