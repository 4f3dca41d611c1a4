"""Empty arguments, as of a script whose variable is not set: refused, not taken for `.`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sparsemble.errors import InputError

_MAY_BE_EMPTY = ("--start",)
"""A text that begins with nothing."""


def check_none_is_empty(arguments: Sequence[str]) -> None:
    """Raise `InputError` if one is, be it an option's value.

    >>> check_none_is_empty(["learn", "digits", "--out", ""])
    Traceback (most recent call last):
    sparsemble.errors.InputError: the argument after --out is empty: name a file, a folder (. is \
the one you are in) or a value
    """
    for before, own in pairwise(["sparsemble", *arguments]):
        option, is_set, value = own.partition("=")
        if own == "" and before not in _MAY_BE_EMPTY:
            what = f"the argument after {before}"
        elif own.startswith("--") and is_set and not value and option not in _MAY_BE_EMPTY:
            what = option
        else:
            continue
        raise InputError(
            f"{what} is empty: name a file, a folder (. is the one you are in) or a value"
        )
