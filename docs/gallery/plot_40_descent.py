"""
Descent of optimisers
=====================

Without input the best law is the observed frequencies, so an optimiser can be judged against a closed form.
"""

import matplotlib.pyplot as plt

import vpunn
from vpunn.plot import descent
from vpunn.vapo.heads import SoftmaxHeads


def below(cls: type) -> list[tuple[str, str]]:
    """Edges of Python's own exceptions, parent first."""
    own = [sub for sub in cls.__subclasses__() if sub.__module__ == "builtins"]
    return [(cls.__name__, sub.__name__) for sub in own] + [edge for sub in own for edge in below(sub)]


heads = SoftmaxHeads(vpunn.Tree.from_edges(below(BaseException)))
runs = {method: vpunn.vapo.minimize(heads, method) for method in ("adam", "fisher")}

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
descent(runs, ax, optimum=heads.optimum())
plt.show()
