"""Real hierarchies and tables: WordNet, the Gene Ontology, the NCBI taxonomy, PanTHERIA and Wine Quality.

Every loader looks for its files in ``VPUNN_DATA_DIR``, then in the user's cache, then fetches them; see `fetch`.
"""

from vpunn.datasets.catalog import CATALOG, describe_dataset
from vpunn.datasets.fetch import cache_dir, fetch_dataset
from vpunn.datasets.go import GeneOntology, load_go
from vpunn.datasets.hierarchy import Hierarchy
from vpunn.datasets.ncbi import Taxonomy, load_ncbi
from vpunn.datasets.tables import load_pantheria, load_wine_quality
from vpunn.datasets.wordnet import WordNet, load_wordnet

__all__ = [
    "CATALOG",
    "GeneOntology",
    "Hierarchy",
    "Taxonomy",
    "WordNet",
    "cache_dir",
    "describe_dataset",
    "fetch_dataset",
    "load_go",
    "load_ncbi",
    "load_pantheria",
    "load_wine_quality",
    "load_wordnet",
]
