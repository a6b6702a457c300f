"""p-adic arithmetic on exact integers: digits, valuation, norm, balls, primes, the van der Put basis, counts.

Nothing here knows about trees. Digits are written lowest first (the digit at p⁰ leads), which is root first for codes.
Numbers are Python integers of any size, alone or in arrays; powers of p never become floats.
"""

from vpunn.padic._balls import Ball, distance, norm, prefix, valuation
from vpunn.padic._basis import vdp_basis, vdp_coefficients, vdp_evaluate
from vpunn.padic._digits import from_digits, from_radix, product, to_digits, to_radix
from vpunn.padic._numbers import MAX_PRIME, as_integers, check_base, show_integer
from vpunn.padic._primes import check_prime, code_prime, is_prime, next_prime
from vpunn.padic._triangle import UltrametricReport, check_ultrametric

__all__ = [
    "MAX_PRIME",
    "Ball",
    "UltrametricReport",
    "as_integers",
    "check_base",
    "check_prime",
    "check_ultrametric",
    "code_prime",
    "distance",
    "from_digits",
    "from_radix",
    "is_prime",
    "next_prime",
    "norm",
    "prefix",
    "product",
    "show_integer",
    "to_digits",
    "to_radix",
    "valuation",
    "vdp_basis",
    "vdp_coefficients",
    "vdp_evaluate",
]
