"""The paper's nineteen figures from real data (``vpunn figures``): each with its moral, what it is drawn from, and where the
paper's own figure cannot be what it says (eleven of its nineteen graphics are missing from the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import plot, structure
from vpunn.errors import VpunnError
from vpunn.files import make_folder
from vpunn.paper._study import Study
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure


EXACT, TRAINED, DRAWN = "the exact code", "a trained model", "no data, as a diagram"
INTERPOLATED = "a v-PuNN that interpolates the depth of every leaf exactly"


@dataclass(frozen=True)
class PaperFigure:
    """One figure: how to draw it, its moral, its source, and what is wrong with the paper's own."""

    key: str
    title: str
    moral: str
    source: str
    paper: str
    draw: Callable[[Study], Figure]
    about_data: bool = True  #: whether another hierarchy gives another picture

    def caption(self, study: Study, finding: str = "") -> str:
        """Everything a reader should know, in a paragraph."""
        said = f" Measured: {finding}" if finding else ""
        where = f" ({study.title})" if self.about_data else ""
        return f"{self.key}. {self.title}{where}. {self.moral}{said} Drawn from {self.source}. {self.paper}"


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _one(draw: Callable[..., Any], size: tuple[float, float]) -> Figure:
    """A figure with one picture in it."""
    figure = _figure(*size)
    draw(figure.subplots())
    return figure


def _draw_force(study: Study) -> Figure:
    return _one(lambda ax: plot.force(study.tree, ax, seed=study.seed, labels=8), (6.8, 6.4))


def _draw_geometries(study: Study) -> Figure:
    return _one(plot.geometries, (8.4, 4.6))


def _draw_versus(study: Study) -> Figure:
    return _one(lambda ax: plot.versus(study.tree, ax), (9.0, 4.4))


def _draw_disk(study: Study) -> Figure:
    return _one(lambda ax: plot.poincare(study.tree, ax), (7.0, 6.2))


def _draw_distances(study: Study) -> Figure:
    found = structure.distance_matrix(study.tree, seed=study.seed)
    return _one(lambda ax: plot.distance_matrix(found, ax), (6.0, 5.0))


def _draw_boxes(study: Study) -> Figure:
    found = structure.box_counting(study.tree)
    return _one(lambda ax: plot.box_counting(found, ax, claimed=1.46), (7.0, 4.4))


def _draw_branching(study: Study) -> Figure:
    return _one(lambda ax: plot.branching(study.branching, ax), (7.0, 4.6))


def _toy() -> Tree:
    return Tree.from_paths([["A", "l1"], ["A", "l2"], ["B", "l3"]], root="root")


