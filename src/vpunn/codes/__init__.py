"""Exact codes of nodes: `PadicCode` (one prime), `MixedRadixCode` (a radix per depth), their isometry, a table for databases."""

from vpunn.codes._mixed_radix import MixedRadixCode
from vpunn.codes._padic import DigitCode, PadicCode
from vpunn.codes._stamped import StampedCodes
from vpunn.codes._table import codes_table, path_key

__all__ = ["DigitCode", "MixedRadixCode", "PadicCode", "StampedCodes", "codes_table", "path_key"]
