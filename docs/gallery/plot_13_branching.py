"""
Branching by depth
==================

Whether the depths of a tree branch alike is a question with a p-value, not an impression.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn
from vpunn.structure import branching

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

found = branching(tree, permutations=199)
print(found.verdict)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
found.plot(ax)
plt.show()
