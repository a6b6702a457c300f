"""Compiled loops that look for the largest products of rows with many directions: with all of them, or with those of some cells.

Directions are made by `exactly`, so that products are exact: a row finds the same bits in any batch, whatever is multiplied with
it. They are `padded`, so that loops take them by whole vectors.
"""

from __future__ import annotations

import numpy as np

from vpunn._rows import slices
from vpunn.hipan._arrays import Lift
from vpunn.hipan.kernels import exact_helper, helper, kernel

#: Numbers of a block of products: it is looked through while it is in the processor's cache.
PRODUCTS_AT_ONCE = 262_144

_NONE = Lift(*(np.zeros(0, np.float32),) * 3)


def best_products(rows, columns, limit, lift=None) -> tuple[np.ndarray, np.ndarray]:
    """The ``limit`` largest products of every row with rows of ``columns``, best first, smaller columns first among equals.

    Products are made a block at a time, without the zeros behind."""
    top, out = _nothing_yet(len(rows), limit, len(columns))
    width = int(np.flatnonzero(rows.any(0)).max(initial=-1)) + 1
    rows, columns = rows[:, :width], columns[:, :width]
    step = max(PRODUCTS_AT_ONCE // max(len(rows), 1), 1)
    room = np.empty((len(rows), min(step, len(columns))), np.float32)
    for part in slices(len(columns), step):
        block = np.matmul(rows, columns[part].T, out=room[:, : part.stop - part.start])
        if lift is not None:
            block *= lift.scale[part]
            block *= lift.length[:, None]
            block += lift.bias[part]
        _best_columns(block, part.start, top, out)
    return out, top


def best_in_cells(rows, columns, limit, asked, start, lift=None) -> tuple[np.ndarray, np.ndarray]:
    """`best_products` with columns of the cells that each row has ``asked`` for: cell c holds columns start[c] to start[c + 1].

    A row whose cells hold less than ``limit`` is compared with all; a row of zeros with nothing, it gets the first columns."""
    top, out = _nothing_yet(len(rows), limit, len(columns))
    room = np.empty((4, int(np.diff(start).max(initial=0)) + 1), np.float32)
    _best_in_cells(rows, columns, asked, start, lift or _NONE, room, top, out)
    says = rows.any(1)
    out[~says], top[~says] = np.arange(limit), 0
    few = np.flatnonzero(out[:, -1] == len(columns))
    if len(few):
        more = None if lift is None else lift._replace(length=lift.length[few])
        out[few], top[few] = best_products(rows[few], columns, limit, more)
    return out, top


def best_columns(values, limit) -> np.ndarray:
    """The ``limit`` largest columns of every row, best first, smaller columns first among equals."""
    top, out = _nothing_yet(len(values), limit, values.shape[1])
    _best_columns(values, 0, top, out)
    return out


def _nothing_yet(rows, limit, columns) -> tuple[np.ndarray, np.ndarray]:
    return np.full((rows, limit), -np.inf, np.float32), np.full((rows, limit), columns, np.int32)


@kernel
def _best_columns(values, first, top, out):
    """Let the columns of a block, the first of which has number ``first``, among the best so far."""
    for r in range(len(values)):
        _keep_best(values[r], first, first + values.shape[1], top[r], out[r])


@kernel
def _best_in_cells(rows, columns, asked, start, lift, room, top, out):
    row, begin, end = asked
    length, scale, bias = lift
    for cell in range(len(start) - 1):
        first, stop = start[cell], start[cell + 1]
        for at in range(begin[cell], end[cell], 4):
            last = end[cell] - 1
            a, b, c, d = row[at], row[min(at + 1, last)], row[min(at + 2, last)], row[min(at + 3, last)]
            _multiply(rows[a], rows[b], rows[c], rows[d], columns, first, stop, room)
            for i in range(min(end[cell] - at, 4)):
                r = row[at + i]
                if len(scale):
                    _lift(room[i], length[r], scale, bias, first, stop)
                _keep_best(room[i], first, stop, top[r], out[r])


@exact_helper
def _multiply(a, b, c, d, columns, first, stop, into):
    """Products of four rows with the columns from ``first`` to ``stop``, two at a time."""
    for j in range(first, stop, 2):
        x, y = columns[j], columns[min(j + 1, stop - 1)]
        ax, bx, cx, dx = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        ay, by, cy, dy = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(columns.shape[1]):
            ax += a[k] * x[k]
            bx += b[k] * x[k]
            cx += c[k] * x[k]
            dx += d[k] * x[k]
            ay += a[k] * y[k]
            by += b[k] * y[k]
            cy += c[k] * y[k]
            dy += d[k] * y[k]
        at = j - first
        into[0, at], into[1, at], into[2, at], into[3, at] = ax, bx, cx, dx
        into[0, at + 1], into[1, at + 1], into[2, at + 1], into[3, at + 1] = ay, by, cy, dy


@helper
def _lift(values, length, scale, bias, first, stop):
    for j in range(first, stop):
        values[j - first] = values[j - first] * scale[j] * length + bias[j]


@helper
def _keep_best(values, first, stop, top, out):
    """Let the columns from ``first`` to ``stop`` among the best so far."""
    last = len(top) - 1
    bar, worst = top[last], out[last]
    for column in range(first, stop):
        v = values[column - first]
        if v < bar or (v == bar and column > worst):
            continue
        place = last
        while place > 0 and (top[place - 1] < v or (top[place - 1] == v and out[place - 1] > column)):
            top[place] = top[place - 1]
            out[place] = out[place - 1]
            place -= 1
        top[place] = v
        out[place] = column
        bar, worst = top[last], out[last]
