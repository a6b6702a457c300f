"""Sections of ``vpunn reproduce tabular`` about latent trees themselves: the picture F17, joint refinement (L3), semantic ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.paper.contents import captions
from vpunn.report import Report

if TYPE_CHECKING:
    from vpunn.paper.reports.tabular import WineShelf


def axes(columns: int = 1) -> tuple[Any, Any]:
    """A figure without pyplot, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0 * columns, 4.2), layout="constrained")
    return figure, figure.subplots(1, columns)


def place_wines(table: Any) -> dict[str, Any]:
    """Two coordinates per wine, its first two digits, what the four balls are, and silhouettes in the columns themselves."""
    from sklearn.metrics import silhouette_score

    from vpunn.tabular.encoder import LatentTreeEncoder

    encoder = LatentTreeEncoder(verbose=False).fit(table)  # the tree of T17 and T18: p = 3, K = 6
    scaled = encoder.table_.matrix(table)
    place, how = plane(scaled)
    digits = encoder.transform(table)[:, :2]
    balls = {
        f"{a}.{b}": encoder.describe((int(a), int(b)) if b else (int(a),), columns=2).sentence()
        for a, b in np.unique(digits, axis=0)
    }
    sample = np.random.default_rng(0).permutation(len(scaled))[:2000]
    first, both = digits[sample, 0], digits[sample] @ [3, 1]
    widths = [float(silhouette_score(scaled[sample], labels)) for labels in (first, both)]
    return {"place": place, "how": how, "digits": digits, "balls": balls, "silhouette": widths}


def draw_wines(found: dict[str, Any], quality: np.ndarray) -> tuple[Any, str]:
    """F17: the wines in the plane, coloured by digits and by quality; and what that shows."""
    place, digits = np.array(found["place"]), np.array(found["digits"])
    figure, (left, right) = axes(2)
    for name, words in found["balls"].items():
        a, b = map(int, name.split("."))
        at = (digits == [a, b]).all(axis=1)
        left.scatter(*place[at].T, s=3, label=f"{name}: {words}", color=f"C{2 * (a - 1) + b - 1}", rasterized=True)
    left.legend(markerscale=4, fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.06))
    left.set_title("first two digits")
    dots = right.scatter(*place.T, s=3, c=quality, cmap="viridis", rasterized=True)
    right.set_title("sensory quality (never seen by the tree)")
    figure.colorbar(dots, ax=right, label="quality")
    low, high = np.quantile(place, [0.002, 0.998], axis=0)  # a few wines lie far off and would squeeze the rest
    room = 0.08 * (high - low)
    for axis in (left, right):
        axis.set(
            xticks=[], yticks=[], xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1])
        )
    first, both = found["silhouette"]
    return figure, (
        f"{found['how']} (outermost 0.4 % not shown). Colour and layout come from the same eleven columns, so separation here does "
        f"not validate the tree (E-81). Silhouettes in the columns themselves: {first:.2f} for the root digit, {both:.2f} for two "
        "digits (1 is separated, 0 is touching): the wines are one cloud, cut."
    )


def picture(shelf: WineShelf, report: Report) -> None:
    """F17, with what it shows."""
    figure, said = draw_wines(shelf.fact("picture", lambda: place_wines(shelf.table)), shelf.quality)
    report.heading(captions("F17"))
    report.figure("The wines, coloured by their first two digits in the tree of T17 and by quality.", figure)
    report.text(said)


def plane(rows: np.ndarray) -> tuple[np.ndarray, str]:
    """Two coordinates per row, and how they were found: UMAP if installed, principal components otherwise."""
    import importlib.util
    import warnings

    if importlib.util.find_spec("umap") is None:
        centred = rows - rows.mean(axis=0)
        place = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
        return place, "First two principal components (umap-learn is not installed)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # umap warns that a seed makes it use one thread, which is what we want
        from umap import UMAP

        return np.asarray(
            UMAP(n_neighbors=15, min_dist=0.1, random_state=0).fit_transform(rows)
        ), "UMAP (15 neighbours, seed 0)"


def refinement(shelf: WineShelf, report: Report) -> None:
    """Whether local moves find planted trees better."""
    rows = shelf.fact("refinement", lambda: refined_trees(shelf.seeds))
    report.heading("Joint refinement (L3)")
    report.table(f"Triplet accuracy on planted trees, 27 leaf balls, {shelf.seeds} data sets each", rows)


def refined_trees(seeds: int) -> list[dict[str, Any]]:
    """Triplet accuracy before and after `refine_tree` on planted trees, by noise."""
    from scipy.stats import t

    from vpunn.tabular.encoder import LatentTreeEncoder
    from vpunn.tabular.refine import planted_rows, refine_tree, triplet_accuracy

    rows = []
    for what, spreads, columns in (("levels well apart", (4.0, 2.0, 1.0), 16), ("levels overlap", (3.0, 2.0, 1.2), 8)):
        for noise in (0.5, 1.5, 3.0, 4.0):
            before, after = [], []
            for seed in range(seeds):
                data, tree, leaf = planted_rows(noise, seed, spreads=spreads, columns=columns)
                encoder = LatentTreeEncoder(nodes_per_level=[3, 9, 27], verbose=False).fit(data)
                widest = max(4, encoder.tree_.max_branching)
                found = refine_tree(
                    encoder.table_.matrix(data), encoder.tree_, encoder.leaf_, max_children=widest, verbose=False
                )
                before.append(triplet_accuracy(encoder.tree_, encoder.leaf_, tree, leaf))
                after.append(triplet_accuracy(found.tree, found.leaf, tree, leaf))
            gain = np.subtract(after, before)
            # the data sets are independent, so the plain t interval holds
            wide = t.ppf(0.975, seeds - 1) * gain.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else np.inf
            verdict = (
                "better" if gain.mean() - wide > 0 else "worse" if gain.mean() + wide < 0 else "no difference shown"
            )
            rows.append({"planted tree": what, "noise": noise, "Ward": np.mean(before), "refined": np.mean(after),
                         "gain": f"{gain.mean():+.4f} ± {wide:.4f}", "verdict": verdict})  # fmt: skip
    return rows


def ids(shelf: WineShelf, report: Report) -> None:
    """How many neighbours share a prefix of their id."""
    many, rows = shelf.fact("ids", neighbours_by_prefix)
    report.heading("Semantic ids")
    report.table(f"Neighbours (10) found by shared prefix: {many:,} digit images, p = 256, K = 3", rows)


def neighbours_by_prefix() -> tuple[int, Any]:
    """How many images there are, and how many of their neighbours share a prefix of their id."""
    from sklearn.datasets import load_digits

    from vpunn.tabular.ids import prefix_recall, semantic_ids

    images = load_digits().data
    ids = semantic_ids(images)
    return len(ids), prefix_recall(ids, images)
