"""
Box counting
============

The number of balls per level gives a growth rate; a finite set has no fractal dimension, and the verdict says so.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn
from vpunn.structure import box_counting

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

found = box_counting(tree)
print(found.verdict)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
found.plot(ax)
plt.show()
