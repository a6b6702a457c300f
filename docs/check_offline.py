"""Fails if a built page loads anything from elsewhere: ``python docs/check_offline.py docs/_build/html``.

Links that a reader may follow are no assets; scripts, styles, fonts, images and frames are.
"""

import re
import sys
from pathlib import Path

ASSET = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data|srcset)=["'](?:https?:)?//[^"']+"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|license|author))[^>]*\bhref=["'](?:https?:)?//[^"']+"""
)
STYLE = re.compile(r"""(?:@import\s+|url\(\s*)["']?(?:https?:)?//[^"')\s]+""")


def outside(folder: Path) -> list[str]:
    """Every reference to an asset elsewhere, with the file it stands in."""
    found = []
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".html", ".css"):
            text = file.read_text("utf-8", errors="replace")
            patterns = (ASSET, STYLE) if file.suffix == ".html" else (STYLE,)
            found += [f"{file.relative_to(folder)}: {hit}" for pattern in patterns for hit in pattern.findall(text)]
    return found


if __name__ == "__main__":
    wrong = outside(Path(sys.argv[1]))
    print("\n".join(wrong) if wrong else "no page loads anything from elsewhere")
    sys.exit(bool(wrong))
