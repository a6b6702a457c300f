"""Search over all names of a tree: by word, by the beginning of a word, with every word of the query to be found in one name.

The index is a sorted vocabulary and, per word, the rows (names) that contain it, so the words that begin alike are neighbours
and so are their rows: a prefix is one slice. Building it for 2.6 million names takes some seconds, a query some milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from vpunn._types import ArrowArray


#: Columns that name a node, in the order in which they are tried as its readable name, and separators of several names.
NAME_COLUMNS = ("name", "lemmas", "synonyms", "synonym", "common_name")
SEPARATOR = r"; |\|"
#: Longer queries are cut: nobody types more, and the time of a query grows with its words.
MAX_WORDS = 8
#: More names than this are not sorted if enough of them hold the words whole.
MANY = 200_000
#: wolf.n.01 before wolf_spider.n.01, which is nearer to the root; beyond this many further words all names are alike.
MORE_WORDS = 3
#: Words this far (in letters inserted, deleted or replaced) from the typed one are offered.
TYPOS = 2


class SearchIndex:
    """Words of the labels and names of a tree's nodes, ready to be asked.

    >>> tree = Tree.from_parents([-1, 0, 0, 1, 1], labels=["animal", "bird", "fish", "snowy owl", "barn owl"])
    >>> index = SearchIndex(tree)
    >>> tree.labels[index.find("owl")].tolist(), tree.labels[index.find("sn ow")].tolist()
    (['snowy owl', 'barn owl'], ['snowy owl'])
    >>> index.find("fsih"), index.suggest("fsih")
    (array([], dtype=int64), ['fish'])
    """

    def __init__(self, tree: Tree) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.tree = tree
        row_node, token_row, tokens, counts, rows = [], [], [], [], 0
        for texts, nodes in _names(tree):
            split = pc.split_pattern_regex(_folded(texts), r"[^\p{L}\p{N}]+")
            lengths = np.diff(split.offsets.to_numpy())
            row = np.repeat(np.arange(rows, rows + len(texts), dtype=np.int32), lengths)
            words = split.flatten()
            real = pc.not_equal(words, "").to_numpy(zero_copy_only=False)
            tokens.append(words.filter(pa.array(real)).dictionary_encode())
            token_row.append(row[real])
            counts.append(np.bincount(row[real] - rows, minlength=len(texts)))
            row_node.append(nodes)
            rows += len(texts)
        chunked = pa.chunked_array(tokens, type=pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
        vocabulary = chunked.chunk(0).dictionary if chunked.num_chunks else pa.array([], pa.string())
        order = pc.sort_indices(vocabulary).to_numpy().astype(np.int64)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        word = rank[np.concatenate([np.zeros(0, np.int32), *(c.indices.to_numpy() for c in chunked.chunks)])]
        by_word = np.argsort(word, kind="stable")
        #: the words, sorted, and for each the rows that hold it: rows[start[w]:start[w + 1]]
        self.words = vocabulary.take(pa.array(order))
        self.start = np.concatenate([[0], np.cumsum(np.bincount(word, minlength=len(order)))])
        self.rows = np.concatenate([np.zeros(0, np.int32), *token_row])[by_word]
        self.row_node = np.concatenate([np.zeros(0, np.int32), *row_node])
        self.row_words = np.minimum(np.concatenate([np.zeros(0, np.int64), *counts]), 255).astype(np.uint8)

    def find(self, query: str, limit: int = 50) -> np.ndarray:
        """Nodes one of whose names holds every word of the query, the last ones perhaps unfinished; best first.

        Names that consist of just these words come first, then names of as many words beginning so, then longer names that
        hold the words whole, then the others; within each the name of more nearly as many words, then the shallower node, and
        of those the larger subtree.
        """
        asked = fold(query)[:MAX_WORDS]
        if not asked or not len(self.row_node):
            return np.zeros(0, np.int64)
        whole, begun = self._having(asked, exact=True), self._having(asked, exact=False)
        rows = np.flatnonzero(begun)
        if len(rows) > MANY and np.count_nonzero(whole) >= limit:  # one letter: half the tree begins with it
            rows = np.flatnonzero(whole)
        more = np.minimum(np.abs(self.row_words[rows].astype(np.int64) - len(asked)), MORE_WORDS)
        tier = (np.where(whole[rows], 0, 1) + np.where(more > 0, 2, 0)) * (MORE_WORDS + 1) + more
        node = self.row_node[rows]
        key = (tier * (self.tree.max_depth + 1) + self.tree.depth[node]) * (self.tree.n_nodes + 1.0)
        key -= self.tree.size[node]
        if len(key) > 8 * limit:  # a node may come several times, once a name
            best = np.argpartition(key, 8 * limit)[: 8 * limit]
            node, key = node[best], key[best]
        found = node[np.lexsort((node, key))]
        _, first = np.unique(found, return_index=True)
        return found[np.sort(first)][:limit].astype(np.int64)

    def suggest(self, query: str, limit: int = 5) -> list[str]:
        """Queries in which each unknown word is replaced by a known one at most two typing errors away."""
        asked = fold(query)[:MAX_WORDS]
        choices = [[word] if self._slice(word, False)[1] else self._near(word, limit) for word in asked]
        if not choices or not all(choices):
            return []
        most = max(len(words) for words in choices)
        fixed = [" ".join(words[min(k, len(words) - 1)] for words in choices) for k in range(min(most, limit))]
        return [text for text in fixed if len(self.find(text, 1))]

    def _having(self, asked: Sequence[str], exact: bool) -> np.ndarray:
        """Which rows hold all the words."""
        having: np.ndarray | None = None
        for word in asked:
            at, count = self._slice(word, exact)
            mask = np.zeros(len(self.row_node), bool)
            mask[self.rows[self.start[at] : self.start[at + count]]] = True
            having = mask if having is None else having & mask
        assert having is not None
        return having

    def _slice(self, word: str, exact: bool) -> tuple[int, int]:
        """First place and number of the vocabulary words that equal ``word`` or, if not ``exact``, begin with it."""
        key = word.encode()
        first = self._place(lambda known: known < key)
        last = self._place(lambda known: known <= key if exact else known[: len(key)] <= key)
        return first, last - first

    def _place(self, before: Callable[[bytes], bool]) -> int:
        low, high = 0, len(self.words)
        while low < high:
            middle = (low + high) // 2
            if before(self.words[middle].as_py().encode()):
                low = middle + 1
            else:
                high = middle
        return low

    @cached_property
    def _letters(self) -> tuple[np.ndarray, np.ndarray]:
        """All words as UTF-16 code units, one after the other, and where each begins."""
        words = self.words.to_pylist()
        letters = np.frombuffer("".join(words).encode("utf-16-le", "surrogatepass"), np.uint16)
        lengths = np.fromiter((len(word.encode("utf-16-le")) // 2 for word in words), np.int64, len(words))
        return letters, np.concatenate([[0], np.cumsum(lengths)])

    def _near(self, word: str, limit: int) -> list[str]:
        """Known words at most `TYPOS` errors away (one for words of three letters or fewer), the most used first."""
        from vpunn.web._kernels import edit_distances

        units = np.frombuffer(word.encode("utf-16-le"), np.uint16)
        if not 2 <= len(units) <= 64 or not len(self.words):
            return []
        allowed = TYPOS if len(units) > 3 else 1
        distance = edit_distances(*self._letters, units, allowed)
        close = np.flatnonzero(distance <= allowed)
        uses = np.diff(self.start)[close]
        order = np.lexsort((close, -uses, distance[close]))[: 20 * limit]
        words = [self.words[int(w)].as_py() for w in close[order]]
        return sorted(words, key=lambda known: sorted(known) != sorted(word))[:limit]  # swapped letters come first


def fold(query: str) -> list[str]:
    """The words of a query as the index writes them: lower case, without accents.

    >>> fold("Canis lupus (Ångström)")
    ['canis', 'lupus', 'angstrom']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = query.encode("utf-8", "replace").decode()
    split = pc.split_pattern_regex(_folded(pa.array([text])), r"[^\p{L}\p{N}]+")
    return [word for word in split[0].as_py() if word]


