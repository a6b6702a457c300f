"""
Intervals of unseen labels
==========================

A label never seen is answered by its deepest known ancestor, with an interval that says how much is missing.
"""

import matplotlib.pyplot as plt
import numpy as np

from vpunn import VPuNNRegressor

random = np.random.default_rng(0)
effect = {order: random.normal(0, 2) for order in "ABCD"}
family = {(o, f): effect[o] + random.normal(0, 1) for o in "ABCD" for f in range(5)}
genus = {(o, f, g): family[o, f] + random.normal(0, 0.8) for o, f in family for g in range(4)}
rows = [(o, f"{o}{f}", f"{o}{f}{g}") for o, f, g in genus for _ in range(3)]
y = np.repeat(list(genus.values()), 3) + random.normal(0, 0.4, len(rows))
model = VPuNNRegressor().fit(rows, y)

asked = [("A", "A0", "A00"), ("A", "A0", "new"), ("A", "new", "new"), ("new", "new", "new")]
mean, sd = model.predict(asked, return_std=True)

fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.errorbar(mean, range(4), xerr=1.96 * sd, fmt="o", capsize=4)
ax.set_yticks(range(4), ["all known", "new genus", "new family", "new order"])
ax.invert_yaxis()
ax.set(xlabel="prediction with 95 % interval")
plt.show()
