"""
Answers that stop early
=======================

Asked for more certainty the model answers with a larger ball instead of guessing on.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import vpunn

#: every public function of SciPy: its first sentence, and the module it belongs to
texts, homes = [], []
for name in (
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "stats",
):
    for key, value in vars(importlib.import_module(f"scipy.{name}")).items():
        if not key.startswith("_") and callable(value) and (text := inspect.getdoc(value)):
            texts.append(text.split("\n\n")[0])
            homes.append(name)
group = {
    "stats": "data",
    "signal": "data",
    "ndimage": "data",
    "fft": "data",
    "interpolate": "analysis",
    "integrate": "analysis",
}
tree = vpunn.Tree.from_paths([(group.get(h, "algebra"), h) for h in dict.fromkeys(homes)], root="scipy")
train, test, y, truth = train_test_split(texts, homes, test_size=0.4, random_state=0, stratify=homes)
features = vpunn.text_features(characters=None).fit(train)
model = vpunn.HiPaNClassifier(tree).fit(features.transform(train), y)
posterior = model.posterior(features.transform(test))
true = tree.index(truth)

thresholds = np.linspace(0.05, 0.99, 20)
depth, right = [], []
for threshold in thresholds:
    ball = posterior.deepest(threshold)
    depth.append(tree.depth[ball].mean() / tree.max_depth)
    right.append(tree.is_ancestor(ball, true).mean())

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(thresholds, right, label="ball holds the truth")
ax.plot(thresholds, depth, label="depth of the ball, share of all")
ax.plot([0, 1], [0, 1], color="0.8", zorder=0)
ax.set(xlabel="probability asked for", ylabel="share", xlim=(0, 1), ylim=(0, 1.02))
ax.legend()
plt.show()
