"""Groups of traced networks: the penalty is the sum over units, each weight counted once."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from sparsemble.members import tensors_of
from sparsemble.structure import GROUPINGS, GroupTerms, Layout, Slot
from sparsemble.structure.groupings import grouped
from zoo import CASES
from zoo.traced import in_double, traced

pytestmark = pytest.mark.slow

SOME = (
    "plain_cnn",
    "flat_batch_norm",
    "shufflenet",
    "group_norm",
    "encoder_sdpa",
    "mha_self",
    "bilstm_stacked_mean",
    "gru_residual",
    "lstm_tied",
    "fourier_features",
    "low_rank",
)
MORE = ("llama", "mobilenet", "unet")
some = pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE)]
)


def owned(slot: Slot, size: int, unit: int) -> list[int]:
    """The positions of a unit by the definition in `structure.layout`."""
    return [
        slot.offset + (t * size + unit) * slot.block + b
        for t in range(slot.tile)
        for b in range(slot.block)
    ]


def groups(layout: Layout, tensors: Mapping[str, Tensor]) -> list[Tensor]:
    """The weights of every group, from the definition: one flat tensor each."""
    found = []
    for family in layout.families:
        size = layout.space(family.space).size
        for unit in range(size):
            masks: dict[str, Tensor] = {}
            for slot in family.slots:
                whole = torch.zeros(tensors[slot.parameter].shape, dtype=torch.bool)
                part = slot.part.of(whole)
                part.index_fill_(slot.dim, torch.tensor(owned(slot, size, unit)), True)
                masks[slot.parameter] = masks.get(slot.parameter, whole) | whole
            found.append(torch.cat([tensors[name][mask] for name, mask in masks.items()]))
    return found


@some
@pytest.mark.parametrize("grouping", ["outgoing", "incoming", "iss", "tied"])
def test_penalty_and_gradient_are_those_of_all_units_one_by_one(name: str, grouping: str) -> None:
    _, found = traced(CASES[name])
    layout = grouped(found.layout, grouping)
    tensors = {n: t.clone().requires_grad_() for n, t in in_double(found.program).items()
               if n in layout.weights}  # fmt: skip
    one_by_one = groups(layout, tensors)
    assert one_by_one
    wanted = sum(math.sqrt(len(group)) * group.norm() for group in one_by_one)
    terms = GroupTerms(layout, {n: t.detach() for n, t in tensors.items()})
    torch.testing.assert_close(terms.penalty(), wanted.detach())
    gradients = dict(
        zip(tensors, torch.autograd.grad(wanted, tensors.values(), materialize_grads=True),
            strict=True)
    )  # fmt: skip
    own = {n: torch.zeros_like(t) for n, t in tensors.items()}
    terms.add_gradient(own, 1.0)
    for weight, gradient in gradients.items():
        torch.testing.assert_close(own[weight], gradient, msg=weight)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_fits_every_kind_of_network(grouping: str) -> None:
    for name in SOME:
        _, found = traced(CASES[name])
        layout = grouped(found.layout, grouping)
        layout.check(tensors_of(found.program))
        held = {slot.parameter for family in layout.families for slot in family.slots}
        assert held <= set(layout.weights)


def norms(name: str, grouping: str) -> tuple[dict[str, Tensor], Mapping[str, Tensor]]:
    """Norms by family, and the weights."""
    _, found = traced(CASES[name])
    layout = grouped(found.layout, grouping)
    tensors = in_double(found.program)
    terms = GroupTerms(layout, tensors)
    return {f.space: n for f, n in zip(layout.families, terms.norms(), strict=True)}, tensors


def test_a_channel_is_read_by_its_slice_of_kernels_or_its_pixels() -> None:
    found, own = norms("plain_cnn", "outgoing")
    torch.testing.assert_close(found["conv1"], own["conv2.weight"].square().sum((0, 2, 3)).sqrt())
    # Ten channels of 2 x 2 pixels, laid flat.
    flat = own["fc1.weight"].view(14, 10, 4).square().sum((0, 2)).sqrt()
    torch.testing.assert_close(found["conv2"], flat)


def test_a_channel_is_made_by_its_kernel() -> None:
    found, own = norms("plain_cnn", "incoming")
    torch.testing.assert_close(found["conv1"], own["conv1.weight"].flatten(1).norm(dim=1))


def test_a_head_is_read_by_its_columns_and_made_by_queries_keys_and_values() -> None:
    found, own = norms("encoder_sdpa", "outgoing")
    space = next(name for name, n in found.items() if len(n) == 3)
    columns = own["layers.0.inner.out.weight"].view(12, 3, 4)
    torch.testing.assert_close(found[space], columns.square().sum((0, 2)).sqrt())
    found, _ = norms("encoder_sdpa", "incoming")
    made = sum(
        own[f"layers.0.inner.{which}.weight"].view(3, 4 * 12).square().sum(1)
        for which in ("query", "key", "value")
    )
    torch.testing.assert_close(found[space], made.sqrt())


def test_a_recurrent_unit_is_read_by_itself_and_by_both_directions_above() -> None:
    found, own = norms("bilstm_stacked_mean", "outgoing")
    read = own["lstm.weight_hh_l0"].square().sum(0)
    for way in ("", "_reverse"):
        read = read + own[f"lstm.weight_ih_l1{way}"][:, :7].square().sum(0)
    torch.testing.assert_close(found["lstm.l0"], read.sqrt())


def test_frozen_weights_are_in_no_group() -> None:
    _, found = traced(CASES["low_rank"])
    for grouping in GROUPINGS:
        layout = grouped(found.layout, grouping)
        held = {slot.parameter for family in layout.families for slot in family.slots}
        assert not [name for name in held if "base" in name]
