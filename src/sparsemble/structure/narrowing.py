"""Networks of fewer units: parameters cut to those that are kept, and laid out again as before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from sparsemble.structure.constants import constants
from sparsemble.structure.layout import Layout
from sparsemble.structure.readings import Seen, constants_read


def cut(tensor: Tensor, name: str, layout: Layout, kept: Mapping[str, Tensor]) -> Tensor:
    """What parameter `name`, or a tensor of its shape, holds for the `kept` units of each space."""
    for dim in range(tensor.ndim):
        positions = layout.surviving_positions(name, dim, tensor.shape[dim], kept)
        if len(positions) < tensor.shape[dim]:
            tensor = tensor.index_select(dim, positions.to(tensor.device))
    return tensor


def narrowed(
    layout: Layout,
    parameters: Mapping[str, Tensor],
    kept: Mapping[str, Tensor],
    seen: Seen | None = None,
) -> dict[str, Tensor]:
    """Tensors without all other units; what those emit of themselves goes into the biases.

    Outputs stay the same if nothing that is kept reads the others, or they have no inputs.

    Args:
        layout: Of the network.
        parameters: Its tensors.
        kept: The units of every space that stay.
        seen: As for `survivors`.
    """
    if seen is None:
        gain = constants(layout, parameters, kept)
    else:
        gain = constants_read(layout, parameters, kept, seen)
    return {
        name: cut(tensor + gain[name] if name in gain else tensor, name, layout, kept)
        for name, tensor in parameters.items()
    }


def laid_out(
    tensor: Tensor,
    name: str,
    layout: Layout,
    kept: Mapping[str, Tensor],
    shape: Sequence[int],
) -> Tensor:
    """The reverse of `cut`: the tensor where it stood in a parameter of `shape`, zeros elsewhere.

    `layout` describes the network before it was cut.
    """
    positions = [
        layout.surviving_positions(name, dim, length, kept) for dim, length in enumerate(shape)
    ]
    whole = torch.zeros(shape, dtype=tensor.dtype)
    whole[torch.meshgrid(*positions, indexing="ij")] = tensor.cpu()
    return whole
