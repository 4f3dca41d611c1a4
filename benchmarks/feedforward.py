"""Feed-forward networks: steps of training, retraining together, predicting together."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from feedforward_networks import DIGITS, MNIST_96, MNIST_HALF, dense_network, sparse_ensemble
from timing import alternate, report
from torch import Tensor, nn

from sparsemble.data import ArrayBatches, as_dataset
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.priors import GroupSparse, NoPrior
from sparsemble.samplers import SGLD, Constant
from sparsemble.stages import RetrainSettings, retrain
from sparsemble.stages.updates import Update
from sparsemble.tasks import Classification

BATCH = 100
NUM_DATA = 60_000
PRIOR = GroupSparse(penalty=2e-5)


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(BATCH, 784, generator=generator)
    return inputs, torch.randint(0, 10, (BATCH,), generator=generator)


def sgd_step() -> Callable[[], None]:
    network = dense_network()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    inputs, targets = batch()

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        optimiser.step()

    return step


def sgld_step(noise: str, *, prior: bool, **how: Any) -> Callable[[], None]:
    network = dense_network()
    parameters = dict(network.named_parameters())
    sampler = SGLD(parameters.values(), lr=0.01, num_data=NUM_DATA, temperature=0.01, noise=noise)
    bound = (PRIOR if prior else NoPrior()).bind(layout_of(network), parameters)
    update = Update(sampler, bound, **how)
    inputs, targets = batch()
    steps = itertools.count(1)

    def step() -> None:
        sampler.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        update(next(steps), {name: p.grad for name, p in parameters.items()})

    return step


def posteriors_step() -> Callable[[], None]:
    import posteriors

    network = dense_network()

    def log_posterior(params: dict[str, Tensor], data: tuple[Tensor, Tensor]):
        logits = torch.func.functional_call(network, params, (data[0],))
        return -F.cross_entropy(logits, data[1]), torch.empty(0)

    transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=0.01, temperature=0.01 / NUM_DATA)
    state = transform.init(dict(network.named_parameters()))
    data = batch()

    def step() -> None:
        nonlocal state
        state, _ = transform.update(state, data, inplace=True)

    return step


def training_steps() -> None:
    times = alternate(
        {
            "sgd": sgd_step(),
            "gaussian": sgld_step("gaussian", prior=True),
            "fast": sgld_step("rademacher", prior=True),
            "split": sgld_step("rademacher", prior=True, every=5, prior_step="proximal"),
        }
    )
    report(
        "SGLD + group sparse prior ÷ SGD, every 5th step, proximal",
        times["split"],
        times["sgd"],
        1.15,
    )
    report("SGLD + group sparse prior ÷ SGD, Gaussian noise", times["gaussian"], times["sgd"], 1.7)
    report("SGLD + group sparse prior ÷ SGD, fast noise", times["fast"], times["sgd"], 1.2)
    times = alternate({"ours": sgld_step("gaussian", prior=False), "posteriors": posteriors_step()})
    report("SGLD ÷ posteriors' SGLD, no prior", times["ours"], times["posteriors"], 0.7)


def alone_step(member: Member) -> Callable[[], None]:
    """Retraining one compact member by itself."""
    network = copy.deepcopy(member).train()
    parameters = dict(network.network.named_parameters())
    bound = PRIOR.bind(member.layout, parameters, sizes=member.origin.group_sizes)
    optimiser = torch.optim.SGD(parameters.values(), lr=0.01)
    masks = [mask.float() for mask in member.masks.values()]
    inputs, targets = batch()

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        with torch.no_grad():
            torch._foreach_mul_([parameters[name].grad for name in member.masks], masks)
            bound.add_gradient({name: p.grad for name, p in parameters.items()})
            optimiser.step()

    return step


def retraining() -> None:
    members = list(sparse_ensemble())
    inputs, targets = batch()
    steps = 50
    data = as_dataset(inputs.repeat(steps, 1), targets.repeat(steps), num_classes=10)
    settings = RetrainSettings(epochs=1, schedule=Constant(lr=0.01), batch_size=BATCH)
    task = Classification(num_classes=10)
    alone = [alone_step(member) for member in members]

    def together() -> None:
        retrain(members, task, ArrayBatches(data, BATCH, seed=0), PRIOR, settings)

    def one_by_one() -> None:
        for step in alone:
            for _ in range(steps):
                step()

    times = alternate({"together": together, "alone": one_by_one}, rounds=7, repeats=1)
    report("retraining 18 members together ÷ one by one", times["together"], times["alone"], 0.5)


def predicting() -> None:
    """Times over FLOPs: beside a plain module, and beside an ensemble of that one network."""
    for name, count, structure in (
        ("18 of MNIST", 18, MNIST_96),
        ("6 of digits", 6, DIGITS),
        ("2 of MNIST", 2, MNIST_HALF),
    ):
        ensemble, dense = sparse_ensemble(count, structure), structure.dense().eval()
        alone = Ensemble([Member.dense(dense, layout_of(dense))], Classification())
        ratio = ensemble.cost.flops_ratio
        for examples, bound, rounds, repeats in ((1, 1.5, 51, 20), (1000, 1.15, 15, 1)):
            predicting_examples(
                (ensemble, alone, dense),
                torch.rand(examples, structure.sizes[0]),
                f"predicting {examples}, {name}",
                (ratio, bound * ratio),
                rounds=rounds,
                repeats=repeats,
            )


def predicting_examples(
    networks: tuple[Ensemble, Ensemble, nn.Module],
    inputs: Tensor,
    label: str,
    flops_and_bound: tuple[float, float],
    **how: int,
) -> None:
    ensemble, alone, dense = networks
    flops, bound = flops_and_bound

    @torch.no_grad()
    def plain() -> Tensor:
        return dense(inputs).softmax(-1)

    times = alternate(
        {"ours": lambda: ensemble(inputs), "alone": lambda: alone(inputs), "plain": plain}, **how
    )
    for key, reference in (("plain", "1 dense"), ("alone", "an Ensemble of 1 dense")):
        text = f"{label} ÷ {reference} (FLOPs ÷: {flops:.2f})"
        report(text, times["ours"], times[key], bound)


def prior_growth() -> None:
    """The prior's gradient: nanoseconds per parameter, for growing networks."""
    torch.set_num_threads(1)
    figures = []
    for scale in (1, 2, 4, 8):
        network = dense_network(scale)
        parameters = dict(network.named_parameters())
        bound = PRIOR.bind(layout_of(network), parameters)
        gradients = {name: torch.zeros_like(p) for name, p in parameters.items()}
        count = sum(p.numel() for p in parameters.values())
        times = []
        with torch.no_grad():
            for _ in range(15):
                start = time.perf_counter()
                bound.add_gradient(gradients)
                times.append(time.perf_counter() - start)
        figures.append(f"{1e9 * sorted(times)[7] / count:.2f} at {count / 1e6:.1f}M")
    print(f"prior's gradient, ns per parameter on 1 thread: {', '.join(figures)}", flush=True)


def measure() -> None:
    """Print every measure."""
    training_steps()
    retraining()
    predicting()
    prior_growth()
