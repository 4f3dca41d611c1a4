"""Which weight is in which group, and the penalty's gradient on any family of groups.

The oracle builds every group weight by weight from the definition and leaves the gradient to
autograd.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.structure import Family, GroupTerms, Layout, Matrix, Role, Slot, Space, SpaceKind
from sparsemble.structure.groups import group_sizes

# --- by hand -------------------------------------------------------------------------------


def one_family(units: int, *slots: Slot) -> Layout:
    """A layout of one space, `u`, whose units own what `slots` give them."""
    space = Space("u", units, SpaceKind.OUTPUT)
    return Layout((space,), slots, (), (Family("groups", slots),))


def slot(parameter: str, dim: int, **arrangement: int) -> Slot:
    return Slot(parameter, dim, "u", Role.PRODUCER, **arrangement)


def owners(layout: Layout, *shape: int) -> list:
    """For every weight of `w`, the groups it is in: those whose norm it makes non-zero."""
    flat = []
    for position in range(math.prod(shape)):
        weights = torch.zeros(shape)
        weights.view(-1)[position] = 1.0
        (norms,) = GroupTerms(layout, {"w": weights}).norms()
        assert set(norms.tolist()) <= {0.0, 1.0}
        flat.append("".join(str(unit) for unit in norms.nonzero().flatten().tolist()) or "-")
    rows = math.prod(shape[:-1])
    return [" ".join(flat[row * shape[-1] : (row + 1) * shape[-1]]) for row in range(rows)]


class TestMembership:
    """A digit names the unit that owns the weight, `-` means none; each line is a row of `w`."""

    def test_rows(self):
        assert owners(one_family(3, slot("w", 0)), 3, 2) == ["0 0", "1 1", "2 2"]

    def test_columns(self):
        assert owners(one_family(3, slot("w", 1)), 2, 3) == ["0 1 2", "0 1 2"]

    def test_a_tiled_slot_repeats_the_units(self):
        layout = one_family(3, slot("w", 1, tile=2))
        assert owners(layout, 2, 6) == ["0 1 2 0 1 2", "0 1 2 0 1 2"]

    def test_a_blocked_slot_gives_each_unit_neighbouring_positions(self):
        layout = one_family(3, slot("w", 0, block=2))
        assert owners(layout, 6, 1) == ["0", "0", "1", "1", "2", "2"]

    def test_an_offset_slot_leaves_what_lies_outside_to_nobody(self):
        layout = one_family(2, slot("w", 1, offset=1))
        assert owners(layout, 2, 4) == ["- 0 1 -", "- 0 1 -"]

    def test_tile_block_and_offset_together(self):
        layout = one_family(2, slot("w", 1, tile=2, block=3, offset=1))
        assert owners(layout, 1, 14) == ["- 0 0 0 1 1 1 0 0 0 1 1 1 -"]

    def test_the_middle_dimension_of_three(self):
        layout = one_family(2, slot("w", 1))
        assert owners(layout, 2, 2, 2) == ["0 0", "1 1", "0 0", "1 1"]

    def test_two_ranges_of_one_dimension(self):
        layout = one_family(2, slot("w", 1), slot("w", 1, offset=3))
        assert owners(layout, 1, 5) == ["0 1 - 0 1"]

    def test_rows_and_columns_of_a_square_matrix(self):
        layout = one_family(2, slot("w", 0), slot("w", 1))
        assert owners(layout, 2, 2) == ["0 01", "01 1"]

    def test_a_recurrent_matrix_of_four_gates(self):
        layout = one_family(2, slot("w", 0, tile=4), slot("w", 1))
        gate = ["0 01", "01 1"]
        assert owners(layout, 8, 2) == gate * 4


class TestRecurrentMatrix:
    """An LSTM's `U` of shape `(4n, n)`, n = 2: unit u owns rows u, 2+u, 4+u, 6+u and column u.

    A weight from a unit to its own gates lies in both of its slices, but is one weight.
    """

    layout = one_family(2, slot("recurrent", 0, tile=4), slot("recurrent", 1))

    def test_a_weight_owned_twice_counts_once_in_the_size(self):
        sizes = group_sizes(self.layout, {"recurrent": torch.zeros(8, 2)})
        assert sizes == {"groups": 12}  # 4 rows of 2, a column of 8, less the 4 in both

    def test_a_weight_owned_twice_counts_once_in_the_norm(self):
        weights = torch.zeros(8, 2)
        weights[0, 0], weights[6, 0], weights[3, 1] = 3.0, 4.0, 2.0
        (norms,) = GroupTerms(self.layout, {"recurrent": weights}).norms()
        assert norms.tolist() == [5.0, 2.0]

    def test_a_weight_owned_twice_counts_once_in_the_gradient(self):
        # All weights 1: √12·1/√12 = 1 from each unit a weight belongs to.
        terms = GroupTerms(self.layout, {"recurrent": torch.ones(8, 2, dtype=torch.float64)})
        gradient = torch.zeros(8, 2, dtype=torch.float64)
        terms.add_gradient({"recurrent": gradient}, scale=1.0)
        expected = torch.tensor([[1.0, 2.0], [2.0, 1.0]] * 4, dtype=torch.float64)
        torch.testing.assert_close(gradient, expected)

    def test_slices_of_other_parameters_join_the_same_group(self):
        layout = one_family(
            2,
            slot("input", 0, tile=4),
            slot("recurrent", 0, tile=4),
            slot("recurrent", 1),
            slot("next", 1),
        )
        tensors = {
            "input": torch.ones(8, 3),
            "recurrent": torch.ones(8, 2),
            "next": torch.ones(5, 2),
        }
        terms = GroupTerms(layout, tensors)
        assert terms.sizes == {"groups": 12 + 12 + 5}
        assert terms.norms()[0].tolist() == pytest.approx([math.sqrt(29)] * 2)
        assert float(terms.penalty()) == pytest.approx(2 * 29)


class TestGradient:
    def test_one_group_by_hand(self):
        # Columns (3, 4) and (0, 2): norms 5 and 2, two weights each.
        weights = torch.tensor([[3.0, 0.0], [4.0, 2.0]], dtype=torch.float64)
        terms = GroupTerms(one_family(2, slot("w", 1)), {"w": weights})
        gradient = torch.full((2, 2), 10.0, dtype=torch.float64)
        terms.add_gradient({"w": gradient}, scale=0.5)
        root = math.sqrt(2)
        expected = [[10 + 0.3 * root, 10.0], [10 + 0.4 * root, 10 + 0.5 * root]]
        assert float(terms.penalty()) == pytest.approx(root * 7)
        torch.testing.assert_close(gradient, torch.tensor(expected, dtype=torch.float64))

    def test_a_group_of_zeros_has_gradient_zero(self):
        weights = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
        gradient = torch.zeros(2, 2)
        GroupTerms(one_family(2, slot("w", 1)), {"w": weights}).add_gradient({"w": gradient}, 1.0)
        torch.testing.assert_close(gradient, torch.tensor([[0.0, 1.0], [0.0, 1.0]]))

    def test_given_sizes_replace_the_counted_ones(self):
        weights = torch.tensor([[3.0, 1.0], [4.0, 0.0]], dtype=torch.float64)
        terms = GroupTerms(one_family(2, slot("w", 1)), {"w": weights}, sizes={"groups": 9})
        assert float(terms.penalty()) == pytest.approx(3 * (5 + 1))
        gradient = torch.zeros_like(weights)
        terms.add_gradient({"w": gradient}, 1.0)
        expected = torch.tensor([[3 * 0.6, 3.0], [3 * 0.8, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(gradient, expected)

    def test_a_layout_without_families_adds_nothing(self):
        layout = Layout((Space("u", 2, SpaceKind.OUTPUT),), (slot("w", 0),), ())
        terms = GroupTerms(layout, {"w": torch.ones(2, 2)})
        gradient = torch.zeros(2, 2)
        terms.add_gradient({"w": gradient}, 1.0)
        assert float(terms.penalty()) == 0
        assert not gradient.any()


# --- any families --------------------------------------------------------------------------


def owned(slot: Slot, size: int, unit: int) -> set[int]:
    """The positions of a unit by the definition in `structure.layout`."""
    return {
        slot.offset + (t * size + unit) * slot.block + b
        for t in range(slot.tile)
        for b in range(slot.block)
    }


def naive_groups(layout: Layout, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Every group of every family as boolean masks, one weight looked at after the other."""
    groups = []
    for family in layout.families:
        size = layout.space(family.space).size
        for unit in range(size):
            masks = {name: torch.zeros(t.shape, dtype=torch.bool) for name, t in tensors.items()}
            for slot in family.slots:
                positions = owned(slot, size, unit)
                for index in itertools.product(*map(range, tensors[slot.parameter].shape)):
                    if index[slot.dim] in positions:
                        masks[slot.parameter][index] = True
            groups.append(masks)
    return groups


