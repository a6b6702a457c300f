"""The real hierarchies: sizes measured independently, contents compared with slow readers, isometry on a million pairs."""

import gzip
from functools import cache

import numpy as np
import pytest

from vpunn.codes import PadicCode
from vpunn.codes.isometry import Losslessness, check_losslessness
from vpunn.datasets import fetch_dataset, load_go, load_ncbi, load_wordnet
from vpunn.datasets.ncbi import RANKS
from vpunn.errors import DataError, VpunnError
from vpunn.tree import Tree, check_tree
from vpunn.tree.dag import dropped_edges

wordnet = cache(load_wordnet)
go = cache(load_go)
ncbi = cache(load_ncbi)


def sizes(tree: Tree) -> tuple[int, int, int, int]:
    return tree.n_nodes, tree.n_leaves, tree.max_depth, tree.max_branching


def busiest(tree: Tree) -> object:
    return tree.labels[np.argmax(tree.n_children)]


# ---- WordNet ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "policy", "instances", "expected", "most_children"),
    [
        # AUDIT E-06 and E-14: 18 edges with smallest depths, 19 otherwise; b_max 402, 411 to 412; 57,756 to 57,980
        # leaves in 3.1; with instances about 65,000 leaves and at most 507 children in a tree.
        ("3.0", "first", False, (74_374, 57_916, 18, 402), "person.n.01"),
        ("3.0", "deepest", False, (74_374, 57_870, 19, 400), "person.n.01"),
        ("3.0", "most-specific", False, (74_374, 57_724, 19, 400), "person.n.01"),
        ("3.0", "first", True, (82_115, 65_212, 18, 507), "city.n.01"),
        ("3.1", "first", False, (74_440, 57_980, 18, 412), "person.n.01"),
        ("3.1", "first", True, (82_192, 65_286, 18, 507), "city.n.01"),
    ],
)
def test_wordnet_sizes(version, policy, instances, expected, most_children):
    tree = wordnet(version, policy=policy, instances=instances).tree
    assert sizes(tree) == expected
    assert busiest(tree) == most_children
    assert check_tree(tree)


@pytest.mark.parametrize(("version", "several", "leaves"), [("3.0", 1_422, 57_692), ("3.1", 1_423, 57_756)])
def test_wordnet_is_not_a_tree(version, several, leaves):
    """AUDIT E-13 and E-14: synsets with several hypernyms, and the leaves of the graph itself."""
    tree = wordnet(version).tree
    dropped = dropped_edges(tree)
    assert dropped["child"].nunique() == several
    in_graph = tree.is_leaf.copy()
    in_graph[tree.index(dropped["parent"].to_numpy())] = False
    assert in_graph.sum() == leaves


def read_wordnet_slowly(path) -> dict[int, tuple[int, list[str], set[int], set[int], str]]:
    """Field by field as in the manual page wndb(5): file number, words, hypernyms, instance hypernyms, gloss."""
    synsets = {}
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            continue
        head, gloss = line.split(" | ")[0], line.split(" | ", 1)[1]
        fields = iter(head.split())
        offset, number, kind = int(next(fields)), int(next(fields)), next(fields)
        assert kind == "n"
        words = []
        for _ in range(int(next(fields), 16)):
            words.append(next(fields).replace("_", " "))
            next(fields)
        above: dict[str, set[int]] = {"@": set(), "@i": set()}
        for _ in range(int(next(fields))):
            symbol, target, _, _ = next(fields), int(next(fields)), next(fields), next(fields)
            above.setdefault(symbol, set()).add(target)
        synsets[offset] = (number, words, above["@"], above["@i"], gloss.strip())
    return synsets


def test_wordnet_agrees_with_a_slow_reader():
    tree = wordnet("3.0", instances=True).tree
    synsets = read_wordnet_slowly(fetch_dataset("wordnet-3.0")["wordnet-3.0/data.noun"])
    offset = tree.columns["offset"].tolist()
    assert sorted(offset) == sorted(synsets)
    dropped = dropped_edges(tree)
    also: dict[int, set[int]] = {}
    for up, child in zip(
        tree.index(dropped["parent"].to_numpy()), tree.index(dropped["child"].to_numpy()), strict=True
    ):
        also.setdefault(offset[child], set()).add(offset[up])
    topic: dict[int, str] = {}
    for i in range(tree.n_nodes):
        number, words, hypernyms, classes, gloss = synsets[offset[i]]
        parents = {offset[tree.parent[i]]} if i else set()
        assert parents | also.get(offset[i], set()) == hypernyms | classes
        assert tree.columns["lemmas"][i] == "; ".join(words)
        assert tree.columns["name"][i] == words[0]
        assert tree.columns["gloss"][i] == gloss
        assert topic.setdefault(number, tree.columns["lexicographer"][i]) == tree.columns["lexicographer"][i]
    assert sorted(topic) == list(range(3, 29))


