"""
From a tree to an answer
========================

A tree gives every item digits, equal beginnings are balls, and an answer is a chain of balls with a probability each.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import vpunn

tree = vpunn.Tree.from_paths(
    [
        "drinks/coffee/beans",
        "drinks/coffee/pods",
        "drinks/tea/green",
        "drinks/tea/black",
        "bakery/bread",
        "bakery/cake",
    ],
    sep="/",
    root="shop",
)
words = {
    "beans": "roasted arabica whole dark espresso ground",
    "pods": "espresso roasted machine aluminium dark small",
    "green": "leaves sencha loose matcha mild cup",
    "black": "leaves assam breakfast bags strong cup",
    "bread": "rye loaf sliced flour crust wholemeal",
    "cake": "chocolate sponge cream flour sweet layers",
}
random = np.random.default_rng(0)
labels = np.repeat(list(words), 60)
every = " ".join(words.values()).split()
texts = [
    " ".join([*random.choice(words[label].split(), 2), random.choice(every)]) for label in labels
]  # a word in three is noise
features = vpunn.text_features(characters=None, min_rows=1).fit(texts)
model = vpunn.HiPaNClassifier(tree, random_state=0).fit(features.transform(texts), labels)

question = "dark roasted cup"
posterior = model.posterior(features.transform([question]))
answer = int(posterior.best()[0])
chain, probability = posterior.chain(posterior.best())

fig, ax = plt.subplots(1, 3, figsize=(12.5, 4.2), layout="constrained", width_ratios=(1.25, 1, 0.9))
vpunn.plot.diagram(tree, ax[0], ball=int(chain[0, 2]))
ax[0].set_title("1  a tree: every turn is a digit", loc="left")
vpunn.plot.balls(tree, ax[1], node=answer)
ax[1].set_title("2  equal first digits: nested balls", loc="left")
for i, (ball, p) in enumerate(zip(chain[0], probability[0], strict=True)):
    said = vpunn.PadicCode(tree).format(int(ball), "digits")
    ax[2].barh(i, p, color="#0072B2", height=0.34)
    ax[2].text(0, i - 0.3, f"{tree.labels[ball]}  {said}  {p:.0%}", va="center", fontsize=11)
ax[2].set(xlim=(0, 1.02), ylim=(len(chain[0]) - 0.6, -0.7), xlabel="probability", yticks=[])
ax[2].spines[["top", "right", "left"]].set_visible(False)
ax[2].set_title(f"3  where does “{question}” belong?", loc="left")
if sys.argv[-1].endswith(".png"):  # as `make picture` does for the README
    fig.savefig(sys.argv[-1], dpi=110)
plt.show()
