"""
Distance matrix
===============

Distances in a tree are squares inside squares: no triangle breaks the strong triangle inequality.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn
from vpunn.structure import distance_matrix

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

found = distance_matrix(tree, sample=300)
print(found)

fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
found.plot(ax)
plt.show()
