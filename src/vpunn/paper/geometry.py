"""The geometry of what was learned: the paper's figures of shape for the exact code, for learned digits and for digits of
embeddings, side by side, with a sentence on what learning changed.

The paper draws the exact code and reads it as a result of training. Three sources stand beside one another here: the code itself,
the digits that `HiPaN` predicts when it is not shown the answer, and the `semantic_ids` of vectors of the leaves' texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import plot, structure
from vpunn.codes import PadicCode, tree_of_digits
from vpunn.errors import counted
from vpunn.padic import code_prime
from vpunn.paper.hipan import HiPaN
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXACT, LEARNED, EMBEDDED = "the exact code", "HiPaN, not shown the answer", "semantic ids of the texts"
#: Columns of a tree whose words describe its nodes.
TEXTS = ("gloss", "definition", "name")
#: Leaves that get vectors and digits; larger trees are judged by as many drawn at random.
MOST = 60_000

Rows = dict[str, np.ndarray]


def three_codes(tree: Tree, models: Iterable[Any] = (), *, seed: int = 0) -> Rows:
    """Rows of digits for the same leaves: exact, learned (by the first HiPaN of ``models``, else by one trained here), and of the
    leaves' texts, if they have any (`vpunn.semantic_ids` of the same prime, with as many digits as give the exact code's mean
    number of children)."""
    leaves = tree.leaves
    if len(leaves) > MOST:
        leaves = np.sort(np.random.default_rng(seed).choice(leaves, MOST, replace=False))
    given = [model for model in models if isinstance(model, HiPaN)]
    model = given[0] if given else HiPaN.DS(tree, seed=seed).fit()
    rows = {EXACT: PadicCode(tree).digits(leaves), LEARNED: model.digit_rows(leaves)}
    vectors = text_vectors(tree, leaves, seed)
    if vectors is not None:
        from vpunn.tabular import semantic_ids

        children = max((tree.n_nodes - 1) / (tree.n_nodes - tree.n_leaves), 2.0)
        digits = max(round(np.log(len(leaves)) / np.log(children)), 1)
        found = semantic_ids(vectors, max(PadicCode(tree).p, 3), digits, metric="cosine", random_state=seed)
        rows[EMBEDDED] = found.digits
    return rows


def text_vectors(tree: Tree, leaves: np.ndarray, seed: int = 0) -> np.ndarray | None:
    """Vectors of the leaves' descriptions: at most 64 directions of their weighted words (TF-IDF); None without texts."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    columns = [tree.columns[name] for name in TEXTS if name in tree.columns and tree.columns[name].dtype == object]
    columns += [tree.labels] if tree.labels.dtype == object else []
    texts = [" ".join(str(column[leaf]) for column in columns if column[leaf]) for leaf in leaves.tolist()]
    try:
        words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"[^\W\d_]{2,}").fit_transform(texts)
    except ValueError:  # no words
        return None
    if min(words.shape) < 3:
        return None
    svd = TruncatedSVD(min(64, min(words.shape) - 1), random_state=seed)
    return np.asarray(svd.fit_transform(words))


#: What a picture shows, in a few words, and the verdict of what was measured.
Said = tuple[str, str]
Draw = Callable[[np.ndarray, "Axes", int, int], Said]

# ---- pictures and sentences of one source ----------------------------------------------------------------------------------


