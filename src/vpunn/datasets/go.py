"""The Gene Ontology as a tree of terms, with its synonyms and the annotations of human proteins."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vpunn.build import tree_from_edges
from vpunn.datasets.catalog import describe_dataset
from vpunn.datasets.fetch import fetch_dataset
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

#: The three ontologies: their root terms and the letter by which annotation files call them.
NAMESPACES = {
    "molecular_function": ("GO:0003674", "F"),
    "biological_process": ("GO:0008150", "P"),
    "cellular_component": ("GO:0005575", "C"),
}
Namespace = Literal["molecular_function", "biological_process", "cellular_component"]


@dataclass(frozen=True, eq=False)
class GeneOntology(Hierarchy):
    """One of the three gene ontologies; labels are term ids such as ``GO:0004672``.

    Columns of the tree: ``name`` and ``definition``. ``synonyms`` is a table with columns ``term``, ``synonym`` and
    ``scope`` (EXACT, NARROW, BROAD or RELATED: how the synonym's meaning relates to the term's).
    """

    namespace: str
    synonyms: pd.DataFrame = field(repr=False)
    _primary: dict[str, str] = field(repr=False)
    _annotation_file: Path = field(repr=False)

    @cached_property
    def annotations(self) -> pd.DataFrame:
        """Which human protein does, or takes part in, or is found in what: one row per protein, term and evidence.

        Columns: ``protein`` (UniProt accession), ``symbol`` (gene), ``term``, ``node`` (id in the tree), ``evidence``
        (GO's three-letter code; IEA = inferred electronically, by nobody), ``qualifier``. Statements that a protein
        does *not* have a function are left out, as are terms this tree does not have; merged terms get their new id.
        Read on first use, about two seconds.
        """
        import pandas as pd

        letter = NAMESPACES[self.namespace][1]
        with gzip.open(self._annotation_file, "rt", encoding="utf-8") as lines:
            rows = [_annotation(line) for line in lines if not line.startswith("!")]
        frame = pd.DataFrame(
            [row[:-1] for row in rows if row[-1] == letter and "NOT" not in row[4].split("|")],
            columns=["protein", "symbol", "term", "evidence", "qualifier"],
        ).drop_duplicates()
        frame["term"] = [self._primary.get(term, term) for term in frame["term"]]
        nodes = pd.DataFrame({"term": self.tree.labels, "node": range(self.tree.n_nodes)})
        frame = frame.merge(nodes, on="term")  # inner: also drops what is not in this tree
        order = ["protein", "symbol", "term", "node", "evidence", "qualifier"]
        return frame[order].sort_values(["protein", "node", "evidence"], kind="stable", ignore_index=True)


def load_go(namespace: Namespace = "molecular_function", *, policy: str = "first") -> GeneOntology:
    """One gene ontology: its terms joined by ``is_a``. About two seconds.

    Many terms have several parents (2,000 of molecular function); ``policy`` says which one counts (see `vpunn.dag`).
    Obsolete terms are dropped; relations other than ``is_a`` (part_of, regulates…) do not make the tree. Siblings are
    in the order of their ids.

    >>> go = load_go("molecular_function")
    >>> go.tree
    Tree(11,113 nodes, 9,413 leaves, depth 11, branching ≤ 344)
    >>> kinase = go.tree.index("GO:0004672")
    >>> go.tree.columns["name"][kinase]
    'protein kinase activity'
    >>> int((go.annotations["node"] == kinase).sum()) > 100
    True
    """
    if namespace not in NAMESPACES:
        raise DataError(f"there is no gene ontology {namespace!r}; choose one of {', '.join(NAMESPACES)}.")
    import pandas as pd

    dataset = describe_dataset("go")
    paths = fetch_dataset(dataset.key)
    terms = [term for term in _read_terms(paths["go-2019-01-27/go.obo"], namespace) if not term.is_obsolete]
    known = {term.id for term in terms}
    edges = [(parent, term.id) for term in terms for parent in term.parents if parent in known]
    frame = pd.DataFrame(
        {"name": [term.name for term in terms], "definition": [term.definition for term in terms]},
        index=[term.id for term in terms],
    )
    return GeneOntology(
        tree=tree_from_edges(edges, policy=policy, root=NAMESPACES[namespace][0], columns=frame),
        policy=policy,
        namespace=namespace,
        synonyms=pd.DataFrame(
            [(term.id, text, scope) for term in terms for text, scope in term.synonyms],
            columns=["term", "synonym", "scope"],
        ),
        _primary={old: term.id for term in terms for old in term.merged},
        _annotation_file=paths["go-2019-01-27/goa_human.gaf.gz"],
        **GeneOntology._pedigree(dataset),
    )


# ---- the two file formats --------------------------------------------------------------------------------------------

_TAG = re.compile(r"^(id|name|is_a|alt_id|is_obsolete): (\S.*?)(?: [!{].*)?$", re.MULTILINE)
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_DEFINITION = re.compile(rf"^def: {_QUOTED}", re.MULTILINE)
_SYNONYM = re.compile(rf"^synonym: {_QUOTED} ([A-Z]+)", re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")


@dataclass
class _Term:
    id: str = ""
    name: str = ""
    definition: str = ""
    is_obsolete: bool = False
    parents: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()


def _read_terms(path: Path, namespace: str) -> Iterator[_Term]:
    """The ``[Term]`` stanzas of one namespace in an OBO 1.2 file."""
    wanted = f"\nnamespace: {namespace}\n"
    for stanza in path.read_text(encoding="utf-8").split("\n\n"):
        if not stanza.startswith("[Term]\n") or wanted not in stanza:
            continue
        tags: dict[str, list[str]] = {}
        for tag, value in _TAG.findall(stanza):
            tags.setdefault(tag, []).append(value)
        definition = _DEFINITION.search(stanza)
        yield _Term(
            id=tags["id"][0],
            name=tags["name"][0],
            definition=_plain(definition[1]) if definition else "",
            is_obsolete="is_obsolete" in tags,
            parents=tuple(tags.get("is_a", ())),
            merged=tuple(tags.get("alt_id", ())),
            synonyms=tuple((_plain(text), scope) for text, scope in _SYNONYM.findall(stanza)),
        )


def _plain(text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


def _annotation(line: str) -> tuple[str, str, str, str, str, str]:
    """Protein, symbol, term, evidence, qualifier and ontology letter of one line of a GAF 2 file."""
    fields = line.split("\t", 9)
    return fields[1], fields[2], fields[4], fields[6], fields[3], fields[8]
