"""
Dendrogram
==========

A linkage becomes a tree with merge heights, and everything made for trees works on it.
"""

import matplotlib.pyplot as plt
from scipy.cluster.hierarchy import linkage
from sklearn.datasets import load_wine

import vpunn

wine = load_wine()
rows = (wine.data - wine.data.mean(0)) / wine.data.std(0)
tree = vpunn.Tree.from_linkage(
    linkage(rows, "ward"), labels=[f"wine {i} of cultivar {k + 1}" for i, k in enumerate(wine.target)]
)

fig, ax = plt.subplots(figsize=(7.2, 5), layout="constrained")
vpunn.plot.dendrogram(tree, ax, leaves=20)
plt.show()
