"""`sparsemble`: the command line.

Heavy imports stay inside the commands, so that `--help` answers at once. Exit codes: 0 done,
1 failed, 2 bad input, 3 diverged, 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from sparsemble.cli import reproducing, running, serving, using, viewing
from sparsemble.cli.app import app

_BAD_INPUT, _DIVERGED, _INTERRUPTED = 2, 3, 130
"""Exit codes."""

__all__ = ["app", "main", "reproducing", "running", "serving", "using", "viewing"]


def main() -> None:
    """Run the command line; errors made for the user become one line and an exit code."""
    from sparsemble.errors import DivergedError, InputError, InterruptedRunError, SparsembleError

    try:
        app()
    except InputError as error:
        _fail(str(error), _BAD_INPUT)
    except InterruptedRunError as error:
        _fail(str(error), _INTERRUPTED)
    except DivergedError as error:
        _fail(str(error), _DIVERGED)
    except SparsembleError as error:
        _fail(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", 1)
    except SystemExit as stop:
        # Typer has already turned an interrupt into its exit code, without a word.
        if stop.code == 130:
            _fail("interrupted; a run that has a folder goes on when the command is repeated", 130)
        raise


def _fail(message: str, code: int) -> NoReturn:
    from sparsemble.progress.console import visible

    print(f"sparsemble: {visible(message)}", file=sys.stderr)
    raise SystemExit(code)
