"""
Entropy of digits
=================

Prefixes hold more bits with every digit; a digit given those before it tells less and less on the way down.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import scipy

import vpunn
from vpunn.structure import entropy

folder = Path(scipy.__file__).parent
files = sorted(folder.rglob("*.py"))
tree = vpunn.Tree.from_paths([file.relative_to(folder).parts for file in files], root="scipy")

found = entropy(tree)
print(found.verdict)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
found.plot(ax)
plt.show()