def _disk(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    tree, nodes, _ = tree_of_digits(rows)
    plot.poincare(tree, ax, labels=0)
    places = len(np.unique(nodes))
    return f"{counted(places, 'place')} for {len(rows):,} leaves, on {counted(tree.max_depth, 'shell')}", ""


def _distances(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    found = structure.distance_matrix(rows, seed=seed)
    found.plot(ax)
    mean = found.summary()["mean valuation"]
    short = "one leaf" if mean is None else f"two leaves share {mean:.2f} digits on average"
    return short, found.verdict


def _mapper(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    found = structure.mapper(rows, depths=(1, 2, 3))
    found.plot(ax)
    first = np.unique(rows[:, 0], return_counts=True)[1]
    return (
        f"{counted(found.n_components, 'component')}, the largest with {first.max() / len(rows):.0%} of the leaves",
        found.verdict,
    )


def _boxes(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    found = structure.box_counting(rows, p=p)
    found.plot(ax, claimed=1.46)
    slope = "no slope" if found.slope is None else f"slope {found.slope:.3f}"
    return f"{slope}, {counted(int(found.counts[-1]), 'ball')} at the end", found.verdict


def _branching(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    found = structure.branching(rows, seed=seed)
    found.plot(ax)
    mean = found.summary()["mean children"]
    tail = "no tail to fit" if found.tail is None else f"tail exponent {found.tail.alpha:.2f}"
    return f"{mean:.2f} children on average and {tail}", found.verdict


def _entropy(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    found = structure.entropy(rows)
    found.plot(ax)
    return f"{found.prefix[-1]:.2f} bits in all, {found.prefix[1]:.2f} of them in the first digit", found.verdict


def _difficulty(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    """Entropy of a digit against how often the commonest child is right."""
    found = structure.entropy(rows).against(commonest_child(tree_of_digits(rows).tree))
    found.plot(ax)
    short = "" if found.rho is None else f"ρ = {found.rho:+.2f} between a digit's entropy and how often it can be known"
    return short, found.verdict


def _spectrum(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    found = structure.spectrum(_largest_branch(rows), seed=seed)
    found.plot(ax, labels=0)
    short = "ρ undefined" if found.rho is None else f"ρ = {found.rho:+.2f} between radius and depth"
    return short, found.verdict


def _branch_disk(rows: np.ndarray, ax: Axes, p: int, seed: int) -> Said:
    plot.poincare(_largest_branch(rows), ax, labels=0)
    return "", ""


def _histogram(rows: np.ndarray, ax: Axes, p: int, seed: int, *, depth: int) -> Said:
    found = structure.branching(rows, permutations=1)
    if depth not in found.depths:
        ax.set_axis_off()
        return "", ""
    plot.degree_histogram(found, depth, ax)
    values, counts = found.total
    alone = f"{counts[values == 1].sum() / counts.sum():.0%} of the inner nodes with a single child"
    return ("" if depth > 1 else f"{alone}, {values.max():,} at most"), ""


def _largest_branch(rows: np.ndarray) -> Tree:
    """The largest branch below the root (WordNet: *physical entity*)."""
    tree = tree_of_digits(rows).tree
    first = np.flatnonzero(tree.depth == 1)
    return tree.subtree(int(first[np.argmax(tree.size[first])])) if len(first) else tree


def commonest_child(tree: Tree) -> np.ndarray:
    """Share of leaves whose digit k is the commonest child of their ball: what a rule told the whole prefix can reach."""
    best = np.zeros(tree.n_nodes, np.int64)
    np.maximum.at(best, tree.parent[1:], tree.leaf_counts[1:])
    inner = ~tree.is_leaf
    hit = np.bincount(tree.depth[inner], weights=best[inner], minlength=tree.max_depth)
    asked = np.bincount(tree.depth[inner], weights=tree.leaf_counts[inner], minlength=tree.max_depth)
    return np.asarray(hit / asked)


#: The paper's figures of shape, and what is drawn and said of each source, from top to bottom.
SHAPES: dict[str, tuple[Draw, ...]] = {
    "F9": (_disk,),
    "F11": (_distances,),
    "F12": (_mapper,),
    "F13": (_boxes,),
    "F14": (_branching,),
    "F15": (_entropy, _difficulty),
    "F16": (_branch_disk, _spectrum),
    "F18": tuple(partial(_histogram, depth=depth) for depth in (1, 3, 5, 7)),
}


def draw_shapes(key: str, codes: Rows, *, seed: int = 0) -> tuple[Figure, str]:
    """One figure of the paper for every source of digits, side by side, and what learning changed, in a sentence each."""
    from matplotlib.figure import Figure

    drawings = SHAPES[key]
    height = 4.9 if len(drawings) < 3 else 2.6
    figure = Figure(figsize=(5.4 * len(codes), height * len(drawings)), layout="constrained")
    axes = figure.subplots(len(drawings), len(codes), squeeze=False)
    p = code_prime(int(codes[EXACT].max()))
    sentences = []
    for column, (name, rows) in enumerate(codes.items()):
        parts = [draw(rows, ax, p, seed) for draw, ax in zip(drawings, axes[:, column], strict=True)]
        short, top = "; ".join(words for words, _ in parts if words), axes[0, column].get_title()
        axes[0, column].set_title(f"{name}\n{top}" if top else name, fontsize=10)
        if key == "F11" and name != EXACT:
            short += _agreement(rows, codes[EXACT], seed)
        verdicts = [verdict.rstrip(".") for _, verdict in parts if verdict and name == EXACT]
        sentences.append(f"{name[0].upper()}{name[1:]}: {'; '.join([short, *verdicts])}.")
    return figure, " ".join([*sentences, _one_point(codes)]).strip()


def _agreement(rows: np.ndarray, exact: np.ndarray, seed: int) -> str:
    """Spearman's ρ of the digits that two leaves share in both codes, over random pairs; nothing where one never varies."""
    from scipy.stats import spearmanr

    one, other = np.random.default_rng(seed).integers(0, len(rows), (2, 50_000))
    one, other = one[one != other], other[one != other]
    shared = [np.logical_and.accumulate(code[one] == code[other], axis=1).sum(1) for code in (rows, exact)]
    if min(map(np.ptp, shared), default=0) == 0:
        return ""
    return f" (ρ = {spearmanr(*shared)[0]:+.2f} with those of the exact code)"


def _one_point(codes: Rows) -> str:
    """HiPaN has no input but the answer, so that without it all leaves are predicted alike."""
    same = (codes[LEARNED] == codes[LEARNED][:1]).all()
    return "Not shown its answer, HiPaN names one path for all leaves: what it learned has no shape." if same else ""
