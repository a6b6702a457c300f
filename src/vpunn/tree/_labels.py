"""From labels to nodes: exact lookup, paths, and what a person types, with "did you mean" where nothing is found."""

from __future__ import annotations

import difflib
import itertools
import re
import sys
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._types import Label, Labels, OneOrMany
from vpunn.errors import TreeError, examples, refuse_lazy
from vpunn.tree._inputs import object_array

if TYPE_CHECKING:
    import pandas as pd

    from vpunn.tree._tree import Tree

#: What `lookup` gives: unique labels as a hash index; with repeats also the node of each entry and which are ambiguous.
Lookup = tuple["pd.Index[Any]", "np.ndarray | None", "np.ndarray | None"]

#: Up to so many labels are looked up without pandas where it is not imported yet: a table of them takes less memory than it.
FEW = 300_000
#: At most this many labels are compared letter by letter to suggest one (about half a second).
COMPARED = 20_000

_WHOLE = re.compile(r"-?[0-9]{1,4000}")

#: Longer paths are cut to their ends in messages, where that tells nodes apart.
LONG_PATH = 120


def lookup(labels: np.ndarray) -> Lookup:
    """The hash index of labels, built once per tree."""
    import pandas as pd

    everything: pd.Index[Any] = pd.Index(labels, tupleize_cols=False)
    if everything.is_unique:
        return everything, None, None
    first = np.flatnonzero(~everything.duplicated())
    return everything[first], first, np.asarray(everything.duplicated(keep=False))[first]


def plain_lookup(labels: np.ndarray) -> dict[Any, int] | None:
    """The node of every label, where all are texts or all whole numbers, none repeats and there are not too many; else None."""
    if len(labels) > FEW:
        return None
    names = labels.tolist()
    table = dict(zip(names, range(len(names)), strict=True))
    return table if _one_kind(names) and len(table) == len(names) else None


def _one_kind(names: list[Any]) -> bool:
    return set(map(type, names)) in ({str}, {int})


def _plain_nodes(tree: Tree, labels: Labels) -> np.ndarray | None:
    """Nodes of labels that name one node each, without pandas, whose import takes longer, and 100 MB; None: pandas must look."""
    if "pandas" in sys.modules or tree._plain_lookup is None:
        return None
    names = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if not _one_kind(names):
        return None
    found = np.fromiter(map(tree._plain_lookup.get, names, itertools.repeat(-1)), np.int64, len(names))
    return found if (found >= 0).all() else None


def is_one(asked: Labels) -> bool:
    """Whether one label is asked for rather than several."""
    is_array = hasattr(asked, "__array__")
    many = np.ndim(asked) if is_array else isinstance(asked, Sequence)
    return isinstance(asked, str | bytes | tuple) or not many


def find_labels(tree: Tree, labels: Labels) -> OneOrMany:
    """See `Tree.index`."""
    refuse_lazy(labels)
    if is_one(labels):
        wanted = np.empty(1, object)
        wanted[0] = labels
        return int(find_labels(tree, wanted)[0])
    is_array = hasattr(labels, "__array__")
    if is_array and np.ndim(labels) > 1:
        raise TreeError(f"labels must be one-dimensional, got shape {np.shape(labels)}.")
    plain = _plain_nodes(tree, labels)
    if plain is not None:
        return plain
    import pandas as pd

    # NumPy would turn ['a', 3] into text and tuples into rows, so lists become objects before it looks at them.
    asked = pd.Index(labels if is_array else object_array(labels), tupleize_cols=False)
    try:
        table, node, ambiguous = tree._lookup
        found = table.get_indexer(asked)
    except TypeError as error:
        raise TreeError(f"labels must be hashable to be looked up: {error} among {examples(labels)}.") from None
    if (found < 0).any():
        raise _unknown(tree, list(dict.fromkeys(asked[found < 0])))
    if ambiguous is None:
        return found.astype(np.int64)
    if ambiguous[found].any():
        name = asked[ambiguous[found]][0]
        raise _namesakes(tree, name, namesakes(tree.labels, name))
    assert node is not None
    return node[found].astype(np.int64)


