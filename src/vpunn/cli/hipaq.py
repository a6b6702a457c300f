"""``vpunn hipaq``: canonical codes of any tree, and identifiers for groups, subgroups, hydrogen states and decays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from vpunn.cli.common import JsonFlag, add, emit
from vpunn.cli.source import AS_NAMED, Source, TreeFile


def register(app: typer.Typer) -> None:
    """Add the family of commands."""
    family = typer.Typer(no_args_is_help=True, help="Codes that do not depend on names: of trees, groups, decays.")
    for command in (table, codes, groups, subgroups, hydrogen, decays, trees):
        add(family, command)
    app.add_typer(family, name="hipaq")


def groups(
    table: Annotated[
        Path | None, typer.Argument(help="Multiplication table to identify (.json, .npy, .csv or .txt).")
    ] = None,
    permutations: Annotated[
        Path | None, typer.Option(help="JSON list of permutations (images of 0, 1, …) to identify.")
    ] = None,
    number: Annotated[str | None, typer.Option("--id", help="Show one group of the catalogue, such as 8,3.")] = None,
    ties: Annotated[
        bool, typer.Option(help="List every class of groups that the invariants cannot tell apart.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """What each digit tells apart among groups, or which a group is."""
    from vpunn.hipaq import group_catalogue, group_name, known_orders

    if table is not None or permutations is not None or number is not None:
        _identify(table, permutations, number, json)
        return
    catalogue = group_catalogue()
    classes = catalogue.tie_classes()
    facts = {
        "groups": len(catalogue.names),
        "p": catalogue.code.p,
        "K": catalogue.code.K,
        "separated": catalogue.n_separated(),
    }
    if json:
        emit({**facts, "digits": catalogue.digits(), "tie classes": classes}, json)
        return
    orders = f"all {facts['groups']:,} groups of the orders {known_orders()}"
    emit(catalogue.digits(), json, f"{orders} (p = {facts['p']}, K = {facts['K']})")
    typer.echo(f"\n{facts['separated']:,} groups are separated by invariants alone; {len(classes)} tie classes remain.")
    for same in classes if ties else ():
        typer.echo("  " + ", ".join(f"SmallGroup{name} {group_name(*name)}" for name in same))


def table(json: JsonFlag = False) -> None:
    """The paper's table of four hierarchies.

    Leaves, (p, K), numbers, CPU time and key result of each."""
    from vpunn.hipaq import hierarchy_table

    emit(hierarchy_table(), json, "HiPaQ: one code a leaf, nothing trained")


def codes(
    source: Source,
    canonical: Annotated[
        bool, typer.Option(help="Order siblings by shape, so that codes do not depend on names.")
    ] = False,
    how: TreeFile = AS_NAMED,
    json: JsonFlag = False,
) -> None:
    """A code for every leaf of a tree, ready without fitting.

    With --canonical, codes are equal exactly for isomorphic trees."""
    from vpunn.errors import counted
    from vpunn.hipaq import HiPaQ

    one = HiPaQ(how.read(source), canonical=canonical)
    texts = [str(code) for code in one.codes.tolist()]  # JSON readers keep fewer digits of a number
    if json:
        emit({"p": one.p, "K": one.K, "codes": dict(zip(map(str, one.labels.tolist()), texts, strict=True))}, json)
        return
    facts = {
        "leaves": len(texts),
        "p": one.p,
        "K": one.K,
        "coefficients": one.n_parameters,
        "check": one.check().verdict,
    }
    emit(facts, json)
    for name, text in list(zip(one.labels.tolist(), texts, strict=True))[:10]:
        typer.echo(f"  {text}  {name}")
    if len(texts) > 10:
        typer.echo(f"  and {counted(len(texts) - 10, 'leaf', 'leaves')} more; --json lists all.")


def subgroups(
    number: Annotated[str, typer.Argument(help="A group of the catalogue, such as 8,3, or a file with its table.")],
    policy: Annotated[
        str, typer.Option(help="Which parent a subgroup keeps: first, deepest, most-specific, unfold.")
    ] = "unfold",
    json: JsonFlag = False,
) -> None:
    """The subgroups of a group as a tree, and their canonical codes."""
    from vpunn.hipaq import Group, HiPaQ, small_group, subgroup_lattice

    file = Path(number)
    group = Group.from_table(_read_numbers(file)) if file.suffix else small_group(*_read_id(number))
    lattice = subgroup_lattice(group, policy=policy)
    one = HiPaQ(lattice, canonical=True)
    names = set(lattice.labels.tolist())
    orders = Counter(int(str(name).partition(".")[0]) for name in names)
    facts = {
        "subgroups": len(names),
        "of order": ", ".join(f"{order}: {many:,}" for order, many in sorted(orders.items())),
        "nodes of the tree": len(lattice),
        "p": one.p,
        "K": one.K,
        "check": one.check().verdict,
    }
    if json:
        emit({**facts, "codes": [str(code) for code in one.codes.tolist()]}, json)
        return
    emit(facts, json)
    shown = " ".join(map(str, one.codes[:12].tolist()))
    typer.echo(f"codes {shown}{' …' if len(one.codes) > 12 else ''}")


def _identify(table: Path | None, permutations: Path | None, number: str | None, json: bool) -> None:
    from vpunn.hipaq import Group, group_name, identify_group, small_group

    if table is not None:
        group = Group.from_table(_read_numbers(table))
    elif permutations is not None:
        group = Group.from_permutations(_read_numbers(permutations))
    else:
        group = small_group(*_read_id(str(number)))
    found = identify_group(group)
    order, position = found.candidates[0]
    name = {
        "SmallGroup": f"({order}, {position})",
        "structure": group_name(order, position),
        "settled by": found.settled_by,
    }
    # The code as text: it has more digits than JSON readers keep of a number.
    code = {"code": str(found.code), "digits": "|".join(map(str, found.digits))}
    emit({**name, **code, **found.path}, json)


def hydrogen(
    n: Annotated[int, typer.Option(min=1, help="Largest principal quantum number.")] = 8,
    spin: Annotated[bool, typer.Option(help="Count both spin states.")] = False,
    noise: Annotated[
        str, typer.Option(help="Measurement errors to try, separated by commas.")
    ] = "0,0.01,0.05,0.1,0.2,0.5",
    repeats: Annotated[int, typer.Option(min=1, help="Readings of every state.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Number of random seeds, from 0.")] = 3,
    json: JsonFlag = False,
) -> None:
    """The tree of states, and shells found in noisy measurements."""
    from vpunn.errors import VpunnError, counted
    from vpunn.hipaq.hydrogen import hydrogen_tree, purity_against_noise

    try:
        noises = [float(part) for part in noise.split(",")]
    except ValueError:
        raise VpunnError(f"--noise must be numbers separated by commas, got {noise!r}.") from None
    states = hydrogen_tree(n, spin=spin)
    facts = {"states": len(states.names), "p": states.code.p, "K": states.code.K, "nodes": states.tree.n_nodes}
    rows = purity_against_noise(noises, seeds=seeds, n_max=n, spin=spin, repeats=repeats)
    if json:
        emit({**facts, "recovery": rows}, json)
        return
    typer.echo("Quantum numbers as digits (exact by construction, nothing is learned):")
    emit([facts], json)
    typer.echo()
    rows = [{key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()} for row in rows]
    emit(rows, json, f"Recovered without labels ({repeats} readings of each state, {counted(seeds, 'seed')})")


def decays(
    file: Annotated[
        Path | None, typer.Argument(help="Decay chain as JSON; the shipped τ⁻ channels if left out.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Codes of decay channels, and how many bits each digit holds."""
    from vpunn.hipaq.decays import read_decays

    chain = read_decays(file)
    summary = {
        "channels": chain.tree.n_leaves,
        "p": chain.code.p,
        "K": chain.code.K,
        "share of all decays": chain.coverage,
        "entropy (bits)": chain.entropy(),
        "± from measurement": chain.entropy_error(),
        "Huffman code (bits)": chain.huffman_length(),
        "Huffman code per digit (bits)": sum(row["huffman bits"] for row in chain.digits()),
        "source": chain.source,
    }
    if json:
        emit({**summary, "digits": chain.digits(), "by channel": chain.channels()}, json)
        return
    emit(chain.channels(), json, f"Decays of {chain.tree.labels[0]}")
    typer.echo()
    emit(chain.digits(), json, "Digits")
    typer.echo()
    emit(summary, json)


