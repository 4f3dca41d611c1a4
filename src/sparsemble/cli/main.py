"""`sparsemble`: the command line.

Heavy imports stay inside the commands, so that `--help` answers at once. Exit codes: 0 done,
1 failed, 2 bad input, 3 diverged, 130 interrupted.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from functools import cache

from typer.main import get_command

from sparsemble.cli import reproducing, running, serving, using, viewing
from sparsemble.cli.app import app
from sparsemble.cli.arguments import check_none_is_empty
from sparsemble.cli.streams import flushed_output, lost_output, say, take_any_text

_FAILED, _BAD_INPUT, _DIVERGED, _INTERRUPTED = 1, 2, 3, 130
"""Exit codes."""

__all__ = ["app", "main", "reproducing", "running", "serving", "using", "viewing"]


def main() -> None:
    """Run the command line; errors made for the user become one line and an exit code."""
    take_any_text()
    message, code = _ended()
    lost = flushed_output()
    if lost is not None and code == 0:
        message, code = lost
    if message:
        say(message)
        flushed_output()
    raise SystemExit(code)


@cache
def _commands() -> Callable[[], object]:
    """All commands, made of their signatures once, however often a process runs one."""
    return get_command(app)


def _ended() -> tuple[str, int]:
    """What is left to say about a command, and its exit code."""
    from sparsemble.errors import (
        DivergedError,
        InputError,
        InterruptedRunError,
        SparsembleError,
        shortened,
    )

    try:
        check_none_is_empty(sys.argv[1:])
        _commands()()
    except InputError as error:
        return str(error), _BAD_INPUT
    except InterruptedRunError as error:
        return str(error), _INTERRUPTED
    except DivergedError as error:
        return str(error), _DIVERGED
    except SparsembleError as error:
        return str(error), _FAILED
    except UnicodeEncodeError as error:
        what = shortened(repr(error.object))
        how = "give it another name, or set LANG=C.UTF-8"
        return f"{what} cannot be written in {error.encoding}: {how}", _FAILED
    except OSError as error:
        if error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT):
            return lost_output(error), _FAILED
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", _FAILED
    except SystemExit as stop:
        # Typer has already turned an interrupt into its exit code, without a word.
        if stop.code == _INTERRUPTED:
            again = "interrupted; a run that has a folder goes on when the command is repeated"
            return again, _INTERRUPTED
        return ("", stop.code or 0) if isinstance(stop.code, int | None) else (stop.code, _FAILED)
    return "", 0
