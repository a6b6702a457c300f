"""A small real model (WordNet's mammals placed by their definitions), a running server of it, and a real browser."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from vpunn.datasets import load_wordnet
from vpunn.hipan import HiPaNClassifier
from vpunn.tables.inputs import Inputs
from vpunn.text import text_features
from vpunn.tree import Tree
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.server import Running
from vpunn.web.subject import Subject

#: A label, a name and a column that would do harm in a page that took them for markup.
EVIL = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


def mammals():
    """The tree of mammals without its leaves, and one text with its parent's label for every leaf."""
    whole = load_wordnet().tree
    tree = whole.subtree(whole.index("mammal.n.01"))
    kept = np.flatnonzero(~tree.is_leaf)
    place = np.full(tree.n_nodes, -1)
    place[kept] = np.arange(len(kept))
    parent = np.where(tree.parent[kept] < 0, -1, place[tree.parent[kept]])
    names, gloss = tree.columns["name"][kept].astype(object), tree.columns["gloss"][kept].astype(object)
    names[-1], gloss[-1] = f"evil {EVIL}", EVIL
    columns = {"name": names, "gloss": gloss, "offset": tree.columns["offset"][kept]}
    answers = Tree.from_parents(parent, tree.labels[kept], columns=columns)
    leaves = tree.leaves
    texts = [f"{a} {b}" for a, b in zip(tree.columns["lemmas"][leaves], tree.columns["gloss"][leaves], strict=True)]
    return answers, texts, tree.labels[tree.parent[leaves]]


@pytest.fixture(scope="session")
def believer():
    answers, texts, labels = mammals()
    features = text_features(characters=None, min_rows=1)
    model = HiPaNClassifier(answers, random_state=0).fit(features.fit_transform(texts), labels)
    found = ClassifierAnswers(model, features, Inputs(("label",), ("text",)))
    found.sample = texts, labels
    return found


@pytest.fixture(scope="session")
def subject(believer):
    return Subject(believer.tree, "mammals", believer)


@pytest.fixture(scope="session")
def url(subject):
    with Running(subject) as address:
        yield address.rstrip("/")


def browser_path() -> str | None:
    """The Chromium of VPUNN_BROWSER or of the path."""
    return shutil.which(os.environ.get("VPUNN_BROWSER") or "chromium")


FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


@pytest.fixture(scope="session")
def chromium():
    """A real Chromium; without one the tests that need it are skipped, except on CI, where that is a failure."""
    path = browser_path()
    if path is None:
        reason = "no Chromium on the path and none in VPUNN_BROWSER; `make browser` installs it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """A page in a fresh profile that notes every console error, uncaught exception and request that leaves this machine."""

    def __init__(self, browser, width=1400, height=900, scheme="light"):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        self.problems = []
        self.expected = ()
        self.context.on("page", self._watch)
        self.page = self.context.new_page()
        self.page.set_default_timeout(90_000)  # a busy machine is no failure

    def _watch(self, page):
        page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._check)

    def _check(self, request):
        if not request.url.startswith(("http://127.0.0.1:", "http://localhost:", "file://", "blob:", "data:")):
            self.problems.append(f"request to {request.url}")

    def open(self, address):
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]")
        return self.page


@pytest.fixture
def visit(chromium):
    """Opens visits and checks afterwards that none had a problem."""
    made = []

    def make(**options):
        made.append(Visit(chromium, **options))
        return made[-1]

    yield make
    problems = [p for each in made for p in each.problems if not any(known in p for known in each.expected)]
    hacked = [p for each in made for p in each.context.pages if p.evaluate("window.hacked || 0")]
    for each in made:
        each.context.close()
    assert problems == [] and hacked == []


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    """Where tests leave pictures to look at: VPUNN_SCREENSHOTS, or a temporary folder."""
    folder = os.environ.get("VPUNN_SCREENSHOTS")
    path = Path(folder) if folder else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path
