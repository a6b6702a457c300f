"""Write the tables of docs/paper.md from `vpunn.paper.contents`: ``python -m tools.paper_page`` (in a checkout)."""

from __future__ import annotations

import re
from pathlib import Path

from vpunn.paper.contents import page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "paper.md"


def written(text: str) -> str:
    """The page with its tables as they are now; each stands between a comment with its heading and one that says ``end``."""
    for heading, table in page().items():
        mark = f"<!-- {heading} -->\n"
        text, found = re.subn(
            f"{re.escape(mark)}.*?<!-- end -->", lambda _, t=f"{mark}{table}\n<!-- end -->": t, text, flags=re.DOTALL
        )
        assert found == 1, heading
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
