"""
Explanation of one answer
=========================

Every ball around an answer adds its part to the score and has a probability of its own.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

import vpunn
from vpunn.explanations import explain
from vpunn.plot import activation

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

x = features.transform(["Fit a smooth spline curve through data points."])
reason = explain(model, x, feature_names=features.get_feature_names_out())
print(reason)

fig, ax = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
activation(reason, ax)
plt.show()
