"""What commands write to: no text is too strange for it, and a full disk is told, not thrown.

A terminal may know nothing but ASCII, a folder's name may be no text at all; what cannot be written
is shown by its number, as \\u2026. Output that cannot be written ends a command with code 1.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TextIO

from sparsemble.errors import shortened

_LONGEST = 4000
"""Characters of a message; whoever quotes a file should not print all of it."""


def take_any_text() -> None:
    """Let standard output and standard error take any text from now on."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """Say it on standard error, if anything can be said there."""
    from sparsemble.progress.console import visible

    if sys.stderr is None:  # it was closed, and Python would take standard output instead
        return
    text = visible(shortened(message, _LONGEST))
    with suppress(OSError, ValueError):
        print(f"sparsemble: {text}", file=sys.stderr, flush=True)


def flushed_output() -> tuple[str, int] | None:
    """Write out what is left; if that fails, what to say and the exit code."""
    failed = _flushed(sys.stdout)
    _flushed(sys.stderr)
    if failed is None:
        return None
    return lost_output(failed), 1


def lost_output(error: OSError) -> str:
    """What to say about output that was lost: nothing, if its reader has seen enough."""
    return "" if error.errno == errno.EPIPE else f"output cannot be written: {error.strerror}"


def _flushed(stream: TextIO | None) -> OSError | None:
    if stream is None or stream.closed:
        return None
    try:
        stream.flush()
    except OSError as error:
        # The interpreter would try again when it ends, and complain.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None
