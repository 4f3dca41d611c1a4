"""A compact language model gives the masked one's logits, and so does its form by index lists.

Equal means in real arithmetic (float64, within 1e-10), over segments between which the state is
carried. The rows of an LSTM's weights are its gates, stacked: input, forget, cell, output.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from scenarios import full_masks
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact, masked, with_sparse_layers
from sparsemble.members.sparse_layers import SparseLSTM
from sparsemble.nets import LanguageModel
from sparsemble.stages import prune

GROUPINGS = ("untied", "tied", "iss")
E, D = "embedding.weight", "decoder.weight"
I1, H1 = "layers.0.weight_ih_l0", "layers.0.weight_hh_l0"
I2, H2 = "layers.1.weight_ih_l0", "layers.1.weight_hh_l0"


def language_model(words, embedding, hidden, *, shared=False, biases="random") -> LanguageModel:
    """All weights are non-zero; `biases` are all zero, all random, or half of each."""
    network = LanguageModel(words, embedding, list(hidden), shared=shared, init_range=1.5).double()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1 and biases != "zero":
                parameter.normal_()
                if biases == "half":
                    parameter.mul_(torch.rand(parameter.shape) < 0.5)
    return network.eval()


@torch.no_grad()
def logits(network: nn.Module, segments: list[Tensor]) -> Tensor:
    """Of a text read segment by segment, the state carried along."""
    state, read = None, []
    for segment in segments:
        out, state = network(segment, state)
        read.append(out)
    return torch.cat(read)


def assert_same_outputs(member: Member, network: LanguageModel, masks: dict[str, Tensor]) -> None:
    text = torch.randint(network.embedding.num_embeddings, (9, 3))
    segments = [text[:4], text[4:5], text[5:]]
    expected = logits(masked(network, masks), segments)
    for form in (member.network.eval(), with_sparse_layers(member, least_area=0)):
        torch.testing.assert_close(logits(form, segments), expected, rtol=1e-10, atol=1e-10)


def kept(member: Member) -> dict[str, list[int]]:
    """The units that stayed, by their original numbers; the words always do."""
    return {k: units.tolist() for k, units in member.origin.units.items() if k != "words"}


# --- any language model ----------------------------------------------------------------------


@st.composite
def language_models(draw: st.DrawFn) -> LanguageModel:
    torch.manual_seed(draw(st.integers(0, 10_000)))
    depth = draw(st.sampled_from([2, 1, 3]))
    hidden = draw(st.lists(st.sampled_from([4, 6, 5, 3, 7, 2, 1]), min_size=depth, max_size=depth))
    shared = draw(st.booleans())
    return language_model(
        draw(st.integers(2, 7)),
        hidden[-1] if shared else draw(st.integers(1, 6)),
        hidden,
        shared=shared,
        biases=draw(st.sampled_from(["zero", "half", "random"])),
    )


def without_units(masks: dict[str, Tensor], network: LanguageModel, share: float) -> None:
    """Remove some hidden units' four gate rows and their columns, and some gates' rows alone."""
    for number, layer in enumerate(network.lstms):
        leaf = f"layers.{number}.weight"
        n = layer.hidden_size
        stays = torch.rand(n) < share
        single = torch.rand(4, n) < share
        for name in (f"{leaf}_ih_l0", f"{leaf}_hh_l0"):
            masks[name].view(4, n, -1)[...] &= (stays & single)[:, :, None]
        masks[f"{leaf}_hh_l0"] &= torch.rand(n) < share
        above = f"layers.{number + 1}.weight_ih_l0"
        readers = masks.get(above, masks[E] if network.shared else masks.get(D))
        readers &= stays | (torch.rand(n) < 0.3)


@st.composite
def masks_for(draw: st.DrawFn, network: LanguageModel) -> dict[str, Tensor]:
    """Of any density, from which rows, columns, units and whole matrices may be missing."""
    masks = full_masks(layout_of(network), network)
    for mask in masks.values():
        rows = torch.rand(len(mask), 1) < draw(st.sampled_from([1.0, 1.0, 0.8, 0.6]))
        columns = torch.rand(1, mask.shape[1]) < draw(st.sampled_from([1.0, 1.0, 0.8, 0.6]))
        density = draw(st.sampled_from([1.0, 0.8, 0.6, 0.4, 0.2]))
        mask &= (torch.rand(mask.shape) < density) & rows & columns
    without_units(masks, network, draw(st.sampled_from([1.0, 0.8, 0.6])))
    gone = draw(st.sampled_from([None] * 12 + list(masks)))
    if gone is not None:
        masks[gone].fill_(False)
    return masks


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), language_models(), st.sampled_from(GROUPINGS))
def test_any_compacted_language_model_gives_the_masked_ones_logits(data, network, grouping):
    masks = data.draw(masks_for(network))
    member = compact(network, layout_of(network, grouping), masks)
    assert_same_outputs(member, network, masks)

    parameters = dict(member.network.named_parameters())
    assert member.layout == layout_of(member.network, grouping)
    for name, mask in member.masks.items():
        assert mask.shape == parameters[name].shape
        assert not parameters[name][~mask].any()
    assert member.cost.parameters <= sum(int(mask.sum()) for mask in masks.values())
    assert member.dense_cost.parameters == sum(mask.numel() for mask in masks.values())


@pytest.mark.slow
@settings(max_examples=40)
@given(st.data(), language_models())
def test_compacting_a_compact_language_model_again_changes_nothing(data, network):
    once = compact(network, layout_of(network), data.draw(masks_for(network)))
    twice = compact(once.network, once.layout, once.masks)
    assert twice.cost == once.cost
    assert_same_outputs(twice, once.network, once.masks)


# --- which units go --------------------------------------------------------------------------


class Scene:
    """A model, and masks from which weights are taken away."""

    def __init__(self, *hidden: int, embedding=2, shared=False, biases="random") -> None:
        embedding = hidden[-1] if shared else embedding
        self.network = language_model(4, embedding, hidden, shared=shared, biases=biases)
        self.layout = layout_of(self.network)
        self.masks = full_masks(self.layout, self.network)

    def without(self, name: str, rows, columns) -> None:
        """No weights from units `columns` to `rows`; `slice(None)` means all."""
        self.masks[name][rows, columns] = False

    def alone_reads(self, name: str, units: int, column: int, readers: list[int]) -> None:
        """Of the units of a layer, only `readers` read `column`."""
        for unit in set(range(units)) - set(readers):
            self.without(name, slice(unit, None, units), column)

    def kept(self) -> dict[str, list[int]]:
        member = compact(self.network, self.layout, self.masks)
        assert_same_outputs(member, self.network, self.masks)
        return kept(member)


ALL = slice(None)


def test_with_all_weights_there_all_units_stay():
    assert Scene(3, 2).kept() == {"embedding": [0, 1], "layer1": [0, 1, 2], "layer2": [0, 1]}


def test_a_unit_that_only_reads_itself_goes():
    scene = Scene(3)
    scene.without(D, ALL, 1)
    scene.alone_reads(H1, 3, 1, readers=[1])
    assert scene.kept()["layer1"] == [0, 2]


def test_a_dead_cycle_takes_along_what_only_it_reads_in_the_layer_below():
    scene = Scene(3, 3)
    for unit in (1, 2):  # they read each other and nobody else does
        scene.without(D, ALL, unit)
        scene.alone_reads(H2, 3, unit, readers=[1, 2])
    scene.alone_reads(I2, 3, 2, readers=[1, 2])
    scene.alone_reads(H1, 3, 2, readers=[2])
    assert scene.kept() == {"embedding": [0, 1], "layer1": [0, 1], "layer2": [0]}


def test_a_unit_without_rows_still_accumulates_its_bias_and_stays():
    scene = Scene(2)
    for name in (I1, H1):
        scene.without(name, slice(0, None, 2), ALL)
    assert scene.kept()["layer1"] == [0, 1]


class TestSilentUnits:
    """A cell that never receives anything stays at zero, whatever its gates do."""

    def silence(self, scene: Scene, unit: int, n: int) -> None:
        for name in (I1, H1):
            scene.without(name, 2 * n + unit, ALL)

    def zero_cell_biases(self, scene: Scene, n: int, *units: int) -> None:
        layer = scene.network.lstms[0]
        with torch.no_grad():
            for bias in (layer.bias_ih_l0, layer.bias_hh_l0):
                bias[[2 * n + unit for unit in units]] = 0.0

    def test_a_unit_without_cell_input_and_cell_bias_goes(self):
        scene = Scene(3)
        self.silence(scene, 1, 3)
        self.zero_cell_biases(scene, 3, 1)
        assert scene.kept()["layer1"] == [0, 2]

    @pytest.mark.parametrize("bias", ["bias_ih_l0", "bias_hh_l0"])
    def test_with_a_cell_bias_it_stays(self, bias):
        scene = Scene(3)
        self.silence(scene, 1, 3)
        self.zero_cell_biases(scene, 3, 1)
        with torch.no_grad():
            getattr(scene.network.lstms[0], bias)[2 * 3 + 1] = 0.1
        assert scene.kept()["layer1"] == [0, 1, 2]

    def test_with_other_rows_missing_than_the_cells_it_stays(self):
        scene = Scene(3, biases="zero")
        for gate in (0, 1, 3):
            for name in (I1, H1):
                scene.without(name, gate * 3 + 1, ALL)
        assert scene.kept()["layer1"] == [0, 1, 2]

    def test_two_units_whose_cells_only_feed_each_other_go(self):
        scene = Scene(3)
        self.zero_cell_biases(scene, 3, 0, 1)
        scene.without(I1, [6, 7], ALL)
        scene.without(H1, [6, 7], 2)
        assert scene.kept()["layer1"] == [2]

    def test_a_unit_that_is_only_fed_by_silent_units_goes(self):
        scene = Scene(2, 2, biases="zero")
        self.silence(scene, 0, 2)
        scene.without(I2, 2 * 2 + 1, 1)
        scene.without(H2, 2 * 2 + 1, 0)
        assert scene.kept() == {"embedding": [0, 1], "layer1": [1], "layer2": [0]}

    def test_an_embedding_column_of_zeros_goes(self):
        scene = Scene(2, embedding=3)
        scene.without(E, ALL, 1)
        assert scene.kept()["embedding"] == [0, 2]

    def test_with_every_unit_silent_the_logits_are_the_decoders_biases(self):
        scene = Scene(3, 2, biases="zero")
        scene.without(E, ALL, ALL)
        assert scene.kept() == {"embedding": [0], "layer1": [0], "layer2": [0]}


class TestSharedEmbedding:
    """A unit of the last layer has two values: its hidden state and its embedding column."""

    def scene(self) -> Scene:
        """Unit 2 of the last layer is read by the decoder and by the first layer alone."""
        scene = Scene(2, 3, shared=True, biases="zero")
        scene.alone_reads(H2, 3, 2, readers=[2])
        return scene

    def test_a_unit_of_which_only_the_embedding_says_something_stays(self):
        scene = self.scene()
        for name in (I2, H2):
            scene.without(name, 2 * 3 + 2, ALL)  # its hidden state is zero
        assert scene.kept() == {"layer1": [0, 1], "layer2": [0, 1, 2]}

    def test_a_unit_of_which_only_the_decoder_reads_the_hidden_state_stays(self):
        scene = self.scene()
        scene.without(I1, ALL, 2)
        assert scene.kept()["layer2"] == [0, 1, 2]

    def test_a_unit_of_which_only_another_unit_reads_the_hidden_state_stays(self):
        scene = self.scene()
        scene.without(I1, ALL, 2)
        scene.without(E, ALL, 2)
        scene.masks[H2][1, 2] = True
        assert scene.kept()["layer2"] == [0, 1, 2]

    def test_a_unit_of_which_neither_is_read_goes(self):
        scene = self.scene()
        scene.without(I1, ALL, 2)
        scene.without(E, ALL, 2)
        assert scene.kept() == {"layer1": [0, 1], "layer2": [0, 1]}


# --- what is left is an ordinary model -------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_left_is_a_smaller_language_model(shared):
    scene = Scene(4, 3, embedding=5, shared=shared)
    scene.without(I2, ALL, 1)
    scene.alone_reads(H1, 4, 1, readers=[1])
    if not shared:
        scene.without(I1, ALL, [0, 3])
    network = compact(scene.network, scene.layout, scene.masks).network
    assert type(network) is LanguageModel
    assert [type(layer) for layer in network.layers] == [nn.LSTM, nn.LSTM]
    assert [(layer.input_size, layer.hidden_size) for layer in network.lstms] == [(3, 3), (3, 3)]
    assert (network.embedding.num_embeddings, network.embedding.embedding_dim) == (4, 3)
    assert (network.decoder.in_features, network.decoder.out_features) == (3, 4)
    assert network.shared is shared
    one_storage = network.decoder.weight.data_ptr() == network.embedding.weight.data_ptr()
    assert one_storage is shared
    assert (scene.network.lstms[0].hidden_size, scene.network.lstms[1].input_size) == (4, 4)


# --- index lists -----------------------------------------------------------------------------


def test_a_tied_layer_has_one_list_of_rows_and_one_of_columns():
    scene = Scene(2, 3)
    scene.without(I2, ALL, 0)  # unit 0 below is still read by its own layer
    scene.without(H2, ALL, 1)  # unit 1 is still read by the decoder
    for name in (I2, H2):
        scene.without(name, [1, 4, 9, 10], ALL)
    member = compact(scene.network, layout_of(scene.network, "tied"), scene.masks)
    layer = with_sparse_layers(member, least_area=0).layers[1]
    assert isinstance(layer, SparseLSTM)
    (matrix,) = layer.matrices
    rows = [0, 2, 3, 5, 6, 7, 8, 11]
    lists = (matrix.rows.tolist(), matrix.reads.tolist(), matrix.recurrent_reads.tolist())
    assert lists == (rows, [1], [0, 2])
    assert member.cost.shapes["lstm2"] == (8, 1 + 2)
    full = dict(scene.network.named_parameters())
    assert torch.equal(matrix.weight, full[I2][rows][:, [1]].T)
    assert torch.equal(matrix.recurrent_weight, full[H2][rows][:, [0, 2]].T)
    assert_same_outputs(member, scene.network, scene.masks)


def test_an_untied_layer_has_two_lists_for_every_gate():
    scene = Scene(2)
    wanted = {  # rows, columns of x, columns of h
        "input": ([0], [1], [0]),
        "forget": ([], [], []),
        "cell": ([4, 5], [0], [1]),
        "output": ([7], [0, 1], []),
    }
    for name, place in ((I1, 1), (H1, 2)):
        scene.masks[name].fill_(False)
        for lists in wanted.values():
            for row, column in itertools.product(lists[0], lists[place]):
                scene.masks[name][row, column] = True
    member = compact(scene.network, layout_of(scene.network, "untied"), scene.masks)
    layer = with_sparse_layers(member, least_area=0).layers[0]
    found = [
        (m.rows.tolist(), m.reads.tolist(), m.recurrent_reads.tolist()) for m in layer.matrices
    ]
    assert found == list(wanted.values())
    shapes = {"input": (1, 2), "forget": (0, 0), "cell": (2, 2), "output": (1, 2)}
    for (gate, shape), matrix in zip(shapes.items(), layer.matrices, strict=True):
        assert member.cost.shapes[f"lstm1 {gate}"] == shape
        assert matrix.weight.numel() + matrix.recurrent_weight.numel() == shape[0] * shape[1]
    assert_same_outputs(member, scene.network, scene.masks)


@pytest.mark.parametrize("shared", [False, True])
def test_a_word_without_decoder_weights_is_predicted_by_its_bias(shared):
    scene = Scene(2, shared=shared)
    scene.without(E if shared else D, 1, ALL)
    member = compact(scene.network, scene.layout, scene.masks)
    decoder = with_sparse_layers(member, least_area=0).decoder
    assert decoder.matrices[0].rows.tolist() == [0, 2, 3]
    out = logits(with_sparse_layers(member, least_area=0), [torch.tensor([[0, 1, 2, 3]]).T])
    assert bool((out[..., 1] == scene.network.decoder.bias[1]).all())
    assert_same_outputs(member, scene.network, scene.masks)


def test_small_layers_are_not_sparse_unless_asked():
    scene = Scene(3, 2)
    scene.without("layers.1.weight_hh_l0", slice(None), slice(None))
    member = compact(scene.network, scene.layout, scene.masks)
    assert with_sparse_layers(member) is member.network
    assert with_sparse_layers(member, least_area=0) is not member.network


def test_where_lists_save_nothing_the_network_itself_is_used():
    scene = Scene(3, 2)
    member = compact(scene.network, scene.layout, scene.masks)
    assert with_sparse_layers(member, least_area=0) is member.network


# --- pruning ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_one_threshold_over_all_matrices_says_which_weights_go(shared):
    network = language_model(6, 4, [5, 4], shared=shared)
    weights = {name: p.detach() for name, p in network.named_parameters() if p.ndim == 2}
    masks = prune(dict(network.named_parameters()), layout_of(network), sparsity=0.7)
    assert set(masks) == set(weights)  # no bias among them
    total = 6 * 4 * (1 if shared else 2) + 20 * (4 + 5) + 16 * (5 + 4)
    assert sum(int(mask.sum()) for mask in masks.values()) == round(0.3 * total)
    smallest = min(float(weights[name][mask].abs().min()) for name, mask in masks.items())
    largest = max(float(weights[name][~mask].abs().max()) for name, mask in masks.items())
    assert smallest > largest


def test_biases_of_units_that_stay_are_untouched():
    network = language_model(4, 2, [3, 2])
    member = compact(
        network,
        layout_of(network),
        prune(dict(network.named_parameters()), layout_of(network), sparsity=0.3),
    )
    stayed = torch.tensor(kept(member)["layer1"])
    gates = torch.cat([gate * 3 + stayed for gate in range(4)])
    for leaf in ("bias_ih_l0", "bias_hh_l0"):
        expected = network.lstms[0].get_parameter(leaf)[gates]
        assert torch.equal(member.network.lstms[0].get_parameter(leaf), expected)
    assert torch.equal(member.network.decoder.bias, network.decoder.bias)