def trees(
    file: Annotated[Path | None, typer.Argument(help="A tree to encode, in any format vpunn reads.")] = None,
    max_nodes: Annotated[int, typer.Option(min=1, max=16, help="Catalogue all rooted trees up to this size.")] = 10,
    json: JsonFlag = False,
) -> None:
    """A canonical code of a tree's shape, or of all small trees."""
    from vpunn.hipaq.rooted_trees import tree_catalogue, tree_code

    if file is not None:
        tree = AS_NAMED.read(str(file))
        emit(
            {"nodes": tree.n_nodes, "leaves": tree.n_leaves, "depth": tree.max_depth, "AHU code": hex(tree_code(tree))},
            json,
        )
        return
    catalogue = tree_catalogue(max_nodes)
    sizes = Counter(row[0] for row in catalogue.rows)
    if json:
        emit({"trees by nodes": sizes, "digits": catalogue.digits()}, json)
        return
    emit([{"nodes": nodes, "rooted trees": count} for nodes, count in sorted(sizes.items())], json, "Rooted trees")
    typer.echo()
    emit(catalogue.digits(), json, "What the digits separate")


def _read_numbers(path: Path) -> Any:
    """Nested lists or an array from JSON, NumPy or a text table."""
    import json

    import numpy as np

    from vpunn.errors import DataError

    try:
        if path.suffix == ".json":
            return json.loads(path.read_bytes().decode("utf-8-sig"))
        if path.suffix == ".npy":
            return np.load(path)
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
        if not any(line.strip() for line in lines):
            raise DataError(f"cannot read numbers from {path}: the file is empty.")
        return np.loadtxt(lines, dtype=np.int64, ndmin=2, delimiter="," if path.suffix == ".csv" else None)
    except DataError:
        raise
    except (ValueError, EOFError, RecursionError) as error:  # also JSON and decoding errors
        raise DataError(f"cannot read numbers from {path}: {str(error).rstrip('.')}.") from error


def _read_id(text: str) -> tuple[int, int]:
    from vpunn.errors import VpunnError

    try:
        order, number = (int(part) for part in text.split(","))
    except ValueError:
        raise VpunnError(f"a group is named by its order and number, such as 8,3; got {text!r}.") from None
    return order, number
