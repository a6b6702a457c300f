"""Make the table of groups with GAP (Debian: gap-core, gap-smallgrp), or count what the digits separate beyond it.

    python tools/make_group_table.py table --last 127                  # these orders → src/vpunn/hipaq/data/groups.json.gz
    python tools/make_group_table.py table --first 129 --last 191      # more of them, beside those that are there
    python tools/make_group_table.py count --last 360 --skip 256   # invariants by vpunn, groups by GAP; prints counts

``table`` lets GAP compute every invariant by its own functions; the orders given replace those of the shipped table. ``count`` asks
GAP only for generators and computes the invariants with vpunn, so that large ranges take minutes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vpunn.hipaq.group_invariants import GROUP_CASCADE, MEANING, GroupProfile, digest
from vpunn.hipaq.groups import Group

HERE = Path(__file__).parent
TABLE = HERE.parent / "src/vpunn/hipaq/data/groups.json.gz"


def run_gap(first: int, last: int, skip: list[int], full: bool) -> Iterator[list[Any]]:
    """One parsed line per group, as GAP prints them."""
    settings = f"FIRST:={first};;LAST:={last};;SKIP:={skip};;FULL:={str(full).lower()};;"
    command = ["gap", "-q", "-b", "-c", settings, str(HERE / "make_group_table.g")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as gap:
        assert gap.stdout is not None
        for line in gap.stdout:
            yield json.loads(line)
    if gap.returncode:
        sys.exit(f"gap stopped with code {gap.returncode}")


def values_of(raw: list[Any]) -> list[Any]:
    """GAP's raw lists in the form of `GROUP_CASCADE`: histories of colour refinement become (colours, digest)."""
    named = dict(zip(MEANING, raw, strict=True))
    for name in ("abelianisation", "centre", "derived"):
        named[name] = sorted(named[name])
    named["classes"] = [[order, size, count] for (order, size), count in named["classes"]]
    for name in ("powers", "products"):
        named[name] = [len(named[name][-1]), digest(named[name])]
    return list(named.values())


def make_table(lines: Iterator[list[Any]]) -> None:
    """Write the shipped table with these orders beside its place and rename it."""
    made = [
        {"order": order, "number": number, "name": name, "generators": generators, "values": values_of(raw)}
        for order, number, name, generators, raw in lines
    ]
    orders = {row["order"] for row in made}
    there = json.loads(gzip.decompress(TABLE.read_bytes()))["groups"] if TABLE.exists() else []
    groups = [*made, *(row for row in there if row["order"] not in orders)]
    head = {
        "source": "GAP 4.12.1, SmallGroups library 1.5.1, by tools/make_group_table.py",
        "invariants": list(MEANING),
    }
    text = json.dumps(
        {**head, "groups": sorted(groups, key=lambda row: (row["order"], row["number"]))}, separators=(",", ":")
    )
    beside = TABLE.with_suffix(".part")
    beside.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    beside.replace(TABLE)
    print(f"{len(groups):,} groups, {TABLE.stat().st_size:,} bytes: {TABLE}")


#: Digits that cost more than all others together: computed only for groups that the cheaper ones leave together.
COSTLY = ("pairs", "products")


def count(first: int, last: int, skip: list[int], out: Path | None) -> None:
    """Print, for each digit, how many groups it leaves alone in their class, and the sizes of the tie classes."""
    started, names, generators = time.perf_counter(), [], []
    prefix: dict[str, list[bytes]] = {name: [] for name in GROUP_CASCADE}  # class of every group after each digit
    for order, number, steps in run_gap(first, last, skip, full=False):
        profile = GroupProfile(Group.from_regular(steps))
        key = b""
        for name in (name for name in GROUP_CASCADE if name not in COSTLY):
            key = _extend(key, GROUP_CASCADE[name](profile))
            prefix[name].append(key)
        names.append((order, number))
        generators.append(np.array(steps, np.uint16))
        _progress("cheap digits", len(names), started)
    before = prefix["powers"]
    for name in COSTLY:
        shared = {key for key, members in Counter(before).items() if members > 1}
        for done, (key, steps) in enumerate(zip(before, generators, strict=True)):
            value = GROUP_CASCADE[name](GroupProfile(Group.from_regular(steps))) if key in shared else None
            prefix[name].append(_extend(key, value))
            _progress(name, done + 1, started)
        before = prefix[name]
    members = defaultdict(list)
    for key, group in zip(before, names, strict=True):
        members[key].append(group)
    ties = [group for group in members.values() if len(group) > 1]
    sizes = {name: Counter(keys).values() for name, keys in prefix.items()}
    result = {
        "orders": [first, last],
        "skipped": skip,
        "groups": len(names),
        "seconds": round(time.perf_counter() - started),
        "digits": [
            {"digit": k, "invariant": name, "classes": len(classes), "alone": sum(size == 1 for size in classes)}
            for k, (name, classes) in enumerate(sizes.items(), 1)
        ],
        "tie_classes": len(ties),
        "groups_in_tie_classes": sum(map(len, ties)),
        "tied_by_order": dict(sorted(Counter(order for group in ties for order, _ in group).items())),
        "largest_tie_class": max(map(len, ties), default=0),
        "ties": ties if len(ties) <= 100 else "too many to list",
    }
    text = json.dumps(result)
    print(text)
    if out:
        out.write_text(text + "\n")


def _extend(key: bytes, value: object) -> bytes:
    """The name of the class that agrees on one more digit."""
    return hashlib.sha256(key + repr(value).encode()).digest()[:16]


def _progress(what: str, done: int, started: float) -> None:
    if done % 200 == 0:
        print(
            f"\r{what}: {done:,} groups, {time.perf_counter() - started:.0f} s   ", end="", file=sys.stderr, flush=True
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table", "count"])
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--last", type=int, default=125)
    parser.add_argument("--skip", type=int, nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "table":
        make_table(run_gap(given.first, given.last, given.skip, full=True))
    else:
        count(given.first, given.last, given.skip, given.out)


if __name__ == "__main__":
    main()
