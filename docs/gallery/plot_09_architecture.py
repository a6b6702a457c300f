"""
Diagram of a network
====================

Only the balls around an item speak, and their numbers add up to the prediction.
"""

import matplotlib.pyplot as plt

import vpunn

tree = vpunn.Tree.from_paths(
    ["animal/bird/owl", "animal/bird/robin", "animal/fish/cod", "animal/fish/eel", "plant/fern", "plant/moss"],
    sep="/",
    root="life",
)

net = vpunn.VPuNN(tree).interpolate([3.0, 5.0, 1.0, 2.0, 7.0, 8.0], gauge="mean")

fig, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
vpunn.plot.architecture(tree, tree.index("robin"), net.coefficients_, ax)
plt.show()
