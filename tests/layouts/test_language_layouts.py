"""Which weights of a language model are one group, and what such a model costs.

A weight is written `(parameter, row, column)` in PyTorch's orientation: a layer's 4n rows are its
gates' dimensions (input, forget, cell, output), its columns what it reads, `W_ih` the units below
and `W_hh` its own. The expected groups are written from the definitions of Section 4.2; the actual
ones are found by asking, for every single weight, whose norm it alone makes 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from scenarios import full_masks
from sparsemble.errors import InputError
from sparsemble.layouts import language_layout, layout_of
from sparsemble.nets import LanguageModel
from sparsemble.structure import GroupTerms, Layout, measure
from sparsemble.structure.groupings import grouped
from sparsemble.structure.groups import group_sizes

GROUPINGS = ("untied", "tied", "iss")
E, D = "embedding.weight", "decoder.weight"
I1, H1 = "layers.0.weight_ih_l0", "layers.0.weight_hh_l0"
I2, H2 = "layers.1.weight_ih_l0", "layers.1.weight_hh_l0"

Weight = tuple[str, int, int]
Group = frozenset[Weight]


def model(*, shared: bool = False, hidden: tuple[int, ...] = (3, 2), words: int = 5):
    return LanguageModel(words, 2, list(hidden), shared=shared).double()


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in network.named_parameters() if p.ndim == 2}


def groups_of(layout: Layout, network: nn.Module) -> Counter[Group]:
    """Every group as the set of its weights; a group that stands twice counts twice."""
    tensors = weights_of(network)
    for tensor in tensors.values():
        tensor.zero_()
    terms = GroupTerms(layout, tensors)
    found: dict[tuple[str, int], set[Weight]] = {}
    for name, tensor in tensors.items():
        for row, column in torch.cartesian_prod(*map(torch.arange, tensor.shape)).tolist():
            tensor[row, column] = 1.0
            for family, norms in zip(layout.families, terms.norms(), strict=True):
                assert set(norms.tolist()) <= {0.0, 1.0}
                for unit in norms.nonzero().flatten().tolist():
                    found.setdefault((family.name, unit), set()).add((name, row, column))
            tensor[row, column] = 0.0
    sizes = group_sizes(layout, tensors)
    assert all(len(group) == sizes[family] for (family, _), group in found.items())
    return Counter(map(frozenset, found.values()))


def block(name: str, rows: Iterable[int], columns: Iterable[int]) -> Group:
    columns = list(columns)
    return frozenset((name, row, column) for row in rows for column in columns)


def table_groups(name: str) -> list[Group]:
    """Rows and columns of a 5 by 2 table."""
    rows = [block(name, [word], range(2)) for word in range(5)]
    return rows + [block(name, range(5), [column]) for column in range(2)]


def matrix_groups(inputs: str, own: str, reads: int, n: int, gates: list[range]) -> list[Group]:
    """Rows and columns of the matrices over `[x, h]`, which hold the rows in `gates`."""
    rows = [
        block(inputs, [row], range(reads)) | block(own, [row], range(n)) for row in range(4 * n)
    ]
    below = [block(inputs, gate, [column]) for gate in gates for column in range(reads)]
    return rows + below + [block(own, gate, [column]) for gate in gates for column in range(n)]


class TestUntied:
    """Rows and columns of each gate's own matrix over `[x, h]`, of embedding and of softmax."""

    layers = (
        *matrix_groups(I1, H1, 2, 3, [range(0, 3), range(3, 6), range(6, 9), range(9, 12)]),
        *matrix_groups(I2, H2, 3, 2, [range(0, 2), range(2, 4), range(4, 6), range(6, 8)]),
    )

    def test_with_an_embedding_of_its_own(self):
        network = model()
        expected = [*table_groups(E), *table_groups(D), *self.layers]
        assert groups_of(layout_of(network, "untied"), network) == Counter(expected)

    def test_a_shared_embedding_is_the_softmax_and_is_grouped_once(self):
        network = model(shared=True)
        expected = [*table_groups(E), *self.layers]
        assert groups_of(layout_of(network, "untied"), network) == Counter(expected)


class TestTied:
    """Rows and columns of the one matrix of all gates, of embedding and of softmax."""

    layers = (
        *matrix_groups(I1, H1, 2, 3, [range(12)]),
        *matrix_groups(I2, H2, 3, 2, [range(8)]),
    )

    def test_with_an_embedding_of_its_own(self):
        network = model()
        expected = [*table_groups(E), *table_groups(D), *self.layers]
        assert groups_of(layout_of(network, "tied"), network) == Counter(expected)

    def test_a_shared_embedding_is_the_softmax_and_is_grouped_once(self):
        network = model(shared=True)
        expected = [*table_groups(E), *self.layers]
        assert groups_of(layout_of(network, "tied"), network) == Counter(expected)

    def test_a_row_is_one_dimension_of_one_gate(self):
        network = model()
        forget_gate_of_unit_1 = {(I1, 4, 0), (I1, 4, 1), (H1, 4, 0), (H1, 4, 1), (H1, 4, 2)}
        groups = groups_of(layout_of(network, "tied"), network)
        assert groups[frozenset(forget_gate_of_unit_1)] == 1


