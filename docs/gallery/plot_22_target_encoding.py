"""
Target encoding, with and without a leak
========================================

A feature made from the target must be cross-fitted: otherwise the next model trusts noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from vpunn import PadicTargetEncoder

random = np.random.default_rng(0)
groups = random.integers(0, 300, 600)  # two rows a category, and nothing to learn
X = np.column_stack([groups // 10, groups]).astype(str)
y = random.normal(size=600)
raw = {g: y[groups == g].mean() for g in np.unique(groups)}
naive = np.array([raw[g] for g in groups])[:, None]
crossed = PadicTargetEncoder(target_type="continuous", random_state=0).fit_transform(X, y)
explained = {"mean of the category": naive, "PadicTargetEncoder": crossed}

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
scores = [LinearRegression().fit(Z, y).score(Z, y) for Z in explained.values()]
ax.bar(list(explained), scores, width=0.5)
for i, score in enumerate(scores):
    ax.text(i, score + 0.01, f"{score:.2f}", ha="center")
ax.set(ylabel="R² claimed on pure noise", ylim=(0, 0.7))
plt.show()
