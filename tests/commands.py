"""Commands of ``vpunn fit | predict | evaluate | explain`` as a user would type them, for the tests that need them."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from vpunn.cli import fit, predict


def predict_app():
    """The four commands alone."""
    app = typer.Typer()
    fit.register(app)
    predict.register(app)
    return app


def run(app, *words):
    """What the command prints; its error is raised, and any other exit code than 0 fails."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout
