"""``python tools/cli_page.py > docs/cli.md``: the page of the command line, made by running it.

Every command is asked for its own help, every example is run on small files in a folder of its own, and the options of the
readers come from their signatures, so that the page cannot say what is not so; a test makes it again and compares.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from vpunn import _progress, cli

#: What the options of the tree readers mean; a reader's option that is not here fails the test of this page.
READER_OPTIONS = {
    "add_root": "name of a new root above several nodes without a parent",
    "child": "column of children in an edge table",
    "children": "key of the list of children (default: children)",
    "delimiter": "what separates cells; found in the first line by itself",
    "duplicates": "repeated edges: `drop` (default) or `error`",
    "encoding": "encoding of the file, such as `latin-1`",
    "files": "`false`: folders only",
    "gaps": "a blank level above a given one: `error` (default), `skip` it, or `fill` it as (missing)",
    "header": "`true` or `false`: whether the first line names the columns",
    "hidden": "`true`: also files whose name starts with a dot",
    "label": "column of names beside a column of ids",
    "levels": "level columns, broadest first: `levels=order,family,genus`",
    "max_nodes": "how many nodes `--policy unfold` may make",
    "name": "key of the name (default: name)",
    "namespace": "keep one namespace of an ontology",
    "no_parent": "values of the parent column that mean: no parent",
    "numbers": "whether labels that are all whole numbers are numbers",
    "tree_name": "which tree of a file with several (default: the first)",
    "obsolete": "`true`: keep obsolete terms",
    "parent": "column of parents in an edge table",
    "paths": "column of paths such as animal/bird/owl",
    "relations": "relations that lead to a parent: `relations=is_a,part_of`",
    "root": "keep this node and what lies below it (level and path tables: name of the root)",
    "self_parents": "a node that is its own parent: `error` (default) or `root`",
    "sep": "what separates the labels of a path",
}

TREE = "parent,child\nanimal,bird\nanimal,fish\nbird,owl\nbird,robin\nfish,carp\nfish,eel\n"
NEWICK = "((Homo_sapiens:1,Pan_troglodytes:1)Hominini:0.5,Gorilla_gorilla:1.5)Homininae;\n"
APES = "species,kg\nHomo sapiens,62\nPan troglodytes,45\nGorilla gorilla,140\n"
MASSES = """order,genus,species,log_mass
Rodentia,Mus,musculus,1.3
Rodentia,Mus,caroli,1.2
Rodentia,Rattus,rattus,2.2
Rodentia,Rattus,norvegicus,2.5
Cetacea,Orcinus,orca,6.6
Cetacea,Tursiops,truncatus,5.3
Cetacea,,incertus,5.9
"""


def messy_shop() -> str:
    """A shop's table as it comes: semicolons, decimal commas, codes with leading zeros, blanks, repeated rows."""
    things = {
        "Garden;Tools": ("steel rake", "garden spade", "pruning shears", "hand trowel"),
        "Garden;Plants": ("red rose bush", "lavender plant", "tomato seedling", "fern in a pot"),
        "Kitchen;Pans": ("frying pan", "cast iron pan", "sauce pan with lid", "steel wok"),
        "Kitchen;Knives": ("bread knife", "paring knife", "chef knife steel", "knife block"),
    }
    lines = ["sku;title;dept;category;price"]
    for k, (place, titles) in enumerate(things.items()):
        for i, title in enumerate(titles):
            for j, word in enumerate(("small", "large", "classic", "budget")):
                lines.append(f"0{k}{i}{j};{word} {title};{place};{4 + 9 * k + i + j},50")
    lines[7] = lines[7].replace(";Garden;", "; Garden ;")
    lines[20] = lines[20].replace(";Garden;Plants;", ";Garden;;")
    lines[40] = lines[40].replace(";Kitchen;", ";;")
    return "\n".join([*lines, *lines[1:3]]) + "\n"


def catalogue() -> str:
    """Things of the shop, each with its category as a path in one cell."""
    rows = [line.split(";") for line in messy_shop().splitlines()[1:19] + messy_shop().splitlines()[41:60]]
    return "title,category\n" + "".join(f"{row[1]},{row[2].strip()} > {row[3]}\n" for row in rows)


NEW_ROWS = """sku;title;dept;category
0901;huge frying pan;Kitchen;Pans
0902;rose bush, white;Garden;Plants
0903;oak spade;Garden;Tools
0904;garden gnome;Garden;Figures
0905;xyzzy;Kitchen;Knives
"""

