import typer


def register(app: typer.Typer) -> None:
    """Placeholder until the commands are there."""
