"""A regressor behind the explorer: the answers are the table model's, the layers are its balls, and no bare tree is shown."""

import io
import json
import re
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

from vpunn import read_tree
from vpunn.errors import VpunnError, counted
from vpunn.regress import VPuNNClassifier, VPuNNRegressor
from vpunn.tables.inputs import Inputs
from vpunn.tables.level_classes import TableLevelClassifier
from vpunn.tables.models import TableClassifier, open_table_model
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.samples import read_sample
from vpunn.tree import Tree
from vpunn.web.api import Api
from vpunn.web.beliefs import ClassifierAnswers
from vpunn.web.opening import as_subject, open_model
from vpunn.web.server import Running
from vpunn.web.subject import Subject

LEVELS = ("order", "family", "genus")
MEAN = "fitted mean at median covariates"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Masses by order, family and genus, and a covariate that adds to them: as ``vpunn fit --regress`` writes it."""
    rng = np.random.default_rng(0)
    names = [(f"o{i}", f"o{i}f{j}", f"o{i}f{j}g{k}") for i in range(3) for j in range(3) for k in range(4)]
    frame = pd.DataFrame([names[i] for i in rng.integers(0, len(names), 300)], columns=list(LEVELS))
    frame["height"] = rng.gamma(2, 100, 300)
    frame["mass"] = (
        frame["order"].map({"o0": -5.0, "o1": 0.0, "o2": 8.0}) + 0.01 * frame["height"] + rng.normal(size=300)
    )
    inputs = Inputs(("mass",), (), ("height",), LEVELS)
    table = TableRegressor.fit(read_sample(frame, inputs, "t", regress=True), inputs)
    return table.save(tmp_path_factory.mktemp("numbers") / "mass", {})


@pytest.fixture(scope="module")
def api(folder):
    return Api(open_model(folder))


def ask(api, body):
    reply = api.answer("POST", "/api/predict", {}, json.dumps(body).encode(), "application/json")
    return reply.status, json.loads(reply.body)


def get(api, path, **query):
    return json.loads(api.answer("GET", path, query).body)


def row(*levels, height=100.0):
    return dict(zip(LEVELS, [*levels, None, None, None], strict=False)) | {"height": height}


def test_answers_are_the_table_models(api, folder):
    """Known, cut short, unseen and empty paths, and a missing number: as `vpunn predict` answers them, notes included."""
    rows = [row("o0", "o0f1", "o0f1g2"), row("o2"), row("o1", "new", "newer"), row(), row("o2", "o2f0", height=None)]
    status, found = ask(api, {"rows": rows})
    table = open_table_model(folder)
    expected = table.answer_table(pd.DataFrame(rows), "t")
    assert status == 200
    for one, same in zip(found["answers"], expected.to_dict("records"), strict=True):
        assert {
            name: one[name] for name in ("prediction", "sd", "low", "high", "known", "node")
        }.items() <= same.items()
        terms = [ball["coefficient"] for ball in one["path"]] + [covariate["adds"] for covariate in one["covariates"]]
        assert sum(terms) == pytest.approx(one["prediction"])  # the sum of the path is the prediction
    new = int((~expected["known"]).sum())
    assert not found["answers"][2]["known"] and found["answers"][0]["known"]
    median = table.inputs.medians[0]
    assert found["notes"] == [
        f"1 of 5 rows lacks a number, read as the median of the training rows: 'height' {median:.4g} in 1 row",
        f"{counted(new, 'row has', 'rows have')} no level, or one the model does not know: predicted at the deepest known ancestor",
    ]


def test_layers_are_the_balls_themselves(api):
    """No mean of means: a ball shows its own number; the root's coefficient does not use up the scale of the others."""
    model, tree = api.subject.answers.model, api.subject.tree
    summary = get(api, "/api/tree")
    assert [layer["name"] for layer in summary["layers"] if layer["own"]] == [MEAN, "coefficient", "sd of a new row"]
    assert summary["color"] == MEAN and summary["model"]["answers"] == "number"
    median = api.subject.answers.table.inputs.medians[0]
    mean, _ = model.predict_nodes(np.arange(tree.n_nodes), np.full((tree.n_nodes, 1), median))
    for i in range(tree.n_nodes):
        columns = get(api, "/api/node", id=f"@{i}", layer=MEAN)
        assert columns["layer"] == columns["columns"][MEAN] == mean[i]
        assert columns["columns"]["coefficient"] == model.coef_[i]
    legend = get(api, "/api/layer", name="coefficient")
    assert legend["high"] == -legend["low"] == np.abs(model.coef_[1:]).max() and legend["stat"] == ""
    colour = api.answer("GET", "/api/layer.bin", {"name": "coefficient"}).body
    assert colour[0] == 255 and max(colour[1:]) <= 254
    reply = api.answer("GET", "/api/layer.bin", {"name": MEAN, "as": "weight"})
    assert reply.status == 400 and b"gives no sizes" in reply.body


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"texts": ["o1"]}, "there is no field 'texts'"),
        ({"rows": [row("o1")], "top": 3}, "there is no field 'top'"),
        ({}, "ask with rows"),
        ({"rows": []}, "at least one entry"),
        ({"rows": [{"order": "o1"}]}, "missing: 'family', 'genus', 'height'"),
        ({"rows": [row("o1", height="tall")]}, "features are numbers"),
        ({"rows": [row("o1", height=True)]}, "features are numbers"),
        ({"rows": [row(["o1"])]}, "texts or numbers, got ['o1']"),
        ({"rows": [row("o1", height=None)] * 2}, "has no number in any of 2 rows"),
    ],
)
def test_bad_questions_are_one_sentence(api, body, said):
    status, found = ask(api, body)
    assert status == 422 and said in found["error"]


