"""
Semantic ids of pictures
========================

Ids read off a balanced tree of vectors share a beginning when the vectors are close.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from vpunn.tabular import semantic_ids

images, truth = load_digits(return_X_y=True)
ids = semantic_ids(images, p=8, K=3)
same = [
    np.mean(
        [
            np.bincount(truth[(ids.digits[:, :k] == row[:k]).all(1)]).max()
            / (ids.digits[:, :k] == row[:k]).all(1).sum()
            for row in ids.digits[::20]
        ]
    )
    for k in range(4)
]

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
ax.plot(range(4), same, marker="o")
ax.set(xlabel="leading digits shared", ylabel="share of the commonest numeral in the branch", ylim=(0, 1.02))
ax.set_xticks(range(4))
plt.show()
