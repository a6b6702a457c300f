"""
Information in prefixes
=======================

Area and place tell a time zone's clock almost entirely; a digit read without those before it tells much less.
"""

import zoneinfo
from datetime import datetime

import matplotlib.pyplot as plt

import vpunn
from vpunn.structure import prefix_information

AREAS = ("Africa/", "America/", "Asia/", "Atlantic/", "Australia/", "Europe/", "Indian/", "Pacific/")
zones = sorted(name for name in zoneinfo.available_timezones() if name.startswith(AREAS))
tree = vpunn.Tree.from_paths(zones, sep="/", root="Earth")
winter = datetime(2024, 1, 15, 12)
clock = [""] * tree.n_nodes
for leaf in tree.leaves.tolist():
    clock[leaf] = str(zoneinfo.ZoneInfo("/".join(tree.labels[tree.ancestors(leaf)[1:]])).utcoffset(winter))
found = prefix_information(tree, clock, tree.leaves)
print(found.verdict)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
found.plot(ax)
plt.show()
