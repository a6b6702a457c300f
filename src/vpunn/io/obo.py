"""OBO, the format of the Gene Ontology and most other biological ontologies."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vpunn.errors import DataError, DataWarning, TreeError, advice, examples
from vpunn.files import Source
from vpunn.tree import Tree
from vpunn.tree.build import tree_from_edges, with_report
from vpunn.tree.dag import report_edges


@dataclass
class Term:
    """One ``[Term]`` stanza. ``links`` are (relation, parent id) pairs, ``synonyms`` (text, scope) pairs."""

    line: int
    id: str = ""
    name: str = ""
    namespace: str = ""
    definition: str = ""
    obsolete: bool = False
    links: list[tuple[str, str]] = field(default_factory=list)
    alt_ids: list[str] = field(default_factory=list)
    synonyms: list[tuple[str, str]] = field(default_factory=list)
    xrefs: list[str] = field(default_factory=list)


def read_obo(
    source: Source,
    *,
    policy: str = "first",
    relations: Sequence[str] = ("is_a",),
    namespace: str | Sequence[str] | None = None,
    obsolete: bool = False,
    encoding: str = "utf-8",
    **edges: Any,
) -> Tree:
    """The terms of an ontology; labels are term ids.

    ``relations`` are the links that lead to a parent (``is_a``, and names of relationships such as ``part_of``);
    ``namespace`` keeps the terms of one or some namespaces; obsolete terms are left out unless ``obsolete``. Links to
    terms that are left out are dropped and listed in the report. ``policy``, ``root``, ``add_root``… are those of
    `vpunn.tree.build.tree_from_edges`.

    Columns: ``name``, ``namespace``, ``definition``, ``alt_ids`` (a tuple of merged ids), ``synonyms`` (a tuple of
    (text, scope) pairs, the scope being EXACT, BROAD, NARROW or RELATED) and ``xref`` (a tuple of names in other
    databases, such as ``EC:2.7.11.1``).
    """
    everything = list(read_terms(source, encoding))
    relations = [relations] if isinstance(relations, str) else list(relations)
    _check_relations(source, everything, relations)
    terms = _select(source, everything, namespace, obsolete)
    kept = {term.id for term in terms}
    links = [(up, term.id) for term in terms for relation, up in term.links if relation in relations]
    rows: list[tuple[str | None, str]] = [link for link in links if link[0] in kept]
    lost = [link for link in links if link[0] not in kept]
    with_parent = {child for _, child in rows}
    rows += [(None, term.id) for term in terms if term.id not in with_parent]
    columns = {
        "name": {term.id: term.name for term in terms},
        "namespace": {term.id: term.namespace for term in terms},
        "definition": {term.id: term.definition for term in terms},
        "alt_ids": {term.id: tuple(term.alt_ids) for term in terms},
        "synonyms": {term.id: tuple(term.synonyms) for term in terms},
        "xref": {term.id: tuple(term.xrefs) for term in terms},
    }
    try:
        tree = tree_from_edges(rows, policy=policy, columns=columns, **edges)
    except TreeError as error:
        spaces = sorted({term.namespace for term in terms})
        if namespace is None and len(spaces) > 1 and "no parent" in str(error):
            raise TreeError(
                f"{str(error)[:-1]}, or {advice('namespace', '…')} to read one of {examples(spaces, limit=10)}."
            ) from None
        raise
    if not lost:
        return tree
    ends = np.array(lost, dtype=object)
    text = f"dropped {len(lost):,} links to terms that were left out"
    return with_report(tree, report_edges(text, ends[:, 0], ends[:, 1], "parent left out"))


def _check_relations(source: Source, terms: list[Term], relations: list[str]) -> None:
    present = {relation for term in terms for relation, _ in term.links}
    unknown = [relation for relation in relations if relation not in present]
    if unknown and terms and present:
        there = examples(sorted(present), limit=20)
        raise DataError(f"{source.name}: no term has the relation {examples(unknown)}; there are {there}.")


def _select(source: Source, terms: list[Term], namespace: str | Sequence[str] | None, obsolete: bool) -> list[Term]:
    """The terms that are wanted, after checking that there are any."""
    if not terms:
        raise DataError(f"{source.name}: there is no [Term] in this file; is it an OBO file?")
    wanted = None if namespace is None else {namespace} if isinstance(namespace, str) else set(namespace)
    chosen = [
        term for term in terms if (obsolete or not term.obsolete) and (wanted is None or term.namespace in wanted)
    ]
    if not chosen:
        spaces = examples(sorted({term.namespace for term in terms}), limit=10)
        raise DataError(f"{source.name}: no term is left for the namespace {namespace!r}; the namespaces are {spaces}.")
    return chosen


_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"\s*(\w*)')
_END = re.compile(r"(?<!\s)\s+[!{].*$")  # trailing modifiers and the comment; tried once per run of blanks, not at each
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "W": " ", "t": "\t"}
_TAGS = {"id", "name", "namespace", "def", "synonym", "is_a", "relationship", "alt_id", "xref", "is_obsolete"}


def read_terms(source: Source, encoding: str = "utf-8") -> Iterator[Term]:
    """The ``[Term]`` stanzas in file order. Malformed lines are errors that name the line."""
    term: Term | None = None
    default_namespace, in_header, seen = "", True, dict[str, int]()
    for number, raw in enumerate(_lines(source.text(encoding)), 1):
        tag, colon, value = raw.partition(":")
        if colon and tag in _TAGS:  # the common case first
            if term is not None:
                _add(source, term, tag, value.strip(), number)
            continue
        line = raw.strip()
        if line.startswith("["):
            if term is not None:
                yield _finished(source, term, default_namespace, seen)
            term = Term(number) if line.startswith("[Term]") else None
            in_header = False
        elif not colon and line and not line.startswith("!"):
            raise source.line_error(number, f"{line[:40]!r} is not of the form 'tag: value'; is this an OBO file?")
        elif in_header and tag == "default-namespace":
            default_namespace = value.strip()
    if term is not None:
        yield _finished(source, term, default_namespace, seen)


def _lines(text: str) -> list[str]:
    """Lines that end as Unix, Windows or an old Macintosh ends them."""
    return text.split("\n") if "\n" in text else text.split("\r")


def _add(source: Source, term: Term, tag: str, value: str, number: int) -> None:
    """Note one line of a stanza."""
    if tag in ("def", "synonym"):
        match = _STRING.match(value)
        if not match:
            raise source.line_error(
                number, f"the text after '{tag}:' must stand in double quotes; add the missing quote."
            )
        if tag == "def":
            term.definition = _plain(match[1])
        else:
            term.synonyms.append((_plain(match[1]), match[2] or "RELATED"))
        return
    if tag == "name":  # names may contain braces, so nothing is cut off
        term.name = _plain(value)
        return
    if tag == "xref":  # EC:1.1.1.1 "what it is called there" {modifiers}; blanks inside are escaped
        term.xrefs.extend(_plain(word) for word in value.split(None, 1)[:1])
        return
    if " " in value:
        value = _END.sub("", value)
    if tag == "is_a":
        term.links.append(("is_a", value))
    elif tag == "relationship":
        relation, _, up = value.partition(" ")
        if not up:
            raise source.line_error(number, f"'relationship: {value}' needs a relation and a term id.")
        term.links.append((relation, up.strip()))
    elif tag == "alt_id":
        term.alt_ids.append(value)
    elif tag == "is_obsolete":
        term.obsolete = value == "true"
    elif tag == "id":
        if term.id:
            raise source.line_error(
                number, f"this [Term] is called {term.id!r} already; give each term a stanza of its own."
            )
        term.id = value
    else:
        term.namespace = value


def _finished(source: Source, term: Term, default_namespace: str, seen: dict[str, int]) -> Term:
    if not term.id:
        raise source.line_error(term.line, "this [Term] has no 'id:' line; add one.")
    if term.id in seen:
        first = f"{seen[term.id]:,}"
        raise source.line_error(
            term.line, f"the term {term.id!r} was already defined in line {first}; remove one of them."
        )
    seen[term.id] = term.line
    term.namespace = term.namespace or default_namespace
    return term


def _plain(text: str) -> str:
    """Undo OBO's backslash escapes."""
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), text) if "\\" in text else text


