"""What networks do in `forward`: make tensors, cut them, call themselves in odd ways."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from sparsemble.errors import InputError
from sparsemble.programs.writing import blueprint_from_json, blueprint_to_json
from sparsemble.structure import SpaceKind
from sparsemble.tracing import describe

pytestmark = pytest.mark.slow


class Odd(nn.Module):
    """Two layers, and something between them."""

    def __init__(self, between: Callable[[Tensor], Any], width: int = 16) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, width), nn.Linear(16, 3)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self.first(x).relu())).mean(1)


def layer_norm(h: Tensor) -> Tensor:
    return (h - h.mean(-1, keepdim=True)) / (h.var(-1, unbiased=False, keepdim=True) + 1.0)


def gated(h: Tensor) -> Tensor:
    first, second = h.tensor_split([16], -1)
    return first * second.sigmoid()


@pytest.mark.parametrize(
    ("between", "width", "stays"),
    [
        (lambda h: h * torch.arange(16), 16, True),
        (lambda h: h * torch.linspace(0, 1, 16), 16, True),
        (lambda h: h * torch.tensor([0.1 * i for i in range(16)]), 16, True),
        (lambda h: h @ torch.eye(16), 16, True),
        (torch.tril, 16, True),
        (layer_norm, 16, True),
        (gated, 32, False),
        (lambda h: h * torch.ones(h.shape[1], 1), 16, False),
        (lambda h: h / (1 + h.std(1, keepdim=True)), 16, False),
        (lambda h: h + F.pad(h, (0, 0, 1, -1)), 16, False),
        (lambda h: F.pad(h, (0, 0, 2, 1), value=0.5), 16, False),
    ],
)
def test_units_stay_or_go_and_the_rest_is_right(
    between: Callable[[Tensor], Any], width: int, stays: bool
) -> None:
    network = Odd(between, width)
    traced = describe(network, torch.randn(3, 6, 8))  # which checks that it is exact
    removable = [space.size for space in traced.layout.spaces if space.kind.may_go]
    assert removable == ([] if stays else [16])


class Stated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.read, self.last = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.read(x, torch.zeros(1, x.shape[0], 16))[0].mean(1))


def test_a_state_of_zeros_that_the_network_makes_itself_follows_its_units() -> None:
    traced = describe(Stated(), torch.randn(3, 6, 8))
    assert [s.size for s in traced.layout.spaces if s.kind.may_go] == [16]


class Masked(nn.Module):
    """Attention that leaves padded words out: with nothing but padding there are no numbers."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.embed, self.first, self.last = nn.Embedding(20, 8), nn.Linear(8, 16), nn.Linear(16, 3)
        self.cut = cut

    def forward(self, words: Tensor) -> Tensor:
        h = self.embed(words)
        scores = (h @ h.transpose(1, 2)).masked_fill((words == 0)[:, None], -torch.inf)
        found = self.first(scores.softmax(-1) @ h).relu()
        return self.last(found * 3 if self.cut and words.shape[1] > 12 else found)


def test_padding_does_not_blind_the_check_of_lengths() -> None:
    words = torch.randint(1, 20, (3, 8))
    words[:, 6:] = 0
    program = describe(Masked(cut=True), words).program
    assert program.blueprint_.conditions == (("<=", "length 1", 12),)
    assert describe(Masked(cut=False), words).program.blueprint_.conditions == ()


def test_torchs_fast_path_for_attention_is_not_compared_with() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.embed, self.encoder = nn.Embedding(10, 8), nn.TransformerEncoder(layer, 1)

        def forward(self, words: Tensor) -> Tensor:
            return self.encoder(self.embed(words), src_key_padding_mask=words == 0)

    words = torch.randint(1, 10, (3, 7))
    words[:, 5:] = 0
    traced = describe(Encoder(), words)
    assert [s.size for s in traced.layout.spaces if s.kind.may_go] == [2, 16]


