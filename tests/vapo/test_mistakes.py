"""VAPO: bad input is one clear sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vpunn.errors import VpunnError
from vpunn.tree import Tree
from vpunn.vapo import (
    AdamScalar,
    DigitHeads,
    DigitNetwork,
    GISTScalar,
    LeakyRegression,
    QuadraticHeads,
    SoftmaxHeads,
    fisher_block,
    information,
    minimize,
)

TREE = Tree.from_parents([-1, 0, 0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: minimize(SoftmaxHeads(TREE), "sgd"), "method='sgd' is unknown"),
        (lambda: minimize(SoftmaxHeads(TREE), "adam", schedule="paper"), "schedule='paper' is unknown"),
        (lambda: minimize(SoftmaxHeads(TREE), "adam", neighbourhood="full"), "takes no option 'neighbourhood'"),
        (lambda: minimize(SoftmaxHeads(TREE), "gist", batch=5), "full sweeps; leave out batch"),
        (lambda: minimize(SoftmaxHeads(TREE), "gist", start=[0.5, 1.0]), "digits in 0..2, got 0.5"),
        (lambda: minimize(SoftmaxHeads(TREE, margin=1.0), "gist"), "SoftmaxHeads is solved by adam, not by gist"),
        (lambda: GISTScalar(1.5, p=5), "one whole digit, got 1.5"),
        (lambda: GISTScalar(5, p=5), "0..4, got 5"),
        (lambda: AdamScalar("2"), "a finite number, got '2'"),
        (lambda: minimize(QuadraticHeads(TREE), "fisher"), "solved by adam or gist, not by fisher"),
        (lambda: minimize(SoftmaxHeads(TREE, margin=1.0), "fisher"), "solved by adam, not by fisher"),
        (lambda: minimize(DigitHeads(TREE), neighbourhood="pm2"), "neighbourhood='pm2' is unknown"),
        (lambda: minimize(DigitHeads(TREE), start=[7]), "0..2, got 7"),
        (lambda: minimize(DigitHeads(TREE), patience=0), "patience must be a whole number of at least 1, got 0"),
        (lambda: minimize(DigitHeads(TREE), "adam"), "no useful gradient"),
        (lambda: minimize(SoftmaxHeads(TREE), "adam", start=[1.0]), "start needs 2 numbers"),
        (lambda: minimize(SoftmaxHeads(TREE), checkpoint="x.npz", checkpoint_every=0), "checkpoint_every=0"),
        (lambda: minimize(DigitNetwork(TREE, [0, 1]), "adam"), "solved by gist, not by adam"),
        (lambda: LeakyRegression(TREE, [1.0]), "needs 2 finite numbers"),
        (lambda: LeakyRegression(TREE, [1.0, 2.0], alpha=1.0), "alpha=1.0"),
        (lambda: DigitNetwork(TREE, [0, 3], p=3), "0..2, got 3"),
        (lambda: DigitNetwork(TREE, [0.5, 1]), "needs 2 integers"),
        (lambda: DigitNetwork(TREE, [0, 1], loss="squared"), "loss='squared' is unknown"),
        (lambda: minimize(DigitNetwork(TREE, [0, 1]), start=[0, 0, 9]), "digits in 0..2"),
        (lambda: minimize(lambda x: 0.0, p=3), "needs n"),
        (lambda: minimize(lambda x: 0.0, "adam", p=3, n=2), "minimised with method='gist'"),
        (lambda: minimize(lambda x: 0.0, p=1, n=2), "p ≥ 2"),
        (lambda: minimize(lambda x: 0.0, p=3, n=2, start=[0, 3]), "0..2, got 3"),
        (lambda: minimize(lambda x: 0.0, p=3, n=2, start=[0]), "start needs 2 integer digits"),
        (lambda: minimize(lambda x: np.nan, p=3, n=2), "NaN at digits"),
        (lambda: minimize(lambda x: "low", p=3, n=2), "must return a number, got 'low' at digits"),
        (lambda: minimize(lambda x: x, p=3, n=2), "one number per point"),
        (lambda: minimize(lambda x: 0.0, p=3, n=2, order="leaf"), "order='leaf' is unknown"),
        (lambda: minimize(lambda x: 0.0, p=3, n=2, budget=0), "budget=0"),
        (lambda: minimize(lambda x: 0.0, p=3, n=2, checkpoint="x"), "keep no checkpoints"),
        (lambda: information(SoftmaxHeads(TREE), np.zeros(2), depth=3), "depth=3 has no heads"),
        (lambda: fisher_block(SoftmaxHeads(TREE), np.zeros(2), 1), "a ball with children"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, words: str) -> None:
    with pytest.raises(VpunnError) as error:
        call()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("start", [[np.nan, 0.0], [np.inf, 0.0], ["a", "b"], [0.0]])
@pytest.mark.parametrize("method", ["adam", "fisher"])
def test_a_start_must_be_finite_numbers(method: str, start: Any) -> None:
    with pytest.raises(VpunnError, match="start"):
        minimize(SoftmaxHeads(Tree.from_parents([-1, 0, 0])), method, start=start)


@pytest.mark.parametrize("seed", [-1, "a", 1.5, None])
def test_seeds_are_whole_numbers(seed: Any) -> None:
    with pytest.raises(VpunnError, match="seed="):
        minimize(SoftmaxHeads(Tree.from_parents([-1, 0, 0])), seed=seed)