def _full(b: int, depth: int) -> Tree:
    return Tree.from_parents([-1] + [(i - 1) // b for i in range(1, (b ** (depth + 1) - 1) // (b - 1))])


def _draw_ball(study: Study) -> Figure:
    tree = _full(5, 3)
    return _one(lambda ax: plot.diagram(tree, ax, ball=int(tree.index(8)), texts=[]), (9.0, 3.2))


def _draw_toy(study: Study) -> Figure:
    from vpunn.codes import PadicCode

    tree = _toy()
    code = PadicCode(tree)
    texts = [
        f"{label}\ncode {code.encode(int(leaf))}"
        for label, leaf in zip(tree.labels[tree.leaves], tree.leaves, strict=True)
    ]
    figure = _figure(8.0, 3.4)
    left, right = figure.subplots(1, 2)
    plot.diagram(tree, left, texts=texts)
    plot.balls(tree, right, depth=2)
    return figure


def _draw_architecture(study: Study) -> Figure:
    from vpunn.network import VPuNN

    tree = study.tree
    net = VPuNN(tree).interpolate(tree.depth[tree.leaves].astype(float), gauge="mean")
    return _one(lambda ax: plot.architecture(tree, study.item, net.coefficients_, ax), (9.0, 5.4))


def _draw_path(study: Study) -> Figure:
    figure = _figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    plot.descent(study.training, left, optimum=study.optimum)
    plot.code(study.tree, study.item, right)
    return figure


def _draw_magnitudes(study: Study) -> Figure:
    found = structure.magnitudes(study.tree, study.coefficients[0])
    figure = _figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    plot.magnitudes(found, left)
    right.spines[["top", "right"]].set_visible(False)
    right.plot(np.arange(1, len(found.error) + 1), 100 * found.error, color=plot.PALETTE[0], marker="o")
    right.axhline(100 * found.tolerance, color=plot.PALETTE[5], linestyle="--", linewidth=1)
    right.set(yscale="log", xlabel="bits per coefficient", ylabel="error of F at the leaves, % of its spread")
    return figure


def _hidden_curves(study: Study) -> dict[int, Any]:
    """Reliability by depth; a tree with too few leaves has none."""
    if not study.held_out:
        raise VpunnError(f"{study.name} has too few leaves for reliability diagrams: no depth has 30 hidden ones.")
    return study.held_out


def _draw_ece(study: Study) -> Figure:
    curves = _hidden_curves(study)
    return _one(lambda ax: plot.reliability_by_depth(curves, ax), (7.2, 4.0))


def _draw_mapper(study: Study) -> Figure:
    found = structure.mapper(study.tree, depths=(1, 2, 3))
    return _one(lambda ax: plot.mapper(found, ax), (7.6, 5.6))


def _draw_entropy(study: Study) -> Figure:
    figure = _figure(11.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
    found = structure.entropy(study.tree)
    plot.entropy(found, left)
    plot.finding(found.against(study.digit_accuracy), right)
    return figure


def _draw_two_views(study: Study) -> Figure:
    figure = _figure(12.0, 5.4)
    left, right = figure.subplots(1, 2)
    part = study.tree.subtree(study.part)
    plot.spectrum(structure.spectrum(part), right)
    plot.poincare(part, left, labels=10)
    left.set_title("(a) Poincaré disk, exact placement", fontsize=10)
    right.set_title("(b) Laplacian eigenmap", fontsize=10)
    return figure


def _draw_wine(study: Study) -> Figure:
    from vpunn.datasets import load_wine_quality
    from vpunn.tabular import LatentTreeEncoder

    frame = load_wine_quality()
    rows = frame.drop(columns="quality") if "quality" in frame else frame
    rows = rows.sample(2000, random_state=study.seed) if len(rows) > 2000 else rows
    encoder = LatentTreeEncoder(p=5, K=3, random_state=study.seed, verbose=False).fit(rows)
    digit = np.asarray(encoder.transform(rows))[:, 0]
    return _one(lambda ax: plot.umap(rows.to_numpy(float), digit, ax, seed=study.seed), (6.4, 5.0))


def _draw_histograms(study: Study) -> Figure:
    found = study.branching
    wanted = [k for k in (1, 3, 5, 7, 9, 11) if k in found.depths] or found.depths[:6].tolist()
    columns = min(len(wanted), 3)
    figure = _figure(3.5 * columns, 2.7 * -(-len(wanted) // columns))
    axes = np.atleast_1d(figure.subplots(-(-len(wanted) // columns), columns)).ravel()
    for ax, k in zip(axes, wanted, strict=False):
        plot.degree_histogram(found, k, ax)
    for ax in axes[len(wanted) :]:
        ax.set_axis_off()
    return figure


def _draw_reliability(study: Study) -> Figure:
    depths = np.array(list(_hidden_curves(study)))
    named = {k + 1 for k in (3, 8, 13, 16)} & set(depths.tolist())  # the paper's digits, where the tree has them
    spread = depths[np.unique(np.linspace(0, len(depths) - 1, 4).astype(int))].tolist()
    wanted = sorted(named) if len(named) == 4 else spread
    figure = _figure(3.6 * len(wanted), 3.7)
    for ax, k in zip(np.atleast_1d(figure.subplots(1, len(wanted))).ravel(), wanted, strict=True):
        curve = study.held_out[k]
        plot.reliability(curve, ax)
        ax.set_title(f"digit d{k - 1}: {int(curve.n_items.sum()):,} items, error {100 * curve.ece:.1f} %", fontsize=9)
    return figure


def _calibrated(study: Study) -> str:
    """How many depths are calibrated as well as chance allows."""
    curves = study.held_out
    good = [k for k, curve in curves.items() if curve.ece <= 1.5 * plot.chance_error(curve)]
    worst = max(curves, key=lambda k: curves[k].ece - plot.chance_error(curves[k]))
    said = f"at {len(good)} of {len(curves)} depths the error is within 1.5 times what exact probabilities would show"
    ece, chance = 100 * curves[worst].ece, 100 * plot.chance_error(curves[worst])
    return f"{study.judged}; {said}; farthest off is depth {worst} with {ece:.1f} % against {chance:.1f} %."


def _trained(study: Study) -> str:
    """Where each training ended."""
    best = study.optimum
    ends = [
        f"{name}: {run.loss if best is None else run.loss - best:.2g} after {run.epochs:,} epochs"
        for name, run in study.training.items()
    ]
    return f"{'loss' if best is None else 'loss above the optimum'}, {'; '.join(ends)}."


#: The findings whose verdict belongs into a figure's caption.
FINDINGS: dict[str, Callable[[Study], str]] = {
    "F7": _trained,
    "F8": lambda study: structure.magnitudes(study.tree, study.coefficients[0]).verdict,
    "F10": _calibrated,
    "F11": lambda study: structure.distance_matrix(study.tree, seed=study.seed).verdict,
    "F12": lambda study: structure.mapper(study.tree, depths=(1, 2, 3)).verdict,
    "F13": lambda study: structure.box_counting(study.tree).verdict,
    "F14": lambda study: study.branching.verdict,
    "F15": lambda study: (
        f"{(found := structure.entropy(study.tree)).verdict} And {found.against(study.digit_accuracy).verdict}"
    ),
    "F16": lambda study: structure.spectrum(study.tree, study.part).verdict,
    "F18": lambda study: study.branching.verdict,
    "F19": _calibrated,
}


FIGURES: tuple[PaperFigure, ...] = (
    PaperFigure(
        "F1",
        "Force-directed layout of the whole hierarchy",
        "Springs in a plane show clutter: neighbours here need not be relatives.",
        EXACT,
        ("The paper's graphic is missing; forces act on the largest balls here, the rest is thrown around them."),
        _draw_force,
    ),
    PaperFigure(
        "F2",
        "Geometries for hierarchies",
        (
            "A hierarchy fits exactly into the p-adic integers, nearly into hyperbolic space, and its ultrametric"
            " even into Euclidean space of many dimensions."
        ),
        DRAWN,
        "The paper's distortion ~1/d for Euclidean space is wrong (E-56).",
        _draw_geometries,
        about_data=False,
    ),
    PaperFigure(
        "F3",
        "A ball is a subtree is a prefix (p = 5, three digits)",
        "All points that share the first two digits are one subtree.",
        EXACT,
        "The paper calls two shared digits a ball of radius p^−3; it is p^−2.",
        _draw_ball,
        about_data=False,
    ),
    PaperFigure(
        "F4",
        "A toy tree with its codes and balls",
        "Digit = child number from 1, so that 0 can mean 'stops here'; the root's choice stands at p⁰.",
        EXACT,
        "The paper's codes 0, 1, 3 contradict its own distances (E-02); two children and a stop need p = 3.",
        _draw_toy,
        about_data=False,
    ),
    PaperFigure(
        "F5",
        "A v-PuNN at work on one item",
        "The balls around an item light up, their coefficients add up, and the digits are its code.",
        INTERPOLATED,
        ("The paper's diagram multiplies predicted digits by powers of p, which decodes a code and computes nothing."),
        _draw_architecture,
    ),
    PaperFigure(
        "F6",
        "A dense network beside a v-PuNN",
        "A weight of a dense network touches every input; a coefficient touches one subtree.",
        EXACT,
        "The balls that the paper counts stop one level above the leaves (E-30).",
        _draw_versus,
    ),
    PaperFigure(
        "F7",
        "Root-to-leaf optimisation",
        "Left, training; right, the path of balls whose heads one item trains.",
        TRAINED,
        "The paper's graphic is a chain of boxes without data.",
        _draw_path,
    ),
    PaperFigure(
        "F8",
        "Sizes of the parameters by depth, and the bits they need",
        "Whether coefficients shrink with depth, and how finely they must be stored, is measured.",
        TRAINED,
        "The paper's |θ_k| ~ p^−k contradicts weights that are digits from 0 to p − 1 (E-24).",
        _draw_magnitudes,
    ),
    PaperFigure(
        "F9",
        "Poincaré disk",
        "Shells are concentric because depth is plotted as radius.",
        EXACT,
        "The paper reads the shells as a result of learning (E-85); its graphic is missing.",
        _draw_disk,
    ),
    PaperFigure(
        "F10",
        "Calibration error by depth, on hidden leaves",
        "Bars above the marks are more than chance gives to exact probabilities.",
        TRAINED,
        (
            "The paper's 0.20 % is of training items and confidences near 1 (E-68); a fifth of the leaves is "
            "hidden here."
        ),
        _draw_ece,
    ),
    PaperFigure(
        "F11",
        "Distances of leaves in code order",
        "Blocks inside blocks: sorting by code sorts by relationship.",
        EXACT,
        ("No code can break the strong triangle inequality (E-66), so its absence confirms nothing about learning."),
        _draw_distances,
    ),
    PaperFigure(
        "F12",
        "Mapper graph of the code",
        "Components are the balls of the coarsest cover.",
        EXACT,
        "That no bridges appear follows from the cover and not from training (E-86).",
        _draw_mapper,
    ),
    PaperFigure(
        "F13",
        "Box counting",
        "The slope stays below 1, the dimension of Z_p.",
        EXACT,
        "The paper's dimension 1.46 is impossible (E-55): it agrees with a slope of ln N, not of log_p N.",
        _draw_boxes,
    ),
    PaperFigure(
        "F14",
        "Children per inner node, by depth",
        "Whether the depths agree is tested, not read off the picture.",
        EXACT,
        "The paper reads 'almost unchanged' off a graphic that is missing.",
        _draw_branching,
    ),
    PaperFigure(
        "F15",
        "Entropy of the digits",
        "Single digits may gain or lose information with depth; only prefixes must gain.",
        EXACT,
        "The paper's Proposition on H(d_k) is false (E-54).",
        _draw_entropy,
    ),
    PaperFigure(
        "F16",
        "Two views of the largest branch",
        "The disk shows what was put in; the eigenmap knows no codes and shows a few large branches.",
        EXACT,
        "The paper says that the eigenmap's radius tracks depth; its disk plots depth as radius (E-85).",
        _draw_two_views,
    ),
    PaperFigure(
        "F17",
        "UMAP of white wines by root digit of a latent tree",
        "The first digit is a coarse cluster of the measurements.",
        TRAINED,
        "The paper's graphic is missing. UMAP bends distances: islands are not proof of clusters.",
        _draw_wine,
        about_data=False,
    ),
    PaperFigure(
        "F18",
        "Branching at some depths",
        "Most inner nodes have few children, some have very many.",
        EXACT,
        "The paper's own p = 331 for GO would need another tree than ours (E-14); its graphic is missing.",
        _draw_histograms,
    ),
    PaperFigure(
        "F19",
        "Reliability at some depths, on hidden leaves",
        "Dots outside the grey bars are wrong by more than chance allows.",
        TRAINED,
        "The paper's diagrams are of training items; graphic missing.",
        _draw_reliability,
    ),
)


def find_figures(names: list[str] | None) -> list[PaperFigure]:
    """The figures of some names (``F13``, ``13``, ``f16a``), all if none is given; others are refused."""
    if not names:
        return list(FIGURES)
    known = {figure.key: figure for figure in FIGURES}
    wanted = []
    for name in names:
        key = "F" + name.upper().lstrip("F").rstrip("AB").lstrip("0")
        if key not in known:
            raise VpunnError(f"there is no figure {name!r}; choose among {', '.join(known)}.")
        wanted.append(known[key])
    return list(dict.fromkeys(wanted))


def saved_models(folder: str | Path) -> list[Any]:
    """The models under ``folder/checkpoints`` (or in the folder itself), as `vpunn.load` opens them: the paper's two come first.

    None is an error unless the report has findings on held-out rows, from which F10 and F19 are drawn.
    """
    from vpunn.store import load

    root = Path(folder)
    inner = root / "checkpoints"
    found = [path.parent for path in (inner if inner.is_dir() else root).rglob("model.json")]
    found.sort(key=lambda path: (path.name not in ("hipan", "hipan-ds"), path))
    if not found and saved_labels(root) is None:
        raise VpunnError(f"there is no saved model under {root}; run vpunn reproduce first, or leave --from out.")
    return [load(path) for path in found]


def saved_labels(folder: str | Path) -> dict[str, Any] | None:
    """What the report in a folder found on held-out rows with features, if it did."""
    from vpunn.paper.reports._shelf import FACTS, read_json

    path = Path(folder) / "checkpoints" / FACTS
    found = read_json(path) if path.is_file() else {}
    return found.get("T15") if isinstance(found, dict) else None


def draw_figures(
    study: Study, names: list[str] | None, out: str | Path
) -> Iterator[tuple[PaperFigure, str, Exception | None]]:
    """Draw figures into a folder as ``F01.png`` and ``F01.svg``; yields each with its caption, and the error if it was skipped.

    When all are done, ``captions.md`` and ``index.html`` show what was drawn.
    """
    folder = make_folder(out)
    done: list[tuple[str, str]] = []
    for figure in find_figures(names):
        try:
            drawn = figure.draw(study)
            caption = figure.caption(study, FINDINGS[figure.key](study) if figure.key in FINDINGS else "")
            stem = f"F{int(figure.key[1:]):02d}"
            _write(folder, stem, drawn)
        except VpunnError as error:
            yield figure, "", error
            continue
        done.append((stem, caption))
        yield figure, caption, None
    _write_index(folder, study, done)


def _write(folder: Path, stem: str, drawn: Figure) -> None:
    """PNG and SVG, each whole or not at all; the same picture gives the same bytes."""
    from matplotlib import rc_context

    from vpunn.files import written_beside

    with rc_context({"svg.hashsalt": stem, "svg.fonttype": "none"}):
        for ending, more in (("png", {"metadata": {"Software": None}}), ("svg", {"metadata": {"Date": None}})):
            with written_beside(folder / f"{stem}.{ending}") as part:
                drawn.savefig(part, format=ending, dpi=110, facecolor="white", **more)  # type: ignore[arg-type]


def _write_index(folder: Path, study: Study, done: list[tuple[str, str]]) -> None:
    import html

    from vpunn.files import save

    text = "\n\n".join(f"![{stem}]({stem}.png)\n\n{caption}" for stem, caption in done)
    save(folder / "captions.md", f"# Figures: {study.title}\n\n{text}\n".encode())
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}img{max-width:100%}"
    )
    parts = "".join(
        f'<figure><img src="{stem}.png" alt="{stem}"><figcaption>{html.escape(caption)}</figcaption></figure>'
        for stem, caption in done
    )
    title = html.escape(study.title)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = f'<!doctype html><html lang="en">{head}<title>{title}</title>'
    save(folder / "index.html", f"{page}<style>{style}</style><h1>Figures: {title}</h1>{parts}</html>".encode())
