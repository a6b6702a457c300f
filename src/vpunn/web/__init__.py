"""The explorer: walk a tree of millions of nodes in a browser, with a model's beliefs lit up, and a prediction service.

`explore` opens it from Python, ``vpunn explore`` and ``vpunn serve`` from the shell. One `Api` answers the page, other programs
and notebooks; the page is plain ES modules in ``assets``, drawn on a canvas from the preorder arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpunn.web.opening import as_subject, scored_rows
from vpunn.web.subject import Subject

if TYPE_CHECKING:
    from vpunn._types import Features, HasTree, Targets, Vectorizer


__all__ = ["Subject", "as_subject", "explore"]


def explore(
    source: HasTree,
    X: Features = None,
    y: Targets = None,
    *,
    features: Vectorizer = None,
    columns: dict[str, Any] | None = None,
    height: int = 640,
    port: int = 0,
) -> Any:
    """Explore a `Tree`, a fitted classifier (``features`` turns typed texts into its rows), a `VPuNNRegressor` or a model folder.

    In a notebook it returns a widget, ``height`` pixels tall, that needs no port. Elsewhere it serves the page on this machine,
    opens a browser, and returns when interrupted. ``columns`` are further per-node columns to show and colour by. With rows ``X``
    as a classifier reads them and their labels ``y``, which it has not seen, the page opens on its mistakes.
    """
    from vpunn.web.notebook import in_notebook, make_widget

    subject = as_subject(source, features=features, columns=columns)
    if X is not None:
        subject.scored = scored_rows(subject, source, X, y)
    if in_notebook():
        return make_widget(subject, height)
    from vpunn.web.server import listen, serve

    def ready(url: str) -> None:
        import webbrowser

        print(f"open {url}  (Ctrl-C stops)")
        webbrowser.open(url)

    serve(subject, listen("127.0.0.1", port), ready=ready)
    return None
