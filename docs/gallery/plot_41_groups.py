"""
Invariants of small groups
==========================

Eleven invariants tell all 1,251 groups of order at most 125 apart, and each digit of the name is one of them.
"""

import matplotlib.pyplot as plt

from vpunn.hipaq import group_catalogue

table = group_catalogue().digits()
classes = [row["classes"] for row in table]

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.barh(range(len(table)), classes)
ax.set_yticks(range(len(table)), [row["invariant"] for row in table], fontsize=8)
for i, count in enumerate(classes):
    ax.text(count + 10, i, f"{count:,}", va="center", fontsize=8)
ax.invert_yaxis()
ax.set(xlabel="classes told apart so far", xlim=(0, 1450))
plt.show()
