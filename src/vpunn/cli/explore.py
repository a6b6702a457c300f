"""``vpunn explore`` and ``vpunn serve``: a tree or a model in the browser, and as a service."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vpunn.cli.common import add
from vpunn.cli.source import AS_NAMED, TreeFile
from vpunn.errors import VpunnError

if TYPE_CHECKING:
    from vpunn.web import Subject

#: First port tried by `vpunn explore`; the next free one is taken if it is in use.
PORT = 8765

Host = Annotated[str, typer.Option(help="Address to listen on; any but this machine's own needs --allow-host.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A name under which the server may be reached, besides localhost."),
]
MaxRows = Annotated[int, typer.Option(min=1, help="Rows a request may hold.")]
MaxBytes = Annotated[int, typer.Option(min=1, help="Bytes the body of a request may have.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, explore)
    app.command()(serve)


def explore(
    source: Annotated[
        str, typer.Argument(help="A tree file, a model folder, or a data set such as wordnet.")
    ] = "wordnet",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser window.")] = True,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
    how: TreeFile = AS_NAMED,
) -> None:
    """Walk a tree, or ask a model, in the browser."""
    from vpunn.web.server import listen
    from vpunn.web.server import serve as run

    _check_host(host, allow_host)
    sock = listen(host, port) if port is not None else _first_free(host)
    try:
        subject = open_source(source, how)

        def ready(url: str) -> None:
            typer.echo(f"{subject.title}: {subject.tree!r}\nopen {url}  (Ctrl-C stops)")
            if browser:
                import webbrowser

                webbrowser.open(url)

        run(subject, sock, hosts=allow_host or (), ready=ready)
    finally:
        sock.close()


def serve(
    model: Annotated[str, typer.Argument(help="A model folder, a tree file or a data set.")],
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    allow_host: AllowHost = None,
    max_rows: MaxRows = 10_000,
    max_bytes: MaxBytes = 8_000_000,
) -> None:
    """Serve a model over HTTP, as JSON.

    GET /api/openapi.json says how."""
    from vpunn.web.api import Limits
    from vpunn.web.server import listen
    from vpunn.web.server import serve as run

    _check_host(host, allow_host)
    sock = listen(host, port)
    try:
        subject = open_source(model)
        run(
            subject,
            sock,
            page=False,
            hosts=allow_host or (),
            limits=Limits(max_bytes, max_rows),
            ready=lambda url: typer.echo(f"{subject.title}: {subject.tree!r}\nserving {url}api/  (Ctrl-C stops)"),
        )
    finally:
        sock.close()


def open_source(source: str, how: TreeFile = AS_NAMED) -> Subject:
    """A model folder, a tree file or a data set, ready to be shown."""
    from vpunn.web.opening import dataset_title, is_model, open_model
    from vpunn.web.subject import Subject

    path = Path(source)
    if path.is_dir() and is_model(path):
        return open_model(path)
    tree = how.read(source)
    return Subject(tree, path.name if path.exists() else dataset_title(source))


def _check_host(host: str, allowed: list[str] | None) -> None:
    """Listening to the network is a decision: it is asked for by name, and said."""
    if host in ("127.0.0.1", "localhost", "::1"):
        return
    if not allowed:
        raise VpunnError(
            f"listening on {host} lets other machines in; name the address they will use, such as --allow-host {host}."
        )
    sys.stderr.write(f"vpunn: warning: {host} is reachable from other machines, and there is no password.\n")


def _first_free(host: str) -> socket.socket:
    from vpunn.web.server import listen

    try:
        return listen(host, PORT)
    except VpunnError:
        return listen(host, 0)
