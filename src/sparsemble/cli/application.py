"""The application object the commands hang on; light to import, so that help answers at once."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Learn sparse structured ensembles: many small networks for the price of one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
