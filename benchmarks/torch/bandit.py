"""Cumulative regret of `TreeBandit` beside flat Thompson sampling and UCB on arms that follow a tree, partly, or not at all.

    python -m benchmarks.torch.bandit

243 arms, five levels of three children; a reward is the arm's value plus unit noise. *structured*: the value is a sum over
the arm's balls; *partly*: half of its variance is; *shuffled*: the structured values, dealt to random leaves. The flat
rivals are the same code on a star of the same arms (one level, its ratio learned the same way), and UCB1. 50 seeds, mean
regret after 1,000 pulls with a 95 % interval over seeds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys

import numpy as np
from benchmarks.common import write_results

from vpunn.regress import TreeBandit
from vpunn.tree import Tree, sweep_down

PULLS, LEVELS, BRANCHING = 1000, 5, 3


def arm_tree() -> Tree:
    """The complete tree of the arms."""
    parent = [-1]
    level = [0]
    for _ in range(LEVELS):
        below = []
        for node in level:
            for _ in range(BRANCHING):
                below.append(len(parent))
                parent.append(node)
        level = below
    return Tree.from_parents(parent)


def arm_values(tree: Tree, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Values of the leaves, variance 1 on average."""
    own = rng.normal(size=tree.n_nodes)
    own[0] = 0.0
    value = sweep_down(tree, own)[tree.leaves] / np.sqrt(LEVELS)
    if kind == "partly":
        value = np.sqrt(0.5) * (value + rng.normal(size=len(value)))
    return rng.permutation(value) if kind == "shuffled" else value


def regret(policy: str, tree: Tree, star: Tree, value: np.ndarray, seed: int) -> float:
    """Cumulative regret of one run."""
    rng = np.random.default_rng(1000 + seed)
    noise = rng.normal(size=PULLS)
    lost = 0.0
    if policy == "flat UCB1":
        count, total = np.zeros(len(value)), np.zeros(len(value))
        for t in range(PULLS):
            bound = np.where(
                count > 0, total / np.maximum(count, 1) + np.sqrt(2 * np.log(t + 1) / np.maximum(count, 1)), np.inf
            )
            arm = int(rng.choice(np.flatnonzero(bound == bound.max())))
            count[arm] += 1
            total[arm] += value[arm] + noise[t]
            lost += value.max() - value[arm]
        return lost
    where, rule = policy.split()
    chosen = tree if where == "tree" else star
    bandit = TreeBandit(chosen, rule, noise=1.0, random_state=seed)  # type: ignore[arg-type]
    place = {int(node): i for i, node in enumerate(chosen.leaves)}
    for t in range(PULLS):
        node = bandit.select()
        bandit.update(node, value[place[node]] + noise[t])
        lost += value.max() - value[place[node]]
    return lost


def main(seeds: int = 50) -> None:
    """Run, print and write the table."""
    tree = arm_tree()
    star = Tree.from_parents([-1] + [0] * tree.n_leaves)
    rows = []
    for kind in ("structured", "partly", "shuffled"):
        found: dict[str, np.ndarray] = {}
        for policy in ("tree thompson", "flat thompson", "tree ucb", "flat ucb", "flat UCB1"):
            runs = [
                regret(policy, tree, star, arm_values(tree, kind, np.random.default_rng(seed)), seed)
                for seed in range(seeds)
            ]
            found[policy] = np.array(runs)
        for policy, runs in found.items():
            half = 1.96 * runs.std(ddof=1) / np.sqrt(seeds)
            row = {"arms": kind, "policy": policy, "regret": float(runs.mean()), "±": float(half)}
            if policy.startswith("tree"):
                gap = found[policy.replace("tree", "flat")] - runs
                row |= {"less than flat": float(gap.mean()), "gap ±": float(1.96 * gap.std(ddof=1) / np.sqrt(seeds))}
            rows.append(row)
            print({k: round(v, 1) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    write_results("torch-bandit", rows)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
