"""The paper's baselines as it ran them: the digits of the answer go in."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vpunn._cost import Cost
from vpunn.datasets import load_ncbi
from vpunn.paper import printed
from vpunn.paper.reports import given_digits, reproduce
from vpunn.paper.reports.given_digits import Columns, HuffmanSoftmax, huffman_paths


@given(st.lists(st.integers(1, 50), min_size=2, max_size=30))
def test_huffman_paths_are_a_prefix_code_of_the_best_length(counts):
    from vpunn.hipaq.decays import huffman_lengths

    nodes, turns = huffman_paths(np.array(counts))
    words = ["".join(str(t) for t in row if t >= 0) for row in turns.tolist()]
    assert len(set(words)) == len(words)
    assert not any(a != b and b.startswith(a) for a in words for b in words)
    weights = np.array(counts) / sum(counts)
    assert np.isclose(weights @ [len(word) for word in words], weights @ huffman_lengths(weights))
    assert ((nodes >= 0) == (turns >= 0)).all()
    assert nodes.max() == len(counts) - 2


def test_the_papers_parameter_counts_follow_from_its_inputs():  # E-62
    leaves, columns, K = 52_427, 1_423, 19
    assert leaves * columns == 74_603_621
    assert (leaves - 1) * columns == 74_602_198
    assert 2 * K * leaves == 1_992_226
    assert 256 * (K + 1) + 257 * leaves == 13_478_859


def test_huffman_soft_max_learns_what_it_is_given():
    digits = np.random.default_rng(0).integers(0, 6, (200, 5))
    digits[:, 0] = np.arange(200)  # a column per item: every turn of the tree can be learned from it
    y = np.random.default_rng(1).permutation(len(digits))
    model = HuffmanSoftmax(epochs=30).fit(digits, y)
    assert (model.predict(digits) == y).mean() > 0.95
    assert model.n_parameters == (len(digits) - 1) * Columns(digits).n


def costs(*seconds):
    """What sizes cost, one after the other; memory is not measured."""
    left = iter(seconds)

    @contextmanager
    def cost_of():
        yield Cost(next(left))

    return cost_of


def test_methods_grow_until_their_budget():
    tree = load_ncbi("Primates").tree
    rows = given_digits.grow(lambda digits: (digits, 7), tree, budget=15.0, cost_of=costs(1.0, 4.0))
    assert [row["leaves"] for row in rows] == [250, 500]  # 1 + 4 spent, the next would be 11.6
    assert rows[-1]["leaf"] == rows[-1]["digit"] == 1
    lines = given_digits.table(tree, {"SGD-LR": rows}, 15.0)
    ours = next(line for line in lines if line["row"] == "ours, stopped after 5 s of 15")
    assert ours["all leaves in an hour?"] == f"yes, about {4 * (tree.n_leaves / 500) ** 2:,.0f} s (time grows as n^2.0)"
    assert {line["method"] for line in lines} == set(printed.BASELINES)
    assert given_digits._in_an_hour(rows[:1], 10**6).startswith("not known")
    assert given_digits._in_an_hour(rows, 500) == "yes, 4 s"


def test_methods_grow_until_their_memory():
    tree = load_ncbi("Primates").tree
    gc.collect()
    # Much larger than what is given back meanwhile, or kept for reuse, neither of which would show.
    rows = given_digits.grow(
        lambda digits: (digits, np.ones((len(digits), 256_000)).nbytes), tree, 100.0, memory=1000.0
    )
    assert [row["leaves"] for row in rows] == [250]  # 488 MB, so the next might take 1,953
    assert rows[0]["MB"] > 100


def test_where_memory_is_not_measured_it_is_taken_to_grow_as_squares():
    tree, cost = load_ncbi("Primates").tree, costs(0.1, 0.1)
    rows = given_digits.grow(lambda digits: (digits, 7), tree, 100.0, memory=10.0, cost_of=cost)
    assert [row["leaves"] for row in rows] == [250, 500]  # 1,000 leaves squared are 16 MB


def test_the_report_says_when_it_stopped_and_names_the_hour(tmp_path):
    work = {"tree": load_ncbi("Primates").tree, "budget": 0.01}
    made = reproduce("baselines", 1, out=tmp_path, work=work)
    rows = next(block["rows"] for block in made.blocks if block.get("name") == "T14")
    assert any(str(row["row"]).startswith("ours, stopped after") for row in rows)
    assert "--minutes 60" not in made.command
    assert reproduce("baselines", 1, source=tmp_path, work={**work, "budget": 3600.0}).command.endswith(" --minutes 60")
    assert reproduce("baselines", 1, source=tmp_path, work={**work, "budget": 30.0}).command.endswith(" --minutes 0.5")


def test_every_installed_baseline_runs():
    tree = load_ncbi("Primates").tree
    found = given_digits.compared(tree, budget=0.01)
    assert {"SGD-LR", "MLP-256 (ReLU)", "Hierarchical NB", "Huffman soft-max"} <= set(found)
    assert all(rows[0]["leaves"] == 250 and rows[0]["digit"] > 0.5 for rows in found.values())
    assert found["Hierarchical NB"][0]["leaf"] == 1  # the nearest code is the code itself
    K = tree.max_depth
    assert found["Hierarchical NB"][0]["parameters"] == 2 * K * 250
    assert found["MLP-256 (ReLU)"][0]["parameters"] == 256 * (K + 1) + 257 * 250
