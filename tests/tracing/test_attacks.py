"""Networks that were once traced wrongly: made smaller they stay exact, at every length."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.members import compact, masked
from sparsemble.tracing import describe
from sparsemble.tracing.checking import difference, random_masks
from zoo.attacks import ATTACKS, OtherWhenLong
from zoo.cases import Case


@pytest.mark.thorough  # `test_zoo_is_exact.py` says it of other masks
@pytest.mark.parametrize("case", ATTACKS, ids=lambda case: case.name)
def test_what_is_left_of_a_masked_network_computes_the_same_at_other_lengths(case: Case) -> None:
    torch.manual_seed(0)
    network = case.make().double().eval()
    traced = describe(network, *case.example(3, 0, torch.float64))
    going = [space for space in traced.layout.spaces if space.kind.may_go]
    if case.removable is not None:
        assert tuple(sorted(space.size for space in going)) == case.removable
    generator = torch.Generator().manual_seed(1)
    tensors = dict(network.named_parameters())
    for _ in range(4):
        masks = random_masks(traced.layout, tensors, generator)
        member, whole = compact(traced.program, traced.layout, masks), masked(network, masks)
        for batch, variant in ((5, 0), (2, 1)):
            inputs = case.example(batch, variant, torch.float64)
            picked = inputs
            if traced.layout.inputs is not None:
                kept = member.origin.units[traced.layout.inputs.name]
                picked = pytree.tree_map(lambda x, kept=kept: x.index_select(1, kept), inputs)
            with torch.no_grad():
                expected, found = whole.eval()(*inputs), member.network.eval()(*picked)
            assert difference(expected, found) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("length", [4, 8, 9])
def test_lengths_for_which_the_network_is_another_are_refused(length: int) -> None:
    program = describe(OtherWhenLong(), torch.randn(3, 7, 4)).program
    assert program(torch.randn(2, 5, 4)).shape == (2, 3)
    with pytest.raises(InputError, match="was traced for lengths with"):
        program(torch.randn(2, length, 4))
