"""How much is read of a file that may be anyone's.

Limits are far above what is ever written, and below what would take a machine's memory. Who has
larger networks raises the one that depends on them: `SPARSEMBLE_MAX_BYTES`.
"""

from __future__ import annotations

import os

from sparsemble.errors import InputError
from sparsemble.memory import machine_memory

RECIPE_BYTES = 1 << 20
JSON_BYTES = 64 << 20
"""Of JSON, and of pages that figures are put into."""
LEVELS = 64
"""How deep lists and objects may lie in each other."""
_VARIABLE = "SPARSEMBLE_MAX_BYTES"


def tensor_bytes() -> int:
    """How large the tensors of one file, or of one ensemble, may be: a quarter of the memory."""
    asked = os.environ.get(_VARIABLE)
    if asked is None:
        return machine_memory() // 4
    if not asked.isascii() or not asked.isdigit() or len(asked) > 18:
        raise InputError(f"{_VARIABLE}={asked[:40]!r}: write a number of bytes")
    return int(asked)


RAISED_BY = f"{_VARIABLE} raises the limit"
"""What messages about tensors say."""
