"""What the loaders of hierarchies return."""

from __future__ import annotations

from dataclasses import dataclass

from vpunn.datasets.catalog import Dataset
from vpunn.tree import Tree


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree with its pedigree. ``tree.labels`` are identifiers, ``tree.columns["name"]`` is for people to read.

    ``policy`` is the rule that made a tree of a graph with several parents per node (see `vpunn.tree.dag`);
    `vpunn.tree.dag.dropped_edges` of the tree lists what the rule left out.
    """

    tree: Tree
    title: str
    version: str
    licence: str
    citation: str
    policy: str

    @classmethod
    def _pedigree(cls, dataset: Dataset) -> dict[str, str]:
        return {name: getattr(dataset, name) for name in ("title", "version", "licence", "citation")}