def test_wordnet_names_and_senses():
    data = wordnet("3.0")
    tree = data.tree
    assert len(set(tree.labels)) == tree.n_nodes
    dog = tree.index("dog.n.01")
    assert tree.columns["offset"][dog] == 2_084_071  # the number ImageNet knows as n02084071
    assert tree.columns["lexicographer"][dog] == "noun.animal"
    assert list(tree.labels[tree.children(0)]) == [
        "physical_entity.n.01",
        "abstraction.n.06",
        "thing.n.08",
    ]  # AUDIT E-14
    senses = ["dog.n.01", "frump.n.01", "dog.n.03", "cad.n.01", "frank.n.02", "pawl.n.01", "andiron.n.01"]
    assert list(tree.labels[data.find("dog")]) == senses
    assert list(data.find("Domestic_Dog")) == [dog]
    assert list(tree.labels[data.find("Einstein")]) == ["genius.n.01"]  # the man himself is an instance
    with pytest.raises(DataError, match="no word 'Isaac Newton'"):
        data.find("Isaac Newton")
    everyone = wordnet("3.0", instances=True)
    einstein, genius = everyone.find("Einstein")
    assert everyone.tree.labels[everyone.tree.parent[einstein]] == "physicist.n.01"
    assert everyone.tree.labels[genius] == "genius.n.01"


def test_wordnet_unfolded_has_every_path():
    tree = load_wordnet(policy="unfold").tree
    one = wordnet("3.0").tree
    assert set(tree.labels) == set(one.labels)
    assert tree.n_nodes > one.n_nodes
    assert not len(dropped_edges(tree))


def test_unknown_versions_and_namespaces():
    with pytest.raises(DataError, match=r"no WordNet version '2\.0' here; choose '3\.0' or '3\.1'"):
        load_wordnet("2.0")
    with pytest.raises(VpunnError, match="namespace='function' is unknown; choose one of molecular_function, "):
        load_go("function")
    with pytest.raises(DataError, match="no NCBI version '2020' here; choose '2024-09-07' or 'current'"):
        load_ncbi(version="2020")


# ---- Gene Ontology ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "expected", "several", "root"),
    [
        ("molecular_function", (11_113, 9_413, 11, 344), 2_007, "GO:0003674"),
        ("biological_process", (29_694, 20_955, 11, 174), 17_657, "GO:0008150"),
        ("cellular_component", (4_206, 3_363, 9, 467), 1_646, "GO:0005575"),
    ],
)
def test_go_sizes(namespace, expected, several, root):
    tree = go(namespace).tree
    assert sizes(tree) == expected
    assert tree.labels[0] == root
    assert dropped_edges(tree)["child"].nunique() == several
    assert tree.columns["name"][0] == namespace
    assert check_tree(tree)


def read_go_slowly(namespace: str) -> dict[str, dict[str, list[str]]]:
    """Every term's lines by tag, read line by line."""
    terms: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in fetch_dataset("go")["go-2019-01-27/go.obo"].read_text().splitlines():
        if line.startswith("["):
            current = {}
        elif ": " in line:
            tag, value = line.split(": ", 1)
            current.setdefault(tag, []).append(value)
            if tag == "id" and value.startswith("GO:"):
                terms[value] = current
    return {key: t for key, t in terms.items() if t["namespace"] == [namespace] and "is_obsolete" not in t}


def test_go_agrees_with_a_slow_reader():
    data = go("molecular_function")
    tree, terms = data.tree, read_go_slowly("molecular_function")
    assert set(tree.labels) == set(terms)
    dropped = set(zip(*dropped_edges(tree)[["parent", "child"]].to_numpy().T, strict=True))
    kept = {(tree.labels[tree.parent[i]], tree.labels[i]) for i in range(1, tree.n_nodes)}
    assert kept | dropped == {(up.split(" ")[0], key) for key, term in terms.items() for up in term.get("is_a", [])}
    assert not kept & dropped
    for i, key in enumerate(tree.labels):
        assert tree.columns["name"][i] == terms[key]["name"][0]
        assert terms[key]["def"][0].replace("\\", "").startswith(f'"{tree.columns["definition"][i]}" [')
    assert len(data.synonyms) == sum(len(term.get("synonym", [])) for term in terms.values())
    assert set(data.synonyms["scope"]) == {"EXACT", "NARROW", "BROAD", "RELATED"}
    for i, key in enumerate(tree.labels):
        assert list(tree.columns["xref"][i]) == [
            text.split(" ")[0].replace("\\", "") for text in terms[key].get("xref", [])
        ], key
    ours = data.references("EC")
    assert ours["term"].to_list() == tree.labels[ours["node"]].tolist()
    assert len(ours) == sum(text.startswith("EC:") for term in terms.values() for text in term.get("xref", []))
    with pytest.raises(DataError, match="no term has a name in the database 'ec'; there are .*EC, "):
        data.references("ec")
    enolase = data.synonyms[data.synonyms["term"] == "GO:0004634"]
    assert "enolase activity" in enolase["synonym"].to_list()