TAGS = "title,tags\n" + "".join(
    f"{word} {title},{tags}\n"
    for word in ("small", "large", "classic", "budget", "old", "new")
    for title, tags in {
        "steel knife": "kitchen|metal",
        "steel rake": "garden|metal",
        "oak spoon": "kitchen|wood",
        "oak bench": "garden|wood",
        "voucher": "",
    }.items()
)

#: Examples by command; each runs in the folder that the ones before it left.
EXAMPLES = {
    "tree info": ["vpunn tree info zoo.csv"],
    "tree check": ["vpunn tree check zoo.csv"],
    "tree convert": ["vpunn tree convert zoo.csv zoo.nwk"],
    "encode": ["vpunn encode zoo.csv owl eel --mode digits"],
    "decode": ["vpunn decode zoo.csv 4"],
    "distance": [
        "vpunn distance zoo.csv owl eel",
        "vpunn distance apes.nwk Homo_sapiens Pan_troglodytes Gorilla_gorilla --matrix",
        "vpunn distance apes.nwk 'homo sapiens' 'pan troglodytes' --match loose",
    ],
    "ball": ["vpunn ball zoo.csv bird"],
    "data list": ["vpunn data list --json | head -n 6"],
    "info": ["vpunn info mass | head -n 6"],
    "discover": ["vpunn discover shop.csv --drop sku --drop title --K 2 --depth 1"],
    "report": ["vpunn report zoo.csv --out zoo.html", "vpunn report mass mass.csv --out mass.html"],
    "figures": ["vpunn figures F14 --data zoo.csv --out figures"],
    "hipan fit": ["vpunn hipan fit zoo.csv --out model"],
    "hipan digits": ["vpunn hipan digits model"],
    "hipan proba": ["vpunn hipan proba model owl --rule given"],
    "hipan score": ["vpunn hipan score model"],
    "hipaq trees": ["vpunn hipaq trees --max-nodes 4"],
    "hipaq codes": ["vpunn hipaq codes zoo.csv --canonical"],
    "hipaq groups": ["vpunn hipaq groups --id 8,3"],
    "hipaq subgroups": ["vpunn hipaq subgroups 8,4"],
    "hipaq decays": ["vpunn hipaq decays | head -n 12"],
    "hipaq hydrogen": ["vpunn hipaq hydrogen --n 2 --noise 0,0.1 --seeds 1"],
    "tabular fit": ["vpunn tabular fit shop.csv --epochs 0 --out table"],
}
#: Commands that run for minutes, wait for visitors, or print what belongs to one machine: where their output is shown.
ELSEWHERE = {
    "demo": "The model it leaves behind is the one in the explorer's picture on the project's front page.",
    "hipaq table": "It counts the seconds of the machine it runs on; [one machine's](hipaq.md).",
    "explore": "It needs `pip install '.[web]'`. What it shows, with pictures: [The explorer](explorer.md).",
    "serve": "It needs `pip install '.[web]'`. Requests and answers: [The explorer](explorer.md).",
    "reproduce": "What it makes, table by table: [The paper](paper.md).",
    "tabular generate": "A worked example: [Tables](tabular.md).",
    "tabular edit": "A worked example: [Tables](tabular.md).",
    "data fetch": "Prints the path of every file, one per line.",
    "data path": "Prints one path per line, for `$(vpunn data path wordnet)`.",
}
#: Commands whose examples stand in the sections above the list.
ABOVE = ("fit", "predict", "evaluate", "explain")


