"""
Poincaré disk
=============

Shells are concentric because depth is the radius here: the picture shows the tree and no learned space.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

fig, ax = plt.subplots(figsize=(6.4, 6), layout="constrained")
vpunn.plot.poincare(tree, ax, labels=10)
plt.show()
