"""Sparse layers: they compute with the smallest matrices that hold all their weights.

Where grouping left whole rows or columns of a matrix empty that do not go as units (untied and tied
grouping), a layer keeps the reduced matrix and two lists: the columns it reads and the rows it
adds to. A row without weights still equals its bias, so results start from the biases. An LSTM
layer has two lists for its one matrix, or eight for the matrices of its four gates; the inputs of
all steps are one product, only the recurrent one is in the loop.

Such a network is derived from a member for prediction without gradients; it is never trained and
never saved.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from sparsemble.members.member import Member
from sparsemble.structure.products import Matrix

_LARGEST_SHARE = 0.8
"""Lists cost gathers and scatters: layers that use more than this share of their area stay,"""
LEAST_AREA = 1_000_000
"""and so do those with fewer weights than this, whose steps are shorter than the gathers."""


class SparseMatrix(nn.Module):
    """The part of `[x, h]·Wᵀ` that is not empty: `h` may be absent."""

    rows: Tensor
    reads: Tensor
    recurrent_reads: Tensor
    weight: Tensor
    recurrent_weight: Tensor

    def __init__(self, weights: Sequence[Tensor], masks: Sequence[Tensor], first_row: int) -> None:
        super().__init__()
        kept = torch.cat(list(masks), dim=1)
        rows = kept.any(1).nonzero().squeeze(1)
        self.register_buffer("rows", rows + first_row)
        for prefix, weight, mask in zip(("", "recurrent_"), weights, masks, strict=False):
            columns = mask.any(0).nonzero().squeeze(1)
            self.register_buffer(f"{prefix}reads", columns)
            # Transposed once, so that every product takes it as it lies.
            reduced = (weight * mask)[rows][:, columns].t().contiguous()
            self.register_buffer(f"{prefix}weight", reduced)

    def add(self, result: Tensor, inputs: Tensor) -> None:
        """Add what the inputs contribute, in place, to `(examples, all rows)`."""
        result.index_add_(1, self.rows, inputs.index_select(1, self.reads) @ self.weight)

    def add_recurrent(self, result: Tensor, hidden: Tensor) -> None:
        """Add what the hidden state contributes, in place."""
        product = hidden.index_select(1, self.recurrent_reads) @ self.recurrent_weight
        result.index_add_(1, self.rows, product)


class SparseLayer(nn.Module):
    """A layer by its reduced matrices and its bias."""

    bias: Tensor

    def __init__(self, matrices: Sequence[SparseMatrix], bias: Tensor) -> None:
        super().__init__()
        self.matrices = nn.ModuleList(matrices)
        self.register_buffer("bias", bias)


class SparseLinear(SparseLayer):
    """A linear layer by its reduced matrix, or by those of the parts of its rows."""

    def forward(self, inputs: Tensor) -> Tensor:
        """`x·Wᵀ + b`."""
        result = self.bias.repeat(inputs.shape[:-1].numel(), 1)
        flat = inputs.flatten(0, -2)
        for matrix in self.matrices:
            matrix.add(result, flat)  # type: ignore[operator]
        return result.view(*inputs.shape[:-1], -1)


class SparseLSTM(SparseLayer):
    """An LSTM layer by its reduced matrices; called like a one-layer `nn.LSTM`."""

    def forward(
        self, inputs: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs of all steps `(steps, streams, units)`, and the state after the last."""
        steps, streams, _ = inputs.shape
        units = len(self.bias) // 4
        if state is None:
            hidden = cell = inputs.new_zeros(streams, units)
        else:
            hidden, cell = state[0].squeeze(0), state[1].squeeze(0)
        gates = self.bias.repeat(steps * streams, 1)
        flat = inputs.flatten(0, 1)
        for matrix in self.matrices:
            matrix.add(gates, flat)  # type: ignore[operator]
        outputs = inputs.new_empty(steps, streams, units)
        for gate, output in zip(gates.view(steps, streams, -1), outputs, strict=True):
            for matrix in self.matrices:
                matrix.add_recurrent(gate, hidden)  # type: ignore[operator]
            admit, keep, value, show = gate.chunk(4, dim=1)
            cell = torch.addcmul(keep.sigmoid_() * cell, admit.sigmoid_(), value.tanh_())
            hidden = torch.mul(show.sigmoid_(), cell.tanh(), out=output)
        return outputs, (hidden.unsqueeze(0).clone(), cell.unsqueeze(0))


