"""Feed-forward networks and their layouts: what is described, and what is refused."""

import pytest
import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.nets import feedforward
from sparsemble.stages import prune
from sparsemble.structure import Role


def test_outgoing_groups_are_the_columns_of_every_weight():
    layout = layout_of(feedforward(5, [4, 3], 2))
    groups = [(f.space, [(s.parameter, s.dim, s.role) for s in f.slots]) for f in layout.families]
    assert groups == [
        ("inputs", [("0.weight", 1, Role.CONSUMER)]),
        ("hidden1", [("2.weight", 1, Role.CONSUMER)]),
        ("hidden2", [("4.weight", 1, Role.CONSUMER)]),
    ]


def test_incoming_groups_are_the_rows_of_the_hidden_layers_weights():
    layout = layout_of(feedforward(5, [4, 3], 2), "incoming")
    groups = [(f.space, [(s.parameter, s.dim) for s in f.slots]) for f in layout.families]
    assert groups == [("hidden1", [("0.weight", 0)]), ("hidden2", [("2.weight", 0)])]


def test_nested_sequentials_dropout_and_flatten_are_seen_through():
    network = nn.Sequential(
        nn.Flatten(),
        nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Dropout(0.2)),
        nn.Sequential(nn.Sequential(nn.Linear(3, 2, bias=False))),
    )
    layout = layout_of(network)
    assert layout.weights == ("1.0.weight", "2.0.0.weight")
    assert [space.size for space in layout.spaces] == [4, 3, 2]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), "stands before any linear layer"),
        (nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 2)), "takes 2 features but .* gives 3"),
        (nn.Sequential(nn.Linear(2, 3), nn.Flatten(), nn.Linear(3, 2)), "Flatten"),
        (nn.Sequential(), "no nn.Linear"),
        (nn.Sequential(nn.Linear(2, 2), nn.PReLU()), "PReLU"),
        (nn.Sequential(shared := nn.Linear(2, 2), nn.ReLU(), shared), "used twice"),
    ],
)
def test_networks_that_are_not_feedforward_are_refused(network, message):
    with pytest.raises(InputError, match=message):
        layout_of(network)


def test_an_unknown_grouping_is_refused():
    with pytest.raises(
        InputError, match="'sideways' is not one of outgoing, incoming, untied, tied, iss"
    ):
        layout_of(feedforward(2, [2], 2), "sideways")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "foo"}, "activation 'foo' is not one of"),
        ({"hidden": [-3]}, "positive integers"),
        ({"dropout": 2.0}, "dropout = 2.0"),
    ],
)
def test_networks_that_cannot_be_built_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        feedforward(**({"inputs": 4, "hidden": [3], "outputs": 2} | arguments))


def test_global_pruning_keeps_the_largest_weights_of_the_whole_network():
    network = feedforward(2, [2], 1)
    parameters = {
        "0.weight": torch.tensor([[0.1, -5.0], [3.0, 0.2]]),
        "2.weight": torch.tensor([[4.0, -0.3]]),
    }
    layout = layout_of(network)
    masks = prune(parameters, layout, sparsity=0.5)
    assert masks["0.weight"].tolist() == [[False, True], [True, False]]
    assert masks["2.weight"].tolist() == [[True, False]]
    by_layer = prune(parameters, layout, sparsity=0.75, scope="layer")
    assert by_layer["0.weight"].tolist() == [[False, True], [False, False]]
    assert not by_layer["2.weight"].any()


@pytest.mark.parametrize("sparsity", [-0.1, 1.0, 1.5, float("nan")])
def test_a_sparsity_outside_its_range_is_refused(sparsity):
    network = feedforward(2, [2], 1)
    with pytest.raises(InputError, match=r"must be at least 0 and below 1"):
        prune(dict(network.named_parameters()), layout_of(network), sparsity=sparsity)


def test_pruning_parameters_of_another_network_is_refused():
    with pytest.raises(InputError, match=r"'0.weight' is not among the parameters"):
        prune({}, layout_of(feedforward(2, [2], 1)), sparsity=0.5)
