"""Lengths that a program refuses and others that it reads; examples that depend on each other."""

import pytest
import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.tracing import describe, exporting
from sparsemble.tracing.describe import trace
from zoo import CASES

pytestmark = pytest.mark.slow


def test_a_length_that_only_export_asked_about_is_read() -> None:
    case = CASES["gpt_tied"]
    network = case.make().eval()
    words = case.inputs(3, 0)
    longest = torch.randint(0, 11, (2, 9))
    strict, found = (
        trace(network, words, {}).program.eval(),
        describe(network, *words).program.eval(),
    )
    with pytest.raises(InputError, match="length 1 != 9"):
        strict(longest)
    torch.testing.assert_close(found(longest), network(longest))
    with pytest.raises(InputError, match="length 1 <= 9"):
        found(torch.randint(0, 11, (2, 10)))


@pytest.mark.parametrize("steps", [8, 9, 12])
def test_a_length_at_which_the_network_does_something_else_is_refused(steps: int) -> None:
    case = CASES["other_when_long"]
    program = describe(case.make(), *case.inputs(3, 0)).program.eval()
    with pytest.raises(InputError, match="computes something else for others"):
        program(torch.rand(2, steps, 4))


class Twofold(nn.Module):
    """Asks two things of its length: one that matters, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if x.shape[1] == 5:
            hidden = hidden + 0
        hidden = hidden.relu() if x.shape[1] > 3 else hidden.tanh()
        return self.last(hidden).mean(1)


def test_only_what_matters_is_asked() -> None:
    network = Twofold()
    program = describe(network, torch.rand(3, 7, 4)).program
    assert program.blueprint_.conditions == ((">", "length 1", 3),)
    torch.testing.assert_close(
        program.eval()(torch.ones(2, 5, 4)), network.eval()(torch.ones(2, 5, 4))
    )


def test_the_order_of_dimensions_is_noticed_where_examples_attend_to_each_other() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)  # which takes time for its first dimension
    network = nn.Sequential(layer, nn.Linear(8, 3))
    with pytest.raises(InputError, match="batch_first=True"):
        describe(network, torch.rand(3, 5, 8))


def test_a_network_that_asks_too_much_about_lengths_is_traced_for_those_of_its_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporting, "_QUESTIONS", 3)
    case = CASES["vgg_bn"]
    network = case.make().eval()
    program = describe(network, *case.inputs(3, 0)).program.eval()
    (pictures,) = case.inputs(5, 0)
    torch.testing.assert_close(program(pictures), network(pictures))
    with pytest.raises(InputError, match="length of 8 along dimension 2"):
        program(torch.rand(2, 3, 12, 12))


def test_statistics_of_the_batch_are_noticed_in_evaluation() -> None:
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    network = nn.Sequential(nn.Linear(4, 8), norm, nn.Linear(8, 3))
    with pytest.raises(InputError, match="track_running_stats=True"):
        describe(network, torch.rand(3, 4))
