"""Model folders: everything comes back as it was, nothing damaged comes back at all, and a write is whole or absent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vpunn
from stores import edit_array, write_head
from strategies import trees
from vpunn import PadicCode, Tree, VPuNN
from vpunn.errors import DataError
from vpunn.store import Draft, Stored, _swap

LABELS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def example(**more):
    draft = Draft("Example", {"seed": 3, **more}, provenance={"data": "a toy"})
    draft.array("pointer", np.array([0, 2, 2, 5]))
    draft.array("weight", np.linspace(0, 1, 50_000, dtype=np.float32), balls=True)
    draft.array("bias", np.array([0.5, 1.5]))
    draft.labels("classes", ["a", "b"])
    return draft


@pytest.fixture
def folder(tmp_path):
    return example().write(tmp_path / "model")


def change(folder, **changes):
    """Edit model.json as a vandal would."""
    write_head(folder, json.loads((folder / "model.json").read_text()) | changes)


# ---- what goes in comes out ------------------------------------------------------------------------------------------


@given(st.lists(LABELS, max_size=8))
def test_labels_come_back_with_value_and_type(tmp_path_factory, values):
    draft = Draft("Example")
    draft.labels("x", values)
    found = Stored.open(draft.write(tmp_path_factory.getbasetemp() / "labels")).labels("x", len(values)).tolist()
    assert [(type(v), v) for v in found] == [(type(v), v) for v in values]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "bcd", ""]),
        np.arange(4, dtype=np.int16),
        np.array([], object),
        np.array([1.5, np.nan]),
        np.array([True]),
        np.array(["2020-01-02"], "M8[D]"),
        np.array(["\ud800", "é", None], object),
    ],
)
def test_label_arrays_keep_their_dtype(tmp_path, values):
    draft = Draft("Example")
    draft.labels("x", values)
    found = Stored.open(draft.write(tmp_path / "m")).labels("x")
    assert found.dtype == values.dtype
    assert np.array_equal(found, values, equal_nan=values.dtype.kind == "f")


@pytest.mark.parametrize("label", [[1], {"a": 1}, b"x", object(), Fraction(1, 2), (1, [2])])
def test_other_labels_are_refused_before_anything_is_written(tmp_path, label):
    draft = Draft("Example")
    with pytest.raises(DataError, match="can be saved"):
        draft.labels("x", [label])
    assert not list(tmp_path.iterdir())


@given(trees())
def test_a_tree_comes_back_equal(tmp_path_factory, tree):
    path = tree.save(tmp_path_factory.getbasetemp() / "tree")
    again = Tree.load(path, verify=True)
    assert again == tree
    for name in ("parent", "depth", "size", "digit", "labels"):
        assert getattr(again, name).dtype == getattr(tree, name).dtype
        assert np.array_equal(getattr(again, name), getattr(tree, name))


def test_a_tree_keeps_columns_and_report(tmp_path):
    edges = [("thing", "pet"), ("thing", "mammal"), ("mammal", "dog"), ("pet", "dog")]
    tree = Tree.from_edges(edges, columns={"length": {"dog": 2.5}, "gloss": {"pet": "kept"}})
    again = vpunn.load(tree.save(tmp_path / "t"))
    assert again.report == tree.report
    assert vpunn.tree.dag.dropped_edges(again).equals(vpunn.tree.dag.dropped_edges(tree))
    assert np.array_equal(again.columns["length"], tree.columns["length"], equal_nan=True)
    assert again.columns["gloss"].tolist() == tree.columns["gloss"].tolist()


def test_a_code_comes_back_with_its_prime(tmp_path):
    code = PadicCode(Tree.from_parents([-1, 0, 0, 1, 1]), 11)
    again = vpunn.load(code.save(tmp_path / "c"))
    assert (again.p, again.encode().tolist()) == (11, code.encode().tolist())


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("real", [0.1, 2.0, -3e300]),
        ("integer", [1, -5, 7]),
        ("integer", [2**90, -(3**70), 0]),
        ("rational", [Fraction(1, 3), Fraction(10**5000, 7), 2]),
        ("padic", [1, 2, 3]),
        ("padic", [Fraction(1, 9), Fraction(1, 7), 5]),
    ],
)
def test_a_network_comes_back_exactly(tmp_path, kind, numbers):
    net = VPuNN(Tree.from_parents([-1, 0, 0, 1, 1]), values=kind).interpolate(numbers)
    again = vpunn.load(net.save(tmp_path / "n"), verify=True)
    assert again.ring == net.ring
    assert again.coefficients_.dtype == net.coefficients_.dtype
    assert again.coefficients_.tolist() == net.coefficients_.tolist()
    assert again.predict([2, 3]).tolist() == net.predict([2, 3]).tolist()


def test_same_model_same_bytes(tmp_path):
    one, two = (example().write(tmp_path / name) for name in "ab")
    assert [f.read_bytes() for f in sorted(one.iterdir())] == [f.read_bytes() for f in sorted(two.iterdir())]


def test_large_arrays_are_mapped_and_writing_to_them_spares_the_file(folder):
    before = (folder / "weight.npy").read_bytes()
    weight = Stored.open(folder).array("weight")
    assert isinstance(weight.base, np.memmap)
    assert weight.flags.writeable  # compiled kernels are made for writable arrays; these count as such
    weight[:] = 7
    assert (folder / "weight.npy").read_bytes() == before


def test_parts_stand_in_one_folder(tmp_path):
    draft = example()
    inner = Draft("Inner", {"words": 2})
    inner.array("weight", np.arange(3))
    draft.part("text", inner)
    stored = Stored.open(draft.write(tmp_path / "m"), "Example", verify=True)
    assert stored.part("text", "Inner").array("weight").tolist() == [0, 1, 2]
    assert stored.facts()["part text"]["settings"] == {"words": 2}
    with pytest.raises(DataError, match="holds a Inner, not a Other"):
        stored.part("text", "Other")
    np.save(tmp_path / "m" / "text.weight.npy", np.array([0, 1, 3]))
    with pytest.raises(DataError, match=r"part 'text'.*checksum"):
        stored.verify()


def test_anything_that_can_be_saved_may_stand_inside_another(tmp_path):
    tree = Tree.from_parents([-1, 0, 0, 1, 1], columns={"mass": np.arange(5.0)})
    code, net = PadicCode(tree, 11), VPuNN(tree, values="rational").interpolate([Fraction(1, 3), 2, 3])
    draft = Draft("Example")
    for name, thing in (("tree", tree), ("other.tree", tree.replace(columns={})), ("code", code), ("net", net)):
        draft.add(name, thing)
    stored = Stored.open(draft.write(tmp_path / "m"), verify=True)
    assert stored.get("tree", Tree) == tree and "mass" in stored.get("tree", Tree).columns
    assert not stored.get("other.tree", Tree).columns
    assert (stored.get("code", PadicCode).p, stored.get("net", VPuNN).coefficients_.tolist()) == (
        11,
        net.coefficients_.tolist(),
    )
    assert stored.facts()["tree"] == str(tree) and stored.facts()["part code"]["tree"] == str(tree)
    with pytest.raises(DataError, match=r"part 'code'\) holds a PadicCode, not a Tree"):
        stored.get("code", Tree)
    with pytest.raises(DataError, match="part 'nothing' is missing"):
        stored.get("nothing", Tree)


def test_facts_say_which_numbers_belong_to_balls(folder):
    facts = Stored.open(folder).facts()
    assert facts["numbers of balls"] == 50_000
    assert facts["numbers of no ball"] == {"bias": 2}  # pointers are no numbers of the model
    assert facts["provenance"]["data"] == "a toy"


def test_later_arrays_do_not_disturb_older_readers(tmp_path):
    draft = example()
    draft.array("added_later", np.zeros(2))
    assert Stored.open(draft.write(tmp_path / "m"), "Example").array("pointer").tolist() == [0, 2, 2, 5]


# ---- what is damaged, foreign or new is refused in one sentence --------------------------------------------------------


def flip(folder):
    data = bytearray((folder / "weight.npy").read_bytes())
    data[-100] ^= 1
    (folder / "weight.npy").write_bytes(bytes(data))


def test_a_flipped_bit_is_found_by_verify(folder):
    flip(folder)
    Stored.open(folder).array("weight")  # a plausible number: only the checksum knows
    with pytest.raises(DataError, match="'weight' is not what was saved: its checksum differs"):
        Stored.open(folder, verify=True)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "weight.npy").unlink(), "cannot be read"),
        (lambda f: (f / "weight.npy").write_bytes(b"\x93NUMPY"), "cut short"),
        (lambda f: os.truncate(f / "weight.npy", 100_000), "cut short"),
        (lambda f: np.save(f / "weight.npy", np.zeros(3)), "not what model.json says"),
        (lambda f: np.save(f / "weight.npy", np.array([{}]), allow_pickle=True), "not what model.json says"),
        (lambda f: change(f, arrays={}), "'weight' is missing"),
        (lambda f: change(f, arrays={"../../weight": {}}), "does not describe a model"),
        (lambda f: change(f, arrays={"weight": {"dtype": "|O", "shape": [1], "sha256": ""}}), "does not describe"),
        (lambda f: change(f, arrays=7), "does not describe a model"),
        (lambda f: change(f, kind=None), "does not describe a model"),
        (lambda f: change(f, parts={"a": 1}), "does not describe a model"),
        (lambda f: change(f, kind="VPuNN"), "holds a VPuNN, not a Example; vpunn.load opens any kind"),
        (lambda f: change(f, format=2), "format 2 .* reads up to 1; update vpunn"),
        (lambda f: change(f, layout=99, version="7.0"), r"newer vpunn \(7.0\); update"),
        (lambda f: (f / "model.json").write_text("{"), "not valid JSON"),
        (lambda f: (f / "model.json").write_text("[" * 100_000), "not valid JSON"),
        (lambda f: (f / "model.json").write_bytes(b"\xff\xfe"), "not valid JSON"),
        (lambda f: (f / "model.json").unlink(), "without a model.json"),
        (shutil.rmtree, "there is no model folder"),
    ],
)
def test_damaged_folders_are_refused(folder, spoil, said):
    spoil(folder)
    with pytest.raises(DataError, match=said):
        Stored.open(folder, "Example").array("weight")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"dtype": "i4"}, "holds int64, not i4"),
        ({"dtype": "f"}, "holds int64"),
        ({"shape": (None, 2)}, r"shape \(4,\), not \(any, 2\)"),
        ({"shape": (3,)}, "shape"),
        ({"low": 1}, "holds 0, below 1"),
        ({"high": 5}, "holds 5, which is not below 5"),
    ],
)
def test_arrays_are_checked_as_asked(folder, wanted, said):
    stored = Stored.open(folder)
    assert len(stored.array("pointer", dtype="iu", shape=(None,), low=0, high=6, monotone=True)) == 4
    with pytest.raises(DataError, match=said):
        stored.array("pointer", **wanted)


def test_falling_pointers_and_infinities_are_refused(tmp_path):
    draft = Draft("Example")
    draft.array("falls", np.array([0, 2, 1], np.uint8))
    draft.array("wild", np.array([1.0, np.inf]))
    stored = Stored.open(draft.write(tmp_path / "m"))
    with pytest.raises(DataError, match="falls"):
        stored.array("falls", monotone=True)
    with pytest.raises(DataError, match="not finite"):
        stored.array("wild")
    assert stored.array("wild", finite=False)[1] == np.inf


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("parent", np.array([-1, 0, 0, 9, 1], "i4"), "no tree"),
        ("parent", np.array([-1, 0, 0, 1, 1], "i8"), "int64"),
        ("depth", np.array([0, 1, 2, 2, 2], "i4"), "no tree"),
        ("size", np.array([5, 9, 1, 1, 1], "i4"), "no tree"),
        ("digit", np.zeros(5, "i4"), "no tree"),
        ("labels.offsets", np.array([0, 1, 2, 1, 4, 5]), "offsets"),
        ("labels.offsets", np.array([0, 1, 2, 3, 4, 99]), "offsets"),
        ("labels.tags", np.array([0, 0, 0, 0, 7], "u1"), "tag 7"),
        ("labels.tags", np.array([0, 0, 0, 0, 1], "u1"), "no text"),
        ("labels.bytes", np.full(5, 255, "u1"), "no text"),
    ],
)
def test_trees_with_edited_arrays_are_refused(tmp_path, name, values, said):
    path = Tree.from_parents([-1, 0, 0, 1, 1], labels=list("abcde")).save(tmp_path / "t")
    Tree.load(path)
    edit_array(path, name, lambda _: values)
    with pytest.raises(DataError, match=said):
        Tree.load(path)


def test_old_formats_are_named(tmp_path):
    np.savez(tmp_path / "old.npz", head=np.array("{}"))
    (tmp_path / "old.model").write_bytes(b"vpunn-tabhipan-1\n...")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "model.npz").write_bytes(b"PK")
    for name in ("old.npz", "old.model", "dir"):
        with pytest.raises(DataError, match=r"vpunn 0.1, which is no longer read; fit and save it again"):
            vpunn.load(tmp_path / name)
    (tmp_path / "note").write_text("hello")
    with pytest.raises(DataError, match="is a file, but a saved model is a folder"):
        vpunn.load(tmp_path / "note")
    with pytest.raises(DataError, match="is named by text"):
        vpunn.load(7)


def test_unknown_kinds_are_refused(folder):
    with pytest.raises(DataError, match="holds a Example, which this version does not know"):
        vpunn.load(folder)


def test_settings_must_be_plain(tmp_path):
    for value, said in ((object(), "cannot be saved"), (float("nan"), "cannot be saved")):
        with pytest.raises(DataError, match=said):
            example(odd=value).write(tmp_path / "m")
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="setting 'seed' is 3"):
        Stored.open(example().write(tmp_path / "m")).setting("seed", str)


# ---- a write is whole or absent ----------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_model_and_no_litter(folder, monkeypatch):
    calls = []

    def full(*args, **options):
        calls.append(args)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write_array(*args, **options)

    write_array = np.lib.format.write_array
    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(DataError, match="No space left"):
        example(other=1).write(folder)
    assert "other" not in Stored.open(folder, verify=True).settings
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("exchange", [True, False])
def test_an_old_model_is_replaced(folder, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(_swap, "_exchange", lambda *paths: False)
    mapped = Stored.open(folder).array("weight")
    new = Draft("Example", {"seed": 4})
    new.array("other", np.arange(2))
    new.write(folder)
    assert Stored.open(folder, verify=True).names == ["other"]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]
    assert sorted(p.name for p in folder.iterdir()) == ["model.json", "other.npy"]
    assert mapped[-1] == 1.0  # who had the old one open keeps it


def test_a_write_killed_between_two_renames_leaves_the_old_model(folder, monkeypatch):
    monkeypatch.setattr(_swap, "_exchange", lambda *paths: False)
    folder.rename(folder.with_name(".model.replaced"))
    assert Stored.open(folder, "Example", verify=True).setting("seed", int) == 3
    example(new=True).write(folder)
    assert Stored.open(folder).settings["new"]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_a_failed_second_rename_puts_the_old_model_back(folder, monkeypatch):
    monkeypatch.setattr(_swap, "_exchange", lambda *paths: False)
    rename = os.rename

    def failing(one, other):
        if one.name.endswith(".swap") and other == folder:
            raise OSError(5, "Input/output error")
        rename(one, other)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(DataError, match="Input/output"):
        example(new=True).write(folder)
    assert "new" not in Stored.open(folder, verify=True).settings


KILLED = """
import itertools, sys, numpy as np
from vpunn.store import Draft
for k in itertools.count():
    draft = Draft("Example", {"turn": k})
    for j in range(20):
        draft.array(f"a{j}", np.full(20_000, k))
    draft.write(sys.argv[1])
    print(k, flush=True)
