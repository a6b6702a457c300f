"""
Latent tree of a table
======================

The balls of a latent tree are described in the table's own columns, and nobody told it the cultivars.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from vpunn.tabular import LatentTreeEncoder

wine = load_wine(as_frame=True)
encoder = LatentTreeEncoder(p=5, K=2).fit(wine.data)
print(encoder.describe("1"))
first = encoder.transform(wine.data)[:, 0]
count = np.array([np.bincount(wine.target[first == digit], minlength=3) for digit in np.unique(first)])

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for k in range(3):
    ax.bar(np.unique(first), count[:, k], bottom=count[:, :k].sum(1), label=f"cultivar {k + 1}", width=0.6)
ax.set(xlabel="first digit of the learned code", ylabel="wines")
ax.set_xticks(np.unique(first))
ax.legend()
plt.show()