def test_the_rest_of_the_api_knows_the_model(api):
    api.subject.answers.warm()
    paths = get(api, "/api/openapi.json")["paths"]
    assert "/api/predict" in paths and "/api/triage" not in paths
    reply = api.answer("POST", "/api/triage", {}, b"order,mass\no1,2\n", "text/csv")
    assert reply.status == 422 and b"predicts a number" in reply.body
    assert get(api, "/api/describe", id="o1")["leaves"] == 12


def test_regressors_made_in_python(tmp_path):
    """Of arrays, with labels of a tree, saved or not; what cannot be asked is refused instead of shown as a bare tree."""
    X, y = [["a", "b", 1.0], ["a", "c", 2.0], ["d", "e", 3.0], ["d", "e", 4.0]], [1.0, 2.0, 5.0, 6.0]
    model = VPuNNRegressor(covariates=[2]).fit(np.array(X, object), y)
    subject = open_model(model.save(tmp_path / "m"))
    assert subject.answers.columns == ["level 1", "level 2", "covariate 1"]
    status, found = ask(Api(subject), {"rows": [{"level 1": "d", "level 2": "e", "covariate 1": 3.0}]})
    assert status == 200 and found["answers"][0]["prediction"] == model.predict(np.array([["d", "e", 3.0]], object))[0]
    tree = Tree.from_parents([-1, 0, 0], labels=["all", "a", "b"])
    labelled = as_subject(VPuNNRegressor(tree, penalty=1.0).fit([["a"], ["b"]], [1.0, 8.0]), columns={"n": [1, 2, 3]})
    assert labelled.answers.columns == ["label"] and "n" in labelled.tree.columns
    classes = open_model(VPuNNClassifier().fit([["a", "b"], ["c", "d"]], [0, 1]).save(tmp_path / "c"))
    assert ask(Api(classes), {"rows": [{"level 1": "c", "level 2": "d"}]})[1]["answers"][0]["prediction"] == "1"
    with pytest.raises(VpunnError, match="predicts 2 numbers"):
        as_subject(VPuNNRegressor(penalty=1.0).fit([["a", "b"], ["c", "d"]], [[0, 1], [1, 2]]))
    with pytest.raises(VpunnError, match="behind the levels"):
        as_subject(VPuNNRegressor(covariates=[0]).fit(np.array([[r[2], *r[:2]] for r in X], object), y))


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """A class and a number along branches, as ``vpunn fit --classify`` and ``--regress`` write them."""
    tree = read_tree(io.StringIO("((((a:1,b:1):2,(c:1,d:1):2):1,g:4):3,((e:2,f:2):2,h:4):3);"))
    frame = pd.DataFrame({"sp": list("abcef"), "kg": [1.0, 1.2, 1.5, 7.0, 9.0], "diet": ["meat"] * 3 + ["plants"] * 2})
    folder = tmp_path_factory.mktemp("evolved")
    for name, kind, target in (("c", TableLevelClassifier, "diet"), ("r", TableRegressor, "kg")):
        inputs = Inputs((target,), (), (), ("sp",), classes=name == "c")
        sample = read_sample(frame, inputs, "t", regress=True, tree=tree)
        how = {"evolution": "mk" if name == "c" else "brownian"}
        kind.fit(sample, inputs, tree=tree, how=how).save(folder / name, {})
    return folder


