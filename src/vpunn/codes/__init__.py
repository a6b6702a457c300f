"""Exact codes of nodes: `PadicCode` (one prime), `MixedRadixCode` (a radix per depth), their isometry, a table for databases."""

from vpunn.codes._digit_tree import DigitTree, tree_of_digits
from vpunn.codes._mixed_radix import MixedRadixCode
from vpunn.codes._padic import DigitCode, PadicCode
from vpunn.codes._stamped import StampedCodes
from vpunn.codes._table import codes_table, path_key

__all__ = [
    "DigitCode",
    "DigitTree",
    "MixedRadixCode",
    "PadicCode",
    "StampedCodes",
    "codes_table",
    "path_key",
    "tree_of_digits",
]
