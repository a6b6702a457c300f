"""
From a tree to an answer
========================

A tree gives every item digits, equal beginnings are balls, and an answer is a chain of balls with a probability each.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import vpunn

WORDS = {
    "drinks/coffee/beans": "roasted arabica whole dark espresso grinder",
    "drinks/coffee/pods": "espresso roasted machine capsule dark aluminium",
    "drinks/coffee/cans": "iced milk sweet cold roasted espresso",
    "drinks/tea/green": "leaves sencha loose mild cup kettle",
    "drinks/tea/black": "leaves assam breakfast bags strong cup",
    "bakery/bread": "rye loaf sliced flour crust wholemeal",
    "bakery/cake": "chocolate sponge cream flour sweet layers",
    "bakery/rolls": "seeds soft flour milk breakfast small",
}
tree = vpunn.Tree.from_paths(list(WORDS), sep="/", root="shop")
code = vpunn.PadicCode(tree)
random = np.random.default_rng(0)
labels = np.repeat([path.split("/")[-1] for path in WORDS], 40)
every = " ".join(WORDS.values()).split()
texts = [" ".join([*random.choice(WORDS[p].split(), 2), *random.choice(every, 2)]) for p in WORDS for _ in range(40)]
features = vpunn.text_features(characters=None, min_rows=1).fit(texts)  # half of every text is noise
model = vpunn.HiPaNClassifier(tree, random_state=0).fit(features.transform(texts), labels)

question = "dark espresso, small cup"
posterior = model.posterior(features.transform([question]))
chain, chance = (row[0] for row in posterior.chain(posterior.best()))

fig, ax = plt.subplots(1, 3, figsize=(13, 4.7), layout="constrained", width_ratios=(1.45, 1, 1))
below = [f"{tree.labels[leaf]}\n{code.format(int(leaf), 'digits')}" for leaf in tree.leaves]
vpunn.plot.diagram(tree, ax[0], ball=int(chain[2]), texts=below, inner=True)
ax[0].set_title("1  Every turn in a tree is a digit", loc="left", weight="bold")
fig.canvas.draw()  # places the panels, so that the names in the balls know their room
vpunn.plot.balls(tree, ax[1], node=int(chain[-1])).set_anchor("N")
ax[1].set_title("2  The same first digits: one branch", loc="left", weight="bold")
rows = np.arange(len(chain))
ax[2].barh(rows, 1, color="#e3e6ea", height=0.3)
ax[2].barh(rows, chance, color=["#009E73" if p > 0.8 else "#E69F00" for p in chance], height=0.3)
for row, ball, p in zip(rows, chain, chance, strict=True):
    said = f"{'   ' * row}{tree.labels[ball]}  {code.format(int(ball), 'digits') if row else ''}"
    ax[2].text(0, row - 0.32, said, va="center", fontsize=11)
    ax[2].text(1, row - 0.32, f"{p:.0%}", va="center", ha="right", fontsize=11, weight="bold")
ax[2].set(xlim=(0, 1), ylim=(len(chain) - 0.6, -0.75))
ax[2].set_axis_off()
ax[2].set_title(f"3  So “{question}” is …", loc="left", weight="bold")
if sys.argv[-1].endswith(".png"):  # as `make picture` does for the README
    fig.savefig(sys.argv[-1], dpi=110)
plt.show()
