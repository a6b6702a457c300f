"""Every script of the gallery runs without a warning, is short, opens with a title and a moral, and draws one figure."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPTS = sorted((DOCS / "gallery").glob("plot_*.py"))


def test_there_are_enough() -> None:
    assert len(SCRIPTS) >= 20


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = script.read_text("utf-8")
    assert source.count("\n") < 80
    title, rule, moral = [line for line in ast.get_docstring(ast.parse(source)).split("\n") if line]
    assert len(title) == len(rule) and set(rule) == {"="} and moral.endswith(".")
    if "import torch" in source or "vpunn.torch" in source:
        pytest.importorskip("torch")

    shown: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    monkeypatch.setattr(sys, "argv", [str(script)])
    plt.close("all")
    try:
        runpy.run_path(str(script), run_name="__main__")
        assert len(shown) == 1
        figure = plt.figure(shown[0])
        figure.canvas.draw()
        assert any(ax.has_data() or ax.texts for ax in figure.axes)
    finally:
        plt.close("all")


def test_assets_from_elsewhere_are_found(tmp_path: Path) -> None:
    outside = runpy.run_path(str(DOCS / "check_offline.py"))["outside"]
    (tmp_path / "good.html").write_text('<a href="https://a.b/c">read</a><script src="_static/x.js"></script>')
    assert outside(tmp_path) == []
    (tmp_path / "bad.html").write_text(
        '<script src="https://cdn.a/x.js"></script><link rel="stylesheet" href="//f.a/x.css">'
    )
    (tmp_path / "bad.css").write_text("@font-face { src: url(https://fonts.a/x.woff2) }")
    assert len(outside(tmp_path)) == 3
