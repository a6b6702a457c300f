"""The command line, run as a person would: real files, real processes for errors."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from vpunn.cli import app
from vpunn.errors import TreeError, VpunnError
from vpunn.io import write_tree
from vpunn.tree import Tree

EDGES = "parent,child\nanimal,bird\nanimal,fish\nbird,owl\nbird,robin\n"


@pytest.fixture
def zoo(tmp_path):
    path = tmp_path / "zoo.csv"
    path.write_text(EDGES)
    return str(path)


def run(*words, stdin=None):
    """Output of a command that must succeed."""
    result = CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*words, stdin=None):
    return json.loads(run(*words, "--json", stdin=stdin))


def fail(*words, stdin="", code=1):
    """Standard error of a command that must fail, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "from vpunn.cli import main; main()", *words],
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_tree_info(zoo):
    facts = run_json("tree", "info", zoo)
    assert (facts["nodes"], facts["leaves"], facts["depth K"], facts["largest branching"], facts["prime p"]) == (
        5,
        3,
        2,
        2,
        3,
    )
    assert "largest branching" in run("tree", "info", zoo)


def test_kept_codes_are_refused_by_another_tree_and_mapped_by_path(zoo, tmp_path):
    kept = str(tmp_path / "codes")
    said = run_json("encode", zoo, "owl", "robin", "fish", "--out", kept)
    assert said["codes"] == 3 and said["p"] == 3
    rows = run_json("decode", zoo, "--codes", kept)
    assert [row["label"] for row in rows] == ["owl", "robin", "fish"]
    changed = tmp_path / "changed.csv"  # a sibling before robin: the old integer of robin is now auk's
    changed.write_text(EDGES.replace("bird,owl\nbird,robin", "bird,auk\nbird,robin"))
    assert "made on another tree or prime" in fail("decode", str(changed), "--codes", kept)
    result = CliRunner().invoke(app, ["decode", str(changed), "--codes", kept, "--by-path", "--json"])
    assert [(row["label"], row["was"]) for row in json.loads(result.stdout)] == [
        (None, "owl"),
        ("robin", "robin"),
        ("fish", "fish"),
    ]
    assert "1 of 3 codes have a path" in result.stderr
    assert "give one of them" in fail("decode", zoo)
    assert "--by-path does nothing here" in fail("decode", zoo, "7", "--by-path")
    assert "--prime does nothing here" in fail("decode", zoo, "--codes", kept, "--prime", "5")
    run("encode", zoo, "owl", "--out", kept, "--prime", "7")
    assert run_json("decode", zoo, "--codes", kept)[0]["label"] == "owl"


def test_encode_and_decode_are_inverse(zoo):
    rows = run_json("encode", zoo)
    assert {row["label"]: row["code"] for row in rows} == {
        "animal": "0",
        "bird": "1",
        "owl": "4",
        "robin": "7",
        "fish": "2",
    }
    for mode in ("int", "digits", "bars", "series"):
        written = [row["code"] for row in run_json("encode", zoo, "owl", "fish", "--mode", mode)]
        assert [row["label"] for row in run_json("decode", zoo, *written)] == ["owl", "fish"]
        assert [row["label"] for row in run_json("decode", zoo, "-", stdin="\n".join(written))] == ["owl", "fish"]
    assert run_json("encode", zoo, "-", stdin="robin\n")[0]["code"] == "7"
    assert run_json("decode", zoo, "5", "--lenient")[0]["label"] == "fish"
    assert run_json("encode", zoo, "owl", "--prime", "101")[0]["code"] == "102"


def test_distance_and_ball(zoo):
    row = run_json("distance", zoo, "owl", "robin")[0]
    assert (row["common ancestor"], row["valuation"], row["distance"]) == ("bird", 1, "3^-1")
    rows = run_json("distance", zoo, "-", stdin="owl\tfish\nowl\towl\n")
    assert [row["distance"] for row in rows] == ["3^-0", "0"]
    found = run_json("ball", zoo, "owl", "-k", "1")
    assert (found["top"], found["members"]) == ("bird", ["bird", "owl", "robin"])
    assert "└─ robin" in run("ball", zoo, "owl", "-k", "1")


def test_convert_and_standard_streams(zoo, tmp_path):
    newick = tmp_path / "zoo.nwk"
    run("tree", "convert", zoo, str(newick))
    assert newick.read_text().strip() == "((owl,robin)bird,fish)animal;"
    assert run("tree", "convert", zoo, "-", "--to", "newick").strip() == newick.read_text().strip()
    assert run_json("tree", "info", "-", "--format", "newick", stdin=newick.read_text())["nodes"] == 5


def test_check_says_why_not(tmp_path):
    ring = tmp_path / "ring.csv"
    ring.write_text("parent,child\nr,a\na,b\nb,a\n")
    result = CliRunner().invoke(app, ["tree", "check", str(ring), "--json"])
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    assert not said["ok"]
    assert "→" in said["reason"]


