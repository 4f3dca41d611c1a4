"""The application object the commands hang on; light to import, so that help answers at once."""

from __future__ import annotations

from typing import Annotated

import typer


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"sparsemble {version('sparsemble')}")
        raise typer.Exit


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Learn sparse structured ensembles: many small networks for the price of one."""
