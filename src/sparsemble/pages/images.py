"""PNG by hand: a few chunks around zlib, for pictures that would be larger as SVG.

Two kinds: ink whose opacity is one of sixteen levels (the page decides what lies beneath), and
grey images of bytes.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVELS = 16


def ink_png(levels: np.ndarray) -> bytes:
    """Black ink of opacity `level/15`, for levels 0 to 15 in two dimensions."""
    if levels.ndim != 2 or levels.size == 0 or levels.max() >= _LEVELS:
        raise ValueError(f"an ink picture has levels 0 to 15 in rows, not {levels.shape}")
    rows, columns = levels.shape
    even = np.pad(levels.astype(np.uint8), ((0, 0), (0, columns % 2)))
    packed = (even[:, ::2] << 4) | even[:, 1::2]
    opacity = bytes(round(255 * level / (_LEVELS - 1)) for level in range(_LEVELS))
    palette = _chunk(b"PLTE", bytes(3 * _LEVELS)) + _chunk(b"tRNS", opacity)
    return _png(packed, columns, rows, depth=4, colour=3, extra=palette)


def grey_png(values: np.ndarray) -> bytes:
    """A grey image of bytes in two dimensions, 0 black."""
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"a grey image has bytes in rows, not {values.shape}")
    rows, columns = values.shape
    return _png(values.astype(np.uint8), columns, rows, depth=8, colour=0)


def data_uri(png: bytes) -> str:
    """A PNG that stands in the page itself."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _png(
    lines: np.ndarray, width: int, height: int, *, depth: int, colour: int, extra: bytes = b""
) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    unfiltered = np.pad(lines, ((0, 0), (1, 0)))  # filter type 0 before every line
    return (
        _SIGNATURE
        + _chunk(b"IHDR", header)
        + extra
        + _chunk(b"IDAT", zlib.compress(unfiltered.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


_SMALLEST_IMAGE = 64
"""A square number of features below this is more likely a table's than an image's."""


def image_side(shape: Sequence[int]) -> tuple[int, int] | None:
    """Rows and columns of an example that can be drawn, of one that is no image `None`."""
    plain = [size for size in shape if size != 1]
    if len(plain) == 2:
        return plain[0], plain[1]
    if len(plain) != 1 or plain[0] < _SMALLEST_IMAGE:
        return None
    side = math.isqrt(plain[0])
    return (side, side) if side * side == plain[0] else None