class Changing(nn.Module):
    """Does something else with long inputs: only in training, only later, only far away."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)
        self.extra = nn.Parameter(torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        long = x.shape[1] > 8
        if self.how == "far away" and long:
            x = x[:, -10:]
        h = self.first(x).relu()
        if self.how == "in training" and self.training and long:
            h = h * 0.5
        if self.how == "once it has learned" and long:
            h = h + self.extra
        if self.how == "in other words" and long:
            h = h + h - h
        return self.last(h).mean(1)


@pytest.mark.parametrize("how", ["in training", "once it has learned", "far away"])
def test_long_inputs_are_refused_where_the_network_does_something_else(how: str) -> None:
    program = describe(Changing(how), torch.randn(3, 6, 8)).program
    assert program.blueprint_.conditions == (("<=", "length 1", 8),)


def test_long_inputs_are_read_where_it_does_the_same() -> None:
    assert not describe(
        Changing("in other words"), torch.randn(3, 6, 8)
    ).program.blueprint_.conditions


def test_lengths_that_are_asked_about_in_fractions_are_those_of_the_example() -> None:
    network = Odd(lambda h: h[:, : int(h.shape[1] * 0.5)])
    program = describe(network, torch.randn(3, 6, 8)).program
    with pytest.raises(InputError, match="length of 6 along dimension 1"):
        program(torch.randn(3, 7, 8))


def test_every_layer_keeps_the_mode_it_was_in() -> None:
    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)).train()
    network[1].eval()
    describe(network, torch.randn(4, 8))
    assert [module.training for module in network] == [True, False, True]


def test_names_and_sizes_of_any_kind_are_written_and_read_again() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"a-b": nn.Linear(8, 3 * 1300)})
            self.norm, self.last = nn.LayerNorm(3 * 1300), nn.Linear(1300, 3)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.norm(self.parts["a-b"](x)).split([1300, 1300, 1300], -1)
            return self.last(q * k + v)

    traced = describe(Named(), torch.randn(3, 8))
    written = blueprint_to_json(traced.program.blueprint_)
    assert blueprint_from_json(written, traced.layout.sizes) == traced.program.blueprint_


def test_arguments_of_any_name_are_refused_by_name() -> None:
    class Open(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(8, 3)

        def forward(self, **given: Tensor) -> Tensor:
            return self.last(given["x"])

    with pytest.raises(InputError, match=r"takes x as \*\*given"):
        describe(Open(), x=torch.randn(3, 8))
    with pytest.raises(InputError, match="cannot be called like that"):
        describe(nn.Linear(8, 3), torch.randn(3, 8), torch.randn(3, 8))


def test_attention_beside_the_outputs_may_be_a_softmax() -> None:
    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.first(x)
            return self.last(h.mean(1)), h.softmax(1).mean(0)

    found = describe(Beside(), torch.randn(2, 6, 8))
    outputs = [space for space in found.layout.spaces if space.kind is SpaceKind.OUTPUT]
    assert {space.size for space in outputs} == {16, 3}  # attention is returned, too


def test_a_dict_of_inputs_may_have_any_order() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, pair: dict[str, Tensor]) -> Tensor:
            return self.last(self.first(pair["left"]).relu() - self.first(pair["right"]).tanh())

    network, left, right = Pair(), torch.randn(3, 8), torch.randn(3, 8)
    program = describe(network, {"left": left, "right": right}).program
    found = program({"right": right, "left": left})
    torch.testing.assert_close(found, network({"left": left, "right": right}))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: nn.utils.weight_norm(nn.Linear(8, 8)), "use torch.nn.utils.parametrizations"),
        (lambda: nn.utils.spectral_norm(nn.Linear(8, 8)), "layer '0' has a spectral_norm"),
        (lambda: parametrizations.spectral_norm(nn.Linear(8, 8)), "layer '0' has a spectral_norm"),
        (lambda: nn.BatchNorm1d(8, momentum=None), "layer '0' has momentum=None"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
def test_layers_that_cannot_be_traced_are_named(
    layer: Callable[[], nn.Module], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        describe(nn.Sequential(layer(), nn.ReLU(), nn.Linear(8, 3)), torch.randn(3, 8))


def test_weights_that_are_normed_by_a_parametrisation_are_traced() -> None:
    network = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(8, 16)), nn.ReLU(), nn.Linear(16, 3)
    )
    inputs = torch.randn(3, 8)
    found = describe(network, inputs)
    assert 16 in found.layout.sizes.values()
    torch.testing.assert_close(found.program(inputs), network(inputs))


def test_a_loop_over_examples_is_refused() -> None:
    def loop(h: Tensor) -> Tensor:
        return torch.stack([h[k] for k in range(len(h))])

    with pytest.raises(InputError, match="something else for another number of examples"):
        describe(Odd(loop), torch.randn(3, 6, 8))


def test_outputs_that_nothing_learned_are_refused() -> None:
    class Detached(Odd):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).detach()

    with pytest.raises(InputError, match="no output of the network depends on a weight"):
        describe(Detached(lambda h: h), torch.randn(3, 6, 8))


def test_what_is_repeated_for_every_example_and_head_has_the_right_size() -> None:
    class Gathered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.queries, self.keys = nn.Linear(8, 12), nn.Linear(8, 12)
            self.values, self.last = nn.Linear(8, 12), nn.Linear(12, 3)

        def forward(self, x: Tensor) -> Tensor:
            examples, steps, _ = x.shape
            q, k, v = (
                own(x).view(examples, steps, 4, 3).transpose(1, 2).reshape(-1, steps, 3)
                for own in (self.queries, self.keys, self.values)
            )
            scores = torch.bmm(q, k.transpose(1, 2))
            back = torch.arange(steps - 1, -1, -1).view(1, 1, steps)
            turned = torch.gather(scores, -1, back.expand(examples * 4, steps, steps))
            mixed = torch.bmm((scores + turned).softmax(-1), v).view(examples, 4, steps, 3)
            return self.last(mixed.transpose(1, 2).reshape(examples, steps, 12)).mean(1)

    network, inputs = Gathered(), torch.randn(3, 6, 8)
    program = describe(network, inputs).program.eval()
    torch.testing.assert_close(program(inputs), network(inputs))


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_chance_from_elsewhere_than_torch_is_refused(draw: Callable[[], float]) -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            return self.last(h.relu() if self.training and draw() < 0.5 else h)

    with pytest.raises(InputError, match="draws from Python's random or from NumPy"):
        describe(Dropped(), torch.randn(3, 8))


def test_the_first_input_may_be_a_number() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, scale: Tensor, x: Tensor) -> Tensor:
            return self.last(self.first(x * scale).relu())

    network, scale, inputs = Scaled(), torch.tensor(2.0), torch.randn(3, 8)
    found = describe(network, scale, inputs)
    torch.testing.assert_close(found.program(scale, inputs), network(scale, inputs))
