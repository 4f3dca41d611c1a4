"""Jobs and what comes of them as bytes, between processes that trust each other.

These bytes never come from a file: they go over a connection to a process that was started for it.
"""

from __future__ import annotations

import pickle
from typing import Any

from sparsemble.errors import InputError, SparsembleError

STOP = b"stop"
"""Asks the job under way to stop; no job begins like this."""
_HINT = "; pip install cloudpickle sends what is defined in a script or notebook"


def packed(what: Any) -> bytes:
    """Something as bytes, with functions and classes of a script or notebook if that can be had."""
    try:
        import cloudpickle as pickling
    except ImportError:
        pickling = pickle
    try:
        return bytes(pickling.dumps(what))
    except Exception as error:  # what cannot be sent decides what is raised
        hint = "" if pickling is not pickle else _HINT
        raise InputError(
            f"a job cannot be sent to another process ({error}): network, data and functions must "
            f"be of modules that can be imported{hint}"
        ) from None


def unpacked(content: bytes) -> Any:
    """What was packed by this very program."""
    try:
        return pickle.loads(content)  # noqa: S301
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"a job needs what its process does not find ({error}): install it there{_HINT}"
        ) from None


def packed_error(error: BaseException) -> bytes:
    """An error as bytes, as far as it can be sent."""
    try:
        content = packed(("raised", error))
        unpacked(content)
    except Exception:
        return packed(("raised", SparsembleError(f"{type(error).__name__}: {error}")))
    return content
