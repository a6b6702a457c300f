"""The search index against an obvious twin, on small random names and on WordNet."""

import re
import unicodedata

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from vpunn.datasets import load_wordnet
from vpunn.tree import Tree
from vpunn.web._kernels import edit_distances
from vpunn.web.search import SearchIndex, fold

WORDS = st.sampled_from(["owl", "owls", "snow", "snowy", "barn", "fish", "x", "Ångström", "9", "née"])
NAMES = st.lists(st.lists(WORDS, max_size=4).map(" ".join), min_size=1, max_size=12)


def words_of(text):
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if unicodedata.category(c) != "Mn")
    return [w for w in re.split(r"[^\w]+|_", plain) if w]


def holds(name, asked, exact):
    return all(any(w == a if exact else w.startswith(a) for w in words_of(name)) for a in asked)


@given(NAMES, st.lists(WORDS, min_size=1, max_size=3).map(" ".join), st.integers(1, 3))
@example(["owl"], "owl owl", 1)
def test_finds_exactly_the_names_that_hold_all_words(names, query, cut):
    tree = Tree.from_parents([-1, *([0] * len(names))], labels=["root of all", *names])
    query = query[: max(len(query) - cut, 1)]
    asked = words_of(query)
    found = SearchIndex(tree).find(query).tolist()
    everything = ["root of all", *names]
    expected = {i for i, name in enumerate(everything) if asked and holds(name, asked, exact=False)}
    assert set(found) == expected
    assert fold(query) == asked
    tiers = [(not holds(everything[i], asked, True)) + 2 * (len(words_of(everything[i])) != len(asked)) for i in found]
    assert tiers == sorted(tiers)


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (x != y)))
    return row[-1]


@given(st.lists(st.text("abcé", max_size=7), min_size=1, max_size=8), st.text("abcé", min_size=1, max_size=7))
def test_edit_distances_equal_the_textbook_table(words, word):
    letters = np.frombuffer("".join(words).encode("utf-16-le"), np.uint16)
    start = np.concatenate([[0], np.cumsum([len(w) for w in words])]).astype(np.int64)
    found = edit_distances(letters, start, np.frombuffer(word.encode("utf-16-le"), np.uint16), 2)
    assert found.tolist() == [min(distance(word, w), 3) for w in words]


def test_wordnet_by_word_synonym_prefix_and_typing_error():
    tree = load_wordnet().tree
    index = SearchIndex(tree)
    dogs = tree.labels[index.find("dog")].tolist()
    assert "dog.n.01" in dogs[:10]
    assert "dog.n.01" in tree.labels[index.find("domestic dog")].tolist()  # a synonym
    assert "dog.n.01" in tree.labels[index.find("canis fam")].tolist()  # a word and the beginning of one
    assert "giraffe" in index.suggest("girafe") + index.suggest("giarffe")
    assert index.find("").tolist() == [] and index.find("... !").tolist() == []


def test_fewer_further_words_come_before_depth():
    tree = Tree.from_parents([-1, 0, 0, 2], labels=["animal", "wolf_spider.n.01", "dog", "wolf.n.01"])
    assert tree.labels[SearchIndex(tree).find("wolf")].tolist() == ["wolf.n.01", "wolf_spider.n.01"]


def test_labels_that_are_numbers_missing_or_odd():
    tree = Tree.from_parents(
        [-1, 0, 0], labels=[10, 20, 30], columns={"name": np.array(["a b", None, "c\ud800"], object)}
    )
    index = SearchIndex(tree)
    assert index.find("b").tolist() == [0] and index.find("\ud800").tolist() == []
    assert SearchIndex(Tree.from_parents([-1], labels=[7])).find("x").tolist() == []
