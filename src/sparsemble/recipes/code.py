"""Code of the user's own, named by import path: `package.module:function`.

A recipe can name a function that makes the network or loads the data. Such a name is followed only
when the user gave it: on the command line, or in a recipe file of theirs. What a run folder says is
never enough.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from sparsemble.errors import InputError
from sparsemble.structure import Layout

PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


def imported(path: str) -> Callable[..., Any]:
    """The function that an import path names; modules are also looked for where the user stands."""
    if not re.match(PATTERN, path):
        raise InputError(f"{path!r} is not an import path: write package.module:function")
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a module of the user's own raises
        raise InputError(
            f"{path}: cannot import {module_name!r} ({type(error).__name__}: {error})"
        ) from None
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{path}: module {module_name!r} has no function {name!r}")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise InputError(f"{path} must take no arguments: {error}") from None
    except ValueError:
        pass  # a signature that cannot be read
    function: Callable[..., Any] = found
    return function


def made_by(path: str) -> tuple[nn.Module, Layout | None]:
    """The network a named function makes, and its layout if it gives one."""
    made = imported(path)()
    network, layout = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(network, nn.Module) or not isinstance(layout, Layout | None):
        raise InputError(f"{path} must return a torch module, or a pair of that and its Layout")
    return network, layout


def check_named(needed: Sequence[str], named: Sequence[str], source: str) -> None:
    """Raise `InputError` unless the caller named all the code that `source` would run."""
    missing = [path for path in needed if path not in named]
    if missing:
        raise InputError(
            f"{source} runs code of your own: name it with "
            + " ".join(f"--code {path}" for path in missing)
        )
