"""A model of label sets behind the explorer: every question of the page is answered, with the labels the library gives."""

import pytest

from vpunn.hipan import HiPaNClassifier
from vpunn.tables.inputs import Inputs
from vpunn.text import text_features
from vpunn.web.api import Api
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.server import Running
from vpunn.web.subject import Subject

WORDS = {"red": "crimson", "round": "ball", "sweet": "honey"}


@pytest.fixture(scope="module")
def believer():
    names = list(WORDS)
    sets = [{name for k, name in enumerate(names) if i >> k & 1} for i in range(8)] * 8
    texts = [" ".join(WORDS[name] for name in sorted(one)) + f" thing {i % 5}" for i, one in enumerate(sets)]
    features = text_features(characters=None, min_rows=1)
    model = HiPaNClassifier(random_state=0).fit(features.fit_transform(texts), sets)
    return ClassifierAnswers(model, features, Inputs(("tags",), ("text",)))


@pytest.mark.parametrize("rule", [{}, {"threshold": 0.5}, {"risk": 0.1}])
@pytest.mark.parametrize("text", ["crimson ball", "thing", "zzz"])
def test_labels_are_the_librarys(believer, rule, text):
    body = {"texts": [text], "explain": True, "beliefs": True, **rule}
    (answer,) = believer.answer([believer.read_ask(body, 10)])[0]["answers"]
    stop = "risk" if "risk" in rule else "threshold"
    X = believer.features.transform([text])
    (expected,) = believer.model.predict_sets(X, stop, alpha=rule.get("risk", 0.1))
    assert {one["label"] for one in answer["labels"]} == expected
    marginals = believer.model.predict_node_proba(X)[0]
    assert answer["beliefs"]["probabilities"] == marginals[answer["beliefs"]["nodes"]].tolist()
    assert answer["turns"][0]["node"] == answer["node"] and "stop" not in answer


def test_it_warms_up_and_refuses_a_test_table(believer):
    believer.warm()
    api = Api(Subject(believer.tree, "tags", believer))
    refused = api.answer("POST", "/api/triage", {}, b"text,tags\ncrimson,red\n", "text/csv")
    assert refused.status == 422 and b"use vpunn evaluate" in refused.body


def test_the_page_lists_all_labels_with_their_probabilities(visit, believer):
    """Every label of the set, likeliest first, outlined and in view; not the likeliest alone."""
    with Running(Subject(believer.tree, "tags", believer)) as url:
        page = visit().open(url + "#tab=ask&text=crimson+ball+honey&stop=threshold&risk=0.45")
        page.locator("#labels li").first.wait_for()
        body = {"texts": ["crimson ball honey"], "threshold": 0.45}
        (answer,) = believer.answer([believer.read_ask(body, 1)])[0]["answers"]
        assert len(answer["labels"]) == 3
        assert page.locator("#labels a").all_text_contents() == [one["label"] for one in answer["labels"]]
        p = [one["probability"] for one in answer["labels"]]
        assert p == sorted(p, reverse=True)
        assert (
            p
            == believer.model.predict_node_proba(believer.features.transform(body["texts"]))[
                0, [one["node"] for one in answer["labels"]]
            ].tolist()
        )
        page.wait_for_timeout(700)
        assert page.evaluate("explorer.view.answers.every((i) => explorer.view.layout.shows(i))")
        assert page.evaluate("explorer.view.answers") == [one["node"] for one in answer["labels"]]
        assert "all labels with at least 45 %" in page.locator("#level").text_content()
        assert page.locator("#triage-part").is_hidden()
