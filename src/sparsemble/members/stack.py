"""A stack: several members computed together, as one batched product per layer.

Members differ in size, so their parameters are padded with zeros and stacked along a leading
member dimension; a padded unit is read with weight zero, so outputs are the members' own. Their
inputs are padded to the union of what any of them reads: samples of one chain read nearly the
same, and the first layer of all members is then a single product. Feed-forward stacks run
feature-major (`features × batch`), every further layer one `baddbmm`; a few examples are predicted
example-major, where matrices are better multiplied by vectors. Other networks run through
`torch.vmap`.

The stack is derived from the members and writes back to them; it is never saved itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sparsemble.members.member import Member, selected
from sparsemble.members.padding import Padding
from sparsemble.modes import in_mode
from sparsemble.nets.gaussian_noise import GaussianNoise
from sparsemble.nets.layers import flat_layers, is_elementwise
from sparsemble.programs import Program

_FEW = 16
"""Fewer examples than these are predicted example-major."""


class Stack:
    """The members' parameters, padded and stacked, and their joint forward pass."""

    @staticmethod
    def fits(networks: Sequence[nn.Module]) -> bool:
        """Can such members, or networks, be stacked? Recurrent layers have no batched form.

        Programs are stacked by `ProgramStack`, and only where that is quicker.
        """
        alone = (nn.RNNBase, Program)
        return not any(isinstance(layer, alone) for layer in networks[0].modules())

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self.network = members[0].network
        self._padding = Padding(members)
        self.layout = self._padding.layout
        """The description of one padded network."""
        named = [dict(member.network.named_parameters()) for member in members]
        self.parameters = {
            name: self._padding.stacked(name, [parameters[name].detach() for parameters in named])
            for name in named[0]
        }
        self.masks = {
            name: self._padding.stacked(name, [member.masks[name] for member in members])
            for name in members[0].masks
        }
        device = next(iter(self.parameters.values())).device
        self.reads = self._padding.partial_reads(device)
        """The inputs that any member reads, and how many there are, if some are read by none."""
        layers = list(flat_layers(self.network))
        plain = (nn.Linear, nn.Dropout, nn.Flatten, GaussianNoise)
        self.is_flat = all(type(layer) in plain or is_elementwise(layer) for _, layer in layers)
        """Is it made of layers, one after the other, that can be computed one product each?"""
        self._layers = [pair for pair in layers if type(pair[1]) is not nn.Flatten]
        self.lasting = [pair for pair in self._layers if type(pair[1]) is not nn.Dropout]
        """The layers that predictions are computed with, by name."""
        self._row_steps = [self._on_rows(*pair) for pair in self.lasting] if self.is_flat else []

    def train(self, mode: bool = True) -> None:
        """Switch dropout on or off."""
        self.network.train(mode)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Outputs of every member, `(members, batch, outputs)`."""
        return self._in_columns(inputs, self._layers) if self.is_flat else self._mapped(inputs)

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """Outputs of every member without dropout and gradients."""
        if self.is_flat and len(inputs) < _FEW:
            return self._in_rows(inputs)
        if self.is_flat:
            return self._in_columns(inputs, self.lasting)
        with in_mode(self.network):
            return self._mapped(inputs)

    def write_back(self) -> None:
        """Copy the stacked parameters into the members."""
        with torch.no_grad():
            for index, member in enumerate(self.members):
                for name, parameter in member.network.named_parameters():
                    stacked = self.parameters[name][index]
                    region = self._padding.region(member, name, stacked.shape)
                    parameter.copy_(stacked[region])

    def _selected(self, inputs: Tensor) -> Tensor:
        return inputs if self.reads is None else selected(inputs, *self.reads)

    def _in_columns(self, inputs: Tensor, layers: Sequence[tuple[str, nn.Module]]) -> Tensor:
        """One example per column, layer by layer."""
        hidden = self._selected(inputs).flatten(1).t()
        for name, layer in layers:
            if type(layer) is nn.Linear:
                hidden = _times_columns(hidden, *self.weight_and_bias(name))
            elif type(layer) is GaussianNoise:
                noise = self.parameters[f"{name}.log_variance"].unsqueeze(1)
                hidden = _beside(noise, hidden.mT).mT
            else:
                hidden = layer(hidden)
        return hidden.transpose(1, 2)

    def _in_rows(self, inputs: Tensor) -> Tensor:
        """One example per row, without dropout."""
        hidden = self._selected(inputs).flatten(1).expand(len(self.members), -1, -1)
        for step in self._row_steps:
            hidden = step(hidden)
        return hidden

    def _on_rows(self, name: str, layer: nn.Module) -> Callable[[Tensor], Tensor]:
        """A layer as a function of `(members, examples, features)`.

        Its weights are looked up once: that takes as long as a small product.
        """
        if type(layer) is nn.Linear:
            weight, bias = self.weight_and_bias(name)
            if bias is None:
                return partial(torch.bmm, mat2=weight.mT)
            return partial(torch.baddbmm, bias.unsqueeze(1), batch2=weight.mT)
        if type(layer) is GaussianNoise:
            return partial(_beside, self.parameters[f"{name}.log_variance"].unsqueeze(1))
        return layer

    def weight_and_bias(self, layer: str) -> tuple[Tensor, Tensor | None]:
        """Of a linear layer, those of all members."""
        prefix = f"{layer}." if layer else ""
        return self.parameters[f"{prefix}weight"], self.parameters.get(f"{prefix}bias")

    def _mapped(self, inputs: Tensor) -> Tensor:
        """Any network, by `torch.vmap`."""

        def one(parameters: Mapping[str, Tensor], batch: Tensor) -> Tensor:
            outputs: Tensor = functional_call(self.network, dict(parameters), (batch,))
            return outputs

        together = torch.vmap(one, in_dims=(0, None), randomness="different")
        outputs: Tensor = together(self.parameters, self._selected(inputs))
        return outputs


def _times_columns(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`W·h + b` for every member; `h` may still be shared by all of them."""
    members, out_features, in_features = weight.shape
    if hidden.ndim == 2:
        flat = weight.reshape(-1, in_features)
        product = flat @ hidden if bias is None else torch.addmm(bias.view(-1, 1), flat, hidden)
        return product.view(members, out_features, -1)
    if bias is None:
        return torch.bmm(weight, hidden)
    return torch.baddbmm(bias.unsqueeze(2), weight, hidden)


def _beside(noise: Tensor, hidden: Tensor) -> Tensor:
    """`(members, examples, outputs)`, and as many features again: noise that all examples have."""
    return torch.cat([hidden, noise.expand_as(hidden)], dim=2)
