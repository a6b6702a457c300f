"""``vpunn demo``: WordNet from download to codes and a placement model, with each promise checked on the way."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vpunn.codes import PadicCode
    from vpunn.tree import Tree


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(out: Annotated[Path, typer.Option(help="Folder for the codes and the tree.")] = Path("demo")) -> None:
    """Fetch WordNet, check its codes, learn to place new words."""
    from vpunn.codes import PadicCode
    from vpunn.codes.isometry import check_losslessness
    from vpunn.datasets import load_wordnet
    from vpunn.files import make_folder

    make_folder(out)

    def say(title: str, text: str) -> None:
        typer.secho(f"\n{title}", bold=True)
        typer.echo(text)

    wordnet = load_wordnet()
    tree = wordnet.tree
    code = PadicCode(tree)
    say(f"WordNet {wordnet.version} nouns", f"{tree!r}\n{code!r}")

    top = tree.index("canine.n.02")
    text = tree.show(top, max_nodes=14).splitlines()
    shown = [f"{line:<38}{code.format(top + i, 'digits')}" for i, line in enumerate(text[:14])]
    say(
        "A ball and its digits (root digit first; a ball is the set of nodes that share a prefix)",
        "\n".join([*shown, *text[14:]]),
    )

    wolf, cat, oak = tree.index(["wolf.n.01", "cat.n.01", "oak.n.02"])
    lines = []
    for a, b in ((wolf, cat), (wolf, oak)):
        power = code.valuation(a, b)
        common = tree.labels[tree.lca(a, b)]
        lines.append(f"{tree.labels[a]} and {tree.labels[b]}: common ancestor {common}, distance {code.p}^-{power}")
    say("Lowest common ancestors are common prefixes", "\n".join(lines))

    k = int(tree.depth[wolf]) - 1
    ball = code.ball(wolf, k)
    say(
        f"The ball of radius {code.p}^-{k} around wolf.n.01",
        f"{tree.size[ball]:,} synsets below {tree.labels[ball]}, {tree.leaf_counts[ball]:,} of them leaves",
    )
    say("The integer of wolf.n.01, and back", f"{code.format(wolf)}\n→ {tree.labels[code.decode(code.encode(wolf))]}")

    start = time.perf_counter()
    found = check_losslessness(code)
    say(
        f"Isometry checked on {found.pairs:,} random pairs, losslessness on all {found.nodes:,} nodes",
        f"{found.defects} defects, {found.collisions} collisions, {found.round_trip_failures} failed round trips, "
        f"Spearman(distance, LCA depth) = {found.spearman} ({time.perf_counter() - start:.1f} s)",
    )
    _write(out, tree, code)
    typer.echo(
        f"\nwritten: {out / 'wordnet.parquet'} (the tree), {out / 'wordnet-codes.csv'} (label, depth, digits, code)"
    )
    if not found.exact:
        raise typer.Exit(1)
    _place(out / "placement", say)


def _place(model: Path, say: Callable[[str, str], None]) -> None:
    """A classifier that places new words on the tree: trained once, asked one question, ready for more."""
    from vpunn.cli.fit import Words, fit
    from vpunn.cli.predict import predict

    if not (model / "model.json").exists():
        say("Learning where words belong, from 62,790 definitions (about half a minute)", "")
        fit(Path("wordnet-texts"), out=model, words=Words(characters=False))
    question = "a striped relative of the giraffe with a short neck, living in the forests of the Congo"
    say(f"Where does this belong? “{question}”", "")
    predict(model, ask=question, top=3)
    command = sys.argv[0] if Path(sys.argv[0]).name == "vpunn" else "vpunn"
    typer.echo(
        f'\nAsk about a word of your own:  {command} predict {model} --ask "…" --top 3   (or explain instead of predict)'
    )
    needs = "" if find_spec("starlette") and find_spec("uvicorn") else "   (needs pip install 'vpunn[web]')"
    typer.echo(f"See its beliefs on the tree in your browser:  {command} explore {model}{needs}")


def _write(out: Path, tree: Tree, code: PadicCode) -> None:
    import pandas as pd

    from vpunn.io import write_table, write_tree

    write_tree(tree, out / "wordnet.parquet")
    table = pd.DataFrame(
        {
            "label": tree.labels,
            "depth": tree.depth,
            "digits": code.format(mode="digits"),
            "code": code.format(mode="int"),
        }
    )
    write_table(table, out / "wordnet-codes.csv")
