"""Exact codes of nodes: `PadicCode` (one prime), `MixedRadixCode` (a radix per depth), and the check of their isometry."""

from vpunn.codes._mixed_radix import MixedRadixCode
from vpunn.codes._padic import DigitCode, PadicCode
from vpunn.codes._stamped import StampedCodes

__all__ = ["DigitCode", "MixedRadixCode", "PadicCode", "StampedCodes"]
