"""The compiled loops of exact sums: doubles are cut into whole numbers and added into 32-bit limbs held in 64 bits.

A sum is Σ_k limb[k]·2^(32(low + k)). Adding touches at most three limbs and carries nothing, so 2³⁰ additions fit before
`normalise` has to carry. Twins with Python's own integers stand in ``tests/scale``. Imported on first use.
"""

import math

import numpy as np
from numba import njit

M27 = np.int64((1 << 27) - 1)
M32 = np.int64((1 << 32) - 1)
M52 = np.int64((1 << 52) - 1)


@njit(cache=True, nogil=True, inline="always")
def _parts(bits):
    """Sign, odd whole number m and exponent e of a finite double given by its bits: ±m·2^e; m = 0 for zero."""
    m = bits & M52
    e = (bits >> 52) & 2047
    if e == 0:
        e = -1074
    else:
        m |= np.int64(1) << 52
        e -= 1075
    if m != 0:
        while m & 0xFF == 0:
            m >>= 8
            e += 8
        while m & 1 == 0:
            m >>= 1
            e += 1
    return (-1 if bits < 0 else 1), m, e


@njit(cache=True, nogil=True, inline="always")
def _length(m):
    """Bits of a whole number."""
    n = 0
    while m >= 256:
        m >>= 8
        n += 8
    while m > 0:
        m >>= 1
        n += 1
    return n


@njit(cache=True, nogil=True, inline="always")
def _add(limbs, low, sign, m, e):
    """limbs += sign·m·2^e, for 0 ≤ m < 2⁶²."""
    s = e - 32 * low
    k, r = s >> 5, s & 31
    first = (m & M32) << r
    rest = (m >> 32) << r
    limbs[k] += sign * (first & M32)
    limbs[k + 1] += sign * ((first >> 32) + (rest & M32))
    limbs[k + 2] += sign * (rest >> 32)


@njit(cache=True, nogil=True)
def span(values, weights):
    """Lowest and highest bit that any product w·v has; (0, 0) if all are zero. ``weights`` may be empty: all 1."""
    lowest, highest = 1 << 30, -(1 << 30)
    for i in range(len(values)):
        _, m, e = _parts(values[i])
        if m == 0:
            continue
        n = _length(m)
        if len(weights):
            _, mw, ew = _parts(weights[i])
            if mw == 0:
                continue
            e += ew
            n += _length(mw)
        lowest, highest = min(lowest, e), max(highest, e + n)
    if lowest > highest:
        return 0, 0
    return lowest, highest


@njit(cache=True, nogil=True)
def add_rows(limbs, low, nodes, values, weights):
    """limbs[node] += w·v of every row, exactly; ``values`` and ``weights`` (or none) are bits of doubles."""
    for i in range(len(values)):
        sign, m, e = _parts(values[i])
        if m == 0:
            continue
        at = limbs[nodes[i]]
        if len(weights) == 0:
            _add(at, low, sign, m, e)
            continue
        _, w, ew = _parts(weights[i])
        if w == 1:
            _add(at, low, sign, m, e + ew)
        elif w != 0:
            m0, m1, w0, w1 = m & M27, m >> 27, w & M27, w >> 27
            _add(at, low, sign, m0 * w0, e + ew)
            _add(at, low, sign, m0 * w1 + m1 * w0, e + ew + 27)
            _add(at, low, sign, m1 * w1, e + ew + 54)


@njit(cache=True, nogil=True)
def add_products(limbs, low, a, b, weights):
    """limbs += Σ w·a·b over all rows, exactly. The window must hold 3 × the range of doubles."""
    digits = np.zeros(4, np.int64)
    for i in range(len(a)):
        sa, ma, ea = _parts(a[i])
        sb, mb, eb = _parts(b[i])
        if ma == 0 or mb == 0:
            continue
        w, ew = np.int64(1), np.int64(0)
        if len(weights):
            _, w, ew = _parts(weights[i])
            if w == 0:
                continue
        sign, e = sa * sb, ea + eb + ew
        a0, a1, b0, b1 = ma & M27, ma >> 27, mb & M27, mb >> 27
        p0, p1, p2 = a0 * b0, a0 * b1 + a1 * b0, a1 * b1
        if w == 1:
            _add(limbs, low, sign, p0, e)
            _add(limbs, low, sign, p1, e + 27)
            _add(limbs, low, sign, p2, e + 54)
            continue
        digits[0] = p0 & M27
        p1 += p0 >> 27
        digits[1] = p1 & M27
        p2 += p1 >> 27
        digits[2] = p2 & M27
        digits[3] = p2 >> 27
        w0, w1 = w & M27, w >> 27
        for d in range(4):
            if digits[d] != 0:
                _add(limbs, low, sign, digits[d] * w0, e + 27 * d)
                _add(limbs, low, sign, digits[d] * w1, e + 27 * d + 27)


@njit(cache=True, nogil=True)
def normalise(limbs):
    """Carry, so that all limbs but the last lie in [0, 2³²) and the last has the sign. The first limb used and the last needed.

    From the last needed limb on, everything is one signed 32-bit number.
    """
    n, width = limbs.shape
    half = np.int64(1) << 31
    first, last = width, 0
    for i in range(n):
        for k in range(width - 1):
            carry = limbs[i, k] >> 32
            limbs[i, k] -= carry << 32
            limbs[i, k + 1] += carry
        k = 0
        while k < first and limbs[i, k] == 0:
            k += 1
        first = k
        top, value = width - 1, limbs[i, width - 1]
        while top > last and ((value == 0 and limbs[i, top - 1] < half) or (value == -1 and limbs[i, top - 1] >= half)):
            value = limbs[i, top - 1] + (value << 32)
            top -= 1
        last = top
    return first, last


@njit(cache=True, nogil=True)
def round_pairs(limbs, low):
    """Every normalised sum as a pair of doubles hi + lo, good to 2⁻¹⁰⁰; infinite where no double is as large."""
    n, width = limbs.shape
    hi, lo = np.zeros(n), np.zeros(n)
    size = np.zeros(width + 1, np.int64)
    for i in range(n):
        sign = -1 if limbs[i, width - 1] < 0 else 1
        carry = np.int64(0)
        top = -1
        for k in range(width):
            value = sign * limbs[i, k] + carry
            carry = value >> 32
            size[k] = value & M32
            if size[k] != 0:
                top = k
        size[width] = carry
        if carry != 0:
            top = width
        h, rest = 0.0, 0.0
        for k in range(top, max(top - 5, -1), -1):  # from the largest down, each addition with its exact error
            term = math.ldexp(float(size[k]), 32 * (k - top))
            total = h + term
            rest += term - (total - h)
            h = total
        total = h + rest
        rest -= total - h
        scale = 32 * (low + top)
        hi[i] = sign * math.ldexp(total, scale) if top >= 0 else 0.0
        lo[i] = sign * math.ldexp(rest, scale) if top >= 0 else 0.0
    return hi, lo
