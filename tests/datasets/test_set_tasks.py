"""Tasks of label sets against the tables and graphs they come from."""

import numpy as np
import pytest
from benchmarks.sets.tasks import load_set_task, protein_functions, synset_hypernyms, term_parents

from vpunn.datasets import load_go, load_wordnet
from vpunn.errors import VpunnError


def test_proteins_and_their_functions():
    task, go = protein_functions(1), load_go()
    rows = {part: len(task.texts[part]) for part in task.texts}
    assert sum(rows.values()) == 16_056 and rows["test"] == rows["validation"] == 1605
    closed = sum(np.asarray(task.closed(part).sum(0)).ravel() for part in rows)
    assert (closed > 0).sum() == 4641 and closed[0] == 0
    binding = go.tree.index("GO:0005515")
    assert not any(binding in row or 0 in row for part in rows for row in task.nodes[part])
    table = go.annotations
    part, at = next((part, i) for part in rows for i, text in enumerate(task.texts[part]) if " SRC SRC SRC1" in text)
    src = table[(table["symbol"] == "SRC") & (table["node"] != binding)]
    assert set(task.nodes[part][at].tolist()) == set(src["node"])
    known = dict(zip(task.nodes[part][at].tolist(), task.evidence[part][at], strict=True))
    assert all(set(known[node].split("|")) == set(group) for node, group in src.groupby("node")["evidence"])
    again = protein_functions(1)
    assert all((task.texts[part] == again.texts[part]).all() for part in rows)
    assert (protein_functions(2).texts["test"] != task.texts["test"]).any()


def test_terms_and_synsets_have_all_their_parents():
    task, tree = term_parents(0), load_go().tree
    start, up = tree.all_parents
    number = {text: i for i, text in enumerate(tree.columns["name"] + " " + tree.columns["definition"])}
    for text, nodes in zip(task.texts["test"][:200], task.nodes["test"][:200], strict=True):
        i = number[text]
        assert set(task.tree.labels[nodes]) == set(tree.labels[up[start[i] : start[i + 1]]])
    assert task.tree.n_extra > 100 and max(len(row) for row in task.nodes["train"]) > 2
    words, net = synset_hypernyms(0), load_wordnet().tree
    assert all(len(row) > 1 for row in words.nodes["test"]) and 20 < len(words.nodes["test"]) < 300
    assert words.labels("test")[0] <= set(net.labels)
    with pytest.raises(VpunnError, match="proteins, go-parents, hypernyms"):
        load_set_task("mesh")
