"""Excel sheets: read as the table they show, written so that nothing in them is run."""

from __future__ import annotations

import numpy as np
import openpyxl
import pandas as pd
import pytest

from vpunn.errors import DataError, DataWarning
from vpunn.io import read_table, write_table

FRAME = pd.DataFrame(
    {
        "sku": ["007", "=1+1", "-2", None],
        "price": [2.5, 3.0, np.nan, 4.0],
        "n": [1, 2, 3, 4],
        "new": [True, False, True, True],
    }
)


def sheet(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        at = book.create_sheet(name)
        for row in rows:
            at.append(row)
    book.save(path)
    return path


def test_what_is_written_is_read_back_and_no_cell_runs(tmp_path):
    path = write_table(FRAME, tmp_path / "t.xlsx")
    back = read_table(path, columns=["sku"])
    pd.testing.assert_frame_equal(back, FRAME, check_dtype=False)
    assert back["price"].dtype == float and back["n"].dtype == np.int64
    kinds = {cell.data_type for row in openpyxl.load_workbook(path).active.iter_rows() for cell in row}
    assert "f" not in kinds and not list(tmp_path.glob(".*"))


def test_the_first_filled_sheet_below_its_empty_rows_is_the_table(tmp_path):
    path = sheet(
        tmp_path / "t.xlsx",
        ("notes", []),
        ("data", [[], [None, "a ", "b"], [None, 1, "#N/A"], [], [None, 2, "x"]]),
        ("more", [["c"]]),
    )
    with pytest.warns(DataWarning, match="2 filled sheets; the first, 'data', was read"):
        frame = read_table(path)
    assert frame.to_dict("list") == {"a": [1, 2], "b": [np.nan, "x"]} or frame["b"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "is empty"),
        ([["a", "b"]], "no rows below"),
        ([["a", None], [1, 2]], "no name in the first row"),
        ([["a", "a"], [1, 2]], "two columns are called 'a'"),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path, rows, said):
    with pytest.raises(DataError, match=said):
        read_table(sheet(tmp_path / "t.xlsx", ("data", rows)))


def test_what_cannot_be_written_or_read(tmp_path):
    with pytest.raises(DataError, match="control character"):
        write_table(pd.DataFrame({"a": ["\x00"]}), tmp_path / "t.xlsx")
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="cannot be read as an Excel sheet"):
        read_table(tmp_path / "t.xlsx")
