"""What users can see, as one JSON file: `python tools/record.py now.json [before.json]` also lists what differs.

Public names with their signatures, commands with their options, the API's OpenAPI document, and what the readers of trees
and tables make of a set of small files (a fingerprint, or the sentence with which they refuse). Made before and after a change
that should change nothing, or only what its note says.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import vpunn
from vpunn.io import read_table

EDGES = "parent,child,länge\nall,bird,1.5\nall,fish,\nbird,ówl,2.25\nbird,wren,3.0\n"
NUMBERED = "parent;child;w\n1;9604;1,5\n9604;9605;2,5\n9605;9606;3,25\n"
SMALL = {
    "edges": EDGES,
    "numbered": NUMBERED,
    "comma decimals": EDGES.replace(",", ";").replace(".", ","),
    "sep line": "sep=;\n" + EDGES.replace(",", ";"),
    "tabs": EDGES.replace(",", "\t"),
    "bars": EDGES.replace(",", "|"),
    "NA": EDGES.replace("fish,\n", "fish,NA\n"),
    "NA parent": "parent,child\nNA,all\nall,a\n",
    "quoted": '"parent","child"\n"all","a, b"\n"all","say ""x"""\n',
    "open quote": 'parent,child\nall,"a\nall,b\n',
    "short row": "parent,child,x\nall,a,1\nall,b\n",
    "long row": "parent,child\nall,a\nall,b,c\n",
    "no header": "all,a\nall,b\na,c\n",
    "twice named": "a,b,a\n1,2,3\n",
    "only header": "parent,child\n",
    "empty": "",
    "zero byte": "parent,child\nall,a\0b\n",
    "paths": "path\nanimal/bird/owl\nanimal/fish\n",
    "plain paths": "animal/bird/owl\nanimal/fish\n",
    "blank names": " parent , child \nall,a\n",
    "levels": "order,genus\nRodentia,Mus\nRodentia,Rattus\nPrimates,\n",
    "json lines": '{"parent": "all", "child": "a"}\n{"parent": "a", "child": "b"}\n',
    "json list": '{"a": 1}\n[1]\n',
    "newick": "((owl:1,wren:2)bird,fish)all;",
    "json": '{"name": "all", "children": [{"name": "a"}, {"name": "b"}]}',
    "obo": "format-version: 1.2\n\n[Term]\nid: A\nname: all\n\n[Term]\nid: B\nis_a: A\n",
}
ENCODINGS = ("utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


def names() -> dict[str, str]:
    """Public names of every room and of the package, with signatures."""
    rooms = ["vpunn", *(f"vpunn.{m.name}" for m in pkgutil.iter_modules(vpunn.__path__) if not m.name.startswith("_"))]
    found: dict[str, str] = {}
    for room in rooms:
        module = import_module(room)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            found[f"{room}.{name}"] = _signature(thing)
            for member in sorted(_members(thing)) if inspect.isclass(thing) else ():
                found[f"{room}.{name}.{member}"] = _signature(getattr(thing, member, None))
    return found


def _members(thing: type) -> set[str]:
    """What a class of ours has of its own and from other classes of ours."""
    ours = [kind for kind in thing.__mro__ if kind.__module__.startswith("vpunn.")]
    return {name for kind in ours for name in vars(kind) if not name.startswith("_")}


def _signature(thing: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return type(thing).__name__


def commands() -> dict[str, Any]:
    """Every command with its options, their defaults and help."""
    import typer

    from vpunn import cli

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        options = {
            " ".join(p.opts): [str(p.default), bool(p.required), getattr(p, "help", None)] for p in command.params
        }
        yield name, {"help": command.help, "options": options}
        for sub, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {sub}".strip())

    app = next(thing for thing in vars(cli).values() if isinstance(thing, typer.Typer))
    return dict(walk(typer.main.get_command(app), ""))


def readers(folder: Path) -> dict[str, Any]:
    """What every reader makes of every small file, in every encoding it can be written in."""
    found: dict[str, Any] = {}
    for name, content in SMALL.items():
        for code in ENCODINGS:
            try:
                data = content.encode(code)
            except UnicodeEncodeError:
                continue
            for ending in (".csv", ".txt"):
                path = folder / f"{name}{ending}"
                path.write_bytes(data)
                for reader in (_tree, _table, _batches):
                    found[f"{name} {code} {ending} {reader.__name__}"] = _outcome(reader, path)
    return found


def _tree(path: Path) -> str:
    tree = vpunn.read_tree(path)
    columns = {name: [str(cell) for cell in column.tolist()] for name, column in tree.columns.items()}
    return f"{tree.fingerprint} {columns} {tree.report}"


def _table(path: Path) -> str:
    return str(read_table(path).to_dict("list"))


def _batches(path: Path) -> str:
    """The same file read in blocks, as one beyond memory is."""
    from vpunn.io import streams, texts

    names = [str(name) for name in read_table(path).columns]
    block, texts.BLOCK = texts.BLOCK, 80
    try:
        tables = list(streams.read_batches(path, names))
    finally:
        texts.BLOCK = block
    return str([table.to_pydict() for table in tables])


def _outcome(reader: Callable[[Path], str], path: Path) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = reader(path)
        except Exception as error:  # what a user would see
            result = f"{type(error).__name__}: {error}"
    return [text.replace(str(path.parent), "") for text in (result, *(str(one.message) for one in said))]


def data_sets() -> dict[str, str]:
    """Fingerprints of the hierarchies that are here; those that would have to be fetched are left out."""
    from vpunn import datasets

    found = {}
    for name in ("wordnet", "go", "ncbi"):
        try:
            found[name] = getattr(datasets, f"load_{name}")().tree.fingerprint
        except Exception as error:  # not fetched, or no network
            found[name] = type(error).__name__
    return found


def record() -> dict[str, Any]:
    """Everything."""
    from vpunn.web.routes import ROUTES, openapi

    with tempfile.TemporaryDirectory() as folder:
        return {
            "names": names(),
            "commands": commands(),
            "openapi": {str(kind): openapi(ROUTES, kind, "limit") for kind in (None, "classifier", "regressor")},
            "readers": readers(Path(folder)),
            "data sets": data_sets() if os.environ.get("VPUNN_DATA_DIR") else {},
        }


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """One line for each leaf that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            at = f"{where}/{key}"
            if key not in now:
                yield f"- {at}: {before[key]}"
            elif key not in before:
                yield f"+ {at}: {now[key]}"
            else:
                yield from differences(before[key], now[key], at)
    elif before != now:
        yield f"~ {where}:\n    {before}\n    {now}"


if __name__ == "__main__":
    made = json.loads(json.dumps(record(), default=str))
    Path(sys.argv[1]).write_text(json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8")
    if len(sys.argv) > 2:
        print("\n".join(differences(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), made)))
