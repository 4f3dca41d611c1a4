"""Where progress goes."""

from __future__ import annotations

from rich.console import Console


def progress_console(*, quiet: bool = False) -> Console:
    """A console out of the way of results that are piped on."""
    return Console(highlight=False, markup=False, soft_wrap=True, stderr=True, quiet=quiet)
