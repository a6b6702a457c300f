"""The paper's nineteen figures from real data (``vpunn figures``), each with its caption from `contents` and what was measured.

Every function draws one and says in a sentence what it shows on this hierarchy; ``""`` where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn import plot, structure
from vpunn.errors import VpunnError
from vpunn.files import make_folder
from vpunn.metrics import Reliability
from vpunn.paper._figure_inputs import Inputs
from vpunn.paper.contents import PICTURES, Picture
from vpunn.paper.geometry import SHAPES, draw_shapes
from vpunn.tree import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = tuple["Figure", str]
#: How ``captions.md`` begins.
TITLE = "# Figures: "


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _one(draw: Callable[..., Any], size: tuple[float, float], said: str = "") -> Drawn:
    """A figure with one picture in it."""
    figure = _figure(*size)
    draw(figure.subplots())
    return figure, said


def _force(inputs: Inputs) -> Drawn:
    return _one(lambda ax: plot.force(inputs.tree, ax, seed=inputs.seed, labels=8), (6.8, 6.4))


def _geometries(inputs: Inputs) -> Drawn:
    return _one(plot.geometries, (8.4, 4.6))


def _ball(inputs: Inputs) -> Drawn:
    b, depth = 5, 3
    tree = Tree.from_parents([-1] + [(i - 1) // b for i in range(1, (b ** (depth + 1) - 1) // (b - 1))])
    return _one(lambda ax: plot.diagram(tree, ax, ball=int(tree.index(8)), texts=[]), (9.0, 3.2))


def _toy(inputs: Inputs) -> Drawn:
    from vpunn.codes import PadicCode

    tree = Tree.from_paths([["A", "l1"], ["A", "l2"], ["B", "l3"]], root="root")
    code = PadicCode(tree).encode(tree.leaves)
    texts = [f"{label}\ncode {value}" for label, value in zip(tree.labels[tree.leaves], code, strict=True)]
    figure = _figure(8.0, 3.4)
    left, right = figure.subplots(1, 2)
    plot.diagram(tree, left, texts=texts)
    plot.balls(tree, right, depth=2)
    return figure, ""


def _architecture(inputs: Inputs) -> Drawn:
    from vpunn.network import VPuNN

    tree = inputs.tree
    net = VPuNN(tree).interpolate(tree.depth[tree.leaves].astype(float), gauge="mean")
    return _one(lambda ax: plot.architecture(tree, inputs.item, net.coefficients_, ax), (9.0, 5.4))


def _versus(inputs: Inputs) -> Drawn:
    return _one(lambda ax: plot.versus(inputs.tree, ax), (9.0, 4.4))


def _path(inputs: Inputs) -> Drawn:
    figure = _figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    best = inputs.optimum
    plot.descent(inputs.training, left, optimum=best)
    plot.code(inputs.tree, inputs.item, right)
    ends = "; ".join(
        f"{name}: {run.loss if best is None else run.loss - best:.2g} after {run.epochs:,} epochs"
        for name, run in inputs.training.items()
    )
    return figure, f"{'loss' if best is None else 'loss above the optimum'}, {ends}."


def _magnitudes(inputs: Inputs) -> Drawn:
    found = structure.magnitudes(inputs.tree, inputs.coefficients)
    figure = _figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    found.plot(left)
    right.spines[["top", "right"]].set_visible(False)
    right.plot(np.arange(1, len(found.error) + 1), 100 * found.error, color=plot.PALETTE[0], marker="o")
    right.axhline(100 * found.tolerance, color=plot.PALETTE[5], linestyle="--", linewidth=1)
    right.set(yscale="log", xlabel="bits per coefficient", ylabel="error of F at the leaves, % of its spread")
    return figure, found.verdict


def _hidden_curves(inputs: Inputs) -> tuple[dict[str, dict[int, Reliability]], str]:
    """Reliability by depth, and how many depths are calibrated as well as chance allows; a tree with too few leaves has none."""
    if not inputs.held_out:
        raise VpunnError(f"{inputs.name} has too few leaves for reliability diagrams: no depth has 30 hidden ones.")
    said = []
    for name, curves in inputs.held_out.items():
        good = [k for k, curve in curves.items() if curve.ece <= 1.5 * plot.chance_error(curve)]
        worst = max(curves, key=lambda k, c=curves: c[k].ece - plot.chance_error(c[k]))  # type: ignore[misc]
        ece, chance = 100 * curves[worst].ece, 100 * plot.chance_error(curves[worst])
        said.append(
            f"{name} on {int(curves[min(curves)].n_items.sum()):,} held-out rows: at {len(good)} of {len(curves)} depths the error "
            f"is within 1.5 times what exact probabilities would show; farthest off is depth {worst} with {ece:.1f} % against "
            f"{chance:.1f} %."
        )
    return inputs.held_out, " ".join(said)


def _ece(inputs: Inputs) -> Drawn:
    from vpunn.paper.reports.calibration import by_depth

    curves, said = _hidden_curves(inputs)
    return by_depth(curves), said


def _shape(key: str) -> Callable[[Inputs], Drawn]:
    """The exact code, learned digits and digits of texts side by side."""
    return lambda inputs: draw_shapes(key, inputs.codes, seed=inputs.seed)


def _wine(inputs: Inputs) -> Drawn:
    from vpunn.datasets import load_wine_quality
    from vpunn.paper.reports._latent_trees import draw_wines, place_wines

    wine = load_wine_quality()
    return draw_wines(place_wines(wine.drop(columns="quality")), wine["quality"].to_numpy(float))


def _reliability(inputs: Inputs) -> Drawn:
    from vpunn.paper.reports.calibration import diagrams

    curves, said = _hidden_curves(inputs)
    return diagrams(curves), said


#: How each figure of `contents.PICTURES` is drawn.
DRAW: dict[str, Callable[[Inputs], Drawn]] = {
    **{key: _shape(key) for key in SHAPES},
    **{"F1": _force, "F2": _geometries, "F3": _ball, "F4": _toy, "F5": _architecture, "F6": _versus, "F7": _path},
    **{"F8": _magnitudes, "F10": _ece, "F17": _wine, "F19": _reliability},
}


def caption(picture: Picture, inputs: Inputs, measured: str = "") -> str:
    """Everything a reader should know, in a paragraph."""
    said = f" Measured: {measured}" if measured else ""
    where = f" ({inputs.title})" if picture.about_data else ""
    return f"{picture.key}. {picture.title}{where}. {picture.moral}{said} Drawn from {picture.source}. {picture.paper}"


def find_figures(names: list[str] | None) -> list[Picture]:
    """The figures of some names (``F13``, ``13``, ``f16a``), all if none is given; others are refused."""
    if not names:
        return list(PICTURES)
    known = {figure.key: figure for figure in PICTURES}
    wanted = []
    for name in names:
        key = "F" + name.upper().lstrip("F").rstrip("AB").lstrip("0")
        if key not in known:
            raise VpunnError(f"there is no figure {name!r}; choose among {', '.join(known)}.")
        wanted.append(known[key])
    return list(dict.fromkeys(wanted))


def own_figures() -> list[str]:
    """The figures that are about a hierarchy: another one gives another picture."""
    return [picture.key for picture in PICTURES if picture.about_data]


def from_report(name: str, title: str, tree: Tree, folder: str | Path, seed: int = 0) -> Inputs:
    """The inputs that a report's folder has: models of this tree under ``checkpoints``, the paper's two first, and its findings."""
    from vpunn.paper.reports._run import FACTS, read_json
    from vpunn.store import load

    root = Path(folder)
    inner = root / "checkpoints"
    found = [path.parent for path in (inner if inner.is_dir() else root).rglob("model.json")]
    found.sort(key=lambda path: (path.name not in ("hipan", "hipan-ds"), path))
    kept = read_json(inner / FACTS) if (inner / FACTS).is_file() else {}
    facts = {key: kept[key] for key in ("T15", "T15-HiPaN") if isinstance(kept, dict) and key in kept}
    if not found and not facts:
        raise VpunnError(f"there is no saved model under {root}; run vpunn reproduce first, or leave --from out.")
    saved = [load(path) for path in found]
    own = [model for model in saved if getattr(model, "tree", None) is not None and model.tree.n_nodes == tree.n_nodes]
    if saved and not own:
        raise VpunnError(f"no model under {root} belongs to {name} ({tree.n_nodes:,} nodes); name its own folder.")
    return Inputs(name, title, tree, own, seed, facts, str(root))


def draw_figures(
    inputs: Inputs, names: list[str] | None, out: str | Path
) -> Iterator[tuple[Picture, str, Exception | None]]:
    """Draw figures into a folder as ``F01.png`` and ``F01.svg``; yields each with its caption, and the error if it was skipped.

    When all are done, ``captions.md`` and ``index.html`` show what was drawn.
    """
    folder = make_folder(out, _is_ours)
    done: list[tuple[str, str]] = []
    _write_index(folder, inputs.title, done)  # from now on it is known as a folder of figures
    for figure in find_figures(names):
        try:
            drawn, measured = DRAW[figure.key](inputs)
            text = caption(figure, inputs, measured)
            stem = f"F{int(figure.key[1:]):02d}"
            _write(folder, stem, drawn)
        except VpunnError as error:
            yield figure, "", error
            continue
        done.append((stem, text))
        yield figure, text, None
    _write_index(folder, inputs.title, done)


def _is_ours(folder: Path) -> bool:
    """Whether figures were drawn into a folder."""
    captions = folder / "captions.md"
    return captions.is_file() and captions.read_bytes().startswith(TITLE.encode())


def _write(folder: Path, stem: str, drawn: Figure) -> None:
    """PNG and SVG, each whole or not at all; the same picture gives the same bytes."""
    from matplotlib import rc_context

    from vpunn.files import written_beside

    with rc_context({"svg.hashsalt": stem, "svg.fonttype": "none"}):
        for ending, more in (("png", {"metadata": {"Software": None}}), ("svg", {"metadata": {"Date": None}})):
            with written_beside(folder / f"{stem}.{ending}") as part:
                drawn.savefig(part, format=ending, dpi=110, facecolor="white", **more)  # type: ignore[arg-type]


def _write_index(folder: Path, title: str, done: list[tuple[str, str]]) -> None:
    import html

    from vpunn.files import save

    text = "\n\n".join(f"![{stem}]({stem}.png)\n\n{caption}" for stem, caption in done)
    save(folder / "captions.md", f"{TITLE}{title}\n\n{text}\n".encode())
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}img{max-width:100%}"
    )
    parts = "".join(
        f'<figure><img src="{stem}.png" alt="{stem}"><figcaption>{html.escape(caption)}</figcaption></figure>'
        for stem, caption in done
    )
    title = html.escape(title)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = f'<!doctype html><html lang="en">{head}<title>{title}</title>'
    save(folder / "index.html", f"{page}<style>{style}</style><h1>Figures: {title}</h1>{parts}</html>".encode())
