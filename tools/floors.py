"""The lowest versions that pyproject.toml declares for what `vpunn` needs, as constraints for pip.

python tools/floors.py > floors.txt && pip install -c floors.txt -e .
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def floors() -> list[str]:
    """``name==lowest`` for every dependency with a lower bound."""
    declared = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    found = [re.match(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)", line) for line in declared]
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    print("\n".join(floors()))
