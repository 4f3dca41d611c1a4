"""Traced networks: how long tracing takes, compact members, training steps, members at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from timing import alternate, report
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from traced_networks import CLASSES, LARGE, RESNET, TRANSFORMER, ZOO, Network, members_of

from sparsemble.members import Member, ProgramStack, tensors_of
from sparsemble.members.padding import Padding
from sparsemble.priors import GroupSparse, NoPrior, Prior
from sparsemble.programs import Program
from sparsemble.samplers import SGLD
from sparsemble.stages.updates import Update
from sparsemble.tracing import describe

BATCH = 32
NUM_DATA = 50_000
PRIOR = GroupSparse(penalty=2e-5)
MEMBERS = 8
BATCHES = (8, 64)
ROUNDS = 5
Call = Callable[[], object]


def _seconds(call: Call) -> tuple[float, int]:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began, torch.get_num_threads()


def _exported(networks: Sequence[tuple[nn.Module, Tensor]]) -> Call:
    """`torch.export` alone, in both modes, as tracing calls it."""

    def export() -> None:
        for network, example in networks:
            for training in (True, False):
                torch.export.export(network.train(training), (example,), strict=False)

    return export


def tracing(name: str, networks: Sequence[tuple[nn.Module, Tensor]]) -> None:
    """The time of `describe`, beside that of torch's part in it."""

    def describing() -> None:
        for network, example in networks:
            describe(network, example)

    ours, reference = _seconds(describing), _seconds(_exported(networks))
    report(f"tracing {name} ({ours[0]:.1f} s) ÷ torch.export in both modes", ours, reference)


def small_networks() -> list[tuple[nn.Module, Tensor]]:
    from zoo import CASES

    cases = [CASES[name] for name in ZOO]
    return [(case.make(), case.example(3)[0]) for case in cases]


def predicting(network: nn.Module, inputs: Tensor) -> Call:
    network.eval()

    def predict() -> Tensor:
        with torch.no_grad():
            outputs: Tensor = network(inputs)
        return outputs

    return predict


def compact_member(network: Network) -> None:
    """A member with half of its units ÷ the dense one, beside the ratio of their FLOPs."""
    dense, (half,) = members_of(network, 1)
    inputs = network.inputs(BATCH)
    times = alternate(
        {"half": predicting(half, inputs), "dense": predicting(dense, inputs)},
        rounds=ROUNDS,
        repeats=3,
    )
    flops = half.cost.flops / dense.cost.flops
    label = f"{network.name}, half of the units ÷ dense, batch {BATCH} (FLOPs ÷: {flops:.3f})"
    report(label, times["half"], times["dense"], 1.5 * flops)


def plain_step(network: nn.Module, inputs: Tensor) -> Call:
    """A step of SGD."""
    targets = torch.randint(CLASSES, (len(inputs),))
    optimiser = torch.optim.SGD(network.train().parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        optimiser.step()

    return step


def chain_step(member: Member, inputs: Tensor, prior: Prior) -> Call:
    """A step of SGLD."""
    targets = torch.randint(CLASSES, (len(inputs),))
    parameters = dict(member.train().network.named_parameters())
    sampler = SGLD(parameters.values(), lr=1e-3, num_data=NUM_DATA, temperature=1e-4)
    update = Update(sampler, prior.bind(member.layout, parameters))
    steps = itertools.count(1)

    def step() -> None:
        sampler.zero_grad()
        F.cross_entropy(member(inputs), targets).backward()
        update(next(steps), {name: p.grad for name, p in parameters.items()})

    return step


def training_steps(network: Network) -> None:
    """What the prior adds to a step, and what a program does to one."""
    inputs = network.inputs(BATCH)
    contestants = {
        "prior": chain_step(members_of(network, 0)[0], inputs, PRIOR),
        "none": chain_step(members_of(network, 0)[0], inputs, NoPrior()),
        "program": plain_step(members_of(network, 0)[0], inputs),
        "module": plain_step(network.make(), inputs),
    }
    times = alternate(contestants, rounds=ROUNDS, repeats=2)
    what = f"{network.name}, step at batch {BATCH}:"
    report(f"{what} SGLD with group sparse prior ÷ without", times["prior"], times["none"], 1.15)
    report(f"{what} program ÷ module", times["program"], times["module"])


def trained_in_turn(members: Sequence[Member], inputs: Tensor) -> Call:
    """Gradients of every member, one after the other."""
    targets = torch.randint(CLASSES, (len(inputs),))

    def gradients() -> None:
        for member in members:
            loss = F.cross_entropy(member.train()(inputs), targets)
            torch.autograd.grad(loss, list(member.network.parameters()), allow_unused=True)

    return gradients


def trained_together(members: Sequence[Member], inputs: Tensor) -> Call:
    """Gradients of all members by `torch.vmap`: why they are retrained one after the other."""
    first = members[0].network
    assert isinstance(first, Program)
    padding = Padding(members)
    named = [tensors_of(member.network) for member in members]
    stacked = {
        name: padding.stacked(name, [own[name].detach() for own in named], "running_var" in name)
        for name in named[0]
    }
    whole = Program(first.blueprint_, {n: t[0] for n, t in stacked.items()}, padding.sizes).train()
    learning = [stacked[name].requires_grad_() for name in first.blueprint_.parameters]
    targets = torch.randint(CLASSES, (len(inputs),)).repeat(len(members))

    def one(tensors: Mapping[str, Tensor]) -> Tensor:
        outputs: Tensor = functional_call(whole, dict(tensors), (inputs,))
        return outputs

    def gradients() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            outputs = torch.vmap(one, randomness="different")(stacked)
            loss = F.cross_entropy(outputs.flatten(0, 1), targets) * len(members)
            torch.autograd.grad(loss, learning, allow_unused=True)

    return gradients


def at_once(network: Network) -> None:
    """Members with half of their units: mapped together ÷ one after the other."""
    _, members = members_of(network, MEMBERS)
    for batch in BATCHES:
        inputs = network.inputs(batch)
        stack, calls = ProgramStack(members), [predicting(member, inputs) for member in members]
        predictions = alternate(
            {"vmap": lambda: stack(inputs), "loop": lambda: [call() for call in calls]},  # noqa: B023
            rounds=ROUNDS,
            repeats=1,
        )
        gradients = alternate(
            {
                "vmap": trained_together(members, inputs),
                "loop": trained_in_turn(members, inputs),
            },
            rounds=ROUNDS,
            repeats=1,
        )
        for what, times in (("predicting", predictions), ("gradients of", gradients)):
            label = f"{what} {MEMBERS} × half {network.name}, batch {batch}: vmap ÷ one by one"
            report(label, times["vmap"], times["loop"])


def measure() -> None:
    """Print every measure."""
    tracing("a dozen small networks", small_networks())
    for network in LARGE:
        tracing(network.name, [(network.make(), network.inputs(4))])
    for network in (RESNET, TRANSFORMER):
        compact_member(network)
        training_steps(network)
        at_once(network)
