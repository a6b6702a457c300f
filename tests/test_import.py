"""The package opens quickly and does not drag heavy libraries in."""

import pickle
import subprocess
import sys

import pytest

HEAVY = ("numba", "matplotlib", "torch", "dask", "pandas", "sklearn", "scipy", "networkx", "lightgbm", "typer")

SCRIPT = f"""
import time
start = time.process_time()  # this process alone: a busy machine must not fail the test
import vpunn
seconds = time.process_time() - start
import sys
print(seconds, *[name for name in {HEAVY!r} if name in sys.modules])
"""


def test_import_is_light():
    runs = [
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(3)
    ]
    assert all(run[1:] == [] for run in runs)
    assert min(float(run[0]) for run in runs) < 0.15


def test_a_tree_is_served_without_the_classifiers_libraries():
    code = "import sys, vpunn.web.api, vpunn.web.beliefs; print(*[n for n in ('sklearn', 'torch') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_every_name_in_the_table_of_contents_exists():
    import vpunn

    for name in vpunn.__all__:
        try:
            assert getattr(vpunn, name) is not None
        except vpunn.VpunnError as error:  # a library of an extra is not installed, and the sentence says which
            pytest.skip(str(error))
    assert set(vpunn.__all__) <= set(dir(vpunn))


LIGHT = """
import sys
from vpunn import HiPaNClassifier, text_features
HiPaNClassifier().fit([[1.0, 0.0], [0.0, 1.0], [1.0, 0.5]], ["a", "b", "a"]).predict([[1.0, 0.0]])
text_features(min_rows=1).fit_transform(["one text", "another"])
print(*[name for name in ("pandas", "pyarrow", "scipy.stats") if name in sys.modules])

import pandas, scipy, sklearn.utils.fixes as fixes
assert type(pandas) is type(sys) and fixes.pd.DataFrame is pandas.DataFrame
assert scipy.stats is sys.modules["scipy.stats"] and type(scipy.stats) is type(sys)
assert fixes._mode([1, 1, 2])[0] == 1
assert HiPaNClassifier().fit(pandas.DataFrame({"x": [1.0, 0.0, 1.0]}), ["a", "b", "a"]).feature_names_in_ == ["x"]
"""


def test_estimators_bring_neither_pandas_nor_statistics_until_someone_reads_them():
    found = subprocess.run([sys.executable, "-W", "error", "-c", LIGHT], capture_output=True, text=True)
    assert found.returncode == 0 and found.stdout.split() == [], found.stderr


def test_what_was_imported_before_stays():
    code = "import pandas, scipy.stats, sys; from vpunn import HiPaNClassifier; import sklearn.utils.fixes as f\n"
    code += "assert f.pd is pandas is sys.modules['pandas'] and sys.modules['scipy.stats'] is scipy.stats"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_cannot_be_found_is_left_to_scikit_learn():
    """A finder that refuses pandas, as tests of its absence have them."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
from vpunn import HiPaNClassifier
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_stand_in_is_pickled_as_what_it_stands_for():
    import pandas

    from vpunn._sklearn import _Later

    assert pickle.loads(pickle.dumps(_Later("pandas"))) is pandas
