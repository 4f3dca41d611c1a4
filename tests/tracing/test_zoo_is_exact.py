"""Every test network is traced: the wanted units are found, and without them outputs are equal.

Equal means in real arithmetic: double precision, within 1e-10, to the user's own module.
"""

import copy
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.structure import Role
from sparsemble.tracing import describe
from zoo import CASES, LARGE, REFUSED, Case
from zoo.traced import (
    EQUAL,
    KINDS,
    RATES,
    difference,
    random_masking,
    removable,
    seeded,
    traced,
)


def of_cases(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """For every test network, the large ones where there is time."""

    def marks(case: Case) -> Any:
        if case.name in LARGE:
            return thorough
        return () if case.name in WELL_KNOWN else pytest.mark.slow

    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=marks(case)) for case in cases]
    )


thorough = pytest.mark.thorough
WELL_KNOWN = ("mlp", "plain_cnn", "flat_batch_norm", "lstm_last", "gru_residual", "encoder_sdpa")
every = of_cases(CASES.values())
FEW = (("weights", 0.6), ("units", 0.2), ("units", 0.95), ("both", 0.6))
"""Which weights go, and how many: maskings that differ most."""
ALL = tuple((kind, rate) for kind in KINDS for rate in RATES)


def inputs_of(case: Case, *, batch: int, variant: int = 0, seed: int = 0) -> tuple[Any, ...]:
    with seeded(seed):
        return case.example(batch, variant, torch.float64)


def run(network: nn.Module, inputs: tuple[Any, ...], *, training: bool) -> Any:
    """Outputs in double precision, chance as by one seed."""
    network = copy.deepcopy(network).double().train(training)
    with seeded(2), torch.no_grad():
        return network(*inputs)


@of_cases(case for case in CASES.values() if case.removable is not None)
def test_the_units_that_may_go_are_found(case: Case) -> None:
    _, found = traced(case)
    assert removable(found.layout) == case.removable
    features = () if found.layout.inputs is None else (found.layout.inputs.size,)
    assert features == case.features


@every
def test_every_unit_that_stays_says_why(case: Case) -> None:
    _, found = traced(case)
    assert all(bool(space.reason) != space.kind.may_go for space in found.layout.spaces)


@every
def test_the_program_computes_what_the_network_computes(case: Case) -> None:
    network, found = traced(case)
    for batch in (5, 2):
        inputs = inputs_of(case, batch=batch)
        wanted = run(network, inputs, training=False)
        assert difference(wanted, run(found.program, inputs, training=False)) <= EQUAL


@every
def test_in_training_chance_is_the_same_as_well(case: Case) -> None:
    network, found = traced(case)
    inputs = inputs_of(case, batch=4)
    wanted = run(network, inputs, training=True)
    assert difference(wanted, run(found.program, inputs, training=True)) <= EQUAL


@pytest.mark.parametrize("maskings", [FEW, pytest.param(ALL, marks=thorough)], ids=["few", "all"])
@every
def test_without_some_weights_and_units_outputs_are_those_of_the_masked_network(
    case: Case, maskings: tuple[tuple[str, float], ...]
) -> None:
    network, found = traced(case)
    for seed, (kind, rate) in enumerate(maskings):
        masking = random_masking(network, found, kind, rate, seed=seed)
        assert masking.difference(inputs_of(case, batch=4, seed=seed)) <= EQUAL, (kind, rate)
        if not case.is_unrolled:
            other = inputs_of(case, batch=2, variant=1, seed=seed)
            assert masking.difference(other) <= EQUAL, (kind, rate, "another length")


@every
def test_units_that_nothing_reads_go(case: Case) -> None:
    network, found = traced(case)
    layout = found.layout
    for seed in range(2):
        masking = random_masking(network, found, "units", 0.5, seed=seed)
        for space in layout.spaces:
            if not space.kind.may_go:
                continue
            read = torch.zeros(space.size, dtype=torch.bool)
            for slot in layout.slots_of(space.name, Role.CONSUMER):
                mask = masking.masks[slot.parameter].movedim(slot.dim, 0)
                read |= mask[slot.indices(space.size)].flatten(1).any(1)
            kept = masking.member.origin.units[space.name]
            assert bool(read[kept].all()) or kept.tolist() == [0]  # for the shapes' sake


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.is_unrolled], ids=lambda case: case.name
)
def test_a_network_that_was_unrolled_refuses_other_lengths(case: Case) -> None:
    _, found = traced(case)
    with pytest.raises(InputError, match="length of 5 along dimension 1"):
        run(found.program, inputs_of(case, batch=3, variant=1), training=False)


@pytest.mark.slow
def test_what_torch_remembers_of_shapes_changes_nothing() -> None:
    """As it does for users; these tests do without, which is quicker for small networks."""
    case = CASES["preactivation_resnet"]
    _, found = traced(case)
    with seeded(1), torch._dynamo.config.patch(fake_tensor_cache_enabled=True):
        remembered = describe(case.make(), *case.inputs(3, 0))
    assert remembered.program.blueprint_ == found.program.blueprint_
    assert remembered.layout == found.layout


WHY = {
    "data_dependent_branch": "depends on the values of its data.*refused.py:18",
    "repeated_by_item": "depends on the values of its data.*refused.py:30",
    "scaled_by_item": r"depends on the values of its data.*refused.py\", line 45",
    "packed_lstm": "packs sequences.*refused.py:5[5-8]",
    "softmax_output": "3 ends in a softmax: networks return logits.*remove this layer",
    "time_first": "depends on the others of its batch",
}


@pytest.mark.parametrize("name", WHY)
def test_what_cannot_be_traced_is_refused_with_the_reason(name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(InputError, match=WHY[name]):
        describe(case.make(), *case.inputs(3, 0))


def test_every_network_that_must_be_refused_has_a_reason_here() -> None:
    assert set(WHY) == set(REFUSED)
