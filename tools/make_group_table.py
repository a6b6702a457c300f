"""Make the table of groups with GAP (Debian: gap-core, gap-smallgrp), or count what the digits separate beyond it.

    python tools/make_group_table.py table            # orders ≤ 125 → src/vpunn/hipaq/data/groups125.json.gz
    python tools/make_group_table.py count --last 360 --skip 256   # invariants by vpunn, groups by GAP; prints counts

``table`` lets GAP compute every invariant by its own functions. ``count`` asks GAP only for generators and computes the
invariants with vpunn, so that large ranges take minutes; orders with a single group are counted without computing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vpunn.hipaq.group_invariants import GROUP_CASCADE, MEANING, GroupProfile, digest
from vpunn.hipaq.groups import Group

HERE = Path(__file__).parent
TABLE = HERE.parent / "src/vpunn/hipaq/data/groups125.json.gz"


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
    """Write the shipped table beside its place and rename it."""
    groups = [
        {"order": order, "number": number, "name": name, "generators": generators, "values": values_of(raw)}
        for order, number, name, generators, raw in lines
    ]
    head = {"source": "GAP 4.12.1, SmallGroups library 1.5.1, by tools/make_group_table.py", "invariants": list(MEANING)}
    text = json.dumps({**head, "groups": sorted(groups, key=lambda row: (row["order"], row["number"]))}, separators=(",", ":"))
    beside = TABLE.with_suffix(".part")
    beside.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    beside.replace(TABLE)
    print(f"{len(groups):,} groups, {TABLE.stat().st_size:,} bytes: {TABLE}")


def count(first: int, last: int, skip: list[int], out: Path | None) -> None:
    """Print, for each digit, how many groups it leaves alone in their class, and the sizes of the tie classes."""
    started, prefixes, total = time.perf_counter(), [Counter[Any]() for _ in GROUP_CASCADE], 0
    members: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for order, number, generators in run_gap(first, last, skip, full=False):
        profile = GroupProfile(Group.from_regular(generators))
        prefix: int = 0
        for counter, function in zip(prefixes, GROUP_CASCADE.values(), strict=True):
            prefix = hash((prefix, function(profile)))
            counter[prefix] += 1
        members[prefix].append((order, number))
        total += 1
        if total % 200 == 0:
            print(f"\r{total:,} groups, order {order}, {time.perf_counter() - started:.0f} s", end="", file=sys.stderr)
    digits = [
        {"digit": k, "invariant": name, "classes": len(counter), "alone": sum(n == 1 for n in counter.values())}
        for k, (name, counter) in enumerate(zip(GROUP_CASCADE, prefixes, strict=True), 1)
    ]
    ties = [group for group in members.values() if len(group) > 1]
    result = {
        "orders": [first, last],
        "skipped": skip,
        "groups": total,
        "seconds": round(time.perf_counter() - started),
        "digits": digits,
        "tie_classes": len(ties),
        "groups_in_tie_classes": sum(map(len, ties)),
        "tied_by_order": dict(sorted(Counter(order for group in ties for order, _ in group).items())),
        "largest_tie_class": max(map(len, ties), default=0),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if out:
        out.write_text(text + "\n")


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
        make_table(run_gap(1, 125, [], full=True))
    else:
        count(given.first, given.last, given.skip, given.out)


if __name__ == "__main__":
    main()