@torch.no_grad()
def with_sparse_layers(member: Member, *, least_area: int = LEAST_AREA) -> nn.Module:
    """The member's network with index lists where they pay; the network itself if they never do.

    Like the network, it takes the inputs that the member selects.
    """
    network = member.network
    by_owner: dict[str, list[Matrix]] = {}
    for matrix in member.layout.matrices:
        by_owner.setdefault(matrix.parameters[0], []).append(matrix)
    shapes, masks = member.cost.shapes, member.masks
    replaced: dict[str, nn.Module] = {}
    for matrices in by_owner.values():
        used = sum(rows * columns for rows, columns in (shapes[m.name] for m in matrices))
        area = sum(masks[name].numel() for name in matrices[0].parameters)
        path, layer = _multiplying(network, matrices)
        if layer is not None and area >= least_area and used <= _LARGEST_SHARE * area:
            replaced[path] = _sparse(layer, matrices, network, masks)
    if "" in replaced:
        return replaced[""]
    return _with_layers(network, replaced) if replaced else network


def _multiplying(
    network: nn.Module, matrices: Sequence[Matrix]
) -> tuple[str, nn.Linear | nn.LSTM | None]:
    """The layer that multiplies by matrices, whose weights may be tied to another layer's.

    None if there is no such layer, or if the matrices are not the whole of it.
    """
    weights = [network.get_parameter(name) for name in matrices[0].parameters]
    parts = [(matrix.part.number, matrix.part.count) for matrix in matrices]
    if parts != [(number, len(parts)) for number in range(len(parts))]:
        return "", None
    for path, layer in network.named_modules():
        if type(layer) is nn.Linear and weights[0] is layer.weight:
            return path, layer
        if type(layer) is nn.LSTM and _is_one_layer(layer) and len(weights) == 2:
            own = (layer.weight_ih_l0, layer.weight_hh_l0)
            if weights[0] is own[0] and weights[1] is own[1]:
                return path, layer
    return "", None


def _is_one_layer(layer: nn.LSTM) -> bool:
    """Does it compute as `SparseLSTM` does?"""
    several = layer.num_layers > 1 or layer.bidirectional or layer.proj_size > 0
    return layer.bias and not layer.batch_first and not several


def _sparse(
    layer: nn.Linear | nn.LSTM,
    matrices: Sequence[Matrix],
    network: nn.Module,
    masks: Mapping[str, Tensor],
) -> nn.Module:
    parameters = dict(network.named_parameters())
    found = []
    for matrix in matrices:
        weights = [parameters[name] for name in matrix.parameters]
        found.append(
            SparseMatrix(
                [matrix.part.of(weight) for weight in weights],
                [matrix.part.of(masks[name]) for name in matrix.parameters],
                matrix.part.number * len(weights[0]) // matrix.part.count,
            )
        )
    if isinstance(layer, nn.LSTM):
        bias = layer.get_parameter("bias_ih_l0") + layer.get_parameter("bias_hh_l0")
        return SparseLSTM(found, bias)
    none = layer.weight.new_zeros(layer.out_features)
    return SparseLinear(found, none if layer.bias is None else layer.bias)


def _with_layers(network: nn.Module, replaced: Mapping[str, nn.Module]) -> nn.Module:
    """A network that shares all layers with `network` but those in `replaced`."""
    copied = copy.copy(network)
    copied._modules = dict(network._modules)
    for path, layer in replaced.items():
        head, _, rest = path.partition(".")
        inner = copied._modules[head]
        assert inner is not None
        copied._modules[head] = _with_layers(inner, {rest: layer}) if rest else layer
    return copied
