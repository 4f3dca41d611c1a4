"""LSTM language models: steps of training and retraining, predicting a text, memory."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from language_networks import (
    LARGE,
    LARGE_ISS,
    MEDIUM,
    MEDIUM_ISS,
    WORDS,
    dense,
    iss_ensemble,
    iss_member,
    tied_member,
)
from timing import Measure, alternate, measures, report
from torch import Tensor, nn

from sparsemble.layouts import layout_of
from sparsemble.members import Member, with_sparse_layers
from sparsemble.nets import LanguageModel
from sparsemble.priors import GroupSparse
from sparsemble.samplers import SGLD
from sparsemble.stages.chain import clip_gradients
from sparsemble.stages.updates import Update
from sparsemble.tasks import LanguageModelling

WINDOW, BATCH, NUM_DATA = 35, 20, 26_560
PRIOR = GroupSparse(penalty=3e-5)


def window() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, WORDS, (WINDOW + 1, BATCH), generator=generator)
    return tokens[:-1], tokens[1:]


def training_step(
    network: LanguageModel,
    optimiser: torch.optim.Optimizer,
    prior: Callable[[], None],
    masks: Mapping[str, Tensor] | None = None,
) -> Callable[[], None]:
    task = LanguageModelling(window=WINDOW)
    forward = task.forward(network)
    inputs, targets = window()
    parameters = list(network.parameters())
    named = dict(network.named_parameters())
    kept = {name: mask.float() for name, mask in (masks or {}).items()}

    def step() -> None:
        optimiser.zero_grad()
        task.loss(forward(inputs), targets).backward()
        if kept:
            torch._foreach_mul_([named[name].grad for name in kept], list(kept.values()))
        clip_gradients([p.grad for p in parameters], 5.0)
        prior()
        optimiser.step()

    return step


def sgd_step(network: LanguageModel) -> Callable[[], None]:
    return training_step(network, torch.optim.SGD(network.parameters(), lr=0.1), lambda: None)


def sgld_step(noise: str) -> Callable[[], None]:
    network = dense(MEDIUM, dropout=0.3)
    parameters = dict(network.named_parameters())
    sampler = SGLD(parameters.values(), lr=0.1, num_data=NUM_DATA, temperature=1e-4, noise=noise)
    return training_step(network, sampler, prior_of(PRIOR, layout_of(network), parameters))


class Split:
    """An optimiser whose steps are those of the chain: prior and noise at every fifth."""

    def __init__(self, network: LanguageModel) -> None:
        self._parameters = dict(network.named_parameters())
        tensors = self._parameters.values()
        sampler = SGLD(tensors, lr=0.1, num_data=NUM_DATA, temperature=1e-4, noise="rademacher")
        bound = PRIOR.bind(layout_of(network), self._parameters)
        self._update = Update(sampler, bound, every=5, prior_step="proximal")
        self._steps = itertools.count(1)
        self.zero_grad = sampler.zero_grad

    def step(self) -> None:
        """One step by the gradients at hand."""
        gradients = {name: p.grad for name, p in self._parameters.items()}
        self._update(next(self._steps), gradients)


def split_step() -> Callable[[], None]:
    network = dense(MEDIUM, dropout=0.3)
    return training_step(network, Split(network), lambda: None)


def prior_of(prior: GroupSparse, layout: object, parameters: dict, **how: object) -> Callable:
    bound = prior.bind(layout, parameters, **how)

    @torch.no_grad()
    def add() -> None:
        bound.add_gradient({name: p.grad for name, p in parameters.items()})

    return add


def retraining_step(member: Member) -> Callable[[], None]:
    """SGD on a compact member, with prior and masks."""
    network = member.network.train()
    parameters = dict(network.named_parameters())
    prior = prior_of(PRIOR, member.layout, parameters, sizes=member.origin.group_sizes)
    optimiser = torch.optim.SGD(parameters.values(), lr=0.1)
    return training_step(network, optimiser, prior, member.masks)


def training() -> None:
    reference = dense(MEDIUM, dropout=0.3)
    times = alternate(
        {
            "sgd": sgd_step(reference),
            "gaussian": sgld_step("gaussian"),
            "fast": sgld_step("rademacher"),
            "split": split_step(),
            "retrain": retraining_step(iss_member(MEDIUM, MEDIUM_ISS, dropout=0.3)),
        },
        rounds=5,
        repeats=5,
    )
    split = "2×650 SGLD + ISS prior ÷ SGD, every 5th step, proximal"
    report(split, times["split"], times["sgd"], 1.03)
    report("2×650 SGLD + ISS prior ÷ SGD, fast noise", times["fast"], times["sgd"], 1.15)
    report("2×650 SGLD + ISS prior ÷ SGD, Gaussian noise", times["gaussian"], times["sgd"], 1.35)
    report("retraining 158/135/182 ÷ 650/650/650, per step", times["retrain"], times["sgd"], 0.35)


def predicting() -> None:
    whole = Member.dense(dense(LARGE).eval(), layout_of(dense(LARGE)))
    members = list(iss_ensemble(4))
    iss, tied = members[0], tied_member(LARGE, LARGE_ISS)
    flops = whole.cost.flops
    for streams, steps in ((1, 200), (20, 35)):
        text = torch.randint(0, WORDS, (steps, streams))
        times = alternate(
            {
                "dense": reading(whole.network, text),
                "iss": reading(with_sparse_layers(iss), text),
                "tied": reading(with_sparse_layers(tied), text),
                "four": in_turn([reading(with_sparse_layers(member), text) for member in members]),
            },
            rounds=5,
            repeats=1,
        )
        where = f"{streams} stream{'s' if streams > 1 else ''}"
        for name, member, factor in (("ISS", iss, 1.4), ("tied W", tied, 2.0)):
            ratio = member.cost.flops / flops
            label = f"reading a text in {where}, {name} ÷ dense large (FLOPs ÷: {ratio:.3f})"
            ours = times["iss" if name == "ISS" else "tied"]
            report(label, ours, times["dense"], factor * ratio)
        report(f"four ISS members ÷ one dense large, {where}", times["four"], times["dense"], 1.0)


def reading(network: nn.Module, text: Tensor) -> Callable[[], Tensor]:
    @torch.no_grad()
    def read() -> Tensor:
        logits, _ = network(text)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), text.flatten())

    return read


def in_turn(readings: Sequence[Callable[[], Tensor]]) -> Callable[[], None]:
    def all_of_them() -> None:
        for read in readings:
            read()

    return all_of_them


def memory() -> None:
    """Peak memory of evaluating four large members on a text as long as PTB's test set."""
    with TemporaryDirectory() as folder:
        iss_ensemble(4).save(folder)
        short, long = (_peak(folder, tokens) for tokens in (8_243, 82_430))
    label = f"peak memory of scoring 82,430 tokens ({long:.0f} MiB) ÷ 8,243, four ISS members"
    measures.append(Measure(label, long, short, None))
    print(f"{label}: {long / short:.2f} ({long:.0f} MiB, {short:.0f} MiB)", flush=True)


def _peak(ensemble: str, tokens: int) -> float:
    script = Path(__file__).with_name("scoring.py")
    command = [sys.executable, str(script), ensemble, str(tokens)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024


def measure() -> None:
    """Print every measure."""
    memory()
    training()
    predicting()