"""


def test_killed_writers_leave_one_whole_model(tmp_path):
    path = tmp_path / "model"
    for turn in range(6):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
        writer.stdout.readline()
        time.sleep(0.003 * turn)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        stored = Stored.open(path, "Example", verify=True)
        assert {int(stored.array(f"a{j}")[-1]) for j in range(20)} == {stored.setting("turn", int)}


def test_what_killed_writers_leave_is_swept_after_a_day(folder):
    old, young = (folder.with_name(f".model.{digit * 16}.part") for digit in "01")
    for left in (old, young):
        left.mkdir()
        (left / "weight.npy").write_bytes(b"half")
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    example().write(folder)
    assert [left.exists() for left in (old, young)] == [False, True]


def test_what_is_no_model_is_never_replaced(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    example().write(notes)  # an empty folder may be used
    (notes / "diary.txt").write_text("dear diary")
    with pytest.raises(DataError, match=r"also holds 'diary.txt'; move that away"):
        example().write(notes)
    (notes / "model.json").unlink()
    with pytest.raises(DataError, match="a folder but no model"):
        example().write(notes)
    assert (notes / "diary.txt").read_text() == "dear diary"
    with pytest.raises(DataError, match="it is a file; a model is a folder"):
        example().write(notes / "diary.txt")
    with pytest.raises(DataError, match="there is no folder"):
        example().write(tmp_path / "nowhere" / "model")
