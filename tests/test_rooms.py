"""Each room imports only what stands to its left (the order of CONTRIBUTING.md), checked on the syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import vpunn

ROOT = Path(vpunn.__file__).parent

#: Rooms from left to right; those of one line stand side by side and must not import each other.
ORDER: list[set[str]] = [
    {"errors", "_types"},
    {"padic", "_arrays", "_compiled", "_cost", "_progress", "_rows", "_seed", "_show", "_sklearn", "_threads"},
    {"files"},
    {"store"},
    {"tree"},
    {"codes"},
    {"io"},
    {"metrics"},
    {"text"},
    {"datasets"},
    {"network"},
    {"vapo"},
    {"regress"},
    {"hipan"},
    {"tables"},
    {"hipaq", "tabular"},
    {"explanations"},
    {"torch"},
    {"scale"},
    {"structure"},
    {"plot"},
    {"report"},
    {"paper"},
    {"web"},
    {"cli"},
    {"__init__"},
    {"__main__"},
]
PLACE = {room: place for place, rooms in enumerate(ORDER) for room in rooms}

#: Imports inside a function that reach to the right, each with its reason.
LATER = {
    ("tree", "io"): "Tree.to_* writes through the writers",
    ("tree", "plot"): "Tree.plot draws itself",
    ("tree", "web"): "Tree.explore opens the explorer",
    ("hipan", "web"): "HiPaNClassifier.explore opens the explorer",
    ("tables", "web"): "a model of tables explores itself",
    ("store", "__init__"): "a saved model says which version wrote it",
    ("structure", "plot"): "findings draw themselves",
}


#: Modules with a leading underscore that other rooms take from, each with what they take.
BORROWED = {
    "tree._edges": "how to settle what edges leave open, and how messages call their rows",
    "tree._loops": "walks that need no compiler, for small trees",
    "tree._parents": "sets of nodes and further parents, checked",
    "codes._kernels": "digits along paths",
    "codes._text": "the names of the print modes",
    "regress._pruning_kernels": "sums along paths, for lengths from the root",
    "vapo._kernels": "the sweeps of the two-logit losses",
    "paper._figure_inputs": "what `vpunn figures` draws from",
    "paper.reports._run": "what reports keep on disk",
}


def room_of(module: str) -> str:
    """The room a module ``vpunn.room.module`` belongs to; the package itself for ``vpunn``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """The rooms a file imports, each with whether that happens when the file itself is imported."""
    syntax = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(syntax)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    typing = {
        id(node)
        for block in ast.walk(syntax)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(syntax):
        if id(node) in typing:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "vpunn":
            if node.module == "vpunn":
                names = [alias.name for alias in node.names]
                yield from ((name if name in PLACE else "__init__", id(node) not in inside) for name in names)
            else:
                yield room_of(node.module), id(node) not in inside
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "vpunn":
                    yield room_of(alias.name), id(node) not in inside


def modules() -> list[tuple[str, Path]]:
    """(room, file) of every module of the package."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        inner = path.relative_to(ROOT).parts
        found.append((inner[0] if len(inner) > 1 else path.stem, path))
    return found


def test_every_module_stands_in_a_known_room():
    assert {room for room, _ in modules()} <= set(PLACE)


def test_rooms_import_only_what_stands_left_of_them():
    wrong = []
    for room, path in modules():
        for target, at_import in imports_of(path):
            left = target == room or PLACE[target] < PLACE[room]
            version = target == "__init__" and room in {"cli", "report", "web"}  # they print the version
            if not left and not version and (at_import or (room, target) not in LATER):
                wrong.append(f"{path.relative_to(ROOT)} imports {target}{'' if at_import else ' inside a function'}")
    assert wrong == []


def test_private_modules_serve_their_room():
    taken = set()
    for room, path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vpunn."):
                for alias in node.names:
                    parts = [*node.module.split(".")[1:], alias.name]
                    hidden = [i for i, part in enumerate(parts) if i and part.startswith("_")]
                    if hidden and parts[0] != room:
                        taken.add(".".join(parts[: hidden[0] + 1]))
    assert taken == set(BORROWED)


def test_the_list_of_exceptions_names_only_imports_that_exist():
    seen = {(room, target) for room, path in modules() for target, at_import in imports_of(path) if not at_import}
    assert set(LATER) <= seen


def test_contributing_names_every_room():
    guide = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    first = [line.split("|")[1] for line in guide.splitlines() if line.startswith("| `")]
    rooms = {room for room, _ in modules()} - {"__init__", "__main__"}
    assert {name for cell in first for name in re.findall(r"`(\w+)`", cell)} == rooms
    picture = guide[guide.index("    errors, padic") : guide.index("| room |")]
    named = re.findall(r"(?<![a-z_])[a-z]+", picture)
    assert named == [room for rooms in ORDER for room in sorted(rooms) if not room.startswith("_")]
