"""The paper's figures: all of them from a small tree, the numbers of a few read back, saved models used, gaps announced."""

from __future__ import annotations

import builtins
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from commands import run
from strategies import random_tree
from vpunn import HiPaN, Tree, VpunnError, write_tree
from vpunn.cli import app
from vpunn.metrics import reliability
from vpunn.paper._figure_inputs import Inputs
from vpunn.paper.contents import PICTURES
from vpunn.paper.figures import draw_figures, find_figures, from_report

TREE = random_tree(900, 7, 60)


@pytest.fixture(scope="module")
def study() -> Inputs:
    return Inputs("small", "a random tree", TREE)


def test_nineteen_figures_each_with_a_caption():
    assert [figure.key for figure in PICTURES] == [f"F{i}" for i in range(1, 20)]
    assert all(figure.title and figure.moral.endswith(".") and figure.paper.endswith(".") for figure in PICTURES)


def test_names_are_understood_or_refused():
    assert [figure.key for figure in find_figures(["f13", "16a", "F16", "07"])] == ["F13", "F16", "F7"]
    assert len(find_figures(None)) == 19
    with pytest.raises(VpunnError, match="no figure 'F20'"):
        find_figures(["F20"])


def test_every_figure_of_a_small_tree_is_written(study, tmp_path):
    names = [figure.key for figure in PICTURES if figure.key != "F17"]  # UMAP takes a minute to compile
    done = list(draw_figures(study, names, tmp_path))
    assert [error for _, _, error in done if error] == []
    for figure, caption, _ in done:
        stem = f"F{int(figure.key[1:]):02d}"
        assert (tmp_path / f"{stem}.png").read_bytes()[:4] == b"\x89PNG"
        assert b"</svg>" in (tmp_path / f"{stem}.svg").read_bytes()
        assert caption.startswith(f"{figure.key}. ") and f"Drawn from {figure.source}" in caption
    text = (tmp_path / "captions.md").read_text(encoding="utf-8")
    assert text.count("![F") == 18
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == 18 and "http" not in page


def test_the_same_figure_twice_is_the_same_bytes(study, tmp_path):
    for folder in ("a", "b"):
        list(draw_figures(Inputs("small", "a random tree", TREE), ["F13", "F9"], tmp_path / folder))
    for name in ("F13.png", "F13.svg", "F09.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_held_out_items_are_the_hidden_leaves(study):
    curves = study.held_out["HiPaN, nothing shown"]
    assert study.held_out.keys() == {"HiPaN, shown the digit", "HiPaN, nothing shown"}
    assert curves[1].n_items.sum() == int(0.2 * len(TREE.leaves))


def test_saved_models_are_drawn_without_training(tmp_path, monkeypatch):
    model = HiPaN.DS(TREE, sweeps=2).fit()
    (tmp_path / "checkpoints").mkdir()
    model.save(tmp_path / "checkpoints" / "gist")
    HiPaN.DS(TREE, sweeps=1).fit().save(tmp_path / "checkpoints" / "a-variant")
    model.save(tmp_path / "checkpoints" / "hipan-ds")
    study = from_report("small", "a random tree", TREE, tmp_path)
    assert [one.result_.epochs for one in study.saved] == [2, 1, 2]  # the paper's run first, then by name

    def refuse(*args, **kwargs):
        raise AssertionError("trained although a model was saved")

    from vpunn import vapo

    monkeypatch.setattr(vapo, "minimize", refuse)
    done = list(draw_figures(study, ["F7", "F8"], tmp_path / "out"))
    assert [error for _, _, error in done] == [None, None]
    history = study.training["HiPaN, gist"].history
    assert history == pytest.approx(model.result_.history)
    assert study.coefficients == pytest.approx(np.nan_to_num(model.coefficients_))
    with pytest.raises(VpunnError, match="no saved model"):
        from_report("small", "a random tree", TREE, tmp_path / "out")
    with pytest.raises(VpunnError, match="no model under .* belongs to other"):
        from_report("other", "another tree", random_tree(50), tmp_path)


def test_findings_without_models_are_drawn_and_nothing_is_trained(tmp_path):
    """A report of T15 alone has no model: F10 and F19 are its findings, F7 says what it lacks."""
    sure = np.linspace(0.05, 0.95, 60)
    curve = reliability(sure, np.arange(60) % 3 > 0, bins=5)
    kept = [np.asarray(v).tolist() for v in curve]
    found = {"T15": [{"task": "t", "rows": 60, "curves": {"1": kept}}]}
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "facts.json").write_text(json.dumps(found))
    study = from_report("small", "a random tree", TREE, tmp_path)
    errors = [error for _, _, error in draw_figures(study, ["F7", "F10", "F19"], tmp_path / "out")]
    assert "no saved model under" in str(errors[0])
    assert errors[1:] == [None, None]
    assert np.array_equal(study.held_out["HiPaNClassifier (t)"][1].n_items, curve.n_items)


def test_a_missing_extra_skips_the_figure_and_fails(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "networkx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    done = list(draw_figures(Inputs("small", "a random tree", TREE), ["F12", "F13"], tmp_path))
    assert "vpunn[figures]" in str(done[0][2]) and done[1][2] is None
    assert not (tmp_path / "F12.png").exists() and (tmp_path / "F13.png").exists()


def test_command(tmp_path):
    write_tree(TREE, tmp_path / "small.json")
    where = ("--data", tmp_path / "small.json", "--out")
    said = run(app, "figures", "F13", "F3", *where, tmp_path / "out")
    assert "F13. Box counting (small)" in said and (tmp_path / "out" / "F03.svg").exists()
    with pytest.raises(VpunnError, match="no figure 'F99'"):
        run(app, "figures", "F99", *where, tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_tree_of_ones_own_gets_its_own_figures_only(tmp_path):
    """F2, F3, F4 and F17 are about no tree or another one; F10 and F19 need more leaves than three."""
    write_tree(Tree.from_paths(["a/b/c", "a/b/d", "a/e"], sep="/"), tmp_path / "tiny.json")
    found = CliRunner().invoke(app, ["figures", "--data", str(tmp_path / "tiny.json"), "--out", str(tmp_path / "out")])
    assert found.exit_code == 1
    assert "left out: F2, F3, F4, F17, which are not about" in found.stderr
    assert "F10 skipped" in found.stderr and "F19 skipped" in found.stderr
    drawn = {path.stem for path in (tmp_path / "out").glob("*.png")}
    assert not drawn & {"F02", "F03", "F04", "F10", "F17", "F19"} and "F13" in drawn
