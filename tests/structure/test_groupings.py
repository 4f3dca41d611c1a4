"""Which groups each grouping makes, on the networks it was made for and on any other.

A slot is written as what a unit owns: `0.weight columns of inputs`; of an LSTM's stacked gates `4
rows`, of a single one `rows of layer1 in gate 2` (0 to 3: input, forget, cell, output).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from scenarios import (
    Recurrent,
    Skip,
    full_masks,
    mlp,
    model,
    recurrent_layout,
    skip_layout,
)
from sparsemble.errors import InputError
from sparsemble.layouts import feedforward_layout, language_layout, layout_of
from sparsemble.priors import GroupSparse
from sparsemble.structure import (
    GROUPINGS,
    Family,
    Layout,
    Matrix,
    Part,
    Role,
    Slot,
    Space,
    SpaceKind,
    measure,
)
from sparsemble.structure.groupings import grouped, outgoing

Families = dict[str, set[str]]
E, D = "embedding.weight", "decoder.weight"
I1, H1 = "layers.0.weight_ih_l0", "layers.0.weight_hh_l0"
I2, H2 = "layers.1.weight_ih_l0", "layers.1.weight_hh_l0"
I3, H3 = "layers.2.weight_ih_l0", "layers.2.weight_hh_l0"
GATES = ("input", "forget", "cell", "output")


def written(slot: Slot) -> str:
    assert slot.block == 1
    side = "columns" if slot.dim else "rows"
    several = f"{slot.tile} " if slot.tile > 1 else ""
    gate = f" in gate {slot.part.number}" if slot.part.count > 1 else ""
    offset = f" from {slot.offset}" if slot.offset else ""
    return f"{slot.parameter} {several}{side} of {slot.space}{gate}{offset}"


def families(layout: Layout) -> Families:
    assert len({family.name for family in layout.families}) == len(layout.families)
    return {family.name: {written(slot) for slot in family.slots} for family in layout.families}


def matrices(layout: Layout) -> dict[str, tuple[tuple[str, ...], Part]]:
    return {matrix.name: (matrix.parameters, matrix.part) for matrix in layout.matrices}


# --- feed-forward networks -------------------------------------------------------------------

ONE, TWO, THREE = (4, 2), (4, 3, 2), (5, 4, 3, 2)

ROWS_AND_COLUMNS: dict[tuple[int, ...], Families] = {
    ONE: {"0 columns": {"0.weight columns of inputs"}, "0 rows": {"0.weight rows of outputs"}},
    TWO: {
        "0 columns": {"0.weight columns of inputs"},
        "0 rows": {"0.weight rows of hidden1"},
        "2 columns": {"2.weight columns of hidden1"},
        "2 rows": {"2.weight rows of outputs"},
    },
    THREE: {
        "0 columns": {"0.weight columns of inputs"},
        "0 rows": {"0.weight rows of hidden1"},
        "2 columns": {"2.weight columns of hidden1"},
        "2 rows": {"2.weight rows of hidden2"},
        "4 columns": {"4.weight columns of hidden2"},
        "4 rows": {"4.weight rows of outputs"},
    },
}
FEEDFORWARD: dict[str, dict[tuple[int, ...], Families]] = {
    "outgoing": {
        ONE: {"outgoing inputs": {"0.weight columns of inputs"}},
        TWO: {
            "outgoing inputs": {"0.weight columns of inputs"},
            "outgoing hidden1": {"2.weight columns of hidden1"},
        },
        THREE: {
            "outgoing inputs": {"0.weight columns of inputs"},
            "outgoing hidden1": {"2.weight columns of hidden1"},
            "outgoing hidden2": {"4.weight columns of hidden2"},
        },
    },
    "incoming": {
        ONE: {},
        TWO: {"incoming hidden1": {"0.weight rows of hidden1"}},
        THREE: {
            "incoming hidden1": {"0.weight rows of hidden1"},
            "incoming hidden2": {"2.weight rows of hidden2"},
        },
    },
    "iss": {
        ONE: {"inputs": {"0.weight columns of inputs"}},
        TWO: {
            "inputs": {"0.weight columns of inputs"},
            "hidden1": {"0.weight rows of hidden1", "2.weight columns of hidden1"},
        },
        THREE: {
            "inputs": {"0.weight columns of inputs"},
            "hidden1": {"0.weight rows of hidden1", "2.weight columns of hidden1"},
            "hidden2": {"2.weight rows of hidden2", "4.weight columns of hidden2"},
        },
    },
    "tied": ROWS_AND_COLUMNS,
    "untied": ROWS_AND_COLUMNS,
}


@pytest.mark.parametrize("widths", [ONE, TWO, THREE])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("grouping", FEEDFORWARD)
def test_the_groups_of_a_feedforward_network(grouping, bias, widths):
    layout = layout_of(mlp(*widths, bias=bias), grouping)
    assert families(layout) == FEEDFORWARD[grouping][widths]
    assert layout.matrices == feedforward_layout(mlp(*widths)).matrices
    assert layout.grouping == grouping


def test_layers_of_nested_networks_are_told_apart_by_their_whole_names():
    inner = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    layout = layout_of(nn.Sequential(inner, nn.Linear(2, 1)), "tied")
    names = ["0.0 columns", "0.0 rows", "0.2 columns", "0.2 rows", "1 columns", "1 rows"]
    assert [family.name for family in layout.families] == names


# --- language models -------------------------------------------------------------------------

OF_UNITS: dict[tuple[int, bool], Families] = {
    (1, False): {
        "embedding": {f"{E} columns of embedding"},
        "layer1": {
            f"{I1} 4 rows of layer1",
            f"{H1} 4 rows of layer1",
            f"{H1} columns of layer1",
            f"{D} columns of layer1",
        },
    },
    (1, True): {
        "layer1": {
            f"{E} columns of layer1",
            f"{I1} 4 rows of layer1",
            f"{H1} 4 rows of layer1",
            f"{I1} columns of layer1",
            f"{H1} columns of layer1",
        },
    },
    (2, False): {
        "embedding": {f"{E} columns of embedding"},
        "layer1": {
            f"{I1} 4 rows of layer1",
            f"{H1} 4 rows of layer1",
            f"{H1} columns of layer1",
            f"{I2} columns of layer1",
        },
        "layer2": {
            f"{I2} 4 rows of layer2",
            f"{H2} 4 rows of layer2",
            f"{H2} columns of layer2",
            f"{D} columns of layer2",
        },
    },
    (2, True): {
        "layer1": {
            f"{I1} 4 rows of layer1",
            f"{H1} 4 rows of layer1",
            f"{H1} columns of layer1",
            f"{I2} columns of layer1",
        },
        "layer2": {
            f"{E} columns of layer2",
            f"{I1} columns of layer2",
            f"{I2} 4 rows of layer2",
            f"{H2} 4 rows of layer2",
            f"{H2} columns of layer2",
        },
    },
    (3, False): {
        "embedding": {f"{E} columns of embedding"},
        "layer1": {
            f"{I1} 4 rows of layer1",
            f"{H1} 4 rows of layer1",
            f"{H1} columns of layer1",
            f"{I2} columns of layer1",
        },
        "layer2": {
            f"{I2} 4 rows of layer2",
            f"{H2} 4 rows of layer2",
            f"{H2} columns of layer2",
            f"{I3} columns of layer2",
        },
        "layer3": {
            f"{I3} 4 rows of layer3",
            f"{H3} 4 rows of layer3",
            f"{H3} columns of layer3",
            f"{D} columns of layer3",
        },
    },
    (3, True): {
        "layer1": {
            f"{I1} 4 rows of layer1",
            f"{H1} 4 rows of layer1",
            f"{H1} columns of layer1",
            f"{I2} columns of layer1",
        },
        "layer2": {
            f"{I2} 4 rows of layer2",
            f"{H2} 4 rows of layer2",
            f"{H2} columns of layer2",
            f"{I3} columns of layer2",
        },
        "layer3": {
            f"{E} columns of layer3",
            f"{I1} columns of layer3",
            f"{I3} 4 rows of layer3",
            f"{H3} 4 rows of layer3",
            f"{H3} columns of layer3",
        },
    },
}
LSTMS = ((I1, H1), (I2, H2), (I3, H3))
HIDDEN = {1: (4,), 2: (5, 4), 3: (5, 6, 4)}
LANGUAGE_MODELS = pytest.mark.parametrize(
    ("layers", "shared"), [(count, shared) for count in (1, 2, 3) for shared in (False, True)]
)


def of_matrices(layers: int, shared: bool, *, by_gate: bool) -> Families:
    """Rows and columns of every table and LSTM matrix, columns gate by gate or for all gates."""
    last = f"layer{layers}"
    embedded = last if shared else "embedding"
    found = {"embedding rows": {f"{E} rows of words"}}
    found["embedding columns"] = {f"{E} columns of {embedded}"}
    if not shared:
        found |= {"decoder rows": {f"{D} rows of words"}}
        found |= {"decoder columns": {f"{D} columns of {last}"}}
    for number, (inputs, own) in enumerate(LSTMS[:layers], 1):
        unit = f"layer{number}"
        below = embedded if number == 1 else f"layer{number - 1}"
        for k, gate in enumerate(GATES):
            rows = {f"{name} rows of {unit} in gate {k}" for name in (inputs, own)}
            found[f"{unit} {gate} gate"] = rows
        for read, what in (
            (f"{inputs} columns of {below}", "below"),
            (f"{own} columns of {unit}", "itself"),
        ):
            if by_gate:
                for k, gate in enumerate(GATES):
                    found[f"{unit} {gate} reads {what}"] = {f"{read} in gate {k}"}
            else:
                found[f"{unit} reads {what}"] = {read}
    return found


@LANGUAGE_MODELS
def test_the_units_of_a_language_model(layers, shared):
    layout = layout_of(model(*HIDDEN[layers], shared=shared), "iss")
    assert families(layout) == OF_UNITS[layers, shared]
    assert [family.name for family in layout.families] == [
        space.name for space in layout.spaces if space.kind is not SpaceKind.OUTPUT
    ]


@LANGUAGE_MODELS
@pytest.mark.parametrize("grouping", ["tied", "untied"])
def test_rows_and_columns_of_a_language_model(grouping, layers, shared):
    layout = layout_of(model(*HIDDEN[layers], shared=shared), grouping)
    assert families(layout) == of_matrices(layers, shared, by_gate=grouping == "untied")


def test_the_untied_groups_of_one_layer_written_out():
    layout = layout_of(model(4, shared=True), "untied")
    assert families(layout) == {
        "embedding rows": {f"{E} rows of words"},
        "embedding columns": {f"{E} columns of layer1"},
        "layer1 input gate": {f"{w} rows of layer1 in gate 0" for w in (I1, H1)},
        "layer1 forget gate": {f"{w} rows of layer1 in gate 1" for w in (I1, H1)},
        "layer1 cell gate": {f"{w} rows of layer1 in gate 2" for w in (I1, H1)},
        "layer1 output gate": {f"{w} rows of layer1 in gate 3" for w in (I1, H1)},
        "layer1 input reads below": {f"{I1} columns of layer1 in gate 0"},
        "layer1 forget reads below": {f"{I1} columns of layer1 in gate 1"},
        "layer1 cell reads below": {f"{I1} columns of layer1 in gate 2"},
        "layer1 output reads below": {f"{I1} columns of layer1 in gate 3"},
        "layer1 input reads itself": {f"{H1} columns of layer1 in gate 0"},
        "layer1 forget reads itself": {f"{H1} columns of layer1 in gate 1"},
        "layer1 cell reads itself": {f"{H1} columns of layer1 in gate 2"},
        "layer1 output reads itself": {f"{H1} columns of layer1 in gate 3"},
    }


@LANGUAGE_MODELS
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_only_where_gates_are_grouped_apart_they_are_multiplied_apart(grouping, layers, shared):
    layout = layout_of(model(*HIDDEN[layers], shared=shared), grouping)
    expected = {}
    for number, weights in enumerate(LSTMS[:layers], 1):
        if grouping == "untied":
            expected |= {f"lstm{number} {g}": (weights, Part(k, 4)) for k, g in enumerate(GATES)}
        else:
            expected[f"lstm{number}"] = (weights, Part())
    expected["softmax"] = ((E if shared else D,), Part())
    assert matrices(layout) == expected


def test_what_reads_a_language_models_units():
    assert families(layout_of(model(5, 4), "outgoing")) == {
        "outgoing embedding": {f"{I1} columns of embedding"},
        "outgoing layer1": {f"{H1} columns of layer1", f"{I2} columns of layer1"},
        "outgoing layer2": {f"{H2} columns of layer2", f"{D} columns of layer2"},
    }
    assert families(layout_of(model(5, 4, shared=True), "outgoing")) == {
        "outgoing layer1": {f"{H1} columns of layer1", f"{I2} columns of layer1"},
        "outgoing layer2": {
            f"{I1} columns of layer2",
            f"{H2} columns of layer2",
            f"{E} columns of layer2",
        },
    }


def test_what_makes_a_language_models_units():
    assert families(layout_of(model(5, 4), "incoming")) == {
        "incoming embedding": {f"{E} columns of embedding"},
        "incoming layer1": {f"{I1} 4 rows of layer1", f"{H1} 4 rows of layer1"},
        "incoming layer2": {f"{I2} 4 rows of layer2", f"{H2} 4 rows of layer2"},
    }


# --- layouts by hand -------------------------------------------------------------------------

READING, AGAIN, OUT = "reading.weight", "recurrent.weight", "output.weight"
ROWS_OF_RECURRENT = {
    "reading columns": {f"{READING} columns of inputs"},
    "reading rows": {f"{READING} rows of hidden"},
    "recurrent rows": {f"{AGAIN} rows of hidden"},
    "recurrent columns": {f"{AGAIN} columns of hidden"},
    "output columns": {f"{OUT} columns of hidden"},
    "output rows": {f"{OUT} rows of outputs"},
}


@pytest.mark.parametrize(
    ("grouping", "expected"),
    [
        (
            "outgoing",
            {
                "outgoing inputs": {f"{READING} columns of inputs"},
                "outgoing hidden": {f"{AGAIN} columns of hidden", f"{OUT} columns of hidden"},
            },
        ),
        ("incoming", {"incoming hidden": {f"{READING} rows of hidden", f"{AGAIN} rows of hidden"}}),
        (
            "iss",
            {
                "inputs": {f"{READING} columns of inputs"},
                "hidden": {
                    f"{READING} rows of hidden",
                    f"{AGAIN} rows of hidden",
                    f"{AGAIN} columns of hidden",
                    f"{OUT} columns of hidden",
                },
            },
        ),
        ("tied", ROWS_OF_RECURRENT),
        ("untied", ROWS_OF_RECURRENT),
    ],
)
def test_the_groups_of_a_recurrent_network_described_by_hand(grouping, expected):
    layout = grouped(recurrent_layout(2, 3, 1), grouping)
    assert families(layout) == expected
    assert layout.matrices == recurrent_layout(2, 3, 1).matrices
    layout.check(dict(Recurrent(2, 3, 1).named_parameters()))


def test_the_groups_of_a_network_with_a_skip_described_by_hand():
    found = {name: families(grouped(skip_layout(3, 2, 1), name)) for name in GROUPINGS}
    reading = {"hidden.weight columns of inputs", "skip.weight columns of inputs"}
    deciding, made = "output.weight columns of hidden", "hidden.weight rows of hidden"
    rows = {
        "hidden columns": {"hidden.weight columns of inputs"},
        "hidden rows": {made},
        "skip columns": {"skip.weight columns of inputs"},
        "skip rows": {"skip.weight rows of outputs"},
        "output columns": {deciding},
        "output rows": {"output.weight rows of outputs"},
    }
    assert found == {
        "outgoing": {"outgoing inputs": reading, "outgoing hidden": {deciding}},
        "incoming": {"incoming hidden": {made}},
        "iss": {"inputs": reading, "hidden": {made, deciding}},
        "tied": rows,
        "untied": rows,
    }


SIDE_BY_SIDE = Layout(
    spaces=(Space("left", 2), Space("right", 3), Space("outputs", 2, SpaceKind.OUTPUT)),
    slots=(
        Slot("made", 0, "left", Role.PRODUCER),
        Slot("made", 0, "right", Role.PRODUCER, offset=2),
        Slot("read", 1, "left", Role.CONSUMER),
        Slot("read", 1, "right", Role.CONSUMER, offset=2),
        Slot("read", 1, "left", Role.CONSUMER, offset=5),
        Slot("read", 0, "outputs", Role.PRODUCER),
    ),
    matrices=(),
)
"""Units of two spaces along one dimension, those of the first twice; nothing is counted."""
LEFT_READS = {"read columns of left", "read columns of left from 5"}
RIGHT_READS = {"read columns of right from 2"}


def test_units_that_stand_side_by_side_are_kept_apart():
    rows = {
        "made rows of left": {"made rows of left"},
        "made rows of right": {"made rows of right from 2"},
        "read columns of left": LEFT_READS,
        "read columns of right": RIGHT_READS,
        "read rows": {"read rows of outputs"},
    }
    assert {name: families(grouped(SIDE_BY_SIDE, name)) for name in GROUPINGS} == {
        "outgoing": {"outgoing left": LEFT_READS, "outgoing right": RIGHT_READS},
        "incoming": {
            "incoming left": {"made rows of left"},
            "incoming right": {"made rows of right from 2"},
        },
        "iss": {
            "left": {"made rows of left"} | LEFT_READS,
            "right": {"made rows of right from 2"} | RIGHT_READS,
        },
        "tied": rows,
        "untied": rows,
    }


GATED = Layout(
    spaces=(Space("hidden", 3), Space("outputs", 2, SpaceKind.OUTPUT)),
    slots=(
        Slot("gates", 0, "hidden", Role.PRODUCER, tile=2),
        Slot("read", 1, "hidden", Role.CONSUMER),
        Slot("read", 0, "outputs", Role.PRODUCER),
    ),
    matrices=(Matrix("gates", ("gates",), parts=("value", "gate")), Matrix("read", ("read",))),
)
"""Two gates over inputs that always stay, so that no space stands for them."""


def test_gates_whose_inputs_always_stay_are_grouped_by_rows_alone():
    expected = {
        "read columns": {"read columns of hidden"},
        "read rows": {"read rows of outputs"},
        "hidden value gate": {"gates rows of hidden in gate 0"},
        "hidden gate gate": {"gates rows of hidden in gate 1"},
    }
    assert families(grouped(GATED, "tied")) == expected
    assert families(grouped(GATED, "untied")) == expected


# --- the prior on all of them ----------------------------------------------------------------

NETWORKS: dict[str, tuple] = {
    "one layer": (partial(mlp, *ONE), feedforward_layout),
    "two layers": (partial(mlp, *TWO), feedforward_layout),
    "three layers": (partial(mlp, *THREE), feedforward_layout),
    "one LSTM": (partial(model, 4), language_layout),
    "one LSTM, shared": (partial(model, 4, shared=True), language_layout),
    "two LSTMs": (partial(model, 5, 4), language_layout),
    "two LSTMs, shared": (partial(model, 5, 4, shared=True), language_layout),
    "three LSTMs": (partial(model, 5, 6, 4), language_layout),
    "three LSTMs, shared": (partial(model, 5, 6, 4, shared=True), language_layout),
    "recurrent": (partial(Recurrent, 2, 3, 2), lambda _: recurrent_layout(2, 3, 2)),
    "skip": (partial(Skip, 3, 4, 2), lambda _: skip_layout(3, 4, 2)),
    "side by side": (
        lambda: nn.ParameterDict({"made": torch.randn(5, 3), "read": torch.randn(2, 7)}).double(),
        lambda _: SIDE_BY_SIDE,
    ),
    "gated": (
        lambda: nn.ParameterDict({"gates": torch.randn(6, 4), "read": torch.randn(2, 3)}).double(),
        lambda _: GATED,
    ),
}


def owned(slot: Slot, size: int, unit: int, shape: torch.Size) -> Tensor:
    """The weights that a slot gives a unit, as a mask, by the definition in `structure.layout`."""
    mask = torch.zeros(shape, dtype=torch.bool)
    length = shape[0] // slot.part.count
    part = mask[slot.part.number * length : (slot.part.number + 1) * length]
    for tile in range(slot.tile):
        for place in range(slot.block):
            position = slot.offset + (tile * size + unit) * slot.block + place
            part.select(slot.dim, position).fill_(True)
    return mask


def penalty_by_definition(layout: Layout, parameters: Mapping[str, Tensor]) -> Tensor:
    """`Σ_g √dim_g·‖θ_g‖₂`, group by group."""
    total = torch.zeros((), dtype=torch.float64)
    for family in layout.families:
        size = layout.space(family.space).size
        for unit in range(size):
            masks: dict[str, Tensor] = {}
            for slot in family.slots:
                mask = owned(slot, size, unit, parameters[slot.parameter].shape)
                masks[slot.parameter] = masks.get(slot.parameter, torch.tensor(False)) | mask
            group = torch.cat([parameters[name][mask] for name, mask in masks.items()])
            total = total + math.sqrt(len(group)) * group.norm()
    return total


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_the_priors_gradient_is_autograds_under_every_grouping(grouping, network):
    make, describe = NETWORKS[network]
    parameters = dict(make().named_parameters())
    layout = grouped(describe(make()), grouping)
    layout.check(parameters)
    expected = 0.3 * penalty_by_definition(layout, parameters)
    if expected.requires_grad:
        expected.backward()

    bound = GroupSparse(penalty=0.3).bind(layout, parameters)
    torch.testing.assert_close(bound.value().double(), expected, rtol=1e-12, atol=1e-12)
    gradients = {name: torch.zeros_like(p) for name, p in parameters.items()}
    with torch.no_grad():
        bound.add_gradient(gradients)
    for name, parameter in parameters.items():
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradients[name], wanted, rtol=1e-10, atol=1e-12)
        assert bool(gradients[name].any()) == (parameter.grad is not None)


# --- groupings of the user's own -------------------------------------------------------------


def by_pairs_of_roles(layout: Layout) -> list[Family]:
    """Every hidden unit's rows, and nothing else."""
    return [
        Family(f"made {space.name}", layout.slots_of(space.name, Role.PRODUCER))
        for space in layout.spaces
        if space.kind is SpaceKind.HIDDEN
    ]


