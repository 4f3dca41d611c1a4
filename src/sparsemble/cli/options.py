"""What the commands share: options, where output goes, and how settings are written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data sets; default: SPARSEMBLE_DATA or a cache."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads; default: PyTorch's choice.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, help="Processes at a time; more than one use 1 thread each.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, as chain.epochs=20."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Results as JSON, for programs.")]
Code = Annotated[
    list[str] | None,
    typer.Option("--code", metavar="MODULE:NAME", help="Code of your own that may be run."),
]
Unseen = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Of a table: refuse or ignore categories and gaps that training did not show.",
    ),
]
Saved = Annotated[Path, typer.Argument(help="A run folder, or a saved ensemble.")]

_FILE_WIDTH = 400


def use_threads(threads: int | None) -> None:
    """Compute with so many threads."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def train_with(threads: int | None) -> None:
    """Train with so many threads; all of them flush denormal floats, as the first one does."""
    import torch

    torch.set_flush_denormal(True)
    use_threads(threads)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Those that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def results_console() -> Any:
    """Where results go; in a file or a pipe, tables are as wide as they need to be."""
    from rich.console import Console

    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if narrow else _FILE_WIDTH
    return Console(highlight=False, markup=False, soft_wrap=True, width=width)


def progress_console(*, quiet: bool = False) -> Any:
    """Where progress goes: out of the way of results that are piped on."""
    from sparsemble.progress import console

    return console.progress_console(quiet=quiet)


def as_text(value: Any) -> str:
    """Results for a program, as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def print_json(value: Any) -> None:
    """Results for a program."""
    print(as_text(value), end="")


def parsed_changes(
    changes: list[str] | None, option: str = "--set", example: str = "chain.epochs=20"
) -> dict[str, Any]:
    """`KEY=VALUE` pairs with TOML values; anything that is not TOML is taken as text."""
    import tomllib

    from sparsemble.errors import InputError

    parsed = {}
    for change in changes or []:
        key, separator, text = change.partition("=")
        if not separator or not key:
            raise InputError(f"{option} {change!r}: write KEY=VALUE, as {example}")
        try:
            parsed[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key] = text
    return parsed
