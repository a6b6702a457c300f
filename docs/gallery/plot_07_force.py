"""
Force-directed layout
=====================

A force layout shows clumps, not ancestors: what took a second of springs is a sort in the code.
"""

import matplotlib.pyplot as plt

import vpunn


def below(cls: type) -> list[tuple[str, str]]:
    """Edges of Python's own exceptions, parent first."""
    own = [sub for sub in cls.__subclasses__() if sub.__module__ == "builtins"]
    return [(cls.__name__, sub.__name__) for sub in own] + [edge for sub in own for edge in below(sub)]


tree = vpunn.Tree.from_edges(below(BaseException))

fig, ax = plt.subplots(figsize=(6.4, 6), layout="constrained")
vpunn.plot.force(tree, ax, labels=8)
plt.show()
