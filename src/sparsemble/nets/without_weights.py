"""Networks that are built for their structure alone: their weights take no memory and no time.

On PyTorch's meta device a tensor has a shape and no numbers. To draw such numbers at random, as
layers do when they are made, makes PyTorch import its whole compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_DRAWS = (Tensor.normal_, Tensor.uniform_)


class _NothingDrawn(TorchFunctionMode):
    """Leaves tensors as they are where they would be initialised."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func in _DRAWS or getattr(func, "__module__", None) == nn.init.__name__:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


@contextmanager
def without_weights() -> Iterator[None]:
    """Build networks whose weights are still to be filled in.

    >>> with without_weights():
    ...     layer = nn.Linear(1_000_000, 1_000_000)
    >>> layer.weight.is_meta
    True
    """
    with torch.device("meta"), _NothingDrawn():
        yield