def _folded(texts: ArrowArray) -> ArrowArray:
    """Lower case and without accents; plain ASCII texts are left to the fast path."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = pc.utf8_lower(texts)
    odd = pc.invert(pc.string_is_ascii(lower))
    if not pc.any(odd).as_py():
        return lower
    stripped = pc.replace_substring_regex(pc.utf8_normalize(lower.filter(odd), form="NFKD"), r"\p{Mn}", "")
    at = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
    place = np.arange(len(lower), dtype=np.int64)
    place[at] = len(lower) + np.arange(len(at))
    return pa.concat_arrays([lower, stripped]).take(pa.array(place))


def _names(tree: Tree) -> list[tuple[Any, np.ndarray]]:
    """Arrays of texts, and the node of each text: labels that are text, then the columns that name nodes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    columns = [tree.labels] if tree.labels.dtype.kind not in "iuf" else []
    columns += [tree.columns[name] for name in NAME_COLUMNS if name in tree.columns]
    for values in columns:
        texts = as_text(values)
        filled = pc.and_(pc.is_valid(texts), pc.not_equal(texts, "")).fill_null(False)
        nodes = np.flatnonzero(filled.to_numpy(zero_copy_only=False)).astype(np.int32)
        texts = texts.filter(filled)
        if len(texts) and pc.any(pc.match_substring_regex(texts, SEPARATOR)).as_py():
            split = pc.split_pattern_regex(texts, SEPARATOR)
            nodes = np.repeat(nodes, np.diff(split.offsets.to_numpy()))
            texts = split.flatten()
        if len(texts):
            found.append((texts if isinstance(texts, pa.Array) else texts.combine_chunks(), nodes))
    return found


def as_text(values: np.ndarray) -> ArrowArray:
    """An Arrow array of text; what is no text is written as Python writes it, what is missing stays missing."""
    import pyarrow as pa

    try:
        return pa.array(values, pa.string(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError):
        return pa.array(
            [None if v is None or v != v else str(v).encode("utf-8", "replace").decode() for v in values.tolist()],
            pa.string(),
        )