def naive_penalty(layout: Layout, tensors: Mapping[str, Tensor]) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for masks in naive_groups(layout, tensors):
        weights = torch.cat([tensors[name][mask] for name, mask in masks.items()])
        if weights.any():
            total = total + math.sqrt(len(weights)) * weights.square().sum().sqrt()
    return total


@st.composite
def overlapping_families(draw: st.DrawFn) -> tuple[Layout, dict[str, tuple[int, ...]]]:
    """Spaces, tensors whose dimensions they index in any arrangement, and families over them."""
    spaces = [
        Space(f"s{k}", draw(st.integers(1, 3)), SpaceKind.OUTPUT)
        for k in range(draw(st.integers(1, 2)))
    ]
    slots, shapes = [], {}
    for number in range(draw(st.integers(1, 3))):
        lengths = []
        for dim in range(draw(st.integers(1, 3))):
            length = 0
            for _ in range(draw(st.integers(1, 2))):
                space = draw(st.sampled_from(spaces))
                slot = Slot(
                    f"w{number}",
                    dim,
                    space.name,
                    draw(st.sampled_from([Role.PRODUCER, Role.CONSUMER])),
                    tile=draw(st.integers(1, 2)),
                    block=draw(st.integers(1, 2)),
                    offset=length + draw(st.integers(0, 1)),
                )
                slots.append(slot)
                length = slot.offset + slot.extent(space.size)
            lengths.append(length + draw(st.integers(0, 1)))
        shapes[f"w{number}"] = tuple(lengths)
    families = []
    for number in range(draw(st.integers(1, 4))):
        space = draw(st.sampled_from([slot.space for slot in slots]))
        chosen = []
        for candidate in draw(st.permutations([s for s in slots if s.space == space])):
            taken = [s for s in chosen if s.parameter == candidate.parameter]
            if len(taken) < 2 and (not chosen or draw(st.booleans())):
                chosen.append(candidate)
        families.append(Family(f"f{number}", tuple(chosen)))
    return Layout(tuple(spaces), tuple(slots), (), tuple(families)), shapes


