"""Constants of traced networks: where they go into biases, and where they must not.

A unit without incoming weights says the same always; what reads it decides whether it can be left
out. Outputs are compared with the user's masked module, on other inputs, batches and lengths.
"""

import copy
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsemble.members import Member, compact, filled, tensors_of
from sparsemble.tracing import describe

Function = Callable[[Tensor], Tensor]


class Net(nn.Module):
    """Layers, and what is done with them."""

    def __init__(self, forward: Callable[..., Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(x, **self.layers)


def smaller(
    network: nn.Module,
    example: Tensor,
    gone: Mapping[str, object],
    set_to: Mapping[str, object] | None = None,
    others: Sequence[Tensor] = (),
) -> Member:
    """A network without the weights at some indices, its outputs compared.

    Args:
        network: To be traced.
        example: What it is traced with.
        gone: Of weights by name, what is taken away: an index, or several in a list.
        set_to: Values of other parameters.
        others: More inputs to compare outputs for.
    """
    network = copy.deepcopy(network).double().eval()
    found = describe(network, example.double())
    own = dict(network.named_parameters())
    masks = {name: torch.ones_like(own[name], dtype=torch.bool) for name in gone}
    with torch.no_grad():
        for name, value in (set_to or {}).items():
            own[name].copy_(torch.as_tensor(value, dtype=torch.float64))
        for name, indices in gone.items():
            for index in indices if isinstance(indices, list) else [indices]:
                masks[name][index] = False
            own[name].mul_(masks[name])
    program = filled(found.program, tensors_of(found.program) | tensors_of(network))
    member = compact(program, found.layout, masks).eval()
    with torch.no_grad():
        for inputs in (example, torch.randn(5, *example.shape[1:]), *others):
            wanted = network(inputs.double())
            torch.testing.assert_close(member(inputs.double()), wanted, rtol=1e-10, atol=1e-10)
    return member


def kept(member: Member, space: str) -> list[int]:
    """The units of a space that stayed."""
    return member.origin.units[space].tolist()


FLAT = torch.randn(4, 3)
SERIES, LONGER = torch.randn(3, 5, 3), torch.randn(2, 8, 3)
PICTURES = torch.randn(3, 1, 6, 6)


# --- one layer after another -------------------------------------------------------------------


def layered(act: Function, *, bias: bool = True) -> Net:
    return Net(
        lambda x, first, second: second(act(first(x))),
        first=nn.Linear(3, 4),
        second=nn.Linear(4, 2, bias=bias),
    )


def test_a_constant_goes_into_the_next_bias() -> None:
    weights = {
        "layers.first.bias": [1.0, 0.0, 1.0, 1.0],
        "layers.second.weight": [[1.0, 8.0, 3.0, 4.0], [5.0, -6.0, 7.0, 8.0]],
        "layers.second.bias": [0.5, 0.25],
    }
    member = smaller(layered(torch.sigmoid), FLAT, {"layers.first.weight": 1}, weights)
    assert kept(member, "layers.first") == [0, 2, 3]
    # sigmoid(0) = 1/2: the biases gain 8/2 and -6/2.
    assert member.network.get_parameter("layers.second.bias").tolist() == [4.5, -2.75]


def test_a_reader_without_bias_keeps_a_unit_that_says_something() -> None:
    network = layered(torch.sigmoid, bias=False)
    member = smaller(network, FLAT, {"layers.first.weight": 1})
    assert kept(member, "layers.first") == [0, 1, 2, 3]


def test_a_reader_without_bias_is_relieved_of_a_unit_that_says_nothing() -> None:
    network, biases = layered(F.relu, bias=False), {"layers.first.bias": [1.0, -2.0, 3.0, 0.0]}
    member = smaller(network, FLAT, {"layers.first.weight": [1, 2]}, biases)
    assert kept(member, "layers.first") == [0, 2, 3]


def test_constants_that_only_read_constants_go_with_them() -> None:
    network = Net(
        lambda x, a, b, c: c(torch.tanh(b(torch.sigmoid(a(x))))),
        a=nn.Linear(3, 3),
        b=nn.Linear(3, 3),
        c=nn.Linear(3, 2),
    )
    # Unit 0 of b reads only unit 2 of a, which reads nothing.
    gone = {"layers.a.weight": 2, "layers.b.weight": [(0, 0), (0, 1)]}
    member = smaller(network, FLAT, gone)
    assert kept(member, "layers.a") == [0, 1]
    assert kept(member, "layers.b") == [1, 2]


def test_what_is_between_needs_no_rule_of_its_own() -> None:
    network = Net(
        lambda x, first, norm, second: second(F.gelu(norm(first(x)) * 2 + 1)),
        first=nn.Linear(3, 4, bias=False),
        norm=nn.BatchNorm1d(4),
        second=nn.Linear(4, 2),
    )
    shifts = {"layers.norm.bias": [1.0, 2.0, 3.0, 4.0]}
    member = smaller(network, FLAT, {"layers.first.weight": 1}, shifts)
    assert kept(member, "layers.first") == [0, 2, 3]


def test_the_scale_of_a_norm_is_no_bias() -> None:
    network = Net(
        lambda x, first, second, norm, third: third(torch.tanh(norm(second(first(x).sigmoid())))),
        first=nn.Linear(3, 4),
        second=nn.Linear(4, 4, bias=False),
        norm=nn.BatchNorm1d(4),
        third=nn.Linear(4, 2),
    )
    member = smaller(network, FLAT, {"layers.first.weight": 1})
    assert kept(member, "layers.first") == [0, 1, 2, 3]


# --- pictures ----------------------------------------------------------------------------------


def pictured(between: Function, *, padding: int = 0) -> Net:
    return Net(
        lambda x, first, second: second(between(first(x))).mean((2, 3)),
        first=nn.Conv2d(1, 3, 3),
        second=nn.Conv2d(3, 2, 3, padding=padding),
    )


SAYING = {"layers.first.bias": [0.5, -0.5, 0.7]}


def test_a_convolution_without_padding_takes_constants() -> None:
    member = smaller(pictured(F.relu), PICTURES, {"layers.first.weight": [0, 1]}, SAYING)
    assert kept(member, "layers.first") == [2]


def test_zeros_at_the_border_are_no_constants() -> None:
    network = pictured(F.relu, padding=1)
    member = smaller(network, PICTURES, {"layers.first.weight": [0, 1]}, SAYING)
    # Unit 1 says relu(-1/2) = 0, as the border does.
    assert kept(member, "layers.first") == [0, 2]


def test_a_transposed_convolution_takes_only_zero() -> None:
    network = pictured(F.relu)
    network.layers["second"] = nn.ConvTranspose2d(3, 2, 3, stride=2)
    member = smaller(network, PICTURES, {"layers.first.weight": [0, 1]}, SAYING)
    assert kept(member, "layers.first") == [0, 2]


def test_a_constant_that_is_pooled_with_the_border_is_none() -> None:
    network = pictured(lambda x: F.avg_pool2d(F.relu(x), 3, 1, padding=1))
    member = smaller(network, PICTURES, {"layers.first.weight": [0, 1]}, SAYING)
    assert kept(member, "layers.first") == [0, 2]


def test_a_constant_that_is_pooled_without_border_is_one() -> None:
    network = pictured(lambda x: F.max_pool2d(F.relu(x), 2, 1))
    member = smaller(network, PICTURES, {"layers.first.weight": [0, 1]}, SAYING)
    assert kept(member, "layers.first") == [2]


# --- over time ---------------------------------------------------------------------------------


def over_time(reduce: Function) -> Net:
    return Net(
        lambda x, first, second: second(reduce(torch.sigmoid(first(x)))),
        first=nn.Linear(3, 4),
        second=nn.Linear(4, 2),
    )


@pytest.mark.parametrize("name", ["sum", "logsumexp"])
def test_a_sum_over_time_depends_on_its_length(name: str) -> None:
    network = over_time(lambda x: getattr(x, name)(dim=1))
    member = smaller(network, SERIES, {"layers.first.weight": 1}, others=[LONGER])
    assert kept(member, "layers.first") == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["mean", "amax"])
def test_a_mean_over_time_does_not(name: str) -> None:
    network = over_time(lambda x: getattr(x, name)(dim=1))
    member = smaller(network, SERIES, {"layers.first.weight": 1}, others=[LONGER])
    assert kept(member, "layers.first") == [0, 2, 3]


def test_a_sum_of_zeros_is_zero_for_any_length() -> None:
    network = Net(
        lambda x, first, second: second(F.relu(first(x)).sum(dim=1)),
        first=nn.Linear(3, 4),
        second=nn.Linear(4, 2),
    )
    biases = {"layers.first.bias": [1.0, -1.0, 1.0, 1.0]}
    member = smaller(network, SERIES, {"layers.first.weight": [1, 2]}, biases, [LONGER])
    assert kept(member, "layers.first") == [0, 2, 3]


class Placed(nn.Module):
    """A unit says something else at every place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.places = nn.Parameter(torch.randn(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x) + self.places)).amax(dim=1)


def test_what_differs_from_place_to_place_is_no_constant() -> None:
    member = smaller(Placed(), SERIES, {"first.weight": 1})
    assert kept(member, "first") == [0, 1, 2, 3]


def test_what_is_the_same_at_every_place_is_one() -> None:
    places = {"places": torch.ones(5, 4) * torch.arange(4.0)}
    member = smaller(Placed(), SERIES, {"first.weight": 1}, places)
    assert kept(member, "first") == [0, 2, 3]


# --- recurrent units ---------------------------------------------------------------------------


def recurrent(between: Function) -> Net:
    return Net(
        lambda x, lstm, fc: fc(between(lstm(x)[0][:, -1])),
        lstm=nn.LSTM(3, 4, batch_first=True),
        fc=nn.Linear(4, 2),
    )


GATES = {"input": 0, "forget": 1, "cell": 2, "output": 3}
LSTM = "layers.lstm"


def rows(*gates: str, unit: int = 1) -> dict[str, object]:
    own = [4 * GATES[gate] + unit for gate in gates]
    return {f"{LSTM}.weight_ih_l0": own, f"{LSTM}.weight_hh_l0": own}


def biases(*gates: str, unit: int = 1) -> dict[str, object]:
    """Random ones, those of some gates of the unit zero."""
    own = {}
    for name in ("bias_ih_l0", "bias_hh_l0"):
        bias = torch.randn(16)
        bias[[4 * GATES[gate] + unit for gate in gates]] = 0
        own[f"{LSTM}.{name}"] = bias
    return own


def test_a_unit_that_nothing_writes_stays_at_zero_and_goes() -> None:
    network = recurrent(lambda h: h)
    member = smaller(network, SERIES, rows("cell"), biases("cell"), [LONGER])
    assert kept(member, "layers.lstm.l0") == [0, 2, 3]


def test_read_through_a_sigmoid_it_says_a_half_and_stays() -> None:
    network = recurrent(torch.sigmoid)
    member = smaller(network, SERIES, rows("cell"), biases("cell"), [LONGER])
    assert kept(member, "layers.lstm.l0") == [0, 1, 2, 3]


def test_read_through_a_tanh_it_goes() -> None:
    member = smaller(recurrent(torch.tanh), SERIES, rows("cell"), biases("cell"), [LONGER])
    assert kept(member, "layers.lstm.l0") == [0, 2, 3]


def test_a_bias_alone_writes_a_unit() -> None:
    member = smaller(recurrent(lambda h: h), SERIES, rows("cell"), biases(), [LONGER])
    assert kept(member, "layers.lstm.l0") == [0, 1, 2, 3]


@pytest.mark.parametrize("gate", ["input", "forget", "output"])
def test_without_another_gates_rows_a_unit_is_not_silent(gate: str) -> None:
    # Only its peers read it: what it says is nowhere seen.
    gone = {**rows(gate), "layers.fc.weight": (slice(None), 1)}
    member = smaller(recurrent(lambda h: h), SERIES, gone, biases(gate), [LONGER])
    assert kept(member, "layers.lstm.l0") == [0, 1, 2, 3]


# --- weights and biases that are used more than once -------------------------------------------


class SharedBias(nn.Module):
    """Two weights, one bias for both, used apart."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.left, self.right = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(2, 3))
        self.bias = nn.Parameter(torch.randn(2))

    def forward(self, x: Tensor) -> Tensor:
        left = F.linear(torch.sigmoid(self.first(x)), self.left, self.bias)
        return left.tanh() + F.linear(x, self.right, self.bias).exp()


def test_a_bias_of_two_weights_takes_the_constants_of_neither() -> None:
    member = smaller(SharedBias(), FLAT, {"first.weight": 1})
    assert kept(member, "first") == [0, 1, 2, 3]


class ReadTwice(nn.Module):
    """One layer reads two, whose units go together."""

    def __init__(self, left: Function, right: Function) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(3, 4)
        self.shared = nn.Linear(4, 2)
        self.left, self.right = left, right

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.shared(self.left(self.a(x))), self.shared(self.right(self.b(x)))
        return left.tanh() - right.exp()


BOTH = {"a.weight": 1, "b.weight": 1}


def test_a_weight_used_twice_takes_equal_constants_once() -> None:
    biases = {"a.bias": [0.1, 0.2, 0.3, 0.4], "b.bias": [0.4, 0.2, 0.3, 0.1]}
    member = smaller(ReadTwice(torch.sigmoid, torch.sigmoid), FLAT, BOTH, biases)
    assert kept(member, _space(member, "shared.weight")) == [0, 2, 3]


def test_a_weight_used_twice_does_not_take_different_constants() -> None:
    biases = {"a.bias": [0.1, 0.2, 0.3, 0.4], "b.bias": [0.4, 0.9, 0.3, 0.1]}
    member = smaller(ReadTwice(torch.sigmoid, torch.sigmoid), FLAT, BOTH, biases)
    assert kept(member, _space(member, "shared.weight")) == [0, 1, 2, 3]


def test_a_unit_that_is_idle_in_one_of_two_uses_is_no_constant() -> None:
    member = smaller(ReadTwice(torch.sigmoid, torch.sigmoid), FLAT, {"a.weight": 1})
    assert kept(member, _space(member, "shared.weight")) == [0, 1, 2, 3]


def test_a_weight_used_twice_is_relieved_of_zeros() -> None:
    biases = {"a.bias": [0.1, -0.2, 0.3, 0.4], "b.bias": [0.4, -0.9, 0.3, 0.1]}
    member = smaller(ReadTwice(F.relu, F.relu), FLAT, BOTH, biases)
    assert kept(member, _space(member, "shared.weight")) == [0, 2, 3]


def _space(member: Member, weight: str) -> str:
    """The space that a weight reads."""
    return next(s.space for s in member.layout.slots if (s.parameter, s.dim) == (weight, 1))


def test_a_constant_that_several_layers_read_goes_into_each_ones_bias() -> None:
    network = Net(
        lambda x, first, left, right: left(first(x).sigmoid()) * right(first(x).exp()),
        first=nn.Linear(3, 4),
        left=nn.Linear(4, 2),
        right=nn.Linear(4, 2),
    )
    member = smaller(network, FLAT, {"layers.first.weight": 1})
    assert kept(member, "layers.first") == [0, 2, 3]


def test_one_reader_without_bias_is_enough_to_keep_a_unit() -> None:
    network = Net(
        lambda x, first, left, right: left(first(x).sigmoid()) * right(first(x).exp()),
        first=nn.Linear(3, 4),
        left=nn.Linear(4, 2),
        right=nn.Linear(4, 2, bias=False),
    )
    member = smaller(network, FLAT, {"layers.first.weight": 1})
    assert kept(member, "layers.first") == [0, 1, 2, 3]


# --- values from elsewhere ---------------------------------------------------------------------


def test_a_unit_to_which_data_are_added_is_no_constant() -> None:
    network = Net(
        lambda x, first, second: second(torch.tanh(first(x) * x.sum(-1, keepdim=True))),
        first=nn.Linear(3, 4),
        second=nn.Linear(4, 2),
    )
    member = smaller(network, FLAT, {"layers.first.weight": 1})
    assert kept(member, "layers.first") == [0, 1, 2, 3]
