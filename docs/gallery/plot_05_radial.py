"""
Radial tree
===========

Names are written only where they fit, so a picture of a large tree stays readable.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

fig, ax = plt.subplots(figsize=(6.4, 6.4), layout="constrained")
vpunn.plot.radial(tree, ax, labels=14)
plt.show()
