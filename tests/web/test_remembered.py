"""What the page shows of rows: examples, the training rows most like a question, and the mistakes on rows it is opened with."""

import numpy as np
import pytest

from vpunn import HiPaNClassifier, Tree, explain
from vpunn.errors import VpunnError
from vpunn.store import load
from vpunn.web.api import Api
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.opening import as_subject, scored_rows
from vpunn.web.server import Running
from vpunn.web.subject import Subject


@pytest.fixture(scope="module")
def api(subject):
    return Api(subject)


def body(reply):
    import json

    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def test_examples_are_training_rows_of_different_branches(api, believer):
    texts, labels = believer.sample
    said = [set("".join(c if c.isalnum() else " " for c in text.lower()).split()) for text in texts]
    found = body(api.answer("GET", "/api/examples", {}))
    assert len(found) == 3
    for one in found:
        words = set(one["text"].replace(",", "").split())
        assert any(words == one_said and label == one["label"] for one_said, label in zip(said, labels, strict=True))
    assert len({believer.tree.path(one["node"])[:3] for one in found}) == 3


def test_nearest_rows_and_parts_are_those_of_explain(api, believer):
    text = "a small wild cat with a spotted coat"
    asked = believer.read_ask({"texts": [text], "explain": True}, 10)
    (answer,) = believer.answer([asked])[0]["answers"]
    found = explain(believer.model, asked.X)
    assert [one["likeness"] for one in answer["nearest"]] == [like for _, like in found.near]
    assert [one["node"] for one in answer["nearest"]] == [int(believer.model.task_.node[row]) for row, _ in found.near]
    assert dict(answer["speakers"]) == found.spoke and len(found.spoke) > 3
    row = believer.model.task_.rows.blocks[0][found.near[0][0]]
    assert set(believer.features.transform([answer["nearest"][0]["text"]]).indices) <= set(row.indices)


def test_numbers_are_told_as_they_were_fitted_and_without_rows_nothing_is(tmp_path):
    X, y = np.tile(np.eye(4), (6, 1)) + np.arange(24)[:, None] / 1000, ["bird", "fish", "tree", "fern"] * 6
    tree = Tree.from_paths([["animal", "bird"], ["animal", "fish"], ["plant", "tree"], ["plant", "fern"]], root="life")
    model = HiPaNClassifier(tree, random_state=0).fit(X, y)
    question = {"X": [X[1].tolist()], "explain": True}
    answers = ClassifierAnswers(model)
    assert answers.examples()[0]["text"] in {", ".join(f"{v:.4g}" for v in row) for row in X.tolist()}
    (answer,) = answers.answer([answers.read_ask(question, 10)])[0]["answers"]
    assert (answer["nearest"][0]["shown"], answer["nearest"][0]["label"]) == ("0.001, 1.001, 0.001, 0.001", "fish")
    answers = ClassifierAnswers(load(model.save(tmp_path / "sums", keep="sums")))
    assert answers.examples() == []
    (answer,) = answers.answer([answers.read_ask(question, 10)])[0]["answers"]
    assert answer["nearest"] == [] and answer["turns"]


def test_explore_opens_on_the_models_mistakes(visit, believer):
    texts, labels = believer.sample
    wrong = np.roll(np.asarray(labels, object), 1)
    subject = Subject(believer.tree, "mammals", believer)
    subject.scored = scored_rows(subject, believer.model, believer.features.transform(texts[:40]), wrong[:40])
    with Running(subject) as url:
        page = visit().open(url)
        page.wait_for_selector("#rows li.miss")
        assert "40" in page.text_content("#verdict") and page.is_visible("#confusion")
        page.select_option("#layout", "dendrogram")
        page.wait_for_function("() => explorer.view.layout.spots?.length > 20 && !explorer.view.move")
        # a child stands to the right of its parent, leaves have their names beside them
        assert page.evaluate("explorer.view.layout.spots.every((s) => s.x >= s.start)")
        found = page.evaluate("explorer.view.layout.spots.find((s) => s.tall > 20)")
        assert (
            page.evaluate("([x, y]) => explorer.view.layout.nodeAt(x, y)", [found["x"] - 1, found["y"]])
            == found["node"]
        )
        assert 1 < page.locator("#legend a").count() <= 8  # the branches by their hues
    with Running(
        Subject(believer.tree, "mammals", believer)
    ) as url:  # a table that a visitor sent is not shown to the next
        page = visit().open(url)
        rows = "\n".join(
            f'"{text}",{label}' for text, label in zip(texts[:5], labels[:5], strict=True) if '"' not in text
        )
        page.set_input_files(
            "#testfile", {"name": "t.csv", "mimeType": "text/csv", "buffer": f"text,label\n{rows}".encode()}
        )
        page.wait_for_selector("#answered li")
        page = visit().open(url)
        assert page.locator("#triage *").count() == 0
    with pytest.raises(VpunnError, match="right answers"):
        scored_rows(subject, believer.model, believer.features.transform(texts[:2]), None)
    with pytest.raises(VpunnError, match="one label a row"):
        scored_rows(as_subject(believer.tree), believer.tree, [[1]], ["a"])


def test_common_names_come_first():
    tree = Tree.from_parents(
        [-1, 0], labels=[1, 9606], columns={"name": ["life", "Homo sapiens"], "common_name": [None, "human"]}
    )
    subject = Subject(tree)
    found = subject.brief(1)
    assert (found["name"], found["also"], found["label"]) == ("human", "Homo sapiens", "9606")
    assert (subject.name(0), subject.also(0)) == ("life", "")
    assert subject.search.find("homo sapiens").tolist() == subject.search.find("human").tolist() == [1]


def test_branch_lengths_place_nodes(visit):
    tree = Tree.from_parents([-1, 0, 1, 1, 0], labels=list("riabc"), columns={"length": [np.nan, 2.0, 1.0, 3.0, 1.0]})
    with Running(Subject(tree, "tree")) as url:
        page = visit().open(url + "#layout=dendrogram")
        page.wait_for_function("() => explorer.view.layout.spots?.length === 5 && !explorer.view.move")
        x = {s["node"]: s["x"] for s in page.evaluate("explorer.view.layout.spots")}
        unit = x[tree.index("c")] - x[0]
        assert x[tree.index("b")] - x[0] == pytest.approx(5 * unit) and x[tree.index("i")] - x[0] == pytest.approx(
            2 * unit
        )
