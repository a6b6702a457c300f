"""Semantic ids that grow, and the trie of their tokens."""

import numpy as np
import pytest

from strategies import random_tree
from vpunn.errors import VpunnError
from vpunn.tabular import PrefixTrie, semantic_ids


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 8))[rng.integers(0, 30, 500)] + 0.3 * rng.normal(size=(500, 8))


def test_ids_are_invertible_and_stay_when_items_are_added(vectors):
    ids = semantic_ids(vectors[:300], p=8, K=3)
    assert (ids.index(ids.digits) == np.arange(300)).all()
    assert ids.index([[7, 7, 7, 7, 7, 7], [0, 1, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0]]).tolist() == [-1, -1, -1]
    grown = ids.add(vectors[300:]).add(np.repeat(vectors[:1], 40, axis=0))  # 40 equal vectors overflow one ball
    assert len(grown) == 540 and len(np.unique(grown.digits, axis=0)) == 540
    width = ids.digits.shape[1]
    assert (grown.digits[:300, :width] == ids.digits).all() and not grown.digits[:300, width:].any()
    assert (grown.index(grown.digits) == np.arange(540)).all() and grown.digits.max() <= 7
    leading = ids.assign(vectors[300:])
    assert (grown.digits[300:500, :3] == leading).all()  # the ball a vector falls into is its prefix
    with pytest.raises(VpunnError, match="8 numbers each"):
        ids.add(vectors[:, :3])


def test_a_trie_allows_exactly_the_prefixes_of_items(vectors):
    ids = semantic_ids(vectors[:60], p=6, K=2).add(vectors[60:80])
    trie = PrefixTrie(ids, offset=1000, eos=2, depth=6)
    spelled = [trie.tokens(i) for i in range(80)]
    assert len({tuple(s) for s in spelled}) == 80 and len(trie) == 80
    follow: dict[tuple[int, ...], set[int]] = {}
    for tokens in spelled:
        for k in range(len(tokens)):
            follow.setdefault(tuple(tokens[:k]), set()).add(tokens[k])
    assert all(set(trie.allowed(prefix)) == tokens for prefix, tokens in follow.items())
    assert [trie.item(tokens) for tokens in spelled] == list(range(80))
    assert trie.allowed([1000, 1000]) == [2] and trie.allowed([*spelled[0]]) == [2] and trie.allowed([5]) == [2]
    assert len(trie.vocabulary()) == trie.n_tokens == 30 and trie.text(0).startswith("<id1.")
    fn = trie.prefix_allowed_tokens_fn(skip=2)
    assert fn(0, np.array([7, 7, *spelled[5][:1]])) == trie.allowed(spelled[5][:1])


def test_random_walks_under_the_trie_end_at_items():
    tree = random_tree(200, seed=1, reach=30)
    trie = PrefixTrie(tree, offset=10, eos=3)
    rng = np.random.default_rng(0)
    for _ in range(200):
        tokens: list[int] = []
        while not tokens or tokens[-1] != 3:
            tokens.append(int(rng.choice(trie.allowed(tokens))))
        assert 0 <= trie.item(tokens) < tree.n_leaves


def test_what_cannot_be_used_is_refused():
    tree = random_tree(30, seed=1)
    for call, words in (
        (lambda: PrefixTrie(tree, offset=0, eos=1), "lies among the tokens"),
        (lambda: PrefixTrie(tree, [3, 3], offset=5), "two items stand at one node"),
        (lambda: PrefixTrie(tree, offset=5, depth=1), "raise depth or width"),
        (lambda: PrefixTrie(tree, offset=5).tokens(99), "there is no item 99"),
        (lambda: PrefixTrie(tree, offset=5).item([4]), "spell no item"),
    ):
        with pytest.raises(VpunnError, match=words):
            call()
