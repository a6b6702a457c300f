"""One reader: a text table says the same, or is refused by the same sentence, as a table, in blocks, packed, and as a tree."""

from __future__ import annotations

import gzip
import itertools
import warnings

import pandas as pd
import pytest

from vpunn import scale
from vpunn.errors import DataError, VpunnError
from vpunn.io import read_table, read_tree, texts, write_table
from vpunn.io.streams import column_names, read_batches
from vpunn.tree import Tree

NAMES = ["up", "id", "x", "note", "code", "ok"]
ROWS = [
    ["", "all", "1.5", "über", "007", "true"],
    ["all", "ówl", "1234.25", "a b", "12", "FALSE"],
    ["all", "wren", "", "c", "3", ""],
    ["ówl", "9606", "-3", "d", "0", "True"],
]
PLAIN = "\n".join(",".join(row) for row in [NAMES, *ROWS]) + "\n"


def written(mark: str = ",", comma: bool = False, missing: str = "", quote: bool = False, sep: bool = False) -> str:
    """The same table, as one program or another writes it."""
    rows = [[cell or missing for cell in row] for row in ROWS]
    rows = [[cell.replace(".", ",") if comma and at == 2 else cell for at, cell in enumerate(row)] for row in rows]
    lines = [mark.join(f'"{cell}"' if quote and cell != missing else cell for cell in row) for row in [NAMES, *rows]]
    return "\n".join([*(["sep=" + mark] if sep else []), *lines]) + "\n"


READ = {
    f"{mark} {encoding}": written(mark).encode(encoding)
    for mark, encoding in itertools.product(
        ",;\t|", ("utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
    )
} | {
    "decimal commas": written(";", comma=True),
    "decimal commas in Latin-1": written(";", comma=True, sep=True).encode("latin-1"),
    "NA": written(missing="NA"),
    "null": written("\t", missing="null"),
    "quotes": written(quote=True),
    "quoted NA": written(quote=True, missing="NA"),
    "sep line": written("|", sep=True),
    "windows": written().replace("\n", "\r\n"),
    "macintosh": written().replace("\n", "\r"),
    "blank lines": "\n\n" + written().replace("\n", "\n\n"),
    "no line end": written()[:-1],
    "quoted line end": written().replace("a b", '"a\nb"'),
    "inch": written().replace("a b", 'a 12" b'),
    "blanks around names": written().replace("up,id,x", " up , id,x "),
}
REFUSED = {
    "longer row": PLAIN + "all,z,1,2,3,true,5\n",
    "shorter row": PLAIN + "all,z\n",
    "open quote": PLAIN + 'all,"z,1,2,3,true\n' * 3,
    "stray quote": PLAIN + 'all,"z"z,1,2,3,true\n',
    "zero byte": PLAIN + "all,z\0,1,2,3,true\n",
    "nothing": "",
    "an archive": b"PK\x03\x04\0\0",
    "named twice": PLAIN.replace("note", "code"),
    "two words of an encoding": PLAIN.encode("utf-16")[:-1],
}


def as_table(path, **how):
    frame = read_table(path, as_text=["up", "id"], **how)
    return {row[1]: row for row in frame[NAMES].astype(object).where(frame[NAMES].notna(), None).values.tolist()}


def in_blocks(path, **how):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "BLOCK", 80)
        tables = list(read_batches(path, NAMES, as_text=["up", "id"], rows=3, **how))
    return {row["id"]: list(row.values()) for table in tables for row in table.to_pylist()}


def as_tree(path, **how):
    tree = read_tree(path, format="csv", parent="up", child="id", numbers=False, **how)
    cells = [[None if cell != cell else cell for cell in tree.columns[name].tolist()] for name in NAMES[2:]]
    above = [None, *tree.labels[tree.parent[1:]].tolist()]
    return {row[1]: list(row) for row in zip(above, tree.labels.tolist(), *cells, strict=True)}


def outcomes(path, **how):
    """What each door says, with its warnings."""
    for door in (as_table, in_blocks, as_tree):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = door(path, **how)
            except VpunnError as error:
                found = str(error)
        yield found, [str(one.message) for one in said]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", READ)
