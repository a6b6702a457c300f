"""
Digits of one code
==================

Every digit shrinks the set of leaves that are still possible.
"""

import matplotlib.pyplot as plt

import vpunn


def below(cls: type) -> list[tuple[str, str]]:
    """Edges of Python's own exceptions, parent first."""
    own = [sub for sub in cls.__subclasses__() if sub.__module__ == "builtins"]
    return [(cls.__name__, sub.__name__) for sub in own] + [edge for sub in own for edge in below(sub)]


tree = vpunn.Tree.from_edges(below(BaseException))

fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
vpunn.plot.code(tree, tree.index("ConnectionResetError"), ax)
plt.show()