def test_a_function_is_a_grouping():
    layout = layout_of(mlp(*THREE), by_pairs_of_roles)
    assert families(layout) == {
        "made hidden1": {"0.weight rows of hidden1"},
        "made hidden2": {"2.weight rows of hidden2"},
    }
    assert layout.grouping == f"{__name__}:by_pairs_of_roles"
    assert families(layout_of(mlp(*TWO), lambda _: ())) == {}


def test_the_librarys_own_functions_are_known_by_their_names():
    network = mlp(*TWO)
    assert layout_of(network, outgoing) == layout_of(network, "outgoing")


def test_a_function_of_the_users_never_passes_for_the_librarys():
    def outgoing(layout: Layout) -> tuple[Family, ...]:
        return ()

    assert layout_of(mlp(*TWO), outgoing).grouping not in GROUPINGS


@pytest.mark.parametrize("grouping", ["sideways", "Outgoing", "", 3, ["tied"]])
def test_an_unknown_grouping_is_refused(grouping):
    with pytest.raises(InputError, match="is not one of outgoing, incoming, untied, tied, iss"):
        layout_of(mlp(*TWO), grouping)


@pytest.mark.parametrize(
    "wrong",
    [lambda layout: layout, lambda _: None, lambda _: ["outgoing"], lambda layout: layout.slots],
)
def test_a_function_that_returns_no_families_is_refused(wrong):
    with pytest.raises(InputError, match="must return families"):
        layout_of(mlp(*TWO), wrong)


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([Slot("9.weight", 0, "hidden1", Role.PRODUCER)], "'9.weight', which the network lacks"),
        ([Slot("0.weight", 1, "hidden1", Role.PRODUCER, tile=2)], "covers positions 0:6"),
        ([Slot("0.bias", 0, "hidden1", Role.BIAS)], "biases are in no group"),
        ([], "has no slots"),
    ],
)
def test_groups_that_do_not_fit_the_network_are_refused(slots, message):
    with pytest.raises(InputError, match=message):
        layout_of(mlp(*TWO), lambda _: [Family("wrong", tuple(slots))])


def test_two_families_of_one_name_are_refused():
    with pytest.raises(InputError, match="two families of the name 'made hidden1'"):
        layout_of(mlp(*TWO), lambda layout: by_pairs_of_roles(layout) * 2)


# --- from one grouping to another ------------------------------------------------------------


@pytest.mark.parametrize("first", GROUPINGS)
@pytest.mark.parametrize("second", GROUPINGS)
def test_the_last_grouping_counts(first, second):
    network = model(5, 4)
    assert grouped(layout_of(network, first), second) == layout_of(network, second)


def test_a_layout_can_be_without_groups():
    network = model(5, 4)
    assert layout_of(network, "untied").ungrouped() == language_layout(network)


def test_a_matrix_that_has_no_gates_is_multiplied_as_a_whole_whatever_its_groups():
    half = Slot("0.weight", 1, "inputs", Role.CONSUMER, part=Part(0, 2))
    network = mlp(4, 6, 2)
    layout = layout_of(network, lambda _: [Family("half", (half,))])
    assert measure(layout, full_masks(layout, network)).flops == 2 * (4 * 6 + 6 * 2)
