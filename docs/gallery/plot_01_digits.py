"""
Tree diagram with digits
========================

A node's code is the list of turns from the root; a ball is everything that starts with the same turns.
"""

import matplotlib.pyplot as plt

import vpunn

tree = vpunn.Tree.from_paths(
    ["animal/bird/owl", "animal/bird/robin", "animal/fish/cod", "animal/fish/eel", "plant/fern", "plant/moss"],
    sep="/",
    root="life",
)

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
vpunn.plot.diagram(tree, ax, ball=tree.index("bird"))
plt.show()
