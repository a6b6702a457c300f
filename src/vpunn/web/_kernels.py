"""One compiled loop: edit distances of a word to all words of a vocabulary."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def edit_distances(letters, start, word, limit):
    """Levenshtein distance of ``word`` (at most 64 code units) to each slice of ``letters``; ``limit + 1`` where it is larger.

    Myers' bit-parallel recurrence: one machine word holds a column of the table, so a vocabulary word costs a dozen
    operations a letter.
    """
    m = len(word)
    masks = np.zeros(65536, np.uint64)
    for j in range(m):
        masks[word[j]] |= np.uint64(1) << np.uint64(j)
    last = np.uint64(1) << np.uint64(m - 1)
    one = np.uint64(1)
    n = len(start) - 1
    out = np.full(n, limit + 1, np.int8)
    for w in range(n):
        length = start[w + 1] - start[w]
        if abs(length - m) > limit:
            continue
        plus = ~np.uint64(0)
        minus = np.uint64(0)
        score = m
        for at in range(start[w], start[w + 1]):
            match = masks[letters[at]]
            x = match | minus
            d = (((x & plus) + plus) ^ plus) | x
            up = minus | ~(d | plus)
            down = plus & d
            if up & last:
                score += 1
            elif down & last:
                score -= 1
            up = (up << one) | one
            plus = (down << one) | ~(d | up)
            minus = up & d
        if score <= limit:
            out[w] = score
    return out
