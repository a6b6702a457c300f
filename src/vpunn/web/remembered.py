"""The training rows that a model holds, as people read them: what to ask it first, and what a new row is like.

Texts are held as counted words; where pairs of words were counted too, the words come back in their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.web.subject import clean, clip

if TYPE_CHECKING:
    from vpunn.hipan.experts import Rows
    from vpunn.web.beliefs import ClassifierAnswers

#: Example questions, rows that are looked at for them, and how many words a good one has.
EXAMPLES, LOOKED_AT, WORDS = 3, 200, (4, 16)
SHOWN = 160


class ReadRows:
    """Rows as a classifier reads them, by the names of its features."""

    def __init__(self, answers: ClassifierAnswers, rows: Rows | None) -> None:
        self.answers = answers
        self.rows: Any = rows

    def words(self, row: int) -> list[str]:
        """The words of a row in runs, each in the order that its pairs of words tell."""
        layout, names = self.answers.model.layout_, self.answers.names
        counted: list[str] = []
        for block, first in zip(self.rows.blocks, layout.first, strict=False):
            if names is not None and hasattr(block, "indptr"):
                columns = block.indices[block.indptr[row] : block.indptr[row + 1]] + first
                counted += [str(names[i]).partition("__")[2] for i in columns if str(names[i]).startswith("words__")]
        return in_order(counted)

    def numbers(self, row: int) -> list[float]:
        """The numbers of a row."""
        return [float(v) for block in self.rows.blocks if not hasattr(block, "indptr") for v in block[row]]

    def question(self, row: int) -> str:
        """The row as it would be asked: its words, its numbers, or its cells by column."""
        answers, words = self.answers, ", ".join(self.words(row))
        if not answers.numeric:
            return words or ", ".join(f"{v:.4g}" for v in self.numbers(row))
        cells = dict.fromkeys(answers.text, "") | dict(zip(answers.text[:1], [words], strict=False))
        return json.dumps(cells | {n: f"{v:.6g}" for n, v in zip(answers.numeric, self.numbers(row), strict=False)})

    def shown(self, row: int) -> str:
        """The row for people."""
        said = [", ".join(self.words(row))]
        if not said[0] or self.answers.numeric:
            numbers = self.numbers(row)
            named = self.answers.numeric or [""] * len(numbers)
            said += [f"{name} {value:.4g}".strip() for name, value in zip(named, numbers, strict=False)]
        return clip(clean(", ".join(filter(None, said))), SHOWN)


class Remembered(ReadRows):
    """The rows that a fitted classifier holds; none if it was saved without."""

    def __init__(self, answers: ClassifierAnswers) -> None:
        model = answers.model
        self.held: Any = model.sets_ if answers.several else model.task_
        super().__init__(answers, None if self.held is None else self.held.rows)
        self.count = 0 if self.held is None else len(self.rows) if answers.several else int(self.held.n)

    def node(self, row: int) -> int:
        """Where a row stands; of a row with several labels the deepest."""
        if not self.answers.several:
            return int(self.held.node[row])
        truth = self.held.experts.words.truth
        nodes = self.held.ball[truth.indices[truth.indptr[row] : truth.indptr[row + 1]]]
        return int(max(nodes.tolist(), key=lambda i: int(self.answers.tree.depth[i]), default=0))

    def told(self, row: int, node: int | None = None) -> dict[str, Any]:
        """A row for the page: its question, the same for people, and its node, of several labels the one that is asked about."""
        node = self.node(row) if node is None else node
        label = clean(str(self.answers.tree.labels[node]))
        return {"text": self.question(row), "shown": self.shown(row), "node": node, "label": label}

    def examples(self) -> list[dict[str, Any]]:
        """A few rows of different branches to ask first, if possible with words in one run that are neither few nor many."""
        if not self.count:
            return []
        tree, found, branches = self.answers.tree, list[int](), set[int]()
        looked = np.random.default_rng(0).permutation(self.count)[:LOOKED_AT].tolist()
        for row in sorted(looked, key=self._odd):
            branch = int(tree.ancestors(self.node(row))[:3][-1])
            if branch not in branches:
                branches.add(branch)
                found.append(row)
            if len(found) == EXAMPLES:
                break
        return [self.told(row) for row in [*found, *(row for row in looked if row not in found)][:EXAMPLES]]

    def _odd(self, row: int) -> int:
        """How unlike a good question the words of a row are."""
        runs = self.words(row)
        count = sum(len(run.split()) for run in runs)
        return 0 if not runs else max(WORDS[0] - count, 0) + max(count - WORDS[1], 0) + 5 * (len(runs) - 1)


def in_order(counted: Sequence[str]) -> list[str]:
    """Words in the order that pairs of them tell, as few runs as that takes, the longest first.

    >>> in_order(["bird", "red", "small", "small red", "red bird", "song"])
    ['small red bird', 'song']
    """
    words = [name for name in counted if " " not in name]
    after: dict[str, list[str]] = {word: [] for word in words}
    before = dict.fromkeys(words, 0)
    for name in counted:
        first, _, last = name.partition(" ")
        if last in before and first in after:
            after[first].append(last)
            before[last] += 1
    runs, told = [], set[str]()
    for start in sorted(words, key=lambda word: before[word] - len(after[word])):
        if start in told and not after[start]:
            continue
        run, stack = [], [start]
        while stack:  # every pair once (Hierholzer)
            if after[stack[-1]]:
                stack.append(after[stack[-1]].pop())
            else:
                run.append(stack.pop())
        runs.append(run[::-1])
        told.update(run)
    return [" ".join(run) for run in sorted(runs, key=len, reverse=True)]
