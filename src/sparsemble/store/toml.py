"""TOML from outside: parsed, within limits that nothing meant seriously exceeds.

The parser fails in its own ways at numbers of thousands of digits and at deep nesting, and takes
hours over keys of thousands of parts; what comes after it would, too. Here that is an `InputError`.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from sparsemble.errors import InputError
from sparsemble.store.limits import LEVELS
from sparsemble.store.reading import is_deep

_TOO_DEEP = f"values nested more than {LEVELS} deep"
_TOO_LARGE = "a whole number of more than 64 bits"
_PARTS = 50
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?>{_PART}\.[ \t]*+){{{_PARTS}}}")


def parsed_toml(text: str) -> dict[str, Any]:
    """The table that a text describes; what is not TOML is a `tomllib.TOMLDecodeError`.

    >>> parsed_toml("seed = " + "9" * 30)
    Traceback (most recent call last):
    ...
    sparsemble.errors.InputError: a whole number of more than 64 bits
    """
    if _LONG_KEY.search(text):
        raise InputError(f"a key of more than {_PARTS} parts: no setting lies that deep")
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    except ValueError:  # Python reads no number of more than 4300 digits
        raise InputError(_TOO_LARGE) from None
    if is_deep(fields):
        raise InputError(_TOO_DEEP)
    _check_numbers(fields)
    return fields


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(inner)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise InputError(_TOO_LARGE)