def page() -> str:
    """The whole page in Markdown."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in {
            "zoo.csv": TREE,
            "apes.nwk": NEWICK,
            "apes.csv": APES,
            "mass.csv": MASSES,
            "shop.csv": messy_shop(),
            "new.csv": NEW_ROWS,
            "tags.csv": TAGS,
            "catalogue.csv": catalogue(),
        }.items():
            Path(name).write_text(text, encoding="utf-8")
        parts = [
            "# The command line",
            INTRODUCTION,
            worked_example(),
            paths_in_cells(),
            words_and_numbers(),
            several_labels(),
            regression(),
            "## Every command",
            *commands(),
            readers(),
        ]
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """This page is made by `python tools/cli_page.py > docs/cli.md`, which runs every example; a test makes it again
and compares. Every command prints a table or, with `--json`, one JSON document. A mistake is one sentence on standard error and
exit code 1 (2 for a word that is no option); `vpunn --debug …` shows the traceback, `vpunn --quiet …` no progress. `-` is
standard input or output. Output files are checked before work starts and appear whole or not at all."""


def worked_example() -> str:
    """From a messy table to an exported prediction, every step run."""
    fit = "vpunn fit shop.csv --levels dept,category --text title --out shop"
    steps = [
        "## From a messy CSV to a scored, explained, exported prediction",
        "A shop's export has semicolons, decimal commas, article numbers with leading zeros, blanks around names, blank levels and "
        "repeated rows. (Decimal commas are read where cells are not separated by commas. In a file that is, `7,7` in quotes may "
        "mean thousands too, so it is refused: write 7.7.)",
        fenced("$ head -n 4 shop.csv\n" + "\n".join(messy_shop().splitlines()[:4])),
        "Without options, `fit` shows what every column looks like and a command to copy:",
        run("vpunn fit shop.csv"),
        "The first line of a `fit` says what was read, the notes what was odd. A blank at the end of the level columns ends "
        "the path. A blank above a given level is filled in as other rows have it; where none tells, the level is called "
        '"(missing)". Rows without any label are left out, here and by `evaluate`. `--folds` scores rows '
        "that the model has not seen (rows with the same inputs stay together); what is written has seen all rows.",
        run(f"{fit} --folds 4"),
        "New rows: `--keep` hands columns through as they are written, and a row without a single known word says so.",
        run("vpunn predict shop new.csv --keep sku"),
        "A surer, broader answer where the model is not sure, and the same as a file (`.csv`, `.tsv`, `.xlsx`, `.parquet`, "
        "`.jsonl`):",
        run("vpunn predict shop new.csv --keep sku --stop threshold --threshold 0.8 --out answers.csv"),
        fenced("$ cat answers.csv\n" + Path("answers.csv").read_text(encoding="utf-8").rstrip()),
        "Against known answers. A category the model has never seen is scored at its deepest known ancestor, and counted "
        "(`--unseen` chooses otherwise):",
        run("vpunn evaluate shop new.csv"),
        "Why? What each branch contributes, in words of the text; the rest is its constant and words that are not listed:",
        run("vpunn explain shop new.csv --row 0"),
        "And one page to hand on: scores, calibration, where it goes wrong, examples. It scores the same rows by the same rule. "
        "Models of label sets and of numbers get theirs from the same command.",
        run("vpunn report shop new.csv --out shop.html"),
    ]
    return "\n\n".join(steps)


def paths_in_cells() -> str:
    """One column that holds whole paths."""
    steps = [
        "## Categories written as paths",
        "Where one cell holds the whole path, `--path-sep` says what stands between its levels; the model keeps that. Codes whose "
        "beginnings are their groups (ICD, ATC, NACE) become levels as [this guide](guides/codes.md) shows.",
        fenced("$ head -n 3 catalogue.csv\n" + "\n".join(catalogue().splitlines()[:3])),
        run("vpunn fit catalogue.csv --target category --path-sep '>' --text title --out paths"),
        run("vpunn predict paths --ask 'steel spade' --top 2"),
    ]
    return "\n\n".join(steps)


def words_and_numbers() -> str:
    """Both kinds of columns in one model."""
    steps = [
        "## Texts and numbers together",
        "`--text` and `--columns` in one `fit` make two blocks, words and numbers, that are weighed on held-out rows. "
        "`--categories` names columns of a few names each, such as a colour, which become numbers too. "
        "`--groups` names a column with the source of a row (a "
        "shop, a patient): its rows are held out together, so that scores and probabilities are those of a new source.",
        run("vpunn fit shop.csv --levels dept,category --text title --columns price --groups sku --out both"),
        run("vpunn explain both shop.csv --row 3"),
        "A missing number (an empty cell, NA, NaN, null) is read as the median of its column in the training rows, which the model "
        "keeps; the row is answered from all the rest, and one sentence says how many rows and which columns that were. Such "
        "answers are surer than they should be. A row without any number and known word has `known` false, and a column without "
        "any number in a table of several rows is refused. `--missing` leaves such rows out, or refuses them. A cell "
        "that is something else (`-`, which may mean nothing or zero; `?`; `<5`) is refused with block, column and row: write a "
        "number or empty it. Columns that no option names are left out; if none is named, all are read as they look.",
    ]
    return "\n\n".join(steps)


def several_labels() -> str:
    """Label sets, and a tree whose names are written otherwise."""
    steps = [
        "## Several labels in a cell",
        "`--label-sep` says what stands between the labels of a cell; an empty cell is a row without a label, which teaches that. "
        "Lists in JSON lines and Parquet are read as they are. `predict` gives the labels that are more likely than not and the "
        "least of their probabilities, `--top` a row per label, `--stop risk` a set that misses few; "
        "[label sets](label_sets.md) says more.",
        run("vpunn fit tags.csv --text title --target tags --label-sep '|' --out tags"),
        run("vpunn predict tags --ask 'steel ladder'"),
        run("vpunn explain tags --ask 'steel ladder'"),
        "The folder keeps its columns, so Python can ask it too: `vpunn.load('tags').predict(frame)` gives a set per row.",
    ]
    return "\n\n".join(steps)


def regression() -> str:
    """A number from level columns."""
    steps = [
        "## A number from levels",
        "`--regress` predicts a number from level columns (or the label column of a `--tree`, with `--match loose` for "
        "Homo_sapiens ~ Homo sapiens) and, with `--columns`, covariates. Predictions have a standard deviation and a 90 % "
        "interval; unseen genera borrow from their order. Masses and prices go in as logarithms, as here: intervals of the numbers "
        "themselves may begin below zero. Rows without the number that is to be learned are left out.",
        run("vpunn fit mass.csv --regress log_mass --levels order,genus --out mass"),
        run("vpunn predict mass mass.csv --keep species"),
        "A model keeps how names were matched, so new tables may write them as the first did:",
        run("vpunn fit apes.csv --regress kg --levels species --tree apes.nwk --match loose --out apes"),
        run("vpunn predict apes apes.csv"),
    ]
    return "\n\n".join(steps)


def commands() -> Iterator[str]:
    """A section per command: what it does, its arguments and options, and examples."""
    for words, command in found_commands(typer.main.get_command(cli.app)):
        name = " ".join(words)
        lines = [f"### `vpunn {name}`", " ".join((command.help or "").split())]
        rows = []
        for parameter in command.params:
            if parameter.name == "help":
                continue
            flags = ", ".join(f"`{flag}`" for flag in [*parameter.opts, *parameter.secondary_opts])
            is_option = parameter.param_type_name == "option"
            shown = flags if is_option else f"`{parameter.name.upper()}`"
            unset = (
                parameter.default is None
                or parameter.default is False
                or not isinstance(parameter.default, str | int | float | Path)
            )
            default = "" if unset else f" (default: {parameter.default})"
            needed = " **(required)**" if parameter.required and is_option else ""
            rows.append(
                f"| {shown} | {' '.join((parameter.help or '').split()).replace('|', chr(92) + '|')}{default}{needed} |"
            )
        if rows:
            lines.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows]))
        lines += [run(example) for example in EXAMPLES.get(name, ())]
        lines += ["Examples with their output stand above."] if name in ABOVE else []
        lines += [ELSEWHERE[name]] if name in ELSEWHERE else []
        yield "\n\n".join(line for line in lines if line)


def found_commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below a group, with the words that call them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from found_commands(command, (*words, name))
        elif not command.hidden:
            yield (*words, name), command


def readers() -> str:
    """The options of every tree reader."""
    from vpunn.io import _FORMATS, reader_options

    rows = []
    for format, form in _FORMATS.items():
        reader = getattr(import_module(f"vpunn.io.{form.file}"), form.read)
        names = sorted(reader_options(reader) - {"policy"})
        summary = " ".join((inspect.getdoc(reader) or "").split("\n\n")[0].split())
        rows.append(
            f"### `--format {format}`\n\n{summary}\n\n"
            + "\n".join(
                [
                    "| option | meaning |",
                    "|---|---|",
                    *[f"| `-o {name}=…` | {READER_OPTIONS[name]} |" for name in names],
                ]
            )
        )
    head = (
        "## Options of the tree readers\n\nA tree is read from a file, from `-`, from a model folder or from a data set. Its "
        "format follows from the ending or the content; `--format` says otherwise, `--policy` (first, deepest, most-specific, "
        "unfold) chooses among several parents, and `-o name=value` sets what belongs to one format:"
    )
    return "\n\n".join([head, *rows])


def run(command: str) -> str:
    """A command and what it prints, fenced."""
    plain, _, cut = command.partition(" | head -n ")
    out, err = io.StringIO(), io.StringIO()
    kept, quiet, shown = sys.argv, _progress.quiet, warnings.showwarning
    sys.argv = shlex.split(plain)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            os.environ["COLUMNS"] = "160"
            sys.argv.insert(1, "--quiet")
            cli.main()
    except SystemExit as exit:
        if exit.code:
            raise RuntimeError(f"{command} failed: {err.getvalue()}") from None
    finally:
        sys.argv, _progress.quiet, warnings.showwarning = kept, quiet, shown
    lines = (err.getvalue() + out.getvalue()).rstrip().splitlines()
    return fenced("\n".join([f"$ {command}", *(lines[: int(cut)] if cut else lines)]))


def fenced(text: str) -> str:
    """A block of text as it stands."""
    return f"```text\n{text}\n```"


if __name__ == "__main__":
    sys.stdout.write(page())
