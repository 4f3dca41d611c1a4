"""Functions of the user's own that a recipe names: they make its network or load its data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from sparsemble.errors import InputError
from sparsemble.extensions import imported
from sparsemble.structure import Layout


def function_of(path: str) -> Callable[..., Any]:
    """The function without arguments that an import path names."""
    found = imported(path)
    if not callable(found):
        raise InputError(f"{path} is not a function")
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
    made = function_of(path)()
    network, layout = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(network, nn.Module) or not isinstance(layout, Layout | None):
        raise InputError(f"{path} must return a torch module, or a pair of that and its Layout")
    return network, layout