class TestISS:
    """All weights of a hidden unit: its four gate rows, its recurrent column, what reads it."""

    first = tuple(
        block(I1, [unit, 3 + unit, 6 + unit, 9 + unit], range(2))
        | block(H1, [unit, 3 + unit, 6 + unit, 9 + unit], range(3))
        | block(H1, range(12), [unit])
        | block(I2, range(8), [unit])
        for unit in range(3)
    )
    second = tuple(
        block(I2, [unit, 2 + unit, 4 + unit, 6 + unit], range(3))
        | block(H2, [unit, 2 + unit, 4 + unit, 6 + unit], range(2))
        | block(H2, range(8), [unit])
        for unit in range(2)
    )

    def test_an_embedding_of_its_own_is_grouped_by_columns_alone(self):
        network = model()
        columns = [block(E, range(5), [column]) for column in range(2)]
        last = [self.second[unit] | block(D, range(5), [unit]) for unit in range(2)]
        expected = Counter([*columns, *self.first, *last])
        assert groups_of(layout_of(network, "iss"), network) == expected

    def test_a_shared_embeddings_columns_belong_to_the_last_layers_units(self):
        network = model(shared=True)
        last = [
            self.second[unit] | block(E, range(5), [unit]) | block(I1, range(12), [unit])
            for unit in range(2)
        ]
        expected = Counter([*self.first, *last])
        assert groups_of(layout_of(network, "iss"), network) == expected

    def test_one_unit_written_out(self):
        network = model()
        flat = {
            I2: {3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23},
            H2: {1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15},
            D: {1, 3, 5, 7, 9},
        }
        shapes = {name: weight.shape for name, weight in weights_of(network).items()}
        unit_1_of_layer_2 = frozenset(
            (name, *divmod(index, shapes[name][1]))
            for name, indices in flat.items()
            for index in indices
        )
        assert groups_of(layout_of(network, "iss"), network)[unit_1_of_layer_2] == 1


class TestAWeightThatAUnitOwnsTwice:
    """One shared layer of two units: its input and its recurrent weights are each a unit's own.

    Unit u owns rows u, 2+u, 4+u, 6+u and column u of both 8 by 2 matrices, which is 12 of their
    16 weights, and a column of three words.
    """

    def setup_method(self) -> None:
        self.network = model(shared=True, hidden=(2,), words=3)
        self.layout = layout_of(self.network, "iss")
        self.weights = weights_of(self.network)
        for weight in self.weights.values():
            weight.fill_(1.0)

    def test_counts_once_in_the_dimension(self):
        assert group_sizes(self.layout, self.weights) == {"layer1": 12 + 12 + 3}

    def test_counts_once_in_the_norm(self):
        (norms,) = GroupTerms(self.layout, self.weights).norms()
        assert norms.square().tolist() == pytest.approx([27.0, 27.0])

    def test_counts_once_in_the_gradient(self):
        # √27·1/√27 = 1 from every unit that owns the weight.
        gradients = {name: torch.zeros_like(weight) for name, weight in self.weights.items()}
        GroupTerms(self.layout, self.weights).add_gradient(gradients, scale=1.0)
        own_or_both = torch.tensor([[1.0, 2.0], [2.0, 1.0]] * 4, dtype=torch.float64)
        torch.testing.assert_close(gradients[I1], own_or_both)
        torch.testing.assert_close(gradients[H1], own_or_both)
        torch.testing.assert_close(gradients[E], torch.ones(3, 2, dtype=torch.float64))


@pytest.mark.slow
@settings(max_examples=90)
@given(
    st.sampled_from(GROUPINGS),
    st.booleans(),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(0, 10_000),
)
def test_the_priors_gradient_is_autograds(grouping, shared, hidden, embedding, words, seed):
    torch.manual_seed(seed)
    embedding = hidden[-1] if shared else embedding
    network = LanguageModel(words, embedding, hidden, shared=shared, init_range=1.0).double()
    parameters = dict(network.named_parameters())
    terms = GroupTerms(layout_of(network, grouping), parameters)
    (0.3 * terms.penalty()).backward()
    gradients = {name: torch.zeros_like(p) for name, p in parameters.items()}
    with torch.no_grad():
        terms.add_gradient(gradients, scale=0.3)
    for name, parameter in parameters.items():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradients[name], expected, rtol=1e-10, atol=1e-12)
        assert (parameter.grad is None) == (parameter.ndim == 1)  # biases are in no group


# --- what it costs ---------------------------------------------------------------------------


