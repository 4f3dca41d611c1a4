"""Any network computes the same with sparse layers; where they cannot compute it, it stays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from scenarios import (
    Recurrent,
    Skip,
    full_masks,
    mlp,
    random_masks,
    recurrent_layout,
    skip_layout,
)
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact, masked, with_sparse_layers
from sparsemble.members.sparse_layers import SparseLinear, SparseLSTM
from sparsemble.nets import GaussianNoise
from sparsemble.structure import Layout, Matrix, Part, Role, Slot, Space, SpaceKind

# --- networks of many kinds ------------------------------------------------------------------


class Gated(nn.Module):
    """Two gates stacked in one matrix: `y = V(tanh(Ax)·sigmoid(Bx))`."""

    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.gates = nn.Linear(5, 8, bias=bias)
        self.output = nn.Linear(4, 2, bias=bias)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.gates(x).chunk(2, dim=-1)
        return self.output(torch.tanh(value) * torch.sigmoid(gate))


def gated_layout(*parts: Part, bias: bool = True) -> Layout:
    """Of the gates, only the `parts` are told to be multiplied."""
    biases = (
        Slot("gates.bias", 0, "hidden", Role.BIAS, tile=2),
        Slot("output.bias", 0, "outputs", Role.BIAS),
    )
    return Layout(
        spaces=(
            Space("inputs", 5, SpaceKind.INPUT),
            Space("hidden", 4),
            Space("outputs", 2, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("gates.weight", 1, "inputs", Role.CONSUMER),
            Slot("gates.weight", 0, "hidden", Role.PRODUCER, tile=2),
            Slot("output.weight", 1, "hidden", Role.CONSUMER),
            Slot("output.weight", 0, "outputs", Role.PRODUCER),
            *(biases if bias else ()),
        ),
        matrices=(
            *(Matrix(f"gates {part}", ("gates.weight",), part) for part in parts),
            Matrix("output", ("output.weight",)),
        ),
    )


class LastState(nn.Module):
    """An LSTM of some kind over `(steps, batch, features)`, whose last output is read."""

    def __init__(self, **how: bool | int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4, **how)
        width = (how.get("proj_size") or 4) * (2 if how.get("bidirectional") else 1)
        self.output = nn.Linear(width, 2)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        outputs, _ = self.lstm(x)
        return self.output(outputs[-1])


def lstm_layout(network: LastState, *, together: bool = True) -> Layout:
    """Its matrices, one over `[x, h]` or one for each; no unit is ever removed."""
    weights = [name for name, p in network.named_parameters() if p.ndim == 2]
    sizes = {name: len(network.get_parameter(name)) for name in weights}
    pairs = [
        tuple(f"lstm.{leaf}{suffix}" for leaf in ("weight_ih", "weight_hh"))
        for suffix in dict.fromkeys(n.partition("weight_ih")[2] for n in weights if "_ih" in n)
    ]
    step = pairs if together else [(name,) for pair in pairs for name in pair]
    spaces = [Space(name, sizes[name], SpaceKind.OUTPUT) for name in weights]
    return Layout(
        tuple(spaces),
        tuple(Slot(name, 0, name, Role.PRODUCER) for name in weights),
        (
            *(Matrix(" ".join(names), names) for names in step),
            Matrix("output", ("output.weight",)),
        ),
    )


def nested() -> nn.Sequential:
    inner = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4), nn.Tanh())
    return nn.Sequential(inner, nn.Linear(4, 2)).double()


def with_layout(network: nn.Module, grouping: str | None = None) -> tuple[nn.Module, Layout]:
    return network, layout_of(network, grouping)


NETWORKS = {
    "a linear layer": lambda: with_layout(nn.Linear(5, 2).double()),
    "a linear layer without bias": lambda: with_layout(nn.Linear(5, 2, bias=False).double()),
    "feed-forward": lambda: with_layout(mlp(5, 7, 6, 2)),
    "feed-forward, tied": lambda: with_layout(mlp(5, 7, 6, 2), "tied"),
    "feed-forward without biases": lambda: with_layout(mlp(5, 7, 6, 2, bias=False)),
    "nested": lambda: with_layout(nested()),
    "with noise": lambda: with_layout(nn.Sequential(*mlp(5, 6, 2), GaussianNoise(2)).double()),
    "recurrent": lambda: (Recurrent(5, 4, 2), recurrent_layout(5, 4, 2)),
    "skip": lambda: (Skip(5, 4, 2), skip_layout(5, 4, 2)),
    "gated": lambda: (Gated(), gated_layout(Part())),
    "gates apart": lambda: (Gated(), gated_layout(Part(0, 2), Part(1, 2))),
    "gates apart without biases": lambda: (
        Gated(bias=False),
        gated_layout(Part(0, 2), Part(1, 2), bias=False),
    ),
    "half of the gates": lambda: (Gated(), gated_layout(Part(0, 2))),
}


def assert_same_outputs(member: Member, expected: Tensor, inputs: Tensor) -> nn.Module:
    sparse = with_sparse_layers(member.eval(), least_area=0)
    picked = inputs if member.inputs is None else inputs[..., member.inputs]
    with torch.no_grad():
        torch.testing.assert_close(sparse(picked), expected, rtol=1e-10, atol=1e-10)
    return sparse


@settings(max_examples=100)
@given(
    st.sampled_from(list(NETWORKS)),
    st.sampled_from([0.0, 0.1, 0.2, 0.35, 0.6, 1.0]),
    st.integers(0, 10_000),
)
def test_any_network_computes_the_same_with_sparse_layers(name, density, seed):
    torch.manual_seed(seed)
    network, layout = NETWORKS[name]()
    masks = random_masks(layout, network, density)
    member = compact(network, layout, masks)
    inputs = torch.randn(4, 5, dtype=torch.float64)
    with torch.no_grad():
        expected = masked(network, masks).eval()(inputs)
    assert_same_outputs(member, expected, inputs)


LSTMS = {
    "one layer": {},
    "two layers": {"num_layers": 2},
    "both directions": {"bidirectional": True},
    "without biases": {"bias": False},
    "batches first": {"batch_first": True},
    "projected": {"proj_size": 3},
}


@pytest.mark.parametrize("together", [True, False], ids=["[x, h]", "x and h"])
@pytest.mark.parametrize("how", LSTMS.values(), ids=LSTMS)
def test_an_lstm_of_any_kind_computes_the_same(how, together):
    network = LastState(**how)
    layout = lstm_layout(network, together=together)
    masks = full_masks(layout, network)
    for mask in masks.values():
        mask[::2] = False
        mask[:, 0] = False
    member = compact(network, layout, masks)
    inputs = torch.randn(3, 6, 5, dtype=torch.float64)
    with torch.no_grad():
        expected = masked(network, masks)(inputs)
    sparse = assert_same_outputs(member, expected, inputs)
    assert isinstance(sparse.output, SparseLinear)
    assert isinstance(sparse.lstm, SparseLSTM) == (how == {} and together)


# --- what is replaced ------------------------------------------------------------------------


def kinds(network: nn.Module) -> dict[str, str]:
    return {name: type(layer).__name__ for name, layer in network.named_children()}


def test_only_layers_with_empty_rows_or_columns_are_replaced():
    network, layout = mlp(5, 6, 6, 2), layout_of(mlp(5, 6, 6, 2))
    masks = full_masks(layout, network)
    masks["2.weight"][:, :3] = False
    masks["0.weight"][:3] = False  # constants, which are folded
    masks["4.weight"][0] = False  # an output without weights
    member = compact(network, layout, masks)
    inputs = torch.randn(4, 5, dtype=torch.float64)
    sparse = assert_same_outputs(member, masked(network, masks)(inputs).detach(), inputs)
    assert kinds(sparse) == {
        "0": "Linear",
        "1": "ReLU",
        "2": "Linear",
        "3": "ReLU",
        "4": "SparseLinear",
    }
    (matrix,) = sparse[4].matrices
    assert matrix.rows.tolist() == [1]
    assert matrix.weight.shape == (6, 1)


def test_the_member_keeps_its_own_layers():
    network, layout = Skip(5, 4, 3), skip_layout(5, 4, 3)
    masks = full_masks(layout, network)
    masks["output.weight"][:2] = False
    masks["skip.weight"][:2] = False
    member = compact(network, layout, masks)
    before = kinds(member.network)
    sparse = with_sparse_layers(member, least_area=0)
    assert kinds(sparse) != before
    assert kinds(member.network) == before
    assert sparse.hidden is member.network.hidden


def test_a_network_that_is_one_layer_becomes_that_layer():
    network = nn.Linear(5, 4).double()
    masks = {"weight": torch.zeros(4, 5, dtype=torch.bool)}
    masks["weight"][1] = True
    sparse = with_sparse_layers(compact(network, layout_of(network), masks), least_area=0)
    assert isinstance(sparse, SparseLinear)
    assert sparse.matrices[0].rows.tolist() == [1]


def test_layers_that_are_no_layers_of_pytorchs_stay():
    class Louder(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 5 * super().forward(x)

    network = Skip(5, 4, 3)
    network.output = Louder(4, 3).double()
    layout = skip_layout(5, 4, 3)
    masks = full_masks(layout, network)
    masks["output.weight"][:2] = False
    masks["skip.weight"][:2] = False
    member = compact(network, layout, masks)
    inputs = torch.randn(4, 5, dtype=torch.float64)
    sparse = assert_same_outputs(member, masked(network, masks)(inputs).detach(), inputs)
    assert type(sparse.output) is Louder


def test_sparse_layers_have_no_parameters_and_give_no_gradients():
    network = mlp(5, 4, bias=False)
    masks = {"0.weight": torch.zeros(4, 5, dtype=torch.bool)}
    masks["0.weight"][2, 3] = True
    sparse = with_sparse_layers(compact(network, layout_of(network), masks), least_area=0)
    assert not list(sparse.parameters())
    assert not sparse(torch.randn(2, 1, dtype=torch.float64)).requires_grad
