"""Seeds: every random stream of a run gets its own, derived from the run's seed and a path.

`derive(0, "chain", 3, "noise")` is the same number on every machine, and unrelated to its
neighbours, so streams neither overlap nor depend on the order in which they are made.
"""

import hashlib

STREAMS = 1
"""Raised when noise, dropout or the order of data are drawn otherwise: a run that was begun with
another number cannot go on without becoming another run."""


def derive(seed: int, *path: str | int) -> int:
    """A seed below 2⁶³ for the stream that `path` names."""
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