def test_go_annotations():
    data = go("molecular_function")
    frame = data.annotations
    wanted = ["protein", "symbol", "name", "synonyms", "term", "node", "evidence", "qualifier"]
    assert list(frame.columns) == wanted
    assert (data.tree.labels[frame["node"]] == frame["term"].to_numpy()).all()
    assert not frame.duplicated().any()
    assert not frame["qualifier"].str.contains("NOT").any()
    src = frame[frame["symbol"] == "SRC"]
    assert set(src["protein"]) == {"P12931"}
    assert set(src["name"]) == {"Proto-oncogene tyrosine-protein kinase Src"} and set(src["synonyms"]) == {"SRC|SRC1"}
    names = set(data.tree.columns["name"][src["node"]])
    assert {"protein tyrosine kinase activity", "ATP binding"} <= names
    terms = read_go_slowly("molecular_function")
    current = {old: key for key, term in terms.items() for old in [key, *term.get("alt_id", [])]}
    wanted, gone = set(), set()
    with gzip.open(fetch_dataset("go")["go-2019-01-27/goa_human.gaf.gz"], "rt") as lines:
        for line in lines:
            fields = line.split("\t")
            if not line.startswith("!") and fields[8] == "F" and "NOT" not in fields[3].split("|"):
                (wanted if fields[4] in current else gone).add((fields[1], current.get(fields[4], "")))
    assert set(zip(frame["protein"], frame["term"], strict=True)) == wanted
    assert len(gone) < 0.01 * len(wanted)  # terms that this release no longer has
    assert frame["protein"].nunique() == len({protein for protein, _ in wanted}) > 15_000


# ---- NCBI ------------------------------------------------------------------------------------------------------------


def test_ncbi_mammals():
    tree = ncbi("Mammalia").tree
    assert sizes(tree) == (14_190, 11_178, 14, 280)  # AUDIT E-05
    assert check_tree(tree)
    assert ncbi(40674).tree == tree
    names, ranks = tree.columns["name"], tree.columns["rank"]
    human = tree.index(9606)
    lineage = {ranks[i]: names[i] for i in tree.ancestors(human) if ranks[i] != "no rank"}
    assert lineage["class"] == "Mammalia"
    assert lineage["order"] == "Primates"
    assert lineage["family"] == "Hominidae"
    assert lineage["genus"] == "Homo"
    assert tree.columns["common_name"][human] == "human"


def test_ncbi_everything():
    tree = ncbi(None).tree
    assert sizes(tree) == (2_609_295, 2_372_846, 38, 43_705)
    assert check_tree(tree)
    assert tree.labels[0] == 1
    assert set(np.unique(tree.columns["rank"])) <= set(RANKS)
    assert int((tree.columns["rank"] == "species").sum()) == 2_140_509
    part = tree.subtree(tree.index(40674))
    assert part == ncbi("Mammalia").tree
    assert all((part.columns[key] == ncbi("Mammalia").tree.columns[key]).all() for key in part.columns)


def test_ncbi_agrees_with_the_record_reader():
    """Our whole-file reading against the library's own look-up of single keys."""
    marisa_trie = pytest.importorskip("marisa_trie")
    zstandard = pytest.importorskip("zstandard")
    files = {name.rpartition("/")[2]: path for name, path in fetch_dataset("ncbi").items()}
    tree = ncbi(None).tree
    nodes = np.random.default_rng(0).integers(1, tree.n_nodes, 3_000)
    taxa = marisa_trie.RecordTrie("<IBBB").mmap(str(files["taxa.marisa"]))
    for i in nodes:
        parent, rank, _, _ = taxa[str(tree.labels[i])][0]
        assert tree.labels[tree.parent[i]] == parent
        assert tree.columns["rank"][i] == RANKS[rank - 1]
    for kind, column in (("scientific_name", "name"), ("common_name", "common_name")):
        positions = marisa_trie.RecordTrie("<I").mmap(str(files[f"{kind}.marisa"]))
        text = zstandard.decompress(files[f"{kind}.zstd"].read_bytes())
        for i in nodes:
            found = positions.get(str(tree.labels[i]))
            name = text[found[0][0] : text.index(b"\n", found[0][0])].decode() if found else ""
            assert tree.columns[column][i] == name


