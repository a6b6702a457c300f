"""
Mapper graph
============

A cover by balls has as many components as the tree has branches: Mapper finds the families because it was given them.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn
from vpunn.structure import mapper

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

found = mapper(tree, depths=(1, 2, 3))
print(found.verdict)

fig, ax = plt.subplots(figsize=(7, 5), layout="constrained")
found.plot(ax)
plt.show()
