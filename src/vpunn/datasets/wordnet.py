"""WordNet's nouns as a tree of synsets.

The file format is documented in WordNet's own manual page ``wndb(5)``: one line per synset, which starts with the
line's byte offset, then the lexicographer file, the words, the pointers to other synsets, and after ``|`` the gloss.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from vpunn.datasets.catalog import describe_dataset
from vpunn.datasets.fetch import fetch_dataset
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError
from vpunn.tree.build import tree_from_edges

if TYPE_CHECKING:
    import pandas as pd

#: Lexicographer files 3 to 28, the topics into which WordNet's authors divided the nouns (manual page lexnames(5)).
NOUN_FILES = (
    *("noun.Tops", "noun.act", "noun.animal", "noun.artifact", "noun.attribute", "noun.body", "noun.cognition"),
    *("noun.communication", "noun.event", "noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive"),
    *("noun.object", "noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process"),
    *("noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time"),
)
_FIRST_NOUN_FILE = 3


@dataclass(frozen=True, eq=False)
class WordNet(Hierarchy):
    """WordNet's noun synsets below *entity*; labels are synset names such as ``dog.n.01``.

    Columns of the tree: ``name`` (the first word, with spaces), ``lemmas`` (all words, joined by ``"; "``), ``gloss``,
    ``lexicographer`` (topic file such as ``noun.animal``), ``offset`` (WordNet's own number of the synset).
    """

    _senses: dict[str, list[str]] = field(repr=False)

    def find(self, word: str) -> np.ndarray:
        """Nodes of all senses of a word, the most frequent sense first; unknown words are an error.

        Senses that are not in this tree (instances, if they were left out) are skipped.
        """
        key = word.lower().replace("_", " ")
        nodes = self._nodes_by_word.get(key, [])
        if not nodes:
            raise DataError(f"this tree of WordNet {self.version} nouns has no word {word!r}.")
        ranks = self._senses.get(key.replace(" ", "_"), [])
        offset = self.tree.columns["offset"]
        return np.array(sorted(nodes, key=lambda i: (ranks.index(f"{offset[i]:08d}") if ranks else 0, i)))

    @cached_property
    def _nodes_by_word(self) -> dict[str, list[int]]:
        nodes: dict[str, list[int]] = {}
        for i, words in enumerate(self.tree.columns["lemmas"]):
            for word in words.lower().split("; "):
                nodes.setdefault(word, []).append(i)
        return nodes


def load_wordnet(version: Literal["3.0", "3.1"] = "3.0", *, policy: str = "first", instances: bool = False) -> WordNet:
    """WordNet's nouns: synsets joined by their hypernym ("is a kind of") edges. About a second.

    About 1,400 synsets have several hypernyms; ``policy`` says which one becomes the parent (see `vpunn.tree.dag`; the
    default keeps every synset at its smallest depth). With ``instances`` the 7,700 named individuals (*Einstein*
    below *physicist*) are included as well. Siblings are in the order of WordNet's file.

    Version 3.0 needs only pip to be fetched; 3.1 needs npm or the authors' server.

    >>> wordnet = load_wordnet()
    >>> wordnet.tree
    Tree(74,374 nodes, 57,916 leaves, depth 18, branching ≤ 402)
    >>> dog = wordnet.tree.index("dog.n.01")
    >>> wordnet.tree.columns["gloss"][dog][:57]
    'a member of the genus Canis (probably descended from the '
    >>> list(wordnet.tree.path(dog))[-3:]
    ['animal.n.01', 'domestic_animal.n.01', 'dog.n.01']
    >>> list(wordnet.tree.labels[wordnet.find("dog")])[:3]
    ['dog.n.01', 'frump.n.01', 'dog.n.03']
    """
    if version not in ("3.0", "3.1"):
        raise DataError(f"there is no WordNet version {version!r} here; choose '3.0' or '3.1'.")
    dataset = describe_dataset(f"wordnet-{version}")
    paths = fetch_dataset(dataset.key)
    senses = _read_polysemous(paths[f"{dataset.key}/index.noun"])
    frame, parents, children = _read_synsets(paths[f"{dataset.key}/data.noun"], senses, instances)
    tree = tree_from_edges(parents, children, policy=policy, root="entity.n.01", columns=frame)
    return WordNet(tree=tree, policy=policy, _senses=senses, **WordNet._pedigree(dataset))


_POLYSEMOUS = re.compile(r"^(\S+) n (\d\d+|[2-9]) (.*)$", re.MULTILINE)
_HYPERNYM = re.compile(r" @ (\d{8})")
_HYPERNYM_OR_CLASS = re.compile(r" @i? (\d{8})")


def _read_polysemous(path: Path) -> dict[str, list[str]]:
    """The synsets of every word that has several, in the order of its sense numbers (the rest is sense 1)."""
    rows = _POLYSEMOUS.findall(path.read_text(encoding="utf-8"))
    return {word: rest.split()[-int(count) :] for word, count, rest in rows}


def _read_synsets(
    path: Path, senses: dict[str, list[str]], instances: bool
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """All synsets as a table indexed by synset name, and the hypernym edges as lists of parents and children.

    A synset is named after its first word and that word's sense number, as NLTK does.
    """
    import pandas as pd

    upward = _HYPERNYM_OR_CLASS if instances else _HYPERNYM
    name_of: dict[str, str] = {}
    lemmas, glosses, topics, parents, children = [], [], [], [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):  # the licence
            continue
        head, _, gloss = line.partition(" | ")
        offset, topic, _, count, rest = head.split(" ", 4)
        end = 2 * int(count, 16)
        fields = rest.split(" ", end)  # word, id, word, id, …, and all the pointers in one piece
        first = fields[0].lower()
        sense = senses[first].index(offset) if first in senses else 0
        name_of[offset] = f"{first}.n.{sense + 1:02d}"
        lemmas.append("; ".join(fields[:end:2]))
        glosses.append(gloss.strip())
        topics.append(NOUN_FILES[int(topic) - _FIRST_NOUN_FILE])
        for hypernym in upward.findall(fields[end]):
            parents.append(hypernym)
            children.append(offset)
    lemmas = "\n".join(lemmas).replace("_", " ").split("\n")  # one call is faster than 82,000
    texts = {
        "name": [words.partition("; ")[0] for words in lemmas],
        "lemmas": lemmas,
        "gloss": glosses,
        "lexicographer": topics,
    }
    # Plain objects: pandas would otherwise copy every text to Arrow memory and back.
    frame = pd.DataFrame(texts, index=pd.Index(list(name_of.values()), dtype=object), dtype=object)
    frame["offset"] = np.fromiter(map(int, name_of), np.int64, len(name_of))
    return frame, [name_of[offset] for offset in parents], [name_of[offset] for offset in children]