def test_ncbi_roots_that_do_not_exist():
    with pytest.raises(DataError, match="no taxon with the scientific name 'mammals'"):
        load_ncbi("mammals")
    with pytest.raises(DataError, match="no taxon with the tax id 3"):
        load_ncbi(3)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_pantheria(mammals):
    assert mammals.shape == (5416, 55)
    assert list(mammals.columns[:5]) == ["Order", "Family", "Genus", "Species", "Binomial"]
    assert (mammals["Genus"] + " " + mammals["Species"] == mammals["Binomial"]).all()
    numbers = mammals.select_dtypes("number")
    assert numbers.shape[1] == 49
    assert (numbers > -999).sum().sum() == numbers.notna().sum().sum()
    assert int(mammals["AdultBodyMass_g"].notna().sum()) == 3542
    whale = mammals.loc[mammals["AdultBodyMass_g"].idxmax()]
    assert whale["Binomial"] == "Balaenoptera musculus"
    tree = Tree.from_levels(mammals, ["Order", "Family", "Genus", "Species"])
    assert tree.n_leaves == 5416
    assert len(tree.children(0)) == 29


def test_wine_quality(wine):
    assert wine.shape == (4898, 12)
    assert wine.columns[-1] == "quality"
    assert wine.notna().all(axis=None)
    assert wine.duplicated().sum() == 937  # AUDIT part 5, 19
    assert wine.loc[4869, ["pH", "alcohol"]].to_list() == [3.19, 9.8]  # AUDIT E-80
    assert wine["alcohol"].std() == pytest.approx(1.2306, abs=1e-4)
    assert wine.attrs["licence"] == "CC BY 4.0"


# ---- isometry --------------------------------------------------------------------------------------------------------


def climb(tree: Tree, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """LCA depth the obvious way: the deeper of the two goes up until they meet."""
    u, v = u.copy(), v.copy()
    while (apart := u != v).any():
        rows = np.flatnonzero(apart)
        deeper = tree.depth[u[rows]] >= tree.depth[v[rows]]
        u[rows[deeper]] = tree.parent[u[rows[deeper]]]
        v[rows[~deeper]] = tree.parent[v[rows[~deeper]]]
    return tree.depth[u]


def shared_digits(code: PadicCode, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Leading digits two nodes have in common, read off the digits themselves; of a node with itself, its depth."""
    differ = code.digits(u) != code.digits(v)
    return np.where(u == v, code.tree.depth[u], np.where(differ.any(axis=1), differ.argmax(axis=1), code.K))


WORDNET_30 = pytest.param(lambda: wordnet("3.0").tree, id="WordNet 3.0")
SMALLER = [
    WORDNET_30,
    pytest.param(lambda: wordnet("3.1").tree, id="WordNet 3.1"),
    pytest.param(lambda: go("molecular_function").tree, id="GO molecular function"),
    pytest.param(lambda: ncbi("Mammalia").tree, id="NCBI Mammalia"),
]


@pytest.mark.parametrize("load", SMALLER)
def test_codes_of_all_nodes_are_lossless(load):
    """A million random pairs compared digit by digit, and every node through its integer and back."""
    tree = load()
    found = check_losslessness(PadicCode(tree), pairs=1_000_000)
    assert found == Losslessness(
        1_000_000, defects=0, collisions=0, round_trip_failures=0, spearman=-1.0, nodes=tree.n_nodes
    )


@pytest.mark.parametrize("load", [WORDNET_30, pytest.param(lambda: ncbi(None).tree, id="NCBI")])
def test_isometry_on_a_million_pairs(load):
    """Three ways that share no arithmetic agree: packed words, digits, and climbing the parents."""
    tree = load()
    rng = np.random.default_rng(1)
    u, v = rng.integers(0, tree.n_nodes, (2, 1_000_000))
    half = len(v) // 2  # are close relatives; random ones mostly meet near the root
    v[:half] = np.minimum(u[:half] + rng.integers(0, 30, half), tree.n_nodes - 1)
    depth = climb(tree, u, v)
    assert (tree.lca_depth(u, v) == depth).all()
    code = PadicCode(tree)
    for part in np.split(np.arange(len(u)), 10):  # the digits of all pairs at once would take 400 MB
        assert (shared_digits(code, u[part], v[part]) == depth[part]).all()
