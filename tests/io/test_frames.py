"""Tables in and out: every delimiter, encoding and ending, and a sentence for everything that is wrong."""

from __future__ import annotations

import gzip
import io
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpunn.errors import DataError, DataWarning
from vpunn.io import read_table, write_table
from vpunn.io.frames import ENDINGS, check_columns, pop_column

FRAME = pd.DataFrame({"name": ["Ünsal", 'a "b"', "x;y,z|w"], "weight": [0.1, np.nan, 1e300], "n": [1, 2, 3]})


def text(content: str, **options: object) -> pd.DataFrame:
    return read_table(io.StringIO(content), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_delimiters_and_encodings_are_found(mark, encoding, ending, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(FRAME.to_csv(index=False, sep=mark, lineterminator=ending).encode(encoding))
    pd.testing.assert_frame_equal(read_table(path), FRAME)


def test_other_bytes_are_latin_1_and_a_note_says_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("who;n\nana;1\nÜnsal;2\n".encode("latin-1"))
    with pytest.warns(DataWarning, match=r"not UTF-8 \(byte 0xdc in line 3\) and was read as Latin-1"):
        assert read_table(path)["who"].tolist() == ["ana", "Ünsal"]
    assert read_table(path, encoding="latin-1")["who"].tolist() == ["ana", "Ünsal"]
    with pytest.raises(DataError, match="line 3, column 1: byte 0xdc is not utf-8 text"):
        read_table(path, encoding="utf-8")


@pytest.mark.parametrize("ending", [*ENDINGS, ".csv.gz", ".jsonl.xz", ".CSV"])
def test_what_was_written_is_read_back_equal(ending, tmp_path):
    path = tmp_path / f"t{ending}"
    assert write_table(FRAME, path) == path
    pd.testing.assert_frame_equal(read_table(path), FRAME)
    first = path.read_bytes()
    write_table(FRAME, path)
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == [path.name]


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.text("aä,;|\t\"'\n x", min_size=1)), min_size=1
    )
)
def test_numbers_and_awkward_texts_survive_csv(rows):
    frame = pd.DataFrame(rows, columns=["x", "words"]).assign(words=lambda f: "w" + f["words"])
    back = text(frame.to_csv(index=False))
    assert back["x"].tolist() == frame["x"].tolist()
    assert back["words"].tolist() == frame["words"].tolist()


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_broken_rows_are_named_by_line(quote, newline):
    head = newline.join([f"{quote}a{quote};b", "1;2", "", "3;4"])
    assert len(text(head + newline)) == 2
    with pytest.raises(DataError, match="line 5: 3 cells where the first line has 2; quote cells that contain ';'"):
        text(head + newline + "5;6;7")
    with pytest.raises(DataError, match="line 5: 1 cell where the first line has 2"):
        text(newline.join([head, "5", "6;7"]))


def test_quoted_line_breaks_do_not_disturb_the_count():
    with pytest.raises(DataError, match="line 4: 1 cell where"):
        text('a,b\n"x\ny",1\nz\n')
    assert text('a,b\n"x\ny",1\n')["a"].tolist() == ["x\ny"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; a table begins with a line of column names"),
        ("\n \n", "is empty"),
        ("a,b\n", "has no rows below its column names, 'a', 'b'"),
        ("a,b,a\n1,2,3\n", "two columns are called 'a'; rename one"),
        ('{"a": 1}\n[1]\n', "line 2: each line holds one object"),
        ('{"a": 1}\n{"a"\n', "line 2: this is not JSON"),
    ],
)
def test_tables_that_cannot_be_used(content, message):
    with pytest.raises(DataError, match=message):
        text(content)


def test_files_that_are_no_tables(tmp_path):
    packed = write_table(FRAME, tmp_path / "t.parquet").read_bytes()
    for name, content, message in (
        ("none.csv", None, "there is no file"),
        ("t.ods", b"x", "has the ending '.ods'; tables are read from .csv"),
        ("t.parquet", b"PAR1 but no more", "cannot be read as Parquet"),
        ("t.feather", b"nothing", "cannot be read as Feather"),
        ("t.parquet", packed.replace("Ünsal".encode(), b"\xff\xffnsal"), "Invalid UTF8"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "looks compressed but cannot be unpacked"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / name)
    with pytest.raises(DataError, match="cannot write"):
        write_table(FRAME, tmp_path / "t.ods")


def test_missing_columns_say_what_was_meant():
    with pytest.raises(
        DataError, match="has no column 'wieght'; did you mean 'weight'\\? It has 'name', 'weight', 'n'"
    ):
        check_columns(FRAME, ["n", "wieght"], "t.csv")
    with pytest.raises(DataError, match="'<stream>' has no column 'z'; it has 'a'"):
        text("a\n1\n", columns=["z"])
    rest, column = pop_column(FRAME, "n")
    assert list(rest.columns) == ["name", "weight"]
    assert column is not None
    assert column.tolist() == [1, 2, 3]
    assert pop_column(FRAME, None)[1] is None
