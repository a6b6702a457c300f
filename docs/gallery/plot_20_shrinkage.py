"""
Shrinkage plot
==============

A group with few rows is pulled towards its parent, one with many speaks for itself; how far is learned from the data.
"""

import matplotlib.pyplot as plt
import numpy as np

from vpunn import VPuNNRegressor

random = np.random.default_rng(4)
sizes = [1, 1, 2, 2, 4, 8, 16, 64]
truth = random.normal(10, 1, len(sizes))
names = np.repeat([f"group {i}" for i in range(len(sizes))], sizes)
y = np.repeat(truth, sizes) + random.normal(0, 2, len(names))
model = VPuNNRegressor().fit(names[:, None], y)
asked = [f"group {i}" for i in range(len(sizes))]
raw = np.array([y[names == name].mean() for name in asked])
shrunk = model.predict(np.array(asked)[:, None])

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
at = np.arange(len(sizes))
ax.vlines(at, raw, shrunk, color="0.8", linewidth=2)
ax.plot(at, raw, "x", color="#D55E00", label="mean of the group's rows")
ax.plot(at, shrunk, "o", color="#0072B2", label="vpunn")
ax.plot(at, truth, "_", color="#222222", markersize=14, label="truth")
ax.axhline(y.mean(), color="0.85", zorder=0)
ax.set_xticks(at, [f"{n} row{'s' * (n > 1)}" for n in sizes])
ax.set(xlabel="rows in the group", ylabel="value")
ax.legend(fontsize=8)
plt.show()
