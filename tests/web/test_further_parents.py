"""Nodes with several parents in the explorer, in reports and in pictures."""

import json

import matplotlib.pyplot as plt

from vpunn import Tree, plot
from vpunn.report import report_tree
from vpunn.web.api import Api
from vpunn.web.subject import Subject

TREE = Tree.from_edges([("thing", "pet"), ("thing", "mammal"), ("pet", "dog"), ("mammal", "dog"), ("mammal", "cow")])


def test_the_explorer_tells_further_parents_and_children():
    api = Api(Subject(TREE))

    def node(label: str) -> dict:
        return json.loads(api.answer("GET", "/api/node", {"id": label}).body)

    assert [other["name"] for other in node("dog")["also_below"]] == ["mammal"] and not node("dog")["also_above"]
    assert [other["name"] for other in node("mammal")["also_above"]] == ["dog"]
    assert node("pet")["also_below"] == node("pet")["also_above"] == []


def test_reports_count_and_list_them():
    blocks = report_tree(TREE, "pets").blocks
    text = json.dumps(blocks, default=str)
    assert "edges to further parents" in text
    rows = next(b["rows"] for b in blocks if b.get("title") == "Some nodes with further parents")
    assert rows == [{"node": "dog", "parent": "pet", "further parents": "mammal"}]
    plain = report_tree(Tree.from_parents([-1, 0, 0]), "plain").blocks
    assert "further parents" not in json.dumps(plain, default=str)


def test_diagrams_draw_them_dotted():
    ax = plot.diagram(TREE)
    assert sum(line.get_linestyle() == ":" for line in ax.lines) == TREE.n_extra == 1
    plt.close(ax.figure)