def random_weights(
    layout: Layout, shapes: dict[str, tuple[int, ...]], zeroed: int, seed: int
) -> dict[str, Tensor]:
    """Normal weights, with some whole groups set to zero."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    groups = naive_groups(layout, tensors)
    for number in torch.randperm(len(groups), generator=generator)[:zeroed].tolist():
        for name, mask in groups[number].items():
            tensors[name][mask] = 0.0
    return tensors


def gradient_of(terms: GroupTerms, tensors: Mapping[str, Tensor], scale: float) -> dict:
    gradients = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    terms.add_gradient(gradients, scale)
    return gradients


@pytest.mark.slow
@settings(max_examples=70)
@given(overlapping_families(), st.integers(0, 2), st.integers(0, 1000))
def test_penalty_and_gradient_equal_autograds_on_any_families(family, zeroed, seed):
    layout, shapes = family
    tensors = random_weights(layout, shapes, zeroed, seed)
    layout.check(tensors)
    terms = GroupTerms(layout, tensors)

    counts = [sum(int(m.sum()) for m in masks.values()) for masks in naive_groups(layout, tensors)]
    units = [layout.space(family.space).size for family in layout.families]
    sizes = [terms.sizes[family.name] for family in layout.families]
    assert counts == [s for s, count in zip(sizes, units, strict=True) for _ in range(count)]

    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    value = 0.7 * naive_penalty(layout, leaves)
    torch.testing.assert_close(0.7 * terms.penalty(), value.detach(), rtol=1e-10, atol=1e-10)
    if value.requires_grad:
        value.backward()
    for name, gradient in gradient_of(terms, tensors, 0.7).items():
        expected = leaves[name].grad
        expected = torch.zeros_like(gradient) if expected is None else expected
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=60)
@given(
    overlapping_families(), st.integers(0, 2), st.sampled_from([0.05, 0.4]), st.integers(0, 1000)
)
def test_shrinking_multiplies_a_weight_by_what_each_of_its_groups_leaves(
    family, zeroed, amount, seed
):
    layout, shapes = family
    tensors = random_weights(layout, shapes, zeroed, seed)
    expected = {name: tensor.clone() for name, tensor in tensors.items()}
    for group in naive_groups(layout, tensors):
        own = torch.cat([tensors[name][mask] for name, mask in group.items()])
        norm = float(own.norm())
        left = max(0.0, 1 - amount * math.sqrt(len(own)) / norm) if norm else 0.0
        for name, mask in group.items():
            expected[name][mask] *= left
    GroupTerms(layout, tensors).shrink(amount)
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-10, atol=1e-12)
        assert torch.equal(tensor == 0, expected[name] == 0)


@pytest.mark.slow
@settings(max_examples=30)
@given(overlapping_families(), st.integers(0, 1000))
def test_members_stacked_along_a_leading_dimension_are_kept_apart(family, seed):
    layout, shapes = family
    members = [random_weights(layout, shapes, zeroed, seed + zeroed) for zeroed in range(3)]
    stacked = {name: torch.stack([member[name] for member in members]) for name in shapes}
    together = GroupTerms(layout, stacked, batch_dims=1)
    gradients = gradient_of(together, stacked, 0.3)
    alone = [GroupTerms(layout, member) for member in members]

    for number, family_norms in enumerate(together.norms()):
        expected = torch.stack([terms.norms()[number] for terms in alone])
        torch.testing.assert_close(family_norms, expected, rtol=1e-12, atol=1e-12)
    total = sum(float(terms.penalty()) for terms in alone)
    assert float(together.penalty()) == pytest.approx(total, rel=1e-12)
    for index, (member, terms) in enumerate(zip(members, alone, strict=True)):
        for name, gradient in gradient_of(terms, member, 0.3).items():
            torch.testing.assert_close(gradients[name][index], gradient, rtol=1e-10, atol=1e-12)


# --- descriptions that do not fit ------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([slot("w", 1, offset=2)], r"covers positions 2:5 of dimension 1 of 'w'"),
        ([slot("w", 0, tile=2)], r"covers positions 0:6 of dimension 0 of 'w'"),
        ([slot("w", 2)], r"dimension 2 of 'w', whose shape is \(3, 3\)"),
        ([slot("v", 0)], r"names 'v', which the network lacks; it has w"),
        ([Slot("w", 0, "x", Role.PRODUCER)], "unknown space 'x'"),
        ([Slot("w", 0, "u", Role.BIAS)], "biases are in no group"),
        ([slot("w", 0), slot("w", 0)], "counts parts of 'w' twice"),
        ([slot("w", 0), slot("w", 1), slot("w", 1)], "counts parts of 'w' twice"),
    ],
)
def test_a_layout_that_does_not_fit_the_parameters_is_refused(slots, message):
    layout = one_family(3, *slots)
    with pytest.raises(InputError, match=message):
        layout.check({"w": torch.zeros(3, 3)})


def test_a_family_belongs_to_one_space():
    spaces = (Space("u", 2, SpaceKind.OUTPUT), Space("v", 2))
    slots = (slot("w", 0), Slot("w", 1, "v", Role.CONSUMER))
    layout = Layout(spaces, slots, (), (Family("mixed", slots),))
    with pytest.raises(InputError, match="'mixed' mixes spaces"):
        layout.check({"w": torch.zeros(2, 2)})


def test_names_in_a_layout_are_unique():
    spaces = (Space("u", 2, SpaceKind.OUTPUT),)
    family = Family("rows", (slot("w", 0),))
    parameters = {"w": torch.zeros(2, 2)}
    with pytest.raises(InputError, match="two families of the name 'rows'"):
        Layout(spaces, family.slots, (), (family, family)).check(parameters)
    with pytest.raises(InputError, match="two spaces of the name 'u'"):
        Layout(spaces * 2, family.slots, (), (family,)).check(parameters)
    product = Matrix("w", ("w",))
    with pytest.raises(InputError, match="two matrices of the name 'w'"):
        Layout(spaces, family.slots, (product, product), (family,)).check(parameters)


def test_a_layout_says_which_units_are_its_outputs():
    layout = Layout((Space("u", 2),), (slot("w", 0),), ())
    with pytest.raises(InputError, match="no output space"):
        layout.check({"w": torch.zeros(2, 2)})
