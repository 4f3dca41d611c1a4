"""A program learns as the network it was traced of: gradients, statistics, steps, types, copies."""

import copy
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sparsemble.devices import has_bfloat16
from sparsemble.programs import Program
from sparsemble.tracing import describe
from zoo import CASES
from zoo.traced import difference, outputs_of, random_masking, seeded, traced

pytestmark = pytest.mark.slow

SOME = (
    "vgg_bn",
    "mobilenet",
    "instance_norm",
    "encoder_by_hand",
    "llama",
    "torch_encoder_post",
    "gpt_tied",
    "lstm_stacked",
    "bilstm_stacked_mean",
    "gru_residual",
    "frozen_backbone",
    "low_rank",
    "weight_norm",
    "named_outputs",
)
"""Networks of every kind: statistics, dropout, tied and frozen weights, several outputs."""
some = pytest.mark.parametrize("name", [*SOME, pytest.param("resnet", marks=pytest.mark.thorough)])


def twins(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Program, Any]:
    """A network and its program, both to be changed at will, and inputs."""
    network, found = traced(CASES[name])
    inputs = CASES[name].example(4, dtype=dtype)
    return copy.deepcopy(network).to(dtype), copy.deepcopy(found.program).to(dtype), inputs


def loss_of(network: nn.Module, inputs: Any) -> Tensor:
    """Some number that depends on every output."""
    with seeded(7):
        outputs = outputs_of(network(*inputs))
        return sum((out * torch.randn_like(out)).sum() + out.square().mean() for out in outputs)


def gradients(network: nn.Module) -> dict[str, Tensor | None]:
    return {name: parameter.grad for name, parameter in network.named_parameters()}


def assert_equal(found: dict[str, Tensor | None], wanted: dict[str, Tensor | None]) -> None:
    """The same names, and numbers equal but for rounding."""
    assert found.keys() == wanted.keys()
    for name, own in found.items():
        torch.testing.assert_close(own, wanted[name], rtol=1e-9, atol=1e-10, msg=name)


@some
def test_gradients_are_the_networks_own(name: str) -> None:
    network, program, inputs = twins(name)
    for own in (network, program):
        loss_of(own.train(), inputs).backward()
    assert_equal(gradients(program), gradients(network))


