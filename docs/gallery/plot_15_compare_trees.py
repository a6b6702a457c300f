"""
Comparison of two trees
=======================

Two trees over the same leaves are compared by the groups, triples and distances they share.
"""

import matplotlib.pyplot as plt
from scipy.cluster.hierarchy import linkage
from sklearn.datasets import load_iris

from vpunn import Tree
from vpunn.structure import compare_trees

rows = load_iris().data
ward, average = (Tree.from_linkage(linkage(rows, method)) for method in ("ward", "average"))
found = compare_trees(ward, average)
print(found)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
found.plot(ax)
plt.show()