def cost(words: int, embedding: int, *hidden: int, grouping="iss", shared=False):
    """Of a dense model, without memory for its weights."""
    with torch.device("meta"):
        network = LanguageModel(words, embedding, hidden, shared=shared)
    layout = layout_of(network, grouping)
    return measure(layout, full_masks(layout, network))


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_the_medium_model_has_19_8m_parameters_and_26_5m_flops(grouping):
    medium = cost(10_000, 650, 650, 650, grouping=grouping)
    assert medium.parameters == 2 * 10_000 * 650 + 2 * (4 * 650) * 1300 == 19_760_000
    assert medium.flops == 26_520_000


def test_the_large_model_has_66m_parameters_and_102m_flops():
    large = cost(10_000, 1500, 1500, 1500)
    assert large.parameters == 66_000_000
    assert large.matrices == {"lstm1": 36_000_000, "lstm2": 36_000_000, "softmax": 30_000_000}
    assert large.flops == 102_000_000
    assert large.structure == (1500, 1500, 1500, 10_000)


def test_a_shared_embedding_is_counted_once():
    assert cost(10_000, 1500, 1500, 1500, shared=True).parameters == 66_000_000 - 15_000_000


def test_365_311_420_units_cost_12_5m_flops():
    assert cost(10_000, 365, 311, 420).flops == 12_538_048


def test_456_352_456_units_with_a_shared_embedding_cost_14_3m_flops():
    assert cost(10_000, 456, 352, 456, shared=True).flops == 14_342_912


def test_masks_that_leave_365_311_420_units_of_the_large_model_cost_as_much():
    with torch.device("meta"):
        network = LanguageModel(10_000, 1500, [1500, 1500])
    layout = layout_of(network)
    masks = full_masks(layout, network)
    kept = {E: 365, I1: 365, H1: 311, I2: 311, H2: 420, D: 420}
    for name, columns in kept.items():
        masks[name][:, columns:] = False
    for name, units in {I1: 311, H1: 311, I2: 420, H2: 420}.items():
        masks[name].view(4, 1500, 1500)[:, units:] = False
    left = measure(layout, masks)
    assert left.shapes == {"lstm1": (1244, 676), "lstm2": (1680, 731), "softmax": (10_000, 420)}
    assert left.flops == 12_538_048


def test_an_empty_column_of_one_gate_saves_something_only_where_gates_are_multiplied_apart():
    network = model(hidden=(3,))
    flops = {}
    for grouping in GROUPINGS:
        layout = layout_of(network, grouping)
        masks = full_masks(layout, network)
        masks[I1][0:3, 0] = False  # the input gate does not read embedding 0
        flops[grouping] = measure(layout, masks).flops
    softmax = 2 * 5 * 3
    assert flops["untied"] == 2 * (3 * 4 + 3 * (3 * 5)) + softmax
    assert flops["tied"] == flops["iss"] == 2 * 12 * 5 + softmax


# --- one description for every size ----------------------------------------------------------


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("shared", [False, True])
def test_a_layout_resized_is_the_layout_of_the_model_of_that_size(grouping, shared):
    sizes = {"layer1": 2, "layer2": 4, "words": 7} | ({} if shared else {"embedding": 4})
    small = LanguageModel(7, 4, [2, 4], shared=shared)
    large = LanguageModel(9, 6, [5, 6], shared=shared)
    assert layout_of(large, grouping).with_sizes(sizes) == layout_of(small, grouping)


def test_without_a_word_about_it_a_language_model_is_grouped_by_units():
    network = model()
    assert layout_of(network) == layout_of(network, "iss")
    assert layout_of(network, "tied") == grouped(language_layout(network), "tied")


@pytest.mark.parametrize("grouping", ["ISS", "units", ""])
def test_an_unknown_grouping_is_refused(grouping):
    with pytest.raises(
        InputError, match=f"{grouping!r} is not one of outgoing, incoming, untied, tied, iss"
    ):
        layout_of(model(), grouping)


def test_only_a_language_model_has_a_language_layout():
    with pytest.raises(InputError, match="describes a LanguageModel"):
        language_layout(nn.LSTM(3, 3))

    class Louder(LanguageModel):
        def forward(self, tokens, state=None):
            logits, after = super().forward(tokens, state)
            return 5 * logits, after

    with pytest.raises(InputError, match=r"describes a LanguageModel, not .*Louder"):
        language_layout(Louder(5, 3, [4]))


@pytest.mark.parametrize(
    ("sizes", "how", "message"),
    [
        ((5, 3, [4, 2]), {"shared": True}, "shared embedding of 3 needs a last layer of as many"),
        ((5, 3, []), {}, "must be positive integers"),
        ((0, 3, [4]), {}, "must be positive integers"),
        ((5, 3, [4, 0]), {}, "must be positive integers"),
        ((5, 2.5, [4]), {}, "must be positive integers"),
        ((5, 3, [4]), {"dropout": 1.0}, "dropout = 1.0"),
        ((5, 3, [4]), {"dropout": -0.1}, "dropout = -0.1"),
        ((5, 3, [4]), {"init_range": -0.1}, "init_range = -0.1"),
    ],
)
def test_a_model_that_cannot_be_is_refused(sizes, how, message):
    with pytest.raises(InputError, match=message):
        LanguageModel(*sizes, **how)
