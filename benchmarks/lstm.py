"""LSTM language models: the chain's step beside its matrix products, members side by side.

The products are as few and as large as the algorithm allows: what a layer reads, and the gradients
of its weights, one for a whole window; only `U·h` and its transpose a step at a time.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection

import torch
from language import BATCH, NUM_DATA, PRIOR, WINDOW
from language_networks import MEDIUM, MEDIUM_ISS, SMALL, WORDS, dense, iss_member
from timing import alternate, report

from sparsemble.data import TextBatches
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.samplers import SGLD, Constant
from sparsemble.stages import Subject
from sparsemble.stages.chain import Chain
from sparsemble.stages.chain_state import ChainIdentity
from sparsemble.stages.updates import Update
from sparsemble.tasks import LanguageModelling

STEPS = 3
"""In one call: whether all weights are finite is looked at once in each."""
LAYERS = 2
MEDIUM_HALF = (360, 360, 360)
"""About half of the parameters of the medium network."""


def chain_of(member: Member, *, temperature: float, autocast: bool) -> Chain:
    """A chain on a text that is longer than the benchmark; at temperature 0 it retrains."""
    tokens = torch.randint(WORDS, (1000 * WINDOW * BATCH,))
    task = LanguageModelling(window=WINDOW, words=tuple(map(str, range(WORDS))))
    parameters = dict(member.network.named_parameters())
    sampler = SGLD(parameters.values(), lr=0.1, num_data=NUM_DATA, temperature=temperature)
    member.train()
    bound = PRIOR.bind(member.layout, parameters, sizes=member.origin.group_sizes)
    return Chain(
        ChainIdentity("benchmark", 0, 0),
        Subject(
            parameters,
            task.forward(member),
            Update(sampler, bound),
            member.cost.flops,
            {} if temperature else member.masks,
        ),
        task=task,
        batches=TextBatches(tokens, BATCH, WINDOW),
        schedule=Constant(lr=0.1),
        clip=5.0,
        autocast=autocast,
    )


def advancing(chain: Chain) -> Callable[[], object]:
    return lambda: chain.run(chain.step + STEPS)


def products(units: int, dtype: torch.dtype) -> Callable[[], None]:
    """The matrix products of as many steps."""

    def some(*shape: int) -> torch.Tensor:
        return torch.empty(shape).uniform_(-0.1, 0.1).to(dtype)

    everywhere = WINDOW * BATCH
    values, sums, logits = (some(everywhere, size) for size in (units, 4 * units, WORDS))
    hidden, back = some(BATCH, units), some(BATCH, 4 * units)
    own, recurrent, decoder = (some(size, units) for size in (4 * units, 4 * units, WORDS))

    def layer() -> None:
        values @ own.t()
        for _ in range(WINDOW):
            hidden @ recurrent.t()
        for _ in range(WINDOW):
            back @ recurrent
        sums @ own
        for _ in (own, recurrent):
            sums.t() @ values

    def multiply() -> None:
        for _ in range(STEPS):
            for _ in range(LAYERS):
                layer()
            values @ decoder.t()
            logits @ decoder
            logits.t() @ values

    return multiply


def steps(units: int, *, autocast: bool) -> None:
    """A step of SGLD with the prior ÷ its products."""
    network = dense(units, dropout=0.3)
    member = Member.dense(network, layout_of(network))
    dtype = torch.bfloat16 if autocast else torch.float32
    times = _per_step(
        alternate(
            {
                "step": advancing(chain_of(member, temperature=1e-4, autocast=autocast)),
                "products": products(units, dtype),
            },
            rounds=5,
            repeats=1,
        )
    )
    form = "bfloat16" if autocast else "single precision"
    label = f"2×{units} step of SGLD + ISS prior ÷ its matrix products, {form}"
    report(label, times["step"], times["products"])


MEMBERS: Mapping[str, Callable[[], Member]] = {
    "2×200": lambda: Member.dense(dense(SMALL), layout_of(dense(SMALL))),
    "158/135/182": lambda: iss_member(MEDIUM, MEDIUM_ISS, dropout=0.3),
    "360/360/360": lambda: iss_member(MEDIUM, MEDIUM_HALF, dropout=0.3),
}


def side_by_side(name: str, *, autocast: bool) -> None:
    """Two members retrained in processes of one thread each ÷ one after the other."""
    chains = [chain_of(MEMBERS[name](), temperature=0.0, autocast=autocast) for _ in range(2)]
    advances = [advancing(chain) for chain in chains]

    def in_turn() -> None:
        for advance in advances:
            advance()

    with _processes(name, autocast) as beside:
        times = _per_step(alternate({"beside": beside, "in turn": in_turn}, rounds=7, repeats=1))
    form = "bfloat16" if autocast else "single precision"
    label = f"retraining 2 members {name} side by side ÷ one after the other, {form}"
    # Whatever number of threads is set here, each process has one.
    report(label, (times["beside"][0], 1), times["in turn"])


@contextmanager
def _processes(name: str, autocast: bool) -> Iterator[Callable[[], None]]:
    context = multiprocessing.get_context("spawn")
    pipes = []
    for _ in range(2):
        here, there = context.Pipe()
        context.Process(target=_serve, args=(there, name, autocast), daemon=True).start()
        pipes.append(here)

    def advance() -> None:
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()

    yield advance
    for pipe in pipes:
        pipe.send(False)


def _serve(pipe: Connection, name: str, autocast: bool) -> None:
    torch.set_num_threads(1)
    advance = advancing(chain_of(MEMBERS[name](), temperature=0.0, autocast=autocast))
    while pipe.recv():
        advance()
        pipe.send(True)


def _per_step(times: Mapping[str, tuple[float, int]]) -> dict[str, tuple[float, int]]:
    return {name: (seconds / STEPS, threads) for name, (seconds, threads) in times.items()}


def measure() -> None:
    """Print every measure."""
    for units in (MEDIUM, SMALL):
        for autocast in (False, True):
            steps(units, autocast=autocast)
    for name in MEMBERS:
        side_by_side(name, autocast=name != "2×200")  # as the paper's recipes retrain them
