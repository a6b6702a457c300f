"""Numbers on phylogenies against R's ape, nlme and phytools, whose answers `tools/phylogeny_fixtures.R` keeps; 1e-6 unless said."""

import gzip
import io
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from vpunn import VPuNNClassifier, VPuNNRegressor, read_tree
from vpunn.regress.classes import SeenClasses, rate_matrix
from vpunn.regress.evolution import scaled
from vpunn.regress.likelihood import Rows, evaluate, log_likelihood
from vpunn.regress.variances import Branches

HERE = Path(__file__).parent.parent
CASES = json.loads(gzip.decompress((HERE / "data/phylogeny/r.json.gz").read_bytes()))


def tree_of(case):
    return read_tree(io.StringIO(case["newick"]))


def inner_of(tree, names):
    """The nodes whose tips are the given ones."""
    tips = {
        " ".join(sorted(map(str, tree.labels[tree.slice(i)][tree.is_leaf[tree.slice(i)]]))): i
        for i in range(tree.n_nodes)
    }
    return np.array([tips[name] for name in names])


def fitted(case, model, *, x=True, **parameters):
    columns = (
        [[tip, value] for tip, value in zip(case["tips"], case["x"], strict=True)] if x else [[t] for t in case["tips"]]
    )
    model = VPuNNRegressor(tree_of(case), covariates=[1] if x else None, evolution=model, parameters=parameters or None)
    return model.fit(np.array(columns, object), case["y"])


def likelihood(case, model, parameters, restricted=True):
    tree = tree_of(case)
    branches = Branches.of(tree)
    nodes = tree.index(case["tips"])
    n = len(nodes)
    rows = Rows.of(branches, nodes, np.array(case["y"]), np.zeros((n, 0)), np.ones(n), None)
    state = evaluate(rows, model, scaled(parameters, branches), restricted=restricted)
    return log_likelihood(rows, state, restricted=restricted)


@pytest.mark.parametrize("case", CASES, ids=range(1, 11))
def test_likelihoods_coefficients_and_standard_errors_are_those_of_gls(case):
    ultrametric = np.ptp(tree_heights(case)) < 1e-9 * np.max(tree_heights(case))
    models = {"brownian": {}, "lambda": {"lambda": 0.6}, "ou": {"alpha": case["alpha"][0], "lambda": 1.0}}
    for name, parameters in models.items():
        model = fitted(case, name, **parameters)
        table = model.coefficients()
        np.testing.assert_allclose(model.log_likelihood_, case[name][0], rtol=1e-6, atol=1e-6)
        found = table.to_numpy().T.ravel()
        np.testing.assert_allclose(found, case[name][1:], rtol=2e-6, atol=1e-9, err_msg=name)
    plain = [("brownian", {}), ("lambda", {"lambda": 0.6}), ("ou", {"alpha": case["alpha"][0]})]
    found = [likelihood(case, *one) for one in plain]
    np.testing.assert_allclose(found, case["plain"], atol=1e-6)
    kappa = [likelihood(case, "kappa", {"kappa": 0.5}, restricted) for restricted in (True, False)]
    np.testing.assert_allclose(kappa, case["kappa"], atol=1e-6)
    assert ultrametric == (CASES.index(case) % 2 == 1)


def tree_heights(case):
    tree = tree_of(case)
    return Branches.of(tree).height[tree.leaves]


@pytest.mark.parametrize("case", CASES, ids=range(1, 11))
def test_ancestors_contrasts_and_signal_are_those_of_ape_and_phytools(case):
    model = fitted(case, "brownian", x=False)
    states = model.ancestors().set_index("node").loc[inner_of(model.tree_, case["inner"])]
    np.testing.assert_allclose(states["mean"], case["ace"], rtol=1e-6)
    np.testing.assert_allclose(states["sd"] ** 2, case["var"], rtol=1e-6)
    table = model.contrasts().set_index("node").loc[inner_of(model.tree_, case["pic_nodes"])]
    np.testing.assert_allclose(np.abs(table["contrast"]), np.abs(case["pic"]), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(table["variance"], case["pic_var"], rtol=1e-6)
    found = model.signal(permutations=19)
    share, best, none, p, k = case["signal"]
    np.testing.assert_allclose([found.k, found.log_likelihood_0], [k, none], rtol=1e-6)
    assert found.log_likelihood >= best - 1e-6  # phytools may go past 1, our λ ends there
    if share < 1 and best <= found.log_likelihood + 1e-6:
        assert abs(found.lambda_ - share) < 1e-3
        np.testing.assert_allclose(found.lambda_p, p, rtol=1e-2)


@pytest.mark.parametrize("case", CASES, ids=range(1, 11))
def test_optima_are_no_worse_than_those_of_r(case):
    share, best, _, best_ou = case["optimum"]
    model = fitted(case, "lambda", x=False)
    assert model.log_likelihood_ >= best - 1e-6
    ou = fitted(case, "ou", x=False, **{"lambda": 1.0})
    assert ou.log_likelihood_ >= best_ou - 1e-6
    if 0 < share < 1 - 1e-4:
        assert abs(model.parameters_["lambda"] - share) < 1e-4


@pytest.mark.parametrize("case", CASES, ids=range(1, 11))
def test_classes_evolve_as_in_phytools(case):
    tree = tree_of(case)
    X, branches = [[tip] for tip in case["tips"]], Branches.of(tree)
    column = np.unique(case["states"], return_inverse=True)[1]
    seen = SeenClasses.of(branches, tree.index(case["tips"]), column, 3, np.ones(len(column)))
    at = [rate_matrix(np.array([rate[0] * branches.unit]), 3) for rate in (case["mk_rate"], case["mk_at"])]
    given, equal, rate, symmetric = case["mk"]
    np.testing.assert_allclose(seen.log_likelihood(at[0]), given, rtol=1e-9)
    inner = inner_of(tree, case["mk_nodes"])
    np.testing.assert_allclose(seen.solution(at[1]).proba[inner].ravel(), case["mk_ace"], atol=1e-9)
    one = VPuNNClassifier(tree, evolution="mk").fit(X, case["states"])
    assert one.log_likelihood_ >= equal - 1e-6
    if abs(one.log_likelihood_ - equal) < 1e-9 and rate * branches.unit < 10:  # else all rates are alike
        np.testing.assert_allclose(one.rates_[0, 1], rate, rtol=1e-5)
    assert (
        VPuNNClassifier(tree, evolution="mk", rates="symmetric").fit(X, case["states"]).log_likelihood_
        >= symmetric - 1e-6
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R with ape, nlme and phytools")
def test_the_kept_answers_are_what_r_says(tmp_path):
    done = subprocess.run(
        ["Rscript", str(HERE.parent / "tools/phylogeny_fixtures.R"), str(tmp_path / "r.json")],
        capture_output=True,
        text=True,
    )
    if "there is no package" in done.stderr:
        pytest.skip("needs R with ape, nlme and phytools")
    again = json.loads((tmp_path / "r.json").read_text())
    for old, new in zip(CASES, again, strict=True):
        for name in ("brownian", "lambda", "ou", "kappa", "ace", "pic", "mk", "mk_ace"):
            np.testing.assert_allclose(new[name], old[name], rtol=1e-6, err_msg=name)
