"""
How tree-like is a table
========================

Before a tree is learned from a table, ask how tree-like its distances are, against controls that are not.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from vpunn.structure import how_ultrametric

found = how_ultrametric(load_iris().data, sample=20_000)
print(found.verdict)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
found.plot(ax)
plt.show()