def test_errors_are_one_sentence(zoo):
    assert "no node is labelled 'stone'" in fail("encode", zoo, "stone")
    assert "there is no file 'nowhere.csv', and no data set" in fail("tree", "info", "nowhere.csv")
    assert "digit 1 is 1 but 'fish'" in fail("decode", zoo, "5")
    assert "a distance needs two labels" in fail("distance", zoo, "owl")
    assert "mode='roman' is unknown" in fail("encode", zoo, "owl", "--mode", "roman")
    assert "too small" in fail("encode", zoo, "--prime", "2")
    assert "no ancestor at depth 9" in fail("ball", zoo, "owl", "-k", "9")
    assert "only one of the tree and the values" in fail("encode", "-", "-", "--format", "newick", stdin="(a,b)c;")


def test_standard_input_as_other_systems_write_it(zoo):
    rows = run_json("encode", zoo, "-", stdin=b"\xef\xbb\xbfowl\r\nrobin\r\n")
    assert [row["label"] for row in rows] == ["owl", "robin"]
    assert run_json("encode", zoo, "-", stdin="") == []  # nothing asked, nothing answered
    with pytest.raises(VpunnError, match="not UTF-8 text: byte 0xff at position 0"):
        run("encode", zoo, "-", stdin=b"\xff\xfe")


def test_labels_are_printed_as_they_are(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("parent,child\na,:dog:\na,[red]x[/red]\n")
    assert ":dog:" in run("encode", str(path))
    assert "[red]x[/red]" in run("encode", str(path))


def test_tables_for_programs_have_one_line_per_row(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("parent,child\nroot," + "x" * 300 + "\nroot,日本\n")
    rows = [line.split() for line in run("encode", str(path), "--mode", "path").splitlines()[1:]]
    assert rows == [["root", "0", "root"], ["x" * 300, "1", "root/" + "x" * 300], ["日本", "1", "root/日本"]]


def test_numbers_as_labels(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("parent,child\n1,2\n1,3000\n")
    assert run_json("encode", str(path), "3000") == [{"label": 3000, "depth": 1, "code": "2"}]
    for command in (["encode", "3000"], ["decode", "2"], ["distance", "3000", "3000"], ["ball", "3000"]):
        assert "3,000" not in run(command[0], str(path), *command[1:])  # a name, not a quantity
    for strange in ("--5", "²", "x"):
        with pytest.raises(TreeError, match="are numbers"):
            run("encode", str(path), "--", strange)


def test_labels_and_readable_names_side_by_side(tmp_path):
    tree = Tree.from_parents([-1, 0, 0], labels=[1, 9606, 7], columns={"name": ["life", "Homo sapiens", "cat"]})
    write_tree(tree, tmp_path / "taxa.parquet")
    rows = run_json("encode", str(tmp_path / "taxa.parquet"), "cat", "9606", "life")
    assert [row["label"] for row in rows] == [7, 9606, 1]
    with pytest.raises(TreeError, match="no node is labelled '8', 'dog'"):
        run("encode", str(tmp_path / "taxa.parquet"), "cat", "8", "dog")


def test_check_of_an_unreadable_file_is_an_answer_too(tmp_path):
    path = tmp_path / "bad.nwk"
    path.write_text("(a,b))c;")
    result = CliRunner().invoke(app, ["tree", "check", str(path), "--json"])
    assert result.exit_code == 1
    assert "closes nothing" in json.loads(result.stdout)["reason"]


def test_wrong_words_are_one_line_too(zoo):
    assert "missing argument 'source'" in fail("encode", code=2).lower()  # older versions of typer shout it
    assert "No such command 'nfo'" in fail("tree", "nfo", zoo, code=2)
    assert "an option is written name=value" in fail("tree", "info", zoo, "-o", "add_root")


def test_reader_options_reach_the_reader(tmp_path):
    forest = tmp_path / "forest.csv"
    forest.write_text("parent,child\na,b\nc,d\n")
    assert "add_root" in fail("tree", "info", str(forest))
    assert run_json("tree", "info", str(forest), "-o", "add_root=life")["nodes"] == 5


def test_readable_names_stand_beside_numbers(tmp_path):
    taxa = tmp_path / "taxa.csv"
    taxa.write_text("parent,child,name\n,1,life\n1,9606,Homo sapiens\n1,10090,Mus musculus\n")
    assert "9606 Homo sapiens" in run("distance", str(taxa), "9606", "Mus musculus")
    assert run_json("distance", str(taxa), "9606", "10090")[0]["a"] == 9606
    assert "└─ 10090 Mus musculus" in run("ball", str(taxa), "9606", "-k", "0")


def test_version():
    assert run("--version").startswith("vpunn ")


def test_debug_shows_the_traceback():
    done = subprocess.run(
        [sys.executable, "-c", "from vpunn.cli import main; main()", "--debug", "tree", "info", "nowhere.csv"],
        capture_output=True,
        text=True,
    )
    assert "Traceback" in done.stderr
