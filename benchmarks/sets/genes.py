"""Label sets from numbers: functions of yeast genes by expression (FunCat, a tree; GO, a graph), beside what was published.

    VPUNN_DATA_DIR=/path/to/data python -m benchmarks.sets.genes                  # test rows, learned from train and validation
    VPUNN_DATA_DIR=/path/to/data python -m benchmarks.sets.genes --asked valid    # to choose by: learned from train alone

Reads ``public/funcat/NAME.{train,valid,test}.arff.gz`` and ``public/godag`` (the files of C-HMCNN, Giunchiglia and Lukasiewicz
2020). The score is theirs: micro average precision over all nodes of the hierarchy but its roots. A missing number is the mean of
the rows that are learned from, a category a column for each of its values.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gzip
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from sklearn.metrics import average_precision_score

from benchmarks.common import write_results
from vpunn import HiPaNClassifier, Tree
from vpunn.datasets.fetch import data_dir
from vpunn.metrics import sets as scores

#: What C-HMCNN has on the test rows.
PUBLISHED = {
    "cellcycle": 0.255, "derisi": 0.195, "eisen": 0.306, "gasch1": 0.286, "gasch2": 0.258, "spo": 0.215, "go-cellcycle": 0.413,
}  # fmt: skip
#: Roots of the Gene Ontology, which are not asked about.
ROOTS = "GO0003674", "GO0005575", "GO0008150"


class Genes(NamedTuple):
    """One table: numbers (NaN: missing), and the nodes of each row of its parts."""

    tree: Tree
    numbers: dict[str, np.ndarray]
    labels: dict[str, list[set[str]]]


def read_genes(name: str) -> Genes:
    """A table by name, from the folder that VPUNN_DATA_DIR names."""
    graph = name.startswith("go-")
    folder = Path(data_dir() or ".") / "public" / ("godag" if graph else "funcat")
    numbers, labels, tree = {}, {}, None
    for part in ("train", "valid", "test"):
        with gzip.open(folder / f"{name.removeprefix('go-')}.{part}.arff.gz", "rt") as file:
            head, rows = file.read().split("@DATA")
        kinds = [line.split(None, 2)[2].strip() for line in head.splitlines() if line.startswith("@ATTRIBUTE")]
        tree = tree or hierarchy(kinds[-1].split(None, 1)[1].split(","), graph)
        cells = [line.split("%")[0].strip().rstrip(",").split(",") for line in rows.splitlines() if line.strip()]
        numbers[part] = np.column_stack([column([row[k] for row in cells], kinds[k]) for k in range(len(kinds) - 1)])
        labels[part] = [set(row[len(kinds) - 1].split("@")) for row in cells]
    assert tree is not None
    return Genes(tree, numbers, labels)


def hierarchy(terms: list[str], graph: bool) -> Tree:
    """Edges ``parent/child`` of the graph, or paths of the tree."""
    if graph:
        return Tree.from_edges([tuple(term.split("/")) for term in terms], policy="first")
    return Tree.from_edges([(term.rpartition("/")[0] or "root", term) for term in terms])


def column(cells: list[str], kind: str) -> np.ndarray:
    """A column of numbers, or one for every category."""
    if not kind.startswith("{"):
        return np.array([np.nan if cell == "?" else float(cell) for cell in cells])[:, None]
    values = [value.strip() for value in kind.strip("{}").split(",")]
    return np.array([[np.nan if cell == "?" else float(cell == value) for value in values] for cell in cells])


def case(name: str, asked: str) -> tuple[Genes, np.ndarray, list[set[str]], np.ndarray]:
    """A table, the rows to learn from with their labels, and those that are asked about."""
    genes = read_genes(name)
    learned = ["train", "valid"] if asked == "test" else ["train"]
    X = np.concatenate([genes.numbers[part] for part in learned])
    usual = np.nan_to_num(np.nanmean(X, axis=0))
    fill = [np.where(np.isnan(x), usual, x) for x in (X, genes.numbers[asked])]
    return genes, fill[0], [row for part in learned for row in genes.labels[part]], fill[1]


def area(genes: Genes, asked: str, p: np.ndarray) -> float:
    """Area below the pooled precision-recall curve of all nodes but the roots."""
    tree = genes.tree
    truth = scores.with_ancestors(tree, scores.table_of(tree, [tree.index(sorted(row)) for row in genes.labels[asked]]))
    kept = ~np.isin(tree.labels.astype(str), ROOTS) & (np.arange(tree.n_nodes) > 0)
    return float(average_precision_score(truth.toarray()[:, kept].ravel() > 0, p[:, kept].ravel()))


def main(
    names: Annotated[str, typer.Option(help="Tables, separated by commas.")] = ",".join(PUBLISHED),
    asked: Annotated[str, typer.Option(help="Rows that are asked about: test, or valid to choose by.")] = "test",
    seeds: Annotated[str, typer.Option(help="Seeds of the fit.")] = "0,1,2",
) -> None:
    """Score vpunn on every table and write benchmarks/results/genes.json."""
    rows: list[dict[str, Any]] = []
    warm = np.random.default_rng(0).normal(size=(40, 3))
    HiPaNClassifier().fit(warm, [{"a", "b"}, {"b"}] * 20).predict_proba(warm)  # compiled loops
    for name in names.split(","):
        genes, X, labels, questions = case(name, asked)
        for seed in map(int, seeds.split(",")):
            start = time.process_time()
            model = HiPaNClassifier(genes.tree, random_state=seed).fit(X, labels)
            fitted = time.process_time()
            p = model.predict_node_proba(questions)
            answered = time.process_time() - fitted
            row = {"table": name, "seed": seed, "area": area(genes, asked, p), "published": PUBLISHED[name]}
            rows.append(row | {"fit CPU s": fitted - start, "rows/s": len(p) / answered})
            typer.echo("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()))
        mine = [row["area"] for row in rows if row["table"] == name]
        typer.echo(f"mean of {name}: {np.mean(mine):.4f} ± {np.std(mine):.4f}, published {PUBLISHED[name]}")
        write_results("genes", rows)


if __name__ == "__main__":
    typer.run(main)
