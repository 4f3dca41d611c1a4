"""The test networks are networks: they run as users would run them, and learn."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from zoo import ALL, CASES, REFUSED, Case
from zoo.refused import REFUSALS

EVERY = [*CASES.values(), *REFUSED.values()]
every = pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
derivable = pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)


def outputs_of(result: Any) -> list[Tensor]:
    return pytree.tree_leaves(result)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_it_gives_finite_numbers_whatever_the_mode_the_variant_and_the_batch(
    case: Case, dtype: torch.dtype
) -> None:
    network = case.make().to(dtype)
    for train, variant, batch in itertools.product((True, False), (0, 1), (3, 5)):
        with torch.no_grad():
            outputs = outputs_of(network.train(train)(*case.example(batch, variant, dtype)))
        assert outputs
        assert all(out.dtype == dtype and bool(out.isfinite().all()) for out in outputs)


@every
def test_every_parameter_gets_a_gradient_unless_the_case_says_otherwise(case: Case) -> None:
    network = case.make()
    sum(out.square().sum() for out in outputs_of(network(*case.example(3)))).backward()
    gradients = {name: p.grad for name, p in network.named_parameters()}
    assert {n for n, g in gradients.items() if g is None} == set(case.without_gradient)
    assert all(bool(g.isfinite().all()) for g in gradients.values() if g is not None)


@derivable
def test_what_an_example_gets_does_not_depend_on_the_others(case: Case) -> None:
    network = case.make().double().eval()
    inputs = case.example(5, dtype=torch.float64)
    first = pytree.tree_map_only(Tensor, lambda x: x[:3], inputs)
    with torch.no_grad():
        for several, few in zip(
            outputs_of(network(*inputs)), outputs_of(network(*first)), strict=True
        ):
            torch.testing.assert_close(several[:3], few)


def test_names_are_unique_and_sizes_sorted() -> None:
    assert len(CASES | REFUSED) == len(ALL) + len(REFUSALS)
    assert all(list(case.removable or ()) == sorted(case.removable or ()) for case in EVERY)
    assert all(set(case.features) <= set(case.removable or ()) for case in EVERY)
