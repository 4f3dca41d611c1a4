"""A stack: several members computed together, as one batched product a layer.

Members differ in size, so their parameters are padded with zeros to the largest and stacked along
a leading member dimension; a padded unit is read with weight zero, so outputs are the members'
own. Feed-forward stacks run feature-major (`features × batch`): picking a member's inputs is then
a copy of whole rows, and every layer one `baddbmm`. Other networks run through `torch.vmap`.

The stack is derived from the members and writes back to them; it is never saved itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pad_sequence

from sparsemble.layouts.layers import flat_layers, is_elementwise
from sparsemble.members.member import Member

_CHUNK = 256
"""Examples computed at a time when predicting: the activations then stay in the CPU's cache."""


class Stack:
    """The members' parameters, padded and stacked, and their joint forward pass."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self.network = members[0].network
        small = members[0].layout
        self._sizes = {
            space.name: max(member.layout.space(space.name).size for member in members)
            for space in small.spaces
        }
        self.layout = small.with_sizes(self._sizes)
        """The description of one padded network."""
        named = [dict(member.network.named_parameters()) for member in members]
        self.parameters = {
            name: self._padded(name, [parameters[name].detach() for parameters in named])
            for name in named[0]
        }
        self.masks = {
            name: self._padded(name, [member.masks[name] for member in members])
            for name in members[0].masks
        }
        self._inputs = self._input_rows()
        self._forward = self._feedforward() or self._any_network

    def train(self, mode: bool = True) -> None:
        """Switch dropout on or off."""
        self.network.train(mode)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Logits of every member, `(members, batch, classes)`."""
        return self._forward(inputs)

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits of every member without gradients, in chunks that bound the memory."""
        was_training = self.network.training
        self.train(False)
        try:
            with torch.no_grad():
                parts = [self._forward(chunk) for chunk in inputs.split(_CHUNK)]
        finally:
            self.train(was_training)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def write_back(self) -> None:
        """Copy the stacked parameters into the members."""
        with torch.no_grad():
            for index, member in enumerate(self.members):
                for name, parameter in member.network.named_parameters():
                    stacked = self.parameters[name][index]
                    parameter.copy_(stacked[self._region(member, name, stacked.shape)])

    def _padded(self, name: str, tensors: Sequence[Tensor]) -> Tensor:
        """Stack the members' versions of one parameter, zeros where a member has no unit."""
        shape = self.members[0].layout.shape_with(self._sizes, name, tensors[0].shape)
        stacked = tensors[0].new_zeros((len(tensors), *shape))
        for target, member, tensor in zip(stacked, self.members, tensors, strict=True):
            target[self._region(member, name, target.shape)] = tensor
        return stacked

    def _region(self, member: Member, name: str, shape: Sequence[int]) -> tuple[Tensor, ...]:
        """Where a member's parameter lies within the padded one, as an index."""
        units = {space.name: torch.arange(space.size) for space in member.layout.spaces}
        positions = [
            self.layout.surviving_positions(name, dim, length, units)
            for dim, length in enumerate(shape)
        ]
        return torch.meshgrid(*positions, indexing="ij")

    def _input_rows(self) -> Tensor | None:
        """For each member the rows of the feature-major input it reads, padded with row 0."""
        if all(member.inputs is None for member in self.members):
            return None
        space = self.layout.inputs
        assert space is not None, "only a layout with an input space drops inputs"
        return pad_sequence([m.origin.units[space.name] for m in self.members], True, 0)

    def _gathered(self, inputs: Tensor) -> Tensor:
        """`(members, features, batch)`, or `(features, batch)` if all members read all inputs."""
        rows = inputs.flatten(1).t()
        if self._inputs is None:
            return rows
        picked = rows.contiguous().index_select(0, self._inputs.flatten())
        return picked.view(*self._inputs.shape, -1)

    def _feedforward(self) -> Callable[[Tensor], Tensor] | None:
        """The feature-major pass, if the network is made of layers that allow it."""
        layers = list(flat_layers(self.network))
        plain = (nn.Linear, nn.Dropout, nn.Flatten)
        if not all(type(layer) in plain or is_elementwise(layer) for _, layer in layers):
            return None

        def forward(inputs: Tensor) -> Tensor:
            hidden = self._gathered(inputs)
            for name, layer in layers:
                if type(layer) is nn.Linear:
                    prefix = f"{name}." if name else ""
                    weight = self.parameters[f"{prefix}weight"]
                    bias = self.parameters.get(f"{prefix}bias")
                    hidden = _batched_linear(hidden, weight, bias)
                elif type(layer) is not nn.Flatten:
                    hidden = layer(hidden)
            return hidden.transpose(1, 2)

        return forward

    def _any_network(self, inputs: Tensor) -> Tensor:
        if self._inputs is None:
            features, dims = inputs, None
        else:
            features, dims = self._gathered(inputs).transpose(1, 2), 0

        def one(parameters: Mapping[str, Tensor], batch: Tensor) -> Tensor:
            logits: Tensor = functional_call(self.network, dict(parameters), (batch,))
            return logits

        logits: Tensor = torch.vmap(one, in_dims=(0, dims), randomness="different")(
            self.parameters, features
        )
        return logits


def _batched_linear(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`W·h + b` for every member; `h` may still be shared by all of them."""
    members, out_features, in_features = weight.shape
    if hidden.ndim == 2:
        shared = (weight.reshape(-1, in_features) @ hidden).view(members, out_features, -1)
        return shared if bias is None else shared + bias.unsqueeze(2)
    if bias is None:
        return torch.bmm(weight, hidden)
    return torch.baddbmm(bias.unsqueeze(2), weight, hidden)
