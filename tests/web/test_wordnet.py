"""All of WordNet with a model of it in a real Chromium: the tour of a first visitor."""

import re

import pytest

from vpunn.datasets import load_wordnet
from vpunn.datasets.tasks import load_task
from vpunn.hipan import HiPaNClassifier
from vpunn.tables.inputs import Inputs
from vpunn.text import text_features
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.server import Running, warm
from vpunn.web.subject import Subject

pytestmark = pytest.mark.slow

QUESTION = "a striped relative of the giraffe with a short neck, living in the forests of the Congo"


def look(page, selector, text):
    page.locator(selector).filter(has_text=text).first.wait_for()


def test_a_tour_of_the_nouns(visit, screenshots):
    subject = Subject(load_wordnet().tree, "WordNet")
    with Running(subject) as url:
        warm(subject).join()
        for width, scheme in ((1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")):
            page = visit(width=width, height=900 if width > 500 else 844, scheme=scheme).open(url)
            page.wait_for_timeout(800)
            page.screenshot(path=screenshots / f"wordnet-{width}-{scheme}.png")
        page = visit().open(url)
        assert page.evaluate("explorer.shape.n") == subject.tree.n_nodes == 74_374
        page.keyboard.press("/")
        page.keyboard.type("dog")
        look(page, "#results", "dog.n.01")
        page.locator("#results a").filter(has_text="dog.n.01").first.click()
        look(page, "#node h2", "dog")
        page.locator("#mark").click()
        look(page, "#compared", "Marked")
        page.locator("#query").fill("cat.n.01")
        look(page, "#results", "cat.n.01")
        page.keyboard.press("Enter")
        look(page, "#compared", "common ancestor")
        both = subject.tree.index(["dog.n.01", "cat.n.01"])
        look(page, "#compared", subject.name(int(subject.tree.lca(*both))))
        address = page.url
        page.reload()
        look(page, "#compared", "common ancestor")
        assert page.url == address
        page.go_back()
        look(page, "#node h2", "dog")
        for layout in ("radial", "disk"):
            page.goto(f"{url}#layout={layout}&focus=carnivore.n.01")
            look(page, "#node h2", "carnivore")
            page.wait_for_timeout(800)
            page.screenshot(path=screenshots / f"wordnet-{layout}.png")


def test_asking_a_model_of_wordnet(visit, screenshots):
    task = load_task("wordnet-texts", 0)
    features = text_features(characters=None, min_rows=1)
    X = features.fit_transform(task.texts["train"][:20_000])
    model = HiPaNClassifier(task.tree, random_state=0).fit(X, task.labels("train")[:20_000])
    subject = Subject(task.tree, "WordNet placement", ClassifierAnswers(model, features, Inputs(("label",), ("text",))))
    with Running(subject) as url:
        page = visit().open(url)
        page.locator("#tab-ask").click()
        page.locator("#text").fill(QUESTION)
        page.keyboard.press("Enter")
        page.locator("#stopped").wait_for()
        for place, risk in ((0, 0.01), (9, 0.5)):
            page.locator("#risk").fill(str(place))
            page.wait_for_url(re.compile(f"risk={risk}"))
            expected = str(model.predict(features.transform([QUESTION]), stop="risk", alpha=risk)[0])
            look(page, "#stopped", expected)
        page.wait_for_timeout(800)
        page.screenshot(path=screenshots / "wordnet-beliefs.png")