# ---- writing -----------------------------------------------------------------------------------------------------------

#: Columns that an OBO file has tags for.
COLUMNS = ("name", "namespace", "definition", "alt_ids", "synonyms", "xref")


def write_obo(tree: Tree) -> bytes:
    """An OBO file with a term per node."""
    return to_obo(tree).encode()


def to_obo(tree: Tree) -> str:
    """A tree as OBO text: one ``[Term]`` per node in preorder, ``is_a`` its parent first and then its extra parents.

    `read_obo` with ``policy="first"`` reads the same tree back, extra parents and the columns of `read_obo` included. Other
    columns are left out with a warning. Labels must be text without blanks: they become ids.

    >>> tree = Tree.from_edges([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c")])
    >>> print(to_obo(tree).split("[Term]")[3])
    <BLANKLINE>
    id: c
    is_a: a
    is_a: b
    <BLANKLINE>
    <BLANKLINE>
    """
    labels = tree.labels.tolist()
    wrong = [label for label in labels if not isinstance(label, str) or not label or re.search(r"\s|^!", label)]
    if wrong:
        raise DataError(f"labels become ids of terms, text without blanks; these are not: {examples(wrong)}.")
    if len(set(labels)) < len(labels):
        raise DataError("labels become ids of terms, and some occur twice; write a table or JSON, or rename them.")
    lost = [str(name) for name in tree.columns if name not in COLUMNS]
    if lost:
        warnings.warn(
            f"OBO has no tags for the columns {examples(lost)}, which are left out.", DataWarning, stacklevel=3
        )
    start, up = tree.all_parents
    columns = {name: tree.columns[name].tolist() for name in COLUMNS if name in tree.columns}
    lines = ["format-version: 1.2", ""]
    for i, label in enumerate(labels):
        said = {name: values[i] for name, values in columns.items() if values[i] is not None and values[i] == values[i]}
        lines += ["[Term]", f"id: {label}"]
        lines += [f"{tag}: {_escaped(said[tag])}" for tag in ("name", "namespace") if said.get(tag)]
        lines += [f"alt_id: {other}" for other in said.get("alt_ids", ())]
        lines += [f'def: "{_escaped(said["definition"], quoted=True)}" []'] if said.get("definition") else []
        lines += [f'synonym: "{_escaped(text, quoted=True)}" {scope} []' for text, scope in said.get("synonyms", ())]
        lines += [f"xref: {_escaped(name).replace(' ', chr(92) + 'W')}" for name in said.get("xref", ())]
        lines += [f"is_a: {labels[j]}" for j in up[start[i] : start[i + 1]].tolist()] + [""]
    return "\n".join(lines) + "\n"


def _escaped(text: object, quoted: bool = False) -> str:
    """OBO's backslash escapes."""
    found = str(text).replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return found.replace('"', '\\"') if quoted else found
