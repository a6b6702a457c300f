"""
Accuracy of a head by depth
===========================

One linear head answers at every depth at once, and the group is right more often than the numeral.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import vpunn
from vpunn.metrics import prefix_accuracy
from vpunn.torch import HeadClassifier

tree = vpunn.Tree.from_paths(
    [
        ("round", "0"),
        ("round", "6"),
        ("round", "8"),
        ("round", "9"),
        ("round", "3"),
        ("straight", "1"),
        ("straight", "4"),
        ("straight", "7"),
        ("mixed", "2"),
        ("mixed", "5"),
    ],
    root="numeral",
)
images, numeral = load_digits(return_X_y=True)
names = numeral.astype(str)
X, X_test, y, y_test = train_test_split(images, names, random_state=0, stratify=names)

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for epochs in (1, 3, 10):
    model = HeadClassifier(tree, epochs=epochs, random_state=0).fit(X, y)
    score = prefix_accuracy(tree, tree.index(y_test), tree.index(model.predict(X_test)))
    ax.plot(range(1, 1 + len(score)), score, marker="o", label=f"{epochs} epoch{'s' * (epochs > 1)}")
ax.set(xlabel="depth", ylabel="share right at that depth (test rows)", ylim=(0.7, 1.01))
ax.set_xticks([1, 2])
ax.legend()
plt.show()