def test_every_door_reads_the_same(name, packed, tmp_path):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    data = READ[name] if isinstance(READ[name], bytes) else READ[name].encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    table, *others = outcomes(path)
    assert list(table[0]) == ["all", "ówl", "wren", "9606"] and table[0]["ówl"][2] == 1234.25
    assert table[0]["all"] == [None, "all", 1.5, "über", "007", True] and table[0]["wren"][2] is None
    assert len(table[1]) == ("latin" in name.lower() or "cp1252" in name) + ("comma" in name)
    assert all(other == table for other in others)


@pytest.mark.parametrize("name", REFUSED)
def test_every_door_refuses_by_the_same_sentence(name, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(REFUSED[name] if isinstance(REFUSED[name], bytes) else REFUSED[name].encode())
    table, *others = outcomes(path)
    assert isinstance(table[0], str) and "\n" not in table[0]
    assert all(other == table for other in others)


def test_options_are_the_same_at_every_door(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(written(":").encode("mac-roman"))
    for said, _ in outcomes(path, delimiter=":", encoding="mac-roman"):
        assert said["all"][3] == "über"
    for how, told in (
        ({"encoding": "utf-8"}, "byte 0x9f is not utf-8 text; pass encoding='latin-1'"),
        ({"encoding": "klingon"}, "there is no encoding 'klingon'"),
        ({"delimiter": "::"}, "must be a single character"),
    ):
        found = [said for said, _ in outcomes(path, **how)]
        assert told in found[0] and len(set(found)) == 1


def test_what_a_column_holds_is_told_from_all_its_cells(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("up,id,x,note,code,ok\n" + "".join(f"r,n{i},{i},1,{i},1\n" for i in range(50)) + "r,z,x,1.5,NA,\n")
    found = [said for said, _ in outcomes(path)]
    assert found[0] == found[1] and found[0]["n3"] == ["r", "n3", "3", 1.0, 3.0, 1.0]
    assert found[2]["n3"] == found[0]["n3"] and found[2]["z"] == found[0]["z"]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b'{"id": 1}\n', "has no column 'text'"),
        ("b.jsonl", b'{"id": 1, "id": 2, "text": "x"}\n', "stands twice"),
        ("c.jsonl", b'{"id": 1, "text": "\\ud800"}\n', "half of a letter"),
        ("d.jsonl", b'{"id": 1, "text": "x"}\n[1]\n', r"line 2: each line holds one object such as \{…\}, got '\[1\]'"),
        ("e.jsonl.gz", gzip.compress(b'{"id": 1, "text": "x"}\n' * 99, mtime=0)[:-12], "cannot be read to its end"),
        ("f.csv.gz", gzip.compress(b"id,text\n1,x\n" * 9999, mtime=0)[:-12], "cannot be read to its end"),
        ("g.jsonl", b'{"id": 1, "text": "x"}\n{"id": [2], "text": "x"}\n', "write each key in one type"),
    ],
)
def test_batches_that_cannot_be_read(name, data, said, tmp_path):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(VpunnError, match=said):
        list(read_batches(tmp_path / name, ["id", "text"], as_text=["id", "text"]))


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_damaged_binary_tables_are_one_sentence_at_every_door(ending, tmp_path):
    write_table(pd.DataFrame({"x": ["a", "b"]}), good := tmp_path / f"good{ending}")
    (bad := tmp_path / f"bad{ending}").write_bytes(good.read_bytes()[:-20] + bytes(20))
    with pytest.raises(DataError, match=r"good\.\w+' has no column 'y'; it has 'x'"):
        list(read_batches(good, ["y"]))
    tree = Tree.from_parents([-1, 0, 0], labels=["all", "a", "b"])
    for read in (
        lambda: column_names(bad),
        lambda: list(read_batches(bad, ["x"])),
        lambda: scale.encode(tree, [good, bad], f"{tmp_path}/codes{ending}/", column="x"),
    ):
        with pytest.raises(DataError, match=r"bad\.\w+' cannot be read"):
            read()


def test_json_lines_in_batches_hold_one_type(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes('\ufeff{"a": 1, "b": "x"}\n\n{"a": 2.5, "b": null}\n{"a": 3, "c": true}\n'.encode())
    tables = list(read_batches(path, ["a", "b", "c"], rows=1))
    assert [table.to_pylist()[0] for table in tables] == [
        {"a": 1.0, "b": "x", "c": None},
        {"a": 2.5, "b": None, "c": None},
        {"a": 3.0, "b": None, "c": True},
    ]
    assert len({table.schema for table in tables}) == 1
    assert read_table(path)["a"].tolist() == [1.0, 2.5, 3.0]
