"""VAPO: runs are repeated and resumed to the bit; checkpoints of other runs are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from strategies import random_tree
from vpunn.errors import VpunnError
from vpunn.tree import Tree
from vpunn.vapo import (
    DigitHeads,
    DigitNetwork,
    Phase,
    QuadraticHeads,
    Schedule,
    SoftmaxHeads,
    minimize,
)


def problems(tree: Tree) -> dict:
    short = Schedule("short", (Phase("deep", 3, 0.03, "deep"), Phase("all", 6, 0.015)), batch=16)
    return {
        "adam": (SoftmaxHeads(tree), {"schedule": short}),
        "two-logit": (QuadraticHeads(tree, margin=0.3), {"schedule": short}),
        "full-batch": (SoftmaxHeads(tree, "markov"), {"method": "adam"}),
        "fisher": (SoftmaxHeads(tree), {"method": "fisher"}),
        "gist": (DigitHeads(tree, loss="ordinal"), {"neighbourhood": "pm1", "batch": 40}),
        "network": (DigitNetwork(tree, np.arange(tree.n_leaves) % 7, p=7), {"neighbourhood": "pm1", "batch": 20}),
    }


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("name", ["adam", "two-logit", "full-batch", "fisher", "gist", "network"])
def test_same_seed_same_bytes_and_resume_equals_uninterrupted(name: str, tmp_path, monkeypatch) -> None:
    problem, options = problems(random_tree(300, seed=7, reach=30))[name]
    options.setdefault("method", "gist" if name in ("gist", "network") else "adam")
    whole = minimize(problem, seed=4, **options)
    again = minimize(problem, seed=4, **options)
    assert whole.parameters.tobytes() == again.parameters.tobytes()
    path = tmp_path / "run"
    solver = problem.solvers[options["method"]]
    epoch = solver.epoch

    def stop_at_four(self, number):
        if number == 4:
            raise Interrupted
        return epoch(self, number)

    monkeypatch.setattr(solver, "epoch", stop_at_four)
    with pytest.raises(Interrupted):
        minimize(problem, seed=4, checkpoint=path, checkpoint_every=3, **options)
    monkeypatch.setattr(solver, "epoch", epoch)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    resumed = minimize(problem, seed=4, checkpoint=path, checkpoint_every=3, resume=True, **options)
    assert resumed.parameters.tobytes() == whole.parameters.tobytes()
    assert resumed.history.tobytes() == whole.history.tobytes()
    assert (resumed.evaluations, resumed.epochs, resumed.certificate) == (
        whole.evaluations,
        whole.epochs,
        whole.certificate,
    )
    finished = minimize(problem, seed=4, checkpoint=path, resume=True, **options)
    assert finished.parameters.tobytes() == whole.parameters.tobytes()


def test_a_strange_checkpoint_is_refused_and_left_alone(tmp_path) -> None:
    tree, other = random_tree(100, seed=1), random_tree(100, seed=2)
    path = tmp_path / "run"
    minimize(SoftmaxHeads(tree), "adam", checkpoint=path)
    before = bytes_of(path)
    renamed = Tree.from_parents(tree.parent, labels=[f"n{i}" for i in range(100)])
    refusals = [
        (lambda: minimize(SoftmaxHeads(other), "adam", checkpoint=path, resume=True), "another tree"),
        (lambda: minimize(SoftmaxHeads(renamed), "adam", checkpoint=path, resume=True), "another tree"),
        (lambda: minimize(SoftmaxHeads(other), "adam", checkpoint=path), "another tree"),
        (
            lambda: minimize(SoftmaxHeads(tree), "fisher", checkpoint=path, resume=True),
            "method 'adam' there, 'fisher' here",
        ),
        (lambda: minimize(SoftmaxHeads(tree), "adam", checkpoint=path, resume=True, seed=9), "seed 0 there, 9 here"),
        (lambda: minimize(SoftmaxHeads(tree, "depth"), "adam", checkpoint=path), "factorisation"),
    ]
    for call, words in refusals:
        with pytest.raises(VpunnError, match=words) as error:
            call()
        assert "\n" not in str(error.value)
        assert bytes_of(path) == before
    SoftmaxHeads(tree).tree.save(tmp_path / "tree")
    (tmp_path / "text").write_text("not a checkpoint")
    for strange, words in (("tree", "holds a Tree, not a Checkpoint"), ("text", "a saved model is a folder")):
        with pytest.raises(VpunnError, match=words):
            minimize(SoftmaxHeads(tree), "adam", checkpoint=tmp_path / strange)
    assert (tmp_path / "text").read_text() == "not a checkpoint"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_progress_goes_to_stderr(capsys) -> None:
    minimize(SoftmaxHeads(random_tree(50)), "adam", progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "loss" in shown.err


def test_checkpoint_places_that_cannot_be_used(tmp_path: Path) -> None:
    heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1, 1]))
    with pytest.raises(VpunnError, match="there is no folder"):
        minimize(heads, checkpoint=tmp_path / "no" / "run")
    (tmp_path / "run").mkdir()
    with pytest.raises(VpunnError, match="no saved model"):
        minimize(heads, checkpoint=tmp_path / "run")
    assert not any((tmp_path / "run").iterdir())
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(VpunnError, match="a saved model is a folder"):
        minimize(heads, checkpoint=empty, resume=True)
    assert empty.read_bytes() == b""


def test_a_schedule_that_differs_in_its_cosine_is_another_run(tmp_path: Path) -> None:
    heads = SoftmaxHeads(Tree.from_parents([-1, 0, 0, 1, 1, 1]))
    flat, falling = (Schedule("own", (Phase("fit", 4, 0.5),), cosine=cosine) for cosine in (False, True))
    minimize(heads, "adam", schedule=flat, checkpoint=tmp_path / "run")
    with pytest.raises(VpunnError, match="cosine False there, True here"):
        minimize(heads, "adam", schedule=falling, checkpoint=tmp_path / "run", resume=True)
