"""A member: one (usually compact) network of an ensemble, with what is known of its structure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.modes import is_captured
from sparsemble.structure import Cost, Layout, laid_out, measure, measure_whole
from sparsemble.structure.groups import group_sizes


@dataclass(frozen=True)
class Origin:
    """What a compact network was before.

    `sizes[space]` is the number of units it had, `units[space]` lists those it kept by their
    original numbers, `group_sizes[family]` the dimension its groups had.
    """

    sizes: Mapping[str, int]
    units: Mapping[str, Tensor]
    group_sizes: Mapping[str, int]


class Member(nn.Module):
    """A network, the masks of the weights it has, and where it came from.

    `network` is a plain PyTorch module; it expects only the inputs listed in `inputs` (all of
    them if that is `None`). Calling the member picks them out of the full input.
    """

    def __init__(
        self, network: nn.Module, layout: Layout, masks: Mapping[str, Tensor], origin: Origin
    ) -> None:
        super().__init__()
        self.network = network
        self.layout = layout
        self.origin = origin
        self._masked = tuple(masks)
        for name, mask in masks.items():
            self.register_buffer(_buffer(name), mask)
        self.inputs: Tensor | None
        space = layout.inputs
        reduced = space is not None and space.size < origin.sizes[space.name]
        kept = origin.units[space.name] if reduced and space is not None else None
        self.register_buffer("inputs", kept)

    @property
    def masks(self) -> dict[str, Tensor]:
        """Which weights are left, by the name of the parameter; they are buffers."""
        return {name: self.get_buffer(_buffer(name)) for name in self._masked}

    @classmethod
    def dense(cls, network: nn.Module, layout: Layout) -> Member:
        """A member that keeps everything."""
        parameters = dict(network.named_parameters())
        masks = {
            name: torch.ones(parameters[name].shape, dtype=torch.bool) for name in layout.weights
        }
        origin = Origin(
            {space.name: space.size for space in layout.spaces},
            {space.name: torch.arange(space.size) for space in layout.spaces},
            group_sizes(layout, parameters),
        )
        return cls(network, layout, masks, origin)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Outputs for (scaled) inputs; a recurrent network takes and gives its state as well."""
        space = self.layout.inputs
        if self.inputs is not None and space is not None:
            size = self.origin.sizes[space.name]
            if not inputs:  # a network whose features can go has one input
                ((name, only),) = named.items()
                return self.network(**{name: selected(only, self.inputs, size)})
            first, *others = inputs
            return self.network(selected(first, self.inputs, size), *others, **named)
        return self.network(*inputs, **named)

    @property
    def cost(self) -> Cost:
        """Parameters, FLOPs and structure by the paper's rules."""
        return measure(self.layout, self.masks)

    @property
    def dense_cost(self) -> Cost:
        """What the network cost before it was pruned."""
        return measure_whole(self.layout.with_sizes(self.origin.sizes), dict(self._shapes()))

    @property
    def biases(self) -> int:
        """How many numbers it has that are never pruned, nor counted among its parameters."""
        own = self.network.named_parameters()
        others = sum(tensor.numel() for name, tensor in own if name not in self._masked)
        return others - self.layout.unpruned

    def pattern(self) -> dict[str, Tensor]:
        """The sparsity pattern: which weights of the network before compaction are left."""
        return self._laid_out(self.masks)

    def whole_weights(self) -> dict[str, Tensor]:
        """Its weights where they stood in the network before compaction, zeros elsewhere."""
        own = dict(self.network.named_parameters())
        return self._laid_out({name: own[name].detach() for name in self.layout.weights})

    def whole_sizes(self) -> dict[str, int]:
        """How many numbers each weight had before compaction."""
        return {name: math.prod(shape) for name, shape in self._shapes()}

    def _laid_out(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        before = self.layout.with_sizes(self.origin.sizes)
        return {
            name: laid_out(tensors[name], name, before, self.origin.units, shape)
            for name, shape in self._shapes()
        }

    def _shapes(self) -> list[tuple[str, list[int]]]:
        """The weights' shapes before compaction."""
        sizes = self.origin.sizes
        return [(n, self.layout.shape_with(sizes, n, m.shape)) for n, m in self.masks.items()]


def selected(inputs: Tensor, kept: Tensor, size: int) -> Tensor:
    """The `kept` ones of `size` features, which stand last or are all of an example's numbers."""
    if inputs.shape[-1] != size:
        inputs = inputs.flatten(1)
    if is_captured() and inputs.ndim == 2:  # whole rows are picked faster, in ONNX Runtime by far
        return inputs.t().index_select(0, kept).t()
    return inputs.index_select(-1, kept)


def _buffer(parameter: str) -> str:
    """The name of a mask among buffers, which have no dots."""
    return f"mask of {parameter.replace('.', '/')}"
