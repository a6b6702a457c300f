"""What a person types: `find` by label, readable name or end of a path, and what was meant where nothing is found."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._arrays import object_array
from vpunn._types import Label, Labels, OneOrMany
from vpunn.errors import TreeError, advice, examples

if TYPE_CHECKING:
    from vpunn.tree._tree import Tree

#: At most this many labels are compared letter by letter to suggest one (about half a second).
COMPARED = 20_000
#: Longer paths are cut to their ends in messages, where that tells nodes apart.
LONG_PATH = 120


def find_nodes(tree: Tree, asked: Labels) -> OneOrMany:
    """See `Tree.find`."""
    from vpunn.tree.lookup import is_one

    if is_one(asked):
        return _find_one(tree, asked)
    # Most of a long list are plain labels, which are looked up together; the others one by one.
    asked = object_array(asked)
    index = tree.label_index
    found = index.places(asked)[0]
    found[[_is_id(tree, one, at) for one, at in zip(asked.tolist(), found.tolist(), strict=True)]] = -1
    if index.repeated is not None:
        found[(found >= 0) & index.repeated[found]] = -1
    unknown_ones = []
    for at in np.flatnonzero(found < 0).tolist():
        same = _matches(tree, asked[at])
        if len(same) > 1:
            raise namesakes(tree, asked[at], same)
        if len(same):
            found[at] = same[0]
        else:
            unknown_ones.append(asked[at])
    if unknown_ones:
        raise unknown(tree, list(dict.fromkeys(unknown_ones)))
    return found


def _find_one(tree: Tree, asked: Labels) -> int:
    same = _matches(tree, asked)
    if len(same) == 1:
        return int(same[0])
    raise namesakes(tree, asked, same) if len(same) else unknown(tree, [asked])


def _matches(tree: Tree, asked: Labels) -> np.ndarray:
    """The nodes that one thing asked for may mean, by the first reading that means any."""
    try:
        hash(asked)
    except TypeError:
        raise TreeError(f"this takes one node, got {asked!r}.") from None
    same = labelled(tree, asked)
    if len(same) and _is_id(tree, asked, int(same[0])):
        return np.array([tree._one_node(asked)])
    if len(same) == 0 and _is_number(asked) and not _is_number(tree.labels[-1]):  # else a number is a label
        return np.array([tree._one_node(asked)])
    if len(same) == 0 and isinstance(asked, str):
        if "name" in tree.columns:
            same = np.flatnonzero([name == asked for name in tree.columns["name"].tolist()])
        elif tree.labels.dtype == object and not isinstance(tree.labels[-1], str):  # typed as it is printed
            same = np.flatnonzero([str(other) == asked for other in tree.labels.tolist()])
    return same if len(same) else _ends_of_paths(tree, asked)


def _is_id(tree: Tree, asked: Any, place: int) -> bool:
    """Whether a number means a node id: the label found for it is a text."""
    return _is_number(asked) and place >= 0 and isinstance(tree.labels[place], str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def labelled(tree: Tree, label: Label) -> np.ndarray:
    """All nodes that carry a label."""
    index = tree.label_index
    place = index.place(label)
    if place < 0:
        return np.empty(0, np.int64)
    return index.all_of(place) if index.repeated is not None and index.repeated[place] else np.array([place])


def _ends_of_paths(tree: Tree, asked: Labels) -> np.ndarray:
    """Nodes whose path ends with the steps asked for: ``"bird / owl"``, ``"bird/owl"`` or ``("bird", "owl")``."""
    if isinstance(asked, str):
        ways = [asked.split(mark) for mark in (" / ", "/") if mark in asked]
    else:
        ways = [list(asked)] if isinstance(asked, tuple) else []
    for steps in ways:
        if not steps:
            continue
        here = ends = labelled(tree, steps[-1])
        for step in reversed(steps[:-1]):
            up = tree.parent[here]
            fits = (up >= 0) & (tree.label_index.word[up] == tree.label_index.place(step))
            here, ends = up[fits], ends[fits]
        whole = ends[tree.depth[ends] == len(steps) - 1]  # a path from the root is meant as such
        if len(ends):
            return whole if len(whole) == 1 else ends
    return np.empty(0, np.int64)


# ---- what was meant --------------------------------------------------------------------------------------------------


def unknown(tree: Tree, asked: list[Any]) -> TreeError:
    """The sentence about labels that are not in the tree, with what was meant."""
    close = suggestions(tree, asked[0])
    if close:
        return TreeError(f"no node is labelled {examples(asked)}; did you mean {' or '.join(map(repr, close))}?")
    kind = "are numbers" if tree.labels.dtype.kind in "iu" and isinstance(asked[0], str) else "are"
    shown = examples(tree.labels[:3])
    return TreeError(f"no node is labelled {examples(asked)}; the labels of this tree {kind} such as {shown}.")


def namesakes(tree: Tree, name: Any, nodes: np.ndarray) -> TreeError:
    """The sentence about a name of several nodes, with what tells them apart."""
    shown = examples(_told_apart(tree, nodes)[:5], limit=5)
    return TreeError(
        f"the label {name!r} names {len(nodes):,} nodes: {shown}{' …' if len(nodes) > 5 else ''}; "
        + advice("node", name, "say which by its node id, or by its path to `find` or `locate`")
        + "."
    )


def leaves_the_tree(tree: Tree, path: np.ndarray, step: int, node: int) -> TreeError:
    """The sentence about a path that goes on where the tree does not."""
    return TreeError(
        f"path {tuple(path.tolist())!r} leaves the tree at step {step}: {tree.labels[node]!r} has no child {path[step]!r}."
    )


def _told_apart(tree: Tree, nodes: np.ndarray) -> list[str]:
    """Nodes by their labels if these differ (wolf: wolf.n.01, wolf.n.02), else by paths, of long ones as much as is needed."""
    labels = tree.labels[nodes].tolist()
    if len({*labels}) == len(nodes) and all(len(labelled(tree, label)) == 1 for label in labels[:5]):
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
