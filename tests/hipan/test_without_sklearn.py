"""A fit without scikit-learn and pandas, and the estimator it becomes when scikit-learn is imported; each in a process of its own,
because the classes are joined once in a process."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

SMALL = """
import sys
import numpy as np
from scipy import sparse
from vpunn import HiPaNClassifier, Tree
tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "z"), ("b", "w")], root="r")
place = np.arange(40) % 4
X = sparse.csr_matrix(np.eye(4)[place] + np.random.default_rng(0).random((40, 4)))
y = np.array(["x", "y", "z", "w"])[place]
make = lambda **more: HiPaNClassifier(tree, epochs=1, hidden=4, **more)

def heavy():
    return [name for name in ("sklearn", "pandas", "pyarrow") if name in sys.modules]
"""


def run(code, *arguments):
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", SMALL + code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "given",
    ["X, y", "X.astype(np.float32), y", "X.toarray(), y.tolist()", "(X.toarray() > 1).astype(int), list(place)"],
    ids=["words", "single", "dense", "whole numbers"],
)
def test_fit_predict_and_save_import_neither(given, tmp_path):
    said = run(
        f"""
X, y = {given}
flat = not isinstance(y[0], str)
model = (HiPaNClassifier(hidden=4) if flat else make()).fit(X, y)
if not flat:
    model.partial_fit(X[:8], y[:8]).calibrate(X, y)
model.predict(X, stop="risk"), model.predict_proba(X)
model.save(sys.argv[1])
print("heavy", *heavy(), model.get_params(deep=False)["hidden"])
""",
        str(tmp_path / "model"),
    )
    assert said == ["heavy", "4"]


def test_the_bits_are_those_of_a_fit_that_scikit_learn_checked():
    code = """
model = make().fit(X.{0}, y)
posterior = model.posterior(X.{0})
print(posterior.probability.tobytes().hex(), posterior.rest.tobytes().hex(), *heavy())
"""
    plain, checked = run(code.format("tocsr()")), run(code.format("tocsc()"))  # by columns: scikit-learn turns it
    assert plain == checked[:2] and checked[2:] == ["sklearn", "pandas", "pyarrow"]


def test_from_when_scikit_learn_is_imported_it_is_an_estimator_of_its():
    said = run(
        """
class Mine(HiPaNClassifier):
    pass

model, mine = make(random_state=3).fit(X, y), Mine(tree)
assert not heavy() and not hasattr(model, "no_such_thing")
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
for each in (model, mine):
    assert isinstance(each, BaseEstimator) and isinstance(each, ClassifierMixin) and is_classifier(each)
    assert clone(each).get_params() == each.get_params() and type(clone(each)) is type(each)
assert issubclass(HiPaNClassifier, BaseEstimator) and HiPaNClassifier in ClassifierMixin.__subclasses__()
assert all("vpunn" not in base.__module__ for base in HiPaNClassifier.__bases__ if "Mixin" in base.__name__)
sklearn.set_config(enable_metadata_routing=True)
for each in (model, mine):
    assert each.set_fit_request(sample_weight=True).get_metadata_routing().fit.requests["sample_weight"] is True
assert model.score(X, y) == (model.predict(X) == y).mean()
assert sklearn.base.__spec__.loader is sklearn.base.__loader__ and "vpunn" not in type(sklearn.base.__loader__).__module__
print(model)
"""
    )
    assert said[0].startswith("HiPaNClassifier(epochs=1,")


@pytest.mark.parametrize(
    "asked",
    [
        "repr(model)",
        "model.set_params(hidden=5)",
        "model.get_metadata_routing()",
        "'<style' in model._repr_html_()",
        "model.__sklearn_tags__()",
        "HiPaNClassifier().predict(X)",
        "model.fit(X, np.linspace(0, 1, 40))",
        "model.fit([[np.nan] * 4] * 40, y)",
    ],
)
def test_what_scikit_learn_answers_before_it_was_imported(asked):
    """The same, answer or error, as afterwards."""
    code = f"""
def answer(model):
    try:
        return repr({asked})[:200]
    except Exception as error:
        return f"{{type(error).__mro__[:3]}} {{error}}"

first = answer(make())
assert "sklearn" in heavy()
print(first == answer(make()), first)
"""
    assert run(code)[0] == "True"


def test_models_travel_between_processes_with_and_without_it(tmp_path):
    path = tmp_path / "model.pickle"
    made = run(
        "import pickle\nmodel = make().fit(X, y)\npickle.dump(model, open(sys.argv[1], 'wb'))\nprint(*heavy())", path
    )
    assert made == []
    from sklearn.base import BaseEstimator

    model = pickle.loads(path.read_bytes())
    assert isinstance(model, BaseEstimator)
    path.write_bytes(pickle.dumps(model))
    code = "import pickle\nmodel = pickle.load(open(sys.argv[1], 'rb'))\nprint(*heavy(), *model.predict(X))"
    np.testing.assert_array_equal(run(code, path), model.predict(np.eye(4)[np.arange(40) % 4]))


def test_searches_and_pipelines():
    said = run(
        """
model = make()
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
found = GridSearchCV(make_pipeline(MaxAbsScaler(), model), {"hipanclassifier__hidden": [2, 3]}, cv=2).fit(X, y)
print(found.best_params_["hipanclassifier__hidden"], len(cross_val_score(model, X, y, cv=2)), found._repr_html_()[:6])
"""
    )
    assert said[0] in "23" and said[1:] == ["2", "<style"]
