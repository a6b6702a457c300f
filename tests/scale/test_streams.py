"""Streams: the answers of a table in memory, in batches; folders of parts that continue; nothing half-written after kill -9."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import vpunn
from vpunn.errors import DataError, DataWarning, TreeError, VpunnError
from vpunn.io import read_table, streams, texts, write_table
from vpunn.scale import BallSums, Predictor, encode, evaluate, predict
from vpunn.tables.inputs import Inputs
from vpunn.tables.level_classes import TableLevelClassifier
from vpunn.tables.models import TableClassifier, open_table_model
from vpunn.tables.regressor import TableRegressor
from vpunn.tables.samples import read_sample

WORDS = {"owl": "night bird hoots", "wren": "small bird sings", "carp": "pond fish", "eel": "long slippery fish"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A small classifier of texts and a regressor of levels as `vpunn fit` writes them, and a table to ask about."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    kinds = rng.choice(list(WORDS), 240)
    frame = pd.DataFrame(
        {"id": [f"{i:04d}" for i in range(240)], "group": np.where(np.isin(kinds, ["owl", "wren"]), "bird", "fish")}
    )
    frame["kind"] = kinds
    frame["text"] = [" ".join(rng.permutation(WORDS[k].split())[:2]) for k in kinds]
    frame["size"] = rng.normal(size=240).round(3) + 3 * np.isin(kinds, ["eel"])
    texts = Inputs(("group", "kind"), ("text",))
    TableClassifier.fit(read_sample(frame, texts, "t"), texts, characters=False).save(folder / "places", {})
    numbers = Inputs(("size",), (), (), ("group", "kind"))
    sample = read_sample(frame, numbers, "t", regress=True)
    TableRegressor.fit(sample, numbers).save(folder / "sizes", {})
    frame["colour"] = rng.choice(["brown", "silver"], 240)
    classes = Inputs(("colour",), (), (), ("group", "kind"), classes=True)
    sample = read_sample(frame, classes, "t", regress=True)
    TableLevelClassifier.fit(sample, classes).save(folder / "colours", {})
    frame.loc[7, "text"] = "zzz"  # a word the model does not know
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", index=False)
    return folder


@pytest.fixture
def blocks(monkeypatch):
    """Text passes through in blocks, as if it were large."""
    monkeypatch.setattr(texts, "BLOCK", 2000)


@pytest.mark.parametrize("model", ["places", "sizes"])
@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet"])
def test_batches_answer_as_the_whole_table(shop, tmp_path, model, source, blocks):
    fitted = open_table_model(shop / model)
    frame = read_table(shop / source, as_text=[*fitted.inputs.as_text, "id"])
    whole = fitted.answer_table(frame, source, keep=["id"])
    done = predict(shop / model, shop / source, tmp_path / "a.parquet", keep=["id"], batch_rows=64, part_rows=64)
    found = read_table(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(found, whole, check_dtype=False)
    assert done.rows == 240 and done.unknown == (1 if model == "places" else 0)
    for ending in (".csv", ".tsv.gz", ".jsonl", ".feather"):
        predict(shop / model, shop / source, tmp_path / f"a{ending}", keep=["id"], batch_rows=64, part_rows=64)
        again = read_table(tmp_path / f"a{ending}", as_text=["id"])
        pd.testing.assert_frame_equal(again, whole.astype({"id": str}), check_dtype=False)


@pytest.mark.parametrize("model", ["places", "sizes", "colours"])
@pytest.mark.parametrize("unseen", ["ancestor", "skip"])
def test_scores_add_up_over_batches(shop, tmp_path, model, unseen, blocks):
    frame = pd.read_csv(shop / "rows.csv", dtype=str)
    frame.loc[3, "kind"], frame.loc[8, "colour"] = "heron", "red"  # new to the model
    frame.to_csv(tmp_path / "rows.csv", index=False)
    fitted = open_table_model(shop / model)
    whole = fitted.evaluate(read_table(tmp_path / "rows.csv", as_text=fitted.inputs.as_text), "rows", unseen)
    found = evaluate(shop / model, tmp_path / "rows.csv", unseen=unseen, batch_rows=50)
    assert list(found.scores) == list(whole.scores)
    np.testing.assert_allclose(list(found.scores.values()), list(whole.scores.values()), rtol=1e-9)
    for one, other in zip(found.by_depth, whole.by_depth, strict=True):
        np.testing.assert_allclose(list(one.values()), list(other.values()), rtol=1e-9)
    assert found.notes == whole.notes
    with pytest.raises(DataError, match=r"rows\.csv, rows 0 to 1' .*first in row 1 \(counted from 0\)"):
        evaluate(shop / model, _only(tmp_path, frame, [2, 3]), unseen="error", batch_rows=2)


def _only(folder, frame, rows):
    """A file of some of the rows."""
    frame.iloc[rows].to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def test_messages_name_rows_of_the_file(shop, tmp_path, blocks):
    frame = pd.read_csv(shop / "rows.csv", dtype=str)
    frame.loc[70, "size"] = "1e999"
    with pytest.raises(DataError, match=r"'size' of '.*rows\.csv, rows 50 to 99' is too large or infinite in row 20"):
        evaluate(shop / "sizes", _only(tmp_path, frame, slice(None)), batch_rows=50)


def test_a_folder_continues_and_refuses_another_job(shop, tmp_path):
    out = tmp_path / "parts"
    options = {"batch_rows": 20, "part_rows": 40}
    predict(shop / "places", shop / "rows.parquet", f"{out}/", **options)
    names = sorted(p.name for p in out.glob("part-*"))
    assert names == [f"part-00000-{i:05d}.parquet" for i in range(6)]
    bytes_ = {p.name: p.read_bytes() for p in out.iterdir()}
    manifest = json.loads((out / "_manifest.json").read_text())
    assert manifest["complete"] and manifest["rows"] == 240 and manifest["input"][0]["file"] == "rows.parquet"
    whole = predict(shop / "places", shop / "rows.parquet", tmp_path / "one.parquet", **options)
    table = ds.dataset(out).to_table()  # files that begin with _ are no part of a dataset
    assert table.equals(pq.read_table(tmp_path / "one.parquet")) and whole.rows == len(table)
    for name in names[1:4]:
        (out / name).unlink()
    again = predict(shop / "places", shop / "rows.parquet", f"{out}/", **options)
    assert again.continued and again.rows == 240
    assert {p.name: p.read_bytes() for p in out.iterdir()} == bytes_
    with pytest.raises(DataError, match="another job: its 'options' differ"):
        predict(shop / "places", shop / "rows.parquet", f"{out}/", top=2, **options)
    with pytest.raises(DataError, match="another job: its .*'model'"):
        predict(shop / "sizes", shop / "rows.parquet", f"{out}/", **options)
    with pytest.raises(DataError, match="holds other files"):
        predict(shop / "places", shop / "rows.parquet", f"{shop}/", **options)


def test_several_files_and_a_dataset(shop, tmp_path):
    frame = read_table(shop / "rows.parquet")
    (tmp_path / "days").mkdir()
    for i, part in enumerate((frame.iloc[:100], frame.iloc[100:100], frame.iloc[100:])):
        part.to_parquet(tmp_path / "days" / f"{i}.parquet", index=False)
    predict(shop / "places", tmp_path / "days", tmp_path / "a", batch_rows=64, part_rows=64)
    predict(shop / "places", str(tmp_path / "days" / "*.parquet"), tmp_path / "b", batch_rows=64, part_rows=64)
    predict(shop / "places", ds.dataset(tmp_path / "days"), tmp_path / "c", batch_rows=64, part_rows=64)
    whole = open_table_model(shop / "places").answer_table(frame, "rows")
    for name in "abc":
        pd.testing.assert_frame_equal(ds.dataset(tmp_path / name).to_table().to_pandas(), whole, check_dtype=False)
    with pytest.raises(DataError, match="the input has 3 files"):
        predict(shop / "places", tmp_path / "days", tmp_path / "a.csv")
    with pytest.raises(DataError, match="no tables in"):
        predict(shop / "places", tmp_path / "nothing*", tmp_path / "x.csv")


def test_one_file_is_whole_or_not_there(shop, tmp_path, blocks):
    text = (shop / "rows.csv").read_text()
    (tmp_path / "bad.csv").write_text(text + "x,y\n")
    with pytest.raises(DataError, match="bad.csv, line 242: 2 cells where the first line has 6"):
        predict(shop / "places", tmp_path / "bad.csv", tmp_path / "out.csv", batch_rows=32, part_rows=32)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]
    (tmp_path / "latin.csv").write_bytes(text.replace("hoots", "hööts").encode("latin-1"))
    with pytest.warns(DataWarning, match="read as Latin-1"):
        assert predict(shop / "places", tmp_path / "latin.csv", tmp_path / "out.csv").rows == 240
    assert predict(shop / "places", tmp_path / "latin.csv", tmp_path / "out.csv", encoding="latin-1").rows == 240


def test_labels_of_a_table_and_of_the_tree_are_encoded(tmp_path, blocks):
    tree = vpunn.Tree.from_paths(["a/b/c", "a/b/d", "a/e"], sep="/")
    labels = ["e", "c", "c", "b"]
    write_table(pd.DataFrame({"n": range(4), "label": labels}), tmp_path / "in.csv")
    done = encode(tree, tmp_path / "in.csv", tmp_path / "out.parquet", mode="digits", batch_rows=2, part_rows=2)
    found = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert done.rows == 4 and [row["node"] for row in found] == tree.index(labels).tolist()
    assert found[1] == {"label": "c", "node": 2, "last": 2, "depth": 2, "path_key": b"\x01\x01", "code": "[1, 1]"}
    write_table(pd.DataFrame({"x": ["c", "z"], "y": ["b", "b"]}), tmp_path / "two.csv")
    with pytest.raises(DataError, match="say with --column"):
        encode(tree, tmp_path / "two.csv", tmp_path / "out.csv")
    with pytest.raises(TreeError, match="not in the tree: 'z'"):
        encode(tree, tmp_path / "two.csv", tmp_path / "out.csv", column="x")
    encode(tree, tmp_path / "two.csv", tmp_path / "out.csv", column="x", unseen="null")
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == ["c,2,2,2,0101", "z,,,,"]
    encode(tree, None, f"{tmp_path}/nodes/", batch_rows=2, part_rows=2)
    assert ds.dataset(tmp_path / "nodes").to_table()["label"].to_pylist() == tree.labels.tolist()


def test_labels_that_are_numbers_and_types_that_change(tmp_path):
    tree = vpunn.Tree.from_parents([-1, 0, 0])
    write_table(pd.DataFrame({"label": ["2", "x"]}), tmp_path / "in.csv")
    with pytest.raises(VpunnError, match="not in the tree, whose labels are whole numbers: 'x'"):
        encode(tree, tmp_path / "in.csv", tmp_path / "out.csv")
    with pytest.raises(DataError, match="there is no file"):
        encode(tree, tmp_path / "no.csv", tmp_path / "out.csv", column="label")

    def two_types() -> None:
        with streams.writing_table(tmp_path / "out.parquet") as writer:
            writer.write(pa.table({"a": [1]}))
            writer.write(pa.table({"a": ["x"]}))

    with pytest.raises(DataError, match="column 'a' holds int64 at first and string from row 1 on"):
        two_types()
    assert not (tmp_path / "out.parquet").exists()


def test_a_predictor_declares_its_schema_and_ships_its_path(shop):
    for model, options in (("places", {"top": 2}), ("places", {}), ("sizes", {})):
        predictor = Predictor(shop / model, keep=["id"], **options)
        frame = read_table(shop / "rows.parquet")
        answers = predictor(frame)
        empty = predictor(frame.iloc[:0])
        declared = predictor.schema(pa.Schema.from_pandas(frame, preserve_index=False))
        assert answers.schema == empty.schema == declared and len(empty) == 0
        shipped = pickle.loads(pickle.dumps(predictor))
        columns = {name: frame[name].to_numpy() for name in predictor.names}  # as Ray hands them
        pd.testing.assert_frame_equal(shipped(columns).to_pandas(), answers.to_pandas(), check_dtype=False)
    with pytest.raises(VpunnError, match="--stop does nothing here"):
        Predictor(shop / "sizes", stop="depth")
    with pytest.raises(DataError, match="has no column 'text'"):
        Predictor(shop / "places")(pa.table({"id": ["1"]}))


@pytest.mark.parametrize("kind", ["text", "numbers", "dictionary"])
def test_models_of_labels_read_columns_without_objects(tmp_path, kind):
    labels = np.array(["all", "a", "b", "c"], object) if kind != "numbers" else np.arange(4) + 10
    tree = vpunn.Tree.from_parents([-1, 0, 0, 1], labels=labels)
    nodes = np.array([1, 2, 3, 3, 2])
    x = np.arange(5.0)
    model = vpunn.VPuNNRegressor.from_sums(
        BallSums.from_rows(tree, nodes, [1.0, 2.0, 3.0, 4.0, 2.5], x[:, None]), penalty=1.0
    )
    model.save(tmp_path / "m")
    asked = np.append(tree.labels[nodes], ["new"] if kind != "numbers" else [99])
    column = pa.array(asked)
    batch = pa.table({"k": column.dictionary_encode() if kind == "dictionary" else column, "x": np.append(x, 2.0)})
    answers = Predictor(tmp_path / "m", columns=["k", "x"])(batch)
    mean, sd = model.predict(np.column_stack([asked.astype(object), np.append(x, 2.0)]), return_std=True)
    assert answers["prediction"].to_numpy().tolist() == mean.tolist()
    assert answers["sd"].to_numpy().tolist() == sd.tolist() and answers["known"].to_pylist() == [True] * 5 + [False]
    classes = vpunn.VPuNNClassifier.from_sums(BallSums.from_rows(tree, nodes, list("xyxxy")))
    classes.save(tmp_path / "c")
    said = Predictor(tmp_path / "c", columns=["k"])(batch.select(["k"]))
    assert said["label"].to_pylist() == classes.predict(asked.astype(object)[:, None]).tolist()
    known = np.column_stack([tree.labels[nodes].astype(object), x])
    more = vpunn.VPuNNClassifier(tree, covariates=[1]).fit(known, list("xyxxy"))
    more.save(tmp_path / "c2")
    said = Predictor(tmp_path / "c2", columns=["k", "x"])(batch)["probability"].to_numpy()[:5]
    np.testing.assert_array_equal(said, more.predict_proba(known).max(axis=1))  # what covariates change is in it
    with pytest.raises(VpunnError, match="reads 2 columns"):
        Predictor(tmp_path / "m", columns=["k"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks runs, which this system cannot")
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_streams_and_fits_go_on_to_the_same_bytes(tmp_path, kills):
    """``predict --out folder/`` and a fit with ``checkpoint=``, killed at random moments and run again."""
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, str(script), str(tmp_path), str(kills)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, found in json.loads(done.stdout.splitlines()[-1]).items():
        assert found["right"] and len(found["parts"]) == kills, (name, found)
        assert found["stopped"], f"{name}: no run was killed before it was done"
