"""
Size of coefficients by depth
=============================

A function on a tree is one coefficient per ball; their size by depth shows where it varies.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy

import vpunn
from vpunn.structure import magnitudes

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

size = {str(file.relative_to(folder)): np.log10(file.stat().st_size + 1) for file in files}
wanted = np.array([size["/".join(tree.labels[tree.ancestors(leaf)[1:]])] for leaf in tree.leaves.tolist()])
net = vpunn.VPuNN(tree).interpolate(wanted, gauge="mean")
print("reproduced exactly:", np.allclose(net.predict(tree.leaves), wanted))

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
magnitudes(tree, net.coefficients_).plot(ax)
plt.show()