@some
def test_a_step_of_sgd_leaves_equal_parameters_and_statistics(name: str) -> None:
    network, program, inputs = twins(name)
    for own in (network, program):
        optimiser = torch.optim.SGD(own.parameters(), lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            loss_of(own.train(), inputs).backward()
            optimiser.step()
    assert_equal(dict(program.named_parameters()), dict(network.named_parameters()))
    buffers = dict(program.named_buffers())
    for buffer, wanted in network.named_buffers():
        torch.testing.assert_close(buffers[buffer], wanted, rtol=1e-9, atol=1e-10)
    with torch.no_grad():
        assert difference(network.eval()(*inputs), program.eval()(*inputs)) < 1e-9


@pytest.mark.parametrize("name", ["vgg_bn", "instance_norm"])
def test_statistics_move_in_training_only(name: str) -> None:
    _, program, inputs = twins(name)
    before = {n: b.clone() for n, b in program.named_buffers()}
    program.eval()(*inputs)
    assert all(torch.equal(b, before[n]) for n, b in program.named_buffers())
    program.train()(*inputs)
    means = [n for n in before if n.endswith("running_mean")]
    assert means
    assert all(not torch.equal(program.get_buffer(n), before[n]) for n in means)


def test_frozen_parameters_stay_frozen_and_tied_ones_tied() -> None:
    network, program, _ = twins("frozen_backbone")
    frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
    assert frozen == {name for name, p in program.named_parameters() if not p.requires_grad}
    _, program, _ = twins("gpt_tied")
    assert program.get_parameter("lm_head.weight") is program.get_parameter("wte.weight")


# --- statistics that are estimated anew --------------------------------------------------------


class Normed(nn.Module):
    """A normalisation at the beginning, whose statistics are those of the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.fc = nn.BatchNorm1d(5), nn.Dropout(0.9), nn.Linear(5, 3)
        self.deep = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.deep(self.fc(self.drop(self.norm(x))))


def test_estimated_statistics_are_the_means_over_batches() -> None:
    program = describe(Normed(), torch.randn(4, 5)).program.double()
    batches = [torch.randn(n, 5, dtype=torch.float64) * n for n in (6, 3, 5, 4)]
    with torch.no_grad(), program.eval().estimating_() as begin:
        for number, batch in enumerate(batches):
            begin(number)
            program(batch)
    mean = torch.stack([batch.mean(0) for batch in batches]).mean(0)
    variance = torch.stack([batch.var(0) for batch in batches]).mean(0)
    torch.testing.assert_close(program.get_buffer("norm.running_mean"), mean)
    torch.testing.assert_close(program.get_buffer("norm.running_var"), variance)
    # Further in, too, and without dropout: what is normed is normed by its own batch.
    fc, own = program.get_submodule("fc"), []
    for batch in batches:
        normed = nn.functional.batch_norm(batch, None, None, training=True)
        own.append((normed @ fc.weight.T + fc.bias).detach())
    torch.testing.assert_close(
        program.get_buffer("deep.running_mean"), torch.stack([x.mean(0) for x in own]).mean(0)
    )
    torch.testing.assert_close(
        program.get_buffer("deep.running_var"), torch.stack([x.var(0) for x in own]).mean(0)
    )


def test_after_estimating_calls_normalise_by_what_was_found() -> None:
    program = describe(Normed(), torch.randn(4, 5)).program.double().eval()
    batch = 3 + torch.randn(50, 5, dtype=torch.float64)
    with torch.no_grad():
        with program.estimating_() as begin:
            begin(0)
            program(batch)
        outputs = program(batch)
    torch.testing.assert_close(outputs.mean(0), torch.zeros(3, dtype=torch.float64))


def test_only_networks_with_statistics_of_their_data_have_some() -> None:
    assert traced(CASES["vgg_bn"])[1].program.has_statistics_
    assert traced(CASES["instance_norm"])[1].program.has_statistics_
    assert not traced(CASES["encoder_by_hand"])[1].program.has_statistics_


# --- types, copies, compilers ------------------------------------------------------------------


@some
def test_a_copy_computes_the_same_bits_and_learns_by_itself(name: str) -> None:
    _, program, inputs = twins(name, torch.float32)
    other = copy.deepcopy(program)
    with torch.no_grad():
        before = program.eval()(*inputs)
        assert difference(before, other.eval()(*inputs)) == 0
        for parameter in other.parameters():
            parameter.add_(1.0)
        assert difference(before, program(*inputs)) == 0


@some
def test_a_state_dict_of_the_network_is_one_of_the_program(name: str) -> None:
    network, program, inputs = twins(name)
    with torch.no_grad():
        for tensor in network.parameters():
            tensor.add_(0.1 * torch.randn_like(tensor))
        program.load_state_dict(network.state_dict(), strict=False)
        missing = program.state_dict().keys() - network.state_dict().keys()
        persistent = {n for n, _ in program.named_parameters()}
        assert not missing & persistent
        assert difference(network.eval()(*inputs), program.eval()(*inputs)) < 1e-10


def test_a_smaller_program_goes_through_its_state_dict() -> None:
    network, found = traced(CASES["mobilenet"])
    small = random_masking(network, found, "units", 0.4).member.network
    assert isinstance(small, Program)
    other = copy.deepcopy(small)
    with torch.no_grad():
        for tensor in other.parameters():
            tensor.zero_()
    other.load_state_dict(small.state_dict())
    inputs = CASES["mobilenet"].example(3, dtype=torch.float64)
    with torch.no_grad():
        assert difference(small.eval()(*inputs), other.eval()(*inputs)) == 0


@some
def test_other_types_of_numbers_go_through_the_whole_program(name: str) -> None:
    if "lstm" in name and not has_bfloat16():
        pytest.skip("PyTorch's LSTM needs a CPU with bfloat16 to be mixed")
    network, program, inputs = twins(name, torch.float32)
    with torch.no_grad():
        wanted = network.double().eval()(*pytree.tree_map_only(Tensor, _double, inputs))
        plain = program.eval()(*inputs)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = program(*inputs)
    for exact, single, half in zip(*map(outputs_of, (wanted, plain, mixed)), strict=True):
        assert single.dtype is torch.float32
        scale = max(1.0, float(exact.abs().max()))
        assert float((single - exact).abs().max()) < 1e-4 * scale
        assert float((half - exact).abs().max()) < 0.1 * scale


def _double(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("name", ["conv_prelu", pytest.param("tagger", marks=pytest.mark.thorough)])
def test_a_program_can_be_compiled_and_then_learns_the_same(name: str) -> None:
    _, program, inputs = twins(name, torch.float32)
    compiled = torch.compile(copy.deepcopy(program).eval())
    with torch.no_grad():
        assert difference(program.eval()(*inputs), compiled(*inputs)) < 1e-5
    other = copy.deepcopy(program).eval()
    loss_of(program, inputs).backward()
    loss_of(torch.compile(other), inputs).backward()
    for name, gradient in gradients(program).items():
        torch.testing.assert_close(
            other.get_parameter(name).grad, gradient, rtol=1e-3, atol=1e-4, msg=name
        )
