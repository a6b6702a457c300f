"""Pages: text, tables and figures that print to a terminal and write themselves as JSON and one HTML file.

The HTML carries its figures inside, so it can be mailed or opened without a network. A comparison with the paper is a
table whose rows have the keys ``quantity, paper, ours, protocol, note``.
"""

from __future__ import annotations

import base64
import html
import io
import itertools
import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn._cost import machine, peak_mb
from vpunn._show import is_number, plain, rich_table, show
from vpunn.errors import DataError, VpunnError
from vpunn.files import check_path, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

#: Columns of a printed report that goes to a file or another program.
PIPED_WIDTH = 160

#: How the last line of a page begins.
FOOTER = "<footer>Made by <code>"

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; } caption, h2 { text-align: left; }
th, td { padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e3e6ea; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } figure { margin: 1rem 0 2rem; }
figure img { max-width: 100%; height: auto; } .scroll { overflow-x: auto; }
nav ul { padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; } figcaption, footer { color: #57606a; }
"""


@dataclass
class Report:
    """A list of blocks in the order they were added.

    >>> report = Report("Codes", "vpunn reproduce codes")
    >>> report.table("Sizes", [{"quantity": "leaves", "paper": 52427, "ours": 57756}])
    >>> json.loads(report.to_json())["blocks"][0]["rows"][0]["ours"]
    57756
    """

    title: str
    command: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    cpu_started: float = field(default_factory=time.process_time)
    files: dict[str, bytes] = field(default_factory=dict)

    def text(self, paragraph: str) -> None:
        """Add a paragraph."""
        self.blocks.append({"kind": "text", "text": " ".join(paragraph.split())})

    def remark(self, sentence: str) -> None:
        """Put a remark (without its full stop) at the end of the first section, where nobody misses it: what was left out."""
        headings = [i for i, block in enumerate(self.blocks) if block["kind"] == "heading"]
        end = headings[1] if len(headings) > 1 else len(self.blocks)
        self.blocks.insert(end, {"kind": "text", "text": f"{sentence[:1].upper()}{sentence[1:]}."})

    def heading(self, text: str) -> None:
        """Add a section heading."""
        self.blocks.append({"kind": "heading", "text": text})

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], *, name: str | None = None) -> None:
        """Add a table; columns are the keys of the rows in order of first appearance.

        It is also written as ``tables/<name>.csv``; by default the name is that of the title up to its colon.
        """
        columns = list(dict.fromkeys(key for row in rows for key in row))
        filled = [{key: row.get(key) for key in columns} for row in rows]
        taken = {block.get("name") for block in self.blocks}
        stem = name or re.sub(r"[^\w-]+", "-", title.split(":")[0].strip()).strip("-")[:60] or "table"
        numbered = itertools.chain([stem], (f"{stem}-{i}" for i in itertools.count(2)))
        unique = next(candidate for candidate in numbered if candidate not in taken)
        self.blocks.append({"kind": "table", "title": title, "name": unique, "columns": columns, "rows": filled})

    def csv(self, path: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Also write rows as a file of their own below the report's folder."""
        self.files[path] = _csv(list(dict.fromkeys(key for row in rows for key in row)), rows)

    def figure(self, caption: str, figure: Figure) -> None:
        """Add a matplotlib figure, rendered now."""
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130, bbox_inches="tight")
        self.blocks.append({"kind": "figure", "caption": caption, "png": picture.getvalue()})

    def provenance(self) -> dict[str, Any]:
        """How this report was made: command, version, time, memory and machine."""
        from vpunn import __version__

        return {
            "command": self.command,
            "vpunn": __version__,
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}, {machine()}",
            "libraries": ", ".join(f"{name} {version}" for name, version in _versions().items()),
            "seconds": round(time.perf_counter() - self.started, 1),
            "cpu_seconds": round(time.process_time() - self.cpu_started, 1),
            "peak_rss_mb": None if (peak := peak_mb()) is None else round(peak),
        }

    def to_json(self) -> str:
        """Everything but the pictures."""
        blocks = [{k: v for k, v in block.items() if k != "png"} for block in self.blocks]
        document = {"title": self.title, **self.provenance(), "blocks": blocks}
        return json.dumps(document, default=plain, ensure_ascii=False, indent=1)

    def to_html(self) -> str:
        """One self-contained page."""
        body = "\n".join(_html_block(block) for block in self.blocks)
        made = ", ".join(f"{key} {value}" for key, value in self.provenance().items() if key != "command")
        title = html.escape(self.title)
        command = html.escape(self.command)
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{title}</title><style>{STYLE}</style><h1>{title}</h1>\n{_contents(self.blocks)}"
            f"{body}\n{FOOTER}{command}</code> ({html.escape(made)}).</footer></html>"
        )

    @staticmethod
    def check_place(path: Path) -> None:
        """Refuse to write over a page of another program or of somebody: only a report takes the place of a report."""
        if path.is_file() and (held := path.read_bytes()) and FOOTER.encode() not in held:
            raise DataError(f"cannot write {str(path)!r}: it is no page of vpunn; name another file, or remove it.")

    def write(self, folder: str | Path) -> Path:
        """Write ``report.html``, ``report.json``, ``figure-N.png``, ``tables/*.csv`` and further files into a folder.

        Each file appears whole or not at all.
        """
        check_path(folder)
        folder = Path(folder)
        files: dict[str, bytes] = {"report.json": self.to_json().encode(), "report.html": self.to_html().encode()}
        pictures = [block["png"] for block in self.blocks if block["kind"] == "figure"]
        files |= {f"figure-{i}.png": png for i, png in enumerate(pictures, 1)}
        for block in self.blocks:
            if block["kind"] == "table":
                files[f"tables/{block['name']}.csv"] = _csv(block["columns"], block["rows"])
        files |= self.files
        try:
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                save(folder / name, content)
        except (OSError, DataError) as error:
            raise VpunnError(f"the report cannot be written to {folder} ({error}); choose another folder.") from error
        return folder

    def print(self, console: Console | None = None) -> None:
        """Print text and tables; figures are named by their captions."""
        from rich.console import Console
        from rich.text import Text

        # A file or a pipe has no width: wide enough that the columns of the widest tables keep their words.
        told = "COLUMNS" in os.environ or (sys.stdout is not None and sys.stdout.isatty())
        console = console or Console(highlight=False, emoji=False, width=None if told else PIPED_WIDTH)
        console.rule(Text(self.title), align="left")
        for block in self.blocks:
            if block["kind"] == "table":
                names, rows = block["columns"], block["rows"]
                right = [all(is_number(row[name]) for row in rows) for name in names]
                console.print(
                    rich_table(block["title"], names, right, ([show(row[name]) for name in names] for row in rows))
                )
            elif block["kind"] == "figure":
                console.print(f"[figure] {block['caption']}", style="dim", markup=False)
            elif block["kind"] == "heading":
                console.print(f"\n{block['text']}", style="bold underline", markup=False)
            else:
                console.print(block["text"], markup=False)
            console.print()


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Numbers in full, text as it is, nothing for None."""
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = ([row.get(column) for column in columns] for row in rows)
    writer.writerows(
        [["" if v is None else v.item() if isinstance(v, np.generic) else v for v in row] for row in cells]
    )
    return text.getvalue().encode()


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("numpy", "scipy", "numba"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _contents(blocks: Sequence[Mapping[str, Any]]) -> str:
    """A list of the sections, if there are enough of them to need one."""
    names = [block["text"] for block in blocks if block["kind"] == "heading"]
    links = "".join(f'<li><a href="#{_anchor(name)}">{html.escape(name)}</a>' for name in names)
    return f"<nav><ul>{links}</ul></nav>\n" if len(names) > 2 else ""


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w-]+", "-", heading.lower()).strip("-")


def _html_block(block: Mapping[str, Any]) -> str:
    if block["kind"] == "heading":
        return f'<h2 id="{_anchor(block["text"])}">{html.escape(block["text"])}</h2>'
    if block["kind"] == "text":
        return f"<p>{html.escape(block['text'])}</p>"
    if block["kind"] == "figure":
        data = base64.b64encode(block["png"]).decode()
        caption = html.escape(block["caption"])
        return f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    head = "".join(f"<th>{html.escape(str(name))}" for name in block["columns"])
    rows = "".join("<tr>" + "".join(_html_cell(row[name]) for name in block["columns"]) for row in block["rows"])
    return f"<h3>{html.escape(block['title'])}</h3><div class=scroll><table><tr>{head}{rows}</table></div>"


def _html_cell(value: object) -> str:
    return f"<td{' class=number' if is_number(value) else ''}>{html.escape(show(value))}"
