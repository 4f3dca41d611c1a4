"""Index lists: layers that compute with the smallest matrices that hold all their weights.

Where grouping left whole rows or columns of a matrix empty that do not go as units (untied and tied
grouping), a layer keeps the reduced matrix and two lists: the columns it reads and the rows it
adds to. A row without weights still equals its bias, so results start from the biases. An LSTM
layer has two lists for its one matrix, or eight for the matrices of its four gates; the inputs of
all steps are one product, only the recurrent one is in the loop.

A listed network is derived from a member for prediction without gradients; it is never trained and
never saved.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from sparsemble.layouts.language_model import LanguageModel
from sparsemble.members.member import Member
from sparsemble.structure.units import Matrix

_LARGEST_SHARE = 0.8
"""Lists cost gathers and scatters: layers that use more than this share of their area stay,"""
LEAST_AREA = 1_000_000
"""and so do those with fewer weights than this, whose steps are shorter than the gathers."""


class ListedMatrix(nn.Module):
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
        """The same for the hidden state."""
        product = hidden.index_select(1, self.recurrent_reads) @ self.recurrent_weight
        result.index_add_(1, self.rows, product)


class ListedLinear(nn.Module):
    """A linear layer by its reduced matrix."""

    bias: Tensor

    def __init__(self, matrix: ListedMatrix, bias: Tensor) -> None:
        super().__init__()
        self.matrix = matrix
        self.register_buffer("bias", bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """`x·Wᵀ + b`."""
        result = self.bias.repeat(inputs.shape[:-1].numel(), 1)
        self.matrix.add(result, inputs.flatten(0, -2))
        return result.view(*inputs.shape[:-1], -1)


class ListedLSTM(nn.Module):
    """An LSTM layer by its reduced matrices; called like a one-layer `nn.LSTM`."""

    bias: Tensor

    def __init__(self, matrices: Sequence[ListedMatrix], bias: Tensor) -> None:
        super().__init__()
        self.matrices = nn.ModuleList(matrices)
        self.register_buffer("bias", bias)

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
def listed(member: Member, *, least_area: int = LEAST_AREA) -> nn.Module:
    """The member's network with index lists where they pay; the network itself if they never do."""
    network = member.network
    if not isinstance(network, LanguageModel):
        return network
    parameters = dict(network.named_parameters())
    by_owner: dict[str, list[Matrix]] = {}
    for matrix in member.layout.matrices:
        by_owner.setdefault(matrix.parameters[0], []).append(matrix)
    shapes = member.cost.shapes
    replaced = {
        owner.rpartition(".")[0]: _listed_matrices(matrices, parameters, member.masks)
        for owner, matrices in by_owner.items()
        if _worth_listing(
            used=sum(rows * columns for rows, columns in (shapes[m.name] for m in matrices)),
            area=sum(member.masks[name].numel() for name in matrices[0].parameters),
            least_area=least_area,
        )
    }
    return _with_listed_layers(network, replaced) if replaced else network


def _worth_listing(*, used: int, area: int, least_area: int) -> bool:
    return area >= least_area and used <= _LARGEST_SHARE * area


def _listed_matrices(
    matrices: Sequence[Matrix], parameters: Mapping[str, Tensor], masks: Mapping[str, Tensor]
) -> list[ListedMatrix]:
    found = []
    for matrix in matrices:
        weights = [parameters[name] for name in matrix.parameters]
        found.append(
            ListedMatrix(
                [matrix.part.of(weight) for weight in weights],
                [matrix.part.of(masks[name]) for name in matrix.parameters],
                matrix.part.number * len(weights[0]) // matrix.part.count,
            )
        )
    return found


def _with_listed_layers(
    network: LanguageModel, replaced: Mapping[str, list[ListedMatrix]]
) -> LanguageModel:
    """A network that shares all layers with `network` but those in `replaced`."""
    result = copy.copy(network)
    result._modules = dict(network._modules)
    layers = [
        ListedLSTM(replaced[name], _gate_bias(layer))
        if (name := f"layers.{number}") in replaced
        else layer
        for number, layer in enumerate(network.lstms)
    ]
    result.layers = nn.ModuleList(layers)
    decoder = "embedding" if network.shared else "decoder"
    if decoder in replaced:
        reduced = ListedLinear(replaced[decoder][0], network.decoder.bias)
        result._modules["decoder"] = reduced  # not a Linear, though called like one
    return result.eval()


def _gate_bias(layer: nn.LSTM) -> Tensor:
    return layer.get_parameter("bias_ih_l0") + layer.get_parameter("bias_hh_l0")
