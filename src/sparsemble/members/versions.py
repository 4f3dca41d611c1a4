"""Versions: have the weights of networks changed since something was derived from them?

PyTorch counts the writes to a tensor; another tensor in its place, or other memory behind it, is
told by identity and address. Inference tensors have no count: their values are compared. What goes
unseen is a write through `.data` or through memory that is shared with NumPy.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, is_
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.programs import Program

_count = attrgetter("_version")


class Versions:
    """The layers and parameters of a module as they are now, and the buffers of programs."""

    def __init__(self, module: nn.Module) -> None:
        self._holders: list[dict[str, Any]] = [
            holder
            for layer in module.modules()
            for holder in (layer._modules, layer._parameters)
            if holder
        ]
        programs = (layer for layer in module.modules() if isinstance(layer, Program))
        self._holders += [
            layer._buffers for own in programs for layer in own.modules() if layer._buffers
        ]
        self._held = self._holding()
        self._tensors = [held for held in self._held if isinstance(held, Tensor)]
        self._addresses = list(map(Tensor.data_ptr, self._tensors))
        # Kept, so that no other weights can come to lie at the same address.
        self._memory = [tensor.detach() for tensor in self._tensors]
        self._counted = [tensor for tensor in self._tensors if not tensor.is_inference()]
        self._counts = list(map(_count, self._counted))
        self._uncounted = [tensor for tensor in self._tensors if tensor.is_inference()]
        self._copies = [tensor.clone() for tensor in self._uncounted]

    def hold(self) -> bool:
        """Is everything still as it was?"""
        return (
            all(map(is_, self._holding(), self._held))
            and list(map(_count, self._counted)) == self._counts
            and list(map(Tensor.data_ptr, self._tensors)) == self._addresses
            and all(map(torch.equal, self._uncounted, self._copies))
        )

    def _holding(self) -> list[Any]:
        return list(chain.from_iterable(map(dict.values, self._holders)))
