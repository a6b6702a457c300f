"""The Gene Ontology as a tree of terms, with its synonyms and the annotations of human proteins."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vpunn.datasets.catalog import describe_dataset
from vpunn.datasets.fetch import fetch_files
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.errors import DataError, check_choice
from vpunn.files import Source
from vpunn.io.obo import read_obo

if TYPE_CHECKING:
    import pandas as pd

#: The three ontologies: their root terms and the letter by which annotation files call them.
NAMESPACES = {
    "molecular_function": ("GO:0003674", "F"),
    "biological_process": ("GO:0008150", "P"),
    "cellular_component": ("GO:0005575", "C"),
}
Namespace = Literal["molecular_function", "biological_process", "cellular_component"]

_GO = describe_dataset("go")  # its files: the ontology, then the annotations


@dataclass(frozen=True, eq=False)
class GeneOntology(Hierarchy):
    """One of the three gene ontologies; labels are term ids such as ``GO:0004672``.

    Columns of the tree: ``name``, ``definition``, ``namespace``, ``alt_ids`` (ids of terms merged into this one),
    ``synonyms`` ((text, scope) pairs; the property `synonyms` has them as a table) and ``xref`` (names in other databases,
    see `references`).
    """

    namespace: str

    @cached_property
    def synonyms(self) -> pd.DataFrame:
        """One row per synonym: ``term``, ``synonym`` and ``scope``, which is how the synonym's meaning relates to the
        term's (EXACT, NARROW, BROAD or RELATED)."""
        import pandas as pd

        columns = zip(self.tree.labels, self.tree.columns["synonyms"], strict=True)
        rows = [(term, text, scope) for term, pairs in columns for text, scope in pairs]
        return pd.DataFrame(rows, columns=["term", "synonym", "scope"]).drop_duplicates(ignore_index=True)

    def references(self, database: str) -> pd.DataFrame:
        """The names that terms have in another database (``EC``, ``KEGG_REACTION``, ``reactome``…): ``term``, ``node``, ``name``.

        >>> enzymes = load_go("molecular_function").references("EC")
        >>> enzymes[enzymes["term"] == "GO:0004634"]["name"].to_list()      # enolase
        ['4.2.1.11']
        """
        import pandas as pd

        split = [
            (node, *text.partition(":")[::2]) for node, texts in enumerate(self.tree.columns["xref"]) for text in texts
        ]
        rows = [(self.tree.labels[node], node, name) for node, base, name in split if base == database]
        if not rows:
            there = ", ".join(sorted({base for _, base, _ in split}))
            raise DataError(f"no term has a name in the database {database!r}; there are {there}.")
        return pd.DataFrame(rows, columns=["term", "node", "name"])

    @cached_property
    def annotations(self) -> pd.DataFrame:
        """Which human protein does, or takes part in, or is found in what: one row per protein, term and evidence.

        Columns: ``protein`` (UniProt accession), ``symbol`` (gene), ``name`` and ``synonyms`` of the protein (the latter joined
        by ``|``), ``term``, ``node`` (id in the tree), ``evidence`` (GO's three-letter code; IEA = inferred electronically, by
        nobody), ``qualifier``. Statements that a protein
        does *not* have a function are left out, as are terms this tree does not have; merged terms get their new id.
        Read on first use, about two seconds.
        """
        import pandas as pd

        letter = NAMESPACES[self.namespace][1]
        (path,) = fetch_files(_GO, _GO.files[1:]).values()
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [_annotation(line) for line in lines if not line.startswith("!")]
        frame = pd.DataFrame(
            [row[:-1] for row in rows if row[-1] == letter and "NOT" not in row[6].split("|")],
            columns=["protein", "symbol", "name", "synonyms", "term", "evidence", "qualifier"],
        )
        pairs = zip(self.tree.labels, self.tree.columns["alt_ids"], strict=True)
        current = {old: term for term, merged in pairs for old in merged}
        frame["term"] = [current.get(term, term) for term in frame["term"]]
        nodes = pd.DataFrame({"term": self.tree.labels, "node": range(self.tree.n_nodes)})
        frame = frame.merge(nodes, on="term")  # inner: also drops what is not in this tree
        order = ["protein", "symbol", "name", "synonyms", "term", "node", "evidence", "qualifier"]
        return (
            frame[order]
            .drop_duplicates()
            .sort_values(["protein", "node", "evidence"], kind="stable", ignore_index=True)
        )


def load_go(namespace: Namespace = "molecular_function", *, policy: str = "first") -> GeneOntology:
    """One gene ontology: its terms joined by ``is_a``. About a second.

    Many terms have several parents (2,000 of molecular function); ``policy`` says which one counts (see `vpunn.tree.dag`).
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
    check_choice("namespace", namespace, NAMESPACES)
    (path,) = fetch_files(_GO, _GO.files[:1]).values()
    tree = read_obo(_one_namespace(path, namespace), namespace=namespace, root=NAMESPACES[namespace][0], policy=policy)
    return GeneOntology(tree=tree, policy=policy, namespace=namespace, **GeneOntology._pedigree(_GO))


def _one_namespace(path: Path, namespace: str) -> Source:
    """The file without the terms of the other two ontologies, which would take most of the reading time."""
    stanzas = path.read_bytes().split(b"\n\n")
    wanted = f"\nnamespace: {namespace}\n".encode()
    return Source(str(path), b"\n\n".join(part for part in stanzas if part.startswith(b"[Term]") and wanted in part))


def _annotation(line: str) -> tuple[str, str, str, str, str, str, str, str]:
    """Protein, symbol, name, synonyms, term, evidence, qualifier and ontology letter of one line of a GAF 2 file."""
    fields = line.rstrip("\n").split("\t", 11)
    return fields[1], fields[2], fields[9], fields[10], fields[4], fields[6], fields[3], fields[8]
