"""docs/cli.md is what `python tools/cli_page.py` makes of the commands as they are."""

from __future__ import annotations

import re
from pathlib import Path

from inputs import tool

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def plain(text):
    """Without what another processor or version of a library may change: digits and the width of columns."""
    return re.sub(r"[ ]+", " ", re.sub(r"[-+]?[0-9][0-9.,e-]*", "#", text))


def test_the_page_is_what_the_commands_say():
    made, written = plain(tool("cli_page").page()).splitlines(), plain(PAGE.read_text(encoding="utf-8")).splitlines()
    assert made == written, "run `python tools/cli_page.py > docs/cli.md`"
