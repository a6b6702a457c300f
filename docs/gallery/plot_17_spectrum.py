"""
Spectral layout
===============

The first eigenvectors of a tree separate its largest branches; their radius goes with depth only loosely.
"""

import matplotlib.pyplot as plt

import vpunn
from vpunn.structure import spectrum


def below(cls: type) -> list[tuple[str, str]]:
    """Edges of Python's own exceptions, parent first."""
    own = [sub for sub in cls.__subclasses__() if sub.__module__ == "builtins"]
    return [(cls.__name__, sub.__name__) for sub in own] + [edge for sub in own for edge in below(sub)]


tree = vpunn.Tree.from_edges(below(BaseException))
found = spectrum(tree)
print(found.verdict)

fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
found.plot(ax)
plt.show()
