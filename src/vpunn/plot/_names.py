"""Names in pictures: the most important first, each where it fits, and never one over another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpunn.plot._style import INK, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path
    from matplotlib.text import Text

#: Width of a letter, as a share of the size of the letters; names are cut to a room by it before they are measured.
LETTER = 0.58
#: Shorter beginnings of a name tell nothing.
FEWEST = 5

#: How names stand at their points: shift in points, and the corner of the name that is there.
ANCHORS = {"left": (3, 2, "left", "bottom"), "row": (4, 0, "left", "center"), "center": (0, 0, "center", "center")}


def settled(ax: Axes) -> Any:
    """What measures letters, once the layout has settled, and with it where data coordinates lie."""
    figure: Any = ax.figure
    figure.draw_without_rendering()
    return figure._get_renderer()


def room_of(ax: Axes) -> tuple[float, float]:
    """Width and height of settled axes, in points."""
    frame, dpi = ax.get_window_extent(), ax.figure.dpi
    return float(frame.width * 72 / dpi), float(frame.height * 72 / dpi)


def widths(ax: Axes, texts: Sequence[str], size: float) -> np.ndarray:
    """Widths of the drawn texts, in points."""
    renderer = settled(ax)
    words = [ax.text(0, 0, text, fontsize=size) for text in texts]
    found = np.array([word.get_window_extent(renderer).width for word in words], float) * 72 / ax.figure.dpi
    for word in words:
        word.remove()
    return found


def outline(word: Text, renderer: Any) -> Path:
    """The rectangle of a name in the picture, turned as it is (about the point it stands at)."""
    from matplotlib.path import Path
    from matplotlib.transforms import Affine2D

    turn = word.get_rotation()
    word.set_rotation(0)
    box = word.get_window_extent(renderer)
    word.set_rotation(turn)
    corners = np.array([(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1), (box.x0, box.y0)])
    if turn:
        x, y = word.get_transform().transform(word.get_position())
        corners = Affine2D().rotate_deg_around(x, y, turn).transform(corners)
    return Path(corners, closed=True)


def _white_rim() -> list[Any]:
    """What keeps letters readable on dots and lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.2, foreground="white", alpha=0.85)]


def write_labels(
    ax: Axes, xy: np.ndarray, texts: Sequence[str], *, size: float = 8, limit: int = 40, anchor: str = "left"
) -> list[int]:
    """Write texts at points in the order given, skipping each that would touch one already there or leave the picture.

    Returns which were written. Widths are those of the drawn letters.
    """
    renderer = settled(ax)
    frame = ax.get_window_extent(renderer)
    taken = [outline(word, renderer) for word in ax.texts if word.get_visible()]
    right, up, ha, va = ANCHORS[anchor]
    written: list[int] = []
    for i, (point, text) in enumerate(zip(xy, texts, strict=True)):
        if len(written) >= limit or i > 12 * limit:
            break
        word = ax.annotate(
            text, point, xytext=(right, up), textcoords="offset points", fontsize=size, color=INK, ha=ha, va=va, zorder=6,
            annotation_clip=False, path_effects=_white_rim(),
        )  # fmt: skip
        box = word.get_window_extent(renderer).expanded(1.04, 1.15)
        outside = box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1
        if outside or any(other.intersects_bbox(box) for other in taken):
            word.remove()
            continue
        taken.append(outline(word, renderer))
        written.append(i)
    return written


def write_rim(ax: Axes, angle: np.ndarray, radius: np.ndarray, texts: Sequence[str], *, size: float = 7.0) -> None:
    """Write names outwards from points around the middle of square axes, in the order given, and make the room they need.

    A name that would touch an earlier one is left out; a long one is cut to three tenths of the way to the edge.
    """
    settled(ax)
    half = min(room_of(ax)) / 2
    room = 0.3 * half
    letters = int(room / (LETTER * size))
    chosen = _apart(angle, 0.62 * size / np.maximum(0.7 * half * radius, 1e-9)) if letters >= FEWEST else []
    cut = [short(texts[i], letters) for i in chosen]
    wide = widths(ax, cut, size)
    cut = [short(text, int(letters * room / w)) if w > room else text for text, w in zip(cut, wide, strict=True)]
    scale = min([half / 1.06, *((half - 6 - np.minimum(wide, room)) / radius[chosen])])  # points for a radius of 1
    ax.set(xlim=(-half / scale, half / scale), ylim=(-half / scale, half / scale))
    for i, text in zip(chosen, cut, strict=True):
        far, turn = radius[i] + 4 / scale, float(np.degrees(angle[i]))
        left = np.cos(angle[i]) < -1e-9  # read from the outside in, so that no name stands on its head
        ax.text(
            far * np.cos(angle[i]), far * np.sin(angle[i]), text, fontsize=size, color=INK, va="center", zorder=6,
            rotation=turn + 180 if left else turn, rotation_mode="anchor", ha="right" if left else "left",
            path_effects=_white_rim(),
        )  # fmt: skip


def _apart(angle: np.ndarray, half: np.ndarray) -> list[int]:
    """Which of the angles to take, in the order given, so that no two are nearer than their halves together."""
    chosen: list[int] = []
    for i in range(len(angle)):
        gap = np.abs((angle[i] - angle[chosen] + np.pi) % (2 * np.pi) - np.pi)
        if (gap >= half[i] + half[chosen]).all():
            chosen.append(i)
    return chosen
