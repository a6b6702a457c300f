"""`PrefixTrie`: which token may come next when a language model spells an item's id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vpunn.errors import VpunnError, examples
from vpunn.tabular.ids import SemanticIds
from vpunn.tree import Nodes, Tree


class PrefixTrie:
    """Items at nodes of a tree as sequences of tokens: one token per digit, then ``eos``.

    Every level has tokens of its own (digit 3 at depth 1 is not digit 3 at depth 2), as generative retrieval wants them:
    the token of digit a at depth k is offset + (k − 1)·width + a − 1. An id is unique and its tokens spell nothing else, so a
    model that generates under `allowed` always names an existing item, and the prefix of an item is the ball it is in.

    Parameters
    ----------
    items : `SemanticIds`, or a Tree (then ``nodes`` are the items' nodes; default: its leaves).
    offset : id of the first of these tokens: the size of the model's vocabulary before they were added.
    eos : id of the token that ends an item.
    depth, width : levels and digits a level to have tokens for; more than are needed now leaves room for items added later.

    The trie is the tree's own arrays; `allowed` costs O(length of the prefix + answers).

    >>> tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b",)], root="r")
    >>> trie = PrefixTrie(tree, offset=100, eos=1)
    >>> trie.tokens(1), trie.allowed([]), trie.allowed([100]), trie.allowed([101])
    ([100, 103, 1], [100, 101], [102, 103], [1])
    >>> trie.item([100, 103, 1])
    1
    """

    def __init__(
        self,
        items: SemanticIds | Tree,
        nodes: Nodes | None = None,
        *,
        offset: int = 0,
        eos: int = 1,
        depth: int | None = None,
        width: int | None = None,
    ) -> None:
        if isinstance(items, SemanticIds):
            tree, nodes = items.tree, items.node
            width = items.p - 1 if width is None else width
        else:
            tree = items
        self.tree = tree
        self.nodes = np.asarray(tree.leaves if nodes is None else tree.check_nodes(nodes), np.int64)
        self.depth = max(tree.max_depth, 1) if depth is None else int(depth)
        self.width = max(tree.max_branching, 1) if width is None else int(width)
        if self.depth < tree.max_depth or self.width < tree.max_branching:
            raise VpunnError(
                f"tokens for {self.depth} digits up to {self.width} cannot spell ids of {tree.max_depth} digits up to "
                f"{tree.max_branching}; raise depth or width."
            )
        self.offset, self.eos = int(offset), int(eos)
        if self.offset <= self.eos < self.offset + self.n_tokens:
            raise VpunnError(
                f"eos={self.eos} lies among the tokens {self.offset} to {self.offset + self.n_tokens - 1}."
            )
        self._item = np.full(tree.n_nodes, -1, np.int64)
        self._item[self.nodes] = np.arange(len(self.nodes))
        if len(np.unique(self.nodes)) < len(self.nodes):
            raise VpunnError("two items stand at one node, so their ids would be the same; give each its own.")

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def n_tokens(self) -> int:
        """Number of tokens to add to the model's vocabulary."""
        return self.depth * self.width

    def vocabulary(self) -> list[str]:
        """Names of the tokens in order, for ``tokenizer.add_tokens``; they get the ids from ``offset`` on."""
        return [f"<id{k + 1}.{a + 1}>" for k in range(self.depth) for a in range(self.width)]

    def text(self, item: int) -> str:
        """An item's id as text of these tokens, without the end."""
        names = self.vocabulary()
        return "".join(names[token - self.offset] for token in self.tokens(item)[:-1])

    def tokens(self, item: int) -> list[int]:
        """Token ids of an item, ``eos`` last."""
        if not 0 <= item < len(self):
            raise VpunnError(f"there is no item {item}; items are 0 to {len(self) - 1}.")
        path = self.tree.ancestors(int(self.nodes[item]))[1:]
        digits = self.tree.digit[path].tolist()
        return [self.offset + k * self.width + a - 1 for k, a in enumerate(digits)] + [self.eos]

    def _reach(self, prefix: Sequence[int]) -> int | None:
        """The node that a prefix spells; None if it spells none."""
        start, child = self.tree.child_index
        node = 0
        for k, token in enumerate(prefix):
            digit = int(token) - self.offset - k * self.width
            if not 0 <= digit < start[node + 1] - start[node] or digit >= self.width:
                return None
            node = int(child[start[node] + digit])
        return node

    def allowed(self, prefix: Sequence[int]) -> list[int]:
        """Tokens that may follow a prefix: digits that exist, and ``eos`` where an item ends. Only ``eos`` after anything else,
        so that a sequence that has ended, or never was an id, comes to a stop."""
        node = self._reach(prefix)
        if node is None:
            return [self.eos]
        count = int(self.tree.n_children[node])
        first = self.offset + int(self.tree.depth[node]) * self.width
        return list(range(first, first + count)) + ([self.eos] if self._item[node] >= 0 or not count else [])

    def prefix_allowed_tokens_fn(self, skip: int = 1) -> Any:
        """The function that ``transformers``' ``generate(prefix_allowed_tokens_fn=…)`` takes; ``skip`` tokens come before the id:
        the start token of a decoder, or the prompt of a decoder-only model."""

        def allowed(batch_id: int, input_ids: Any) -> list[int]:
            return self.allowed(input_ids.tolist()[skip:])

        return allowed

    def item(self, tokens: Sequence[int]) -> int:
        """The item that tokens spell; a trailing ``eos`` and what follows it are ignored."""
        listed = [int(token) for token in tokens]
        spelled = listed[: listed.index(self.eos)] if self.eos in listed else listed
        node = self._reach(spelled)
        if node is None or self._item[node] < 0:
            raise VpunnError(f"the tokens {examples(spelled)} spell no item.")
        return int(self._item[node])
