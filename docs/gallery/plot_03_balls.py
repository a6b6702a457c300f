"""
Nested balls
============

Two balls are nested or disjoint, never crossing: that is all an ultrametric says.
"""

import matplotlib.pyplot as plt

import vpunn

tree = vpunn.Tree.from_paths(
    ["animal/bird/owl", "animal/bird/robin", "animal/fish/cod", "animal/fish/eel", "plant/fern", "plant/moss"],
    sep="/",
    root="life",
)

fig, ax = plt.subplots(figsize=(5.6, 5.6), layout="constrained")
vpunn.plot.balls(tree, ax, node=tree.index("owl"))
plt.show()