def find_paths(tree: Tree, paths: Sequence[Sequence[Hashable]], strict: bool = True) -> np.ndarray:
    """See `Tree.index_paths`."""
    import pandas as pd

    names, vocabulary = pd.factorize(tree.labels, use_na_sentinel=False)
    edges = pd.Index(tree.parent.astype(np.int64) * len(vocabulary) + names)
    if not edges.is_unique:
        twin = int(np.flatnonzero(edges.duplicated())[0])
        raise TreeError(
            f"{tree.labels[tree.parent[twin]]!r} has two children named {tree.labels[twin]!r}; paths cannot tell them apart."
        )
    known = pd.Index(vocabulary, tupleize_cols=False)
    lengths = np.array([len(path) for path in paths], dtype=np.int64)
    found = np.zeros(len(paths), np.int64)
    for k in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero((lengths > k) & (found >= 0))
        words = np.empty(len(rows), object)
        words[:] = [paths[r][k] for r in rows.tolist()]
        word = known.get_indexer(pd.Index(words, tupleize_cols=False))
        step = np.where(word < 0, -1, edges.get_indexer(found[rows] * len(vocabulary) + word))
        if strict and (step < 0).any():
            at = int(np.flatnonzero(step < 0)[0])
            raise TreeError(
                f"path {tuple(paths[int(rows[at])])!r} leaves the tree at step {k}: "
                f"{tree.labels[found[rows[at]]]!r} has no child {words[at]!r}."
            )
        found[rows] = step
    return found


# ---- what a person types ---------------------------------------------------------------------------------------------


def find_nodes(tree: Tree, asked: Labels) -> OneOrMany:
    """See `Tree.find`."""
    if is_one(asked):
        return _find_one(tree, asked)
    import pandas as pd

    # Most of a long list are plain labels, which are looked up together; the others one by one.
    typed = object_array([_as_label(tree, name) for name in asked])
    table, node, ambiguous = tree._lookup
    found = np.asarray(table.get_indexer(pd.Index(typed, tupleize_cols=False)), dtype=np.int64)
    if ambiguous is not None and node is not None:
        found = np.where((found >= 0) & ~ambiguous[found], node[found], -1)
    unknown = []
    for at in np.flatnonzero(found < 0).tolist():
        same = _matches(tree, asked[at])
        if len(same) > 1:
            raise _namesakes(tree, asked[at], same)
        if len(same):
            found[at] = same[0]
        else:
            unknown.append(asked[at])
    if unknown:
        raise _unknown(tree, list(dict.fromkeys(unknown)))
    return found


def _find_one(tree: Tree, asked: Labels) -> int:
    same = _matches(tree, asked)
    if len(same) == 1:
        return int(same[0])
    raise _namesakes(tree, asked, same) if len(same) else _unknown(tree, [asked])


def _matches(tree: Tree, asked: Labels) -> np.ndarray:
    """The nodes that one thing asked for may mean, by the first reading that means any."""
    label = _as_label(tree, asked)
    try:
        same = _nodes_labelled(tree, label)
    except TypeError:
        raise TreeError(f"this takes one node, got {asked!r}.") from None
    if len(same) == 0 and _is_number(asked) and not _is_number(tree.labels[-1]):  # else a number is a label
        return np.array([tree._one_node(asked)])
    if len(same) == 0 and isinstance(asked, str):
        if "name" in tree.columns:
            same = namesakes(tree.columns["name"], asked)
        elif tree.labels.dtype == object and not isinstance(tree.labels[-1], str):  # typed as it is printed
            same = np.flatnonzero([str(other) == asked for other in tree.labels.tolist()])
    return same if len(same) else _ends_of_paths(tree, asked)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _as_label(tree: Tree, typed: Any) -> Any:
    """Text as the number it writes where labels are numbers."""
    if isinstance(typed, str) and tree.labels.dtype.kind in "iu" and _WHOLE.fullmatch(typed):
        return int(typed)
    return typed


def _nodes_labelled(tree: Tree, label: Hashable) -> np.ndarray:
    """All nodes of a label: a hash lookup, and a scan only if it has namesakes."""
    table, node, ambiguous = tree._lookup
    try:
        at = int(table.get_loc(label))  # type: ignore[arg-type]  # a unique index gives one place
    except KeyError:
        return np.empty(0, np.int64)
    if node is None or ambiguous is None:
        return np.array([at])
    return namesakes(tree.labels, label) if ambiguous[at] else node[[at]]


def namesakes(labels: np.ndarray, label: Label) -> np.ndarray:
    """Positions of all labels equal to one."""
    return np.flatnonzero([other == label for other in labels.tolist()])


