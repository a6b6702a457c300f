"""Edit saved models at random and use them: ``python tests/hostile/fuzz.py --count 1000``.

Work is done in batches, one process each, so that a crash is seen and named. Prints what went wrong, as recipes for
``tests/data/hostile/edits.jsonl``, and exits with 1 if anything did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))  # tests/, for its helpers

#: Memory that one process may take: a file that asks for more has done harm.
MEMORY = 6 << 30


def work(recipes: list[dict[str, Any]]) -> None:
    """Apply and try recipes, saying what comes next before it is tried."""
    import resource

    from hostile.edits import MODELS, applied, draw, outcome

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        saved: dict[str, Path] = {}
        for recipe in recipes:
            name = recipe["model"]
            if name not in saved:
                saved[name] = MODELS[name]().save(Path(scratch) / name.replace(" ", "_"))
            if "draw" in recipe:
                recipe = {"model": name, **draw(saved[name], np.random.default_rng(recipe["draw"]))}
            print(json.dumps(recipe), flush=True)
            print(outcome(name, applied(saved[name], Path(scratch) / "edited", recipe)).replace("\n", " "), flush=True)


def run(recipes: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Outcome of every recipe, in a process of their own; after a crash the rest is tried in another."""
    found: list[tuple[dict[str, Any], str]] = []
    while len(found) < len(recipes):
        given = json.dumps(recipes[len(found) :])
        place = os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": place}
        done = subprocess.run(
            [sys.executable, str(HERE), "--work"], input=given, capture_output=True, text=True, env=environment
        )
        lines = done.stdout.splitlines()
        pairs = list(zip(lines[::2], lines[1::2], strict=False))
        found += [(json.loads(recipe), said) for recipe, said in pairs]
        if len(lines) % 2:
            found.append((json.loads(lines[-1]), f"WRONG: the process ended with {done.returncode}"))
        elif done.returncode or not lines:
            raise RuntimeError(done.stderr[-2000:])
    return found


def main() -> int:
    """The command."""
    from hostile.edits import MODELS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="edited folders")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", default="", help="comma separated; all by default: " + ", ".join(MODELS))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(json.load(sys.stdin))
        return 0
    names = options.models.split(",") if options.models else list(MODELS)
    plan = [{"model": names[k % len(names)], "draw": [options.seed, k]} for k in range(options.count)]
    plan.sort(key=lambda recipe: names.index(recipe["model"]))
    began, bad, counts = time.time(), 0, Counter[str]()
    for start in range(0, len(plan), 200):
        for recipe, said in run(plan[start : start + 200]):
            word = said.split(":")[0]
            counts[word] += 1
            if word == "WRONG":
                bad += 1
                print(json.dumps(recipe), said, flush=True)
    print(f"{options.count:,} edited folders in {time.time() - began:.0f} s:", dict(counts))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
