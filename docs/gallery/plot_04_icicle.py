"""
Icicle plot
===========

Any column can be averaged up the tree: here the size of SciPy's files, in powers of ten.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy

import vpunn

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

size = np.zeros(tree.n_nodes)
for leaf in tree.leaves.tolist():
    size[leaf] = np.log10((folder / "/".join(tree.labels[tree.ancestors(leaf)[1:]])).stat().st_size + 1)

fig, ax = plt.subplots(figsize=(9, 4.8), layout="constrained")
vpunn.plot.icicle(tree, ax, values=size, label="log10 of bytes")
plt.show()