def test_ancestral_states_are_layers_and_classes_are_asked(evolved):
    number, kinds = Api(open_model(evolved / "r")), Api(open_model(evolved / "c"))
    states = number.subject.answers.model.ancestors().set_index("node")
    for i, state in states.iterrows():
        columns = get(number, "/api/node", id=f"@{i}", layer="ancestral state")["columns"]
        assert columns["ancestral state"] == state["mean"] and columns["sd of the state"] == pytest.approx(state["sd"])
    model = kinds.subject.answers.model
    assert get(kinds, "/api/tree")["color"] == "likeliest class"
    legend = get(kinds, "/api/layer", name="likeliest class")
    colour = kinds.answer("GET", "/api/layer.bin", {"name": "likeliest class"}).body
    likeliest = model.classes_[model.node_proba_.argmax(1)].tolist()
    assert [legend["names"][c] for c in colour] == likeliest
    assert get(kinds, "/api/node", id="@0", layer="P(meat)")["layer"] == model.ancestors()["meat"][0]
    status, found = ask(kinds, {"rows": [{"sp": "h"}, {"sp": "nobody"}]})
    assert status == 200 and "1 row has no level, or one" in found["notes"][0]
    for one, same in zip(found["answers"], model.predict_proba([["h"], ["nobody"]]), strict=True):
        assert [row["probability"] for row in one["classes"]] == sorted(same, reverse=True)
        steps = sum(ball["coefficient"] for ball in one["path"]) + one["beyond"]
        assert steps == pytest.approx(one["probability"]) and one["probability"] == same.max()


def test_a_model_of_logarithms_answers_in_numbers_and_sums_logarithms(evolved):
    table = open_table_model(evolved / "r")
    inputs = replace(table.inputs, log=True)
    api = Api(as_subject(TableRegressor(table.model, inputs)))
    model = get(api, "/api/tree")["model"]
    assert (model["target"], model["scale"]) == ("kg", "log10 of kg")
    (one,) = ask(api, {"rows": [{"sp": "h"}]})[1]["answers"]
    assert one["prediction"] == pytest.approx(10 ** one["path"][-1]["total"])


def test_the_page_asks_for_a_class(visit, evolved):
    with Running(open_model(evolved / "c")) as url:
        page = visit().open(url)
        page.locator("#legend").filter(has_text="likeliest class").wait_for()
        page.goto(f"{url}#tab=ask&text={quote(json.dumps({'sp': 'h'}))}")
        page.locator("#number").filter(has_text="plants").wait_for()
        assert "What makes plants so probable" in page.locator("#answer").text_content()


def test_a_saved_page_keeps_the_numbers_of_the_balls(api):
    page = api.answer("GET", "/api/export", {"id": "@1", "format": "html"}).body.decode()
    assert f'"color": "{MEAN}"' in page
    part = api.subject.tree.subtree(1)
    table = api.answer("GET", "/api/export", {"id": "@1", "format": "csv"}).body.decode()
    assert np.allclose(pd.read_csv(pd.io.common.StringIO(table))[MEAN], part.columns[MEAN])


def test_the_page_asks_and_colours(visit, api, screenshots):
    with Running(api.subject) as url:
        page = visit().open(url)
        page.locator("#legend").filter(has_text=MEAN).wait_for()
        question = json.dumps(row("o2", "o2f0", "o2f0g1", height=""))
        page.goto(f"{url}#tab=ask&text={quote(question)}")
        page.locator("#number").wait_for()
        (one,) = ask(api, {"rows": [row("o2", "o2f0", "o2f0g1", height=None)]})[1]["answers"]
        assert float(page.locator("#number").text_content()) == pytest.approx(one["prediction"], rel=1e-3)
        assert page.locator(".path li").count() == 5 and "median" in page.locator("#answer").text_content()
        assert page.evaluate("explorer.view.stop") == one["node"]
        assert page.locator("#rules").is_hidden() and page.locator("#triage-part").is_hidden()
        page.screenshot(path=screenshots / "number-1400-light.png")
        page.locator("[data-tab=color]").click()
        assert MEAN not in page.locator("#size").inner_text() and page.locator("#stat").is_hidden()
        page.locator("#color").select_option("")  # by branch, and that is in the URL too
        page.wait_for_url(re.compile("color=(&|$)"))
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert page.evaluate("explorer.legend") is None


def test_a_test_table_may_lack_numbers():
    """Read as medians, as `vpunn evaluate` does, and said."""
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"])[rng.integers(0, 2, 120)]
    frame = pd.DataFrame({"x": np.where(labels == "a", 5.0, -5.0) + rng.normal(size=120), "y": rng.normal(size=120)})
    inputs = Inputs(("label",), (), ("x", "y"))
    table = TableClassifier.fit(read_sample(frame.assign(label=labels), inputs, "t"), inputs)
    api = Api(Subject(table.model.tree_, "t", ClassifierAnswers(table.model, None, table.inputs)))
    sent = frame.assign(label=labels).mask(pd.DataFrame({"x": False, "y": np.arange(120) < 7, "label": False}))
    found = json.loads(api.answer("POST", "/api/triage", {}, sent.to_csv(index=False).encode(), "text/csv").body)
    assert "7 of 120 rows lack numbers" in found["notes"][0] and "120 rows are right" in found["verdict"]
