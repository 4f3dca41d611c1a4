"""Numbers for people."""

from __future__ import annotations

import math


def count(number: float) -> str:
    """A count in three figures: 266K, 12.5M.

    >>> count(266_200), count(987), count(12_538_048), count(3.1e15)
    ('266K', '987', '12.5M', '3.1P')
    """
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= 0.9995 * size:
            shown = number / size
            return f"{shown:.0f}{letter}" if shown >= 99.95 else f"{shown:.1f}{letter}"
    return f"{number:.0f}"


def size(number: float) -> str:
    """Bytes.

    >>> size(512), size(233_216), size(5e6), size(2.5e9)
    ('512 B', '233 KB', '5.0 MB', '2.5 GB')
    """
    if number < 1000:
        return f"{number:.0f} B"
    if number < 999_500:
        return f"{number / 1000:.0f} KB"
    return f"{number / 1e6:.1f} MB" if number < 999.95e6 else f"{number / 1e9:.1f} GB"


def counted(number: int, things: str) -> str:
    """So many things, or one.

    >>> counted(1, "regressors"), counted(1200, "regressors")
    ('1 regressor', '1,200 regressors')
    """
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def figure(number: float | None) -> str:
    """A measured figure: two decimals, of small ones three digits; a dash for what is not known.

    >>> figure(0.011787), figure(17.8), figure(2547.7), figure(64.0), figure(None)
    ('0.0118', '17.80', '2,548', '64', '–')
    """
    if number is None or not math.isfinite(number):
        return "–"
    if abs(number) >= 1000 or float(number).is_integer():
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) >= 1 else f"{number:#.3g}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(27.1), duration(300), duration(8000)
    ('27 s', '5 min', '2.2 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
