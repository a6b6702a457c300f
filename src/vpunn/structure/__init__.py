"""What a hierarchy looks like as a whole: numbers, a verdict in a sentence and a picture for each question.

`branching`, `box_counting`, `entropy`, `spectrum`, `mapper` and `distance_matrix` look at one tree; `compare_trees` at
two; `prefix_information` and `shared_levels` hold a tree against what is known about its nodes; `magnitudes` looks at
the coefficients of a model; `how_ultrametric` judges any distance matrix or feature table. Every answer is an object with
the numbers, ``verdict``, ``.plot(ax=None)`` and a readable ``str()``; what is not defined for a tree is None, and the
verdict says so.
"""

from vpunn.structure._finding import Finding
from vpunn.structure.annotations import PrefixInformation, SharedLevels, prefix_information, shared_levels
from vpunn.structure.boxes import BoxCount, box_counting
from vpunn.structure.branching import Branching, TailFit, branching
from vpunn.structure.compare import TreeComparison, compare_trees
from vpunn.structure.distances import DistanceMatrix, distance_matrix
from vpunn.structure.entropy import Entropy, EntropyAgainst, entropy
from vpunn.structure.magnitudes import Magnitudes, magnitudes
from vpunn.structure.mapper import Mapper, mapper
from vpunn.structure.spectrum import Spectrum, spectrum
from vpunn.structure.ultrametric import Ultrametricity, how_ultrametric

__all__ = [
    "BoxCount",
    "Branching",
    "DistanceMatrix",
    "Entropy",
    "EntropyAgainst",
    "Finding",
    "Magnitudes",
    "Mapper",
    "PrefixInformation",
    "SharedLevels",
    "Spectrum",
    "TailFit",
    "TreeComparison",
    "Ultrametricity",
    "box_counting",
    "branching",
    "compare_trees",
    "distance_matrix",
    "entropy",
    "how_ultrametric",
    "magnitudes",
    "mapper",
    "prefix_information",
    "shared_levels",
    "spectrum",
]