def _ends_of_paths(tree: Tree, asked: Labels) -> np.ndarray:
    """Nodes whose path ends with the steps asked for: ``"bird / owl"``, ``"bird/owl"`` or ``("bird", "owl")``."""
    if isinstance(asked, str):
        ways = [asked.split(mark) for mark in (" / ", "/") if mark in asked]
    else:
        ways = [list(asked)] if isinstance(asked, tuple) else []
    for steps in ways:
        if not steps:
            continue
        here = ends = _nodes_labelled(tree, _as_label(tree, steps[-1]))
        for step in reversed(steps[:-1]):
            up = tree.parent[here]
            wanted = _as_label(tree, step)
            fits = np.array([u >= 0 and tree.labels[u] == wanted for u in up.tolist()], bool)
            here, ends = up[fits], ends[fits]
        whole = ends[tree.depth[ends] == len(steps) - 1]  # a path from the root is meant as such
        if len(ends):
            return whole if len(whole) == 1 else ends
    return np.empty(0, np.int64)


# ---- what was meant --------------------------------------------------------------------------------------------------


def _unknown(tree: Tree, asked: list[Any]) -> TreeError:
    close = suggestions(tree, asked[0])
    if close:
        return TreeError(f"no node is labelled {examples(asked)}; did you mean {' or '.join(map(repr, close))}?")
    kind = "are numbers" if tree.labels.dtype.kind in "iu" and isinstance(asked[0], str) else "are"
    shown = examples(tree.labels[:3])
    return TreeError(f"no node is labelled {examples(asked)}; the labels of this tree {kind} such as {shown}.")


def _namesakes(tree: Tree, name: Any, nodes: np.ndarray) -> TreeError:
    shown = examples(_told_apart(tree, nodes)[:5], limit=5)
    return TreeError(
        f"the label {name!r} names {len(nodes):,} nodes: {shown}{' …' if len(nodes) > 5 else ''}; "
        "say which by its node id, or by its path to `find` or `index_paths`."
    )


def _told_apart(tree: Tree, nodes: np.ndarray) -> list[str]:
    """Nodes by their labels if these differ (wolf: wolf.n.01, wolf.n.02), else by paths, of long ones as much as is needed."""
    labels = tree.labels[nodes].tolist()
    if len({*labels}) == len(nodes) and all(len(_nodes_labelled(tree, label)) == 1 for label in labels[:5]):
        return [str(label) for label in labels]
    paths = [list(map(str, tree.path(int(i)))) for i in nodes.tolist()]
    for steps in range(2, max(map(len, paths))):
        ends = [" / ".join(path[-steps:]) for path in paths]
        if len({*ends}) == len(ends) and max(len(" / ".join(path)) for path in paths[:5]) > LONG_PATH:
            return ends
    return [" / ".join(path) for path in paths]


def suggestions(tree: Tree, asked: Labels, most: int = 3) -> list[str]:
    """Labels (or readable names) like a text that is none: equal but for case, longer, or a few letters apart.

    In a large tree only labels that begin or end alike are compared letter by letter, `COMPARED` of them at most, so that
    the answer takes a second among millions of labels.

    >>> from vpunn import Tree
    >>> suggestions(Tree.from_paths(["animal/bird/barn owl", "animal/fish"], sep="/"), "brid")
    ['bird']
    """
    if not isinstance(asked, str) or not asked:
        return []
    known = tree.columns["name"] if tree.labels.dtype.kind in "iu" and "name" in tree.columns else tree.labels
    texts = [label for label in known.tolist() if isinstance(label, str)]
    wanted = asked.casefold()
    first, last = wanted[:1], wanted[-2:]
    near = texts
    if len(texts) > COMPARED:
        near = [text for text in texts if text[:1].casefold() == first or text[-2:].casefold() == last]
    begins = sorted({text for text in near if text.casefold().startswith(wanted)}, key=lambda text: (len(text), text))
    if len(begins) >= most:
        return begins[:most]
    folded = {text.casefold(): text for text in reversed(near)}
    compared = folded if len(folded) <= COMPARED else sorted(folded, key=lambda text: abs(len(text) - len(wanted)))
    close = difflib.get_close_matches(wanted, list(compared)[:COMPARED], n=most, cutoff=0.7)
    return list(dict.fromkeys([*begins, *(folded[text] for text in close)]))[:most]
