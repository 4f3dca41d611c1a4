"""A stack of programs predicts what its members do, whatever units each of them has left."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsemble.layouts import layout_of
from sparsemble.members import Member, ProgramStack, compact, tensors_of
from sparsemble.programs import Program
from sparsemble.tracing import Traced
from sparsemble.tracing.checking import random_masks
from zoo import CASES
from zoo.traced import in_double, traced

pytestmark = pytest.mark.slow


def members_of(found: Traced, count: int = 3) -> list[Member]:
    """Programs of one network, each with weights, statistics and units of its own."""
    generator = torch.Generator().manual_seed(1)
    members = []
    for _ in range(count):
        tensors = {
            name: _drawn(tensor, positive="var" in name, generator=generator)
            for name, tensor in in_double(found.program).items()
        }
        program = Program(found.program.blueprint_, tensors, found.layout.sizes).eval()
        masks = random_masks(found.layout, tensors, generator)
        members.append(compact(program, found.layout, masks).eval())
    return members


def _drawn(tensor: torch.Tensor, *, positive: bool, generator: torch.Generator) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor.clone()
    drawn = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
    return drawn.abs() + 0.1 if positive else 0.5 * drawn


def of_case(name: str) -> tuple[list[Member], torch.Tensor]:
    torch.manual_seed(3)
    case = CASES[name]
    return members_of(traced(case)[1]), case.example(5, dtype=torch.float64)[0]


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "vgg_bn",
        "group_norm",
        "instance_norm",
        "encoder_sdpa",
        "llama",
        "own_parameters",
        *(
            pytest.param(n, marks=pytest.mark.thorough)
            for n in ("resnet", "shufflenet", "gpt_tied", "mobilenet")
        ),
    ],
)
def test_it_predicts_what_members_of_different_sizes_do_one_by_one(name: str) -> None:
    members, inputs = of_case(name)
    assert len({tuple(member.layout.sizes.values()) for member in members}) > 1
    assert ProgramStack.fits(members)
    together = ProgramStack(members)(inputs)
    with torch.no_grad():
        for member, outputs in zip(members, together, strict=True):
            torch.testing.assert_close(outputs, member(inputs), rtol=1e-10, atol=1e-10)


def test_it_leaves_its_members_as_they_are() -> None:
    members, inputs = of_case("vgg_bn")
    before = [{n: t.clone() for n, t in tensors_of(m.network).items()} for m in members]
    for member in members:
        member.train()
    ProgramStack(members)(inputs)
    for member, old in zip(members, before, strict=True):
        assert member.network.training
        assert all(torch.equal(t, old[n]) for n, t in tensors_of(member.network).items())


@pytest.mark.parametrize("name", ["lstm_last", "gru_cells", "rnn_relu"])
def test_recurrent_programs_do_not_fit(name: str) -> None:
    members, _ = of_case(name)
    assert not ProgramStack.fits(members)


def test_networks_that_are_no_programs_do_not_fit() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    assert not ProgramStack.fits([Member.dense(network, layout_of(network))])
