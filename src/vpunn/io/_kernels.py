"""Compiled loops of the readers and writers; imported on first use only, like `vpunn.tree._kernels`."""

import numpy as np
from numba import njit

# Why a scan stopped.
DONE, NOT_OPENED, NOT_CLOSED, NO_END, OPEN_QUOTE, OPEN_COMMENT, AFTER_END, UNEXPECTED, NAME_FIRST, OUTSIDE = range(10)

# What may come next for the current node.
_START, _NAMED, _COLON, _MEASURED = 0, 1, 2, 3


@njit(inline="always")
def _is_mark(c):
    """Whether a byte ends an unquoted name: one of ( ) , : ; ["""
    return c == 40 or c == 41 or c == 44 or c == 58 or c == 59 or c == 91


@njit(cache=True)
def _most_nodes(data):
    """No more nodes than opening brackets and commas, and one."""
    most = 1
    for c in data:
        most += c == 40 or c == 44  # ( ,
    return most


@njit(cache=True)
def _name_end(data, i):
    """The byte after a bare name that starts at ``i``, and where the name ends without blanks behind it."""
    while i < len(data) and not _is_mark(data[i]):
        i += 1
    end = i
    while data[end - 1] <= 32:
        end -= 1
    return i, end


@njit(cache=True)
def _comment_end(data, i):
    """The byte after the comment that opens at ``i`` (comments nest), or −1 if it never closes."""
    depth = 0
    while i < len(data):
        depth += (data[i] == 91) - (data[i] == 93)
        i += 1
        if depth == 0:
            return i
    return -1


@njit(cache=True)
def _quote_end(data, i):
    """Where the quote that opens at ``i`` closes, or −1; a doubled quote inside stands for itself."""
    c = data[i]
    i += 1
    while i < len(data):
        if data[i] == c:
            if i + 1 == len(data) or data[i + 1] != c:
                return i
            i += 1
        i += 1
    return -1


@njit(cache=True)
def _rest_end(data, i):
    """The first byte from ``i`` on that is neither blank nor in a comment."""
    depth = 0
    while i < len(data) and (depth > 0 or data[i] <= 32 or data[i] == 91):
        depth += (data[i] == 91) - (data[i] == 93)
        i += 1
    return i


@njit(cache=True)
def scan(data):
    """One pass over the bytes of a Newick tree, with parent pointers as the only stack.

    Returns ``(why, where, parent, name, length, note, quoted)``: ``why`` is `DONE` or the reason it stopped and
    ``where`` the byte; nodes are in preorder, and ``name``, ``length`` and ``note`` (comment) are (n, 2) byte ranges,
    empty where absent. All delimiters are ASCII, so UTF-8 names need no care.
    """
    size, most = len(data), _most_nodes(data)
    parent = np.full(most, -1, np.int32)
    opened = np.zeros(most, np.int64)
    closed, quoted = np.zeros(most, np.bool_), np.zeros(most, np.bool_)
    name, length, note = np.zeros((most, 2), np.int64), np.zeros((most, 2), np.int64), np.zeros((most, 2), np.int64)
    here, count, state, why, i = 0, 1, _START, NO_END, 0
    while i < size:
        c = data[i]
        if c <= 32:
            i += 1
        elif c == 91:  # [ comment ], which may nest
            end = _comment_end(data, i)
            if end < 0:
                why = OPEN_COMMENT
                break
            if note[here, 1] == 0:
                note[here, 0], note[here, 1] = i + 1, end - 1
            i = end
        elif c == 40:  # (
            if state != _START or closed[here]:
                why = NAME_FIRST
                break
            opened[here] = i
            parent[count] = here
            here = count
            count += 1
            i += 1
        elif c == 44:  # ,
            if parent[here] < 0:
                why = OUTSIDE
                break
            parent[count] = parent[here]
            here = count
            count += 1
            state = _START
            i += 1
        elif c == 41:  # )
            if parent[here] < 0:
                why = NOT_OPENED
                break
            here = parent[here]
            closed[here] = True
            state = _START
            i += 1
        elif c == 59:  # ;
            why = DONE
            break
        elif c == 58:  # :
            if state >= _COLON:
                why = UNEXPECTED
                break
            state = _COLON
            i += 1
        elif state == _START and (c == 39 or c == 34):  # ' or "; doubled inside, it stands for itself
            end = _quote_end(data, i)
            if end < 0:
                why = OPEN_QUOTE
                break
            name[here, 0], name[here, 1] = i + 1, end
            quoted[here] = True
            state = _NAMED
            i = end + 1
        elif state == _START:
            name[here, 0] = i
            i, name[here, 1] = _name_end(data, i)
            state = _NAMED
        elif state == _COLON:
            length[here, 0] = i
            while i < size and data[i] > 32 and not _is_mark(data[i]):
                i += 1
            length[here, 1] = i
            state = _MEASURED
        else:
            why = UNEXPECTED
            break
    where = i
    if parent[here] >= 0 and why in (DONE, NO_END):
        why, where = NOT_CLOSED, opened[parent[here]]
    if why == DONE:
        i = _rest_end(data, i + 1)
        if i < size:
            why, where = AFTER_END, i
    return why, where, parent[:count], name[:count], length[:count], note[:count], quoted[:count]
