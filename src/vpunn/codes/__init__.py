"""Exact codes of nodes: `PadicCode` (one prime), `MixedRadixCode` (a radix per depth), and the check of their isometry."""

from vpunn.codes._mixed_radix import MixedRadixCode
from vpunn.codes._padic import ControlCode, DigitCode, PadicCode, leaf_code, paper_code
from vpunn.codes._stamped import StampedCodes

__all__ = ["ControlCode", "DigitCode", "MixedRadixCode", "PadicCode", "StampedCodes", "leaf_code", "paper_code"]
