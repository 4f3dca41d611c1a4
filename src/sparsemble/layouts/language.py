"""The layout of an LSTM language model.

The words are one space: they index the rows of the embedding and of the decoder, and are never
removed. With PyTorch's orientation a layer computes `[x, h]·[W_ih W_hh]ᵀ`; its 4n rows are the
gates' dimensions, its columns the units it reads. With a shared embedding a unit of the last layer
has two values, its hidden state and its embedding column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from sparsemble.errors import InputError
from sparsemble.nets.language_model import LanguageModel
from sparsemble.structure import Layout, Matrix, Part, Role, Slot, Space, SpaceKind

_GATES = ("input", "forget", "cell", "output")
_CELL = Part(_GATES.index("cell"), len(_GATES))
_WEIGHTS, _BIASES = ("weight_ih", "weight_hh"), ("bias_ih", "bias_hh")
_TABLE = "embedding.weight"


@dataclass(frozen=True)
class _Layer:
    """An LSTM layer: its number, and the names of the spaces it reads and makes."""

    number: int
    inputs: str
    units: str

    def parameter(self, leaf: str) -> str:
        return f"layers.{self.number - 1}.{leaf}_l0"

    def slots(self) -> list[Slot]:
        """Where the layer's units and those it reads stand in its parameters."""
        tile = len(_GATES)
        read = dict(zip(_WEIGHTS, (self.inputs, self.units), strict=True))
        return [
            *(Slot(self.parameter(w), 0, self.units, Role.PRODUCER, tile=tile) for w in _WEIGHTS),
            *(Slot(self.parameter(w), 1, read[w], Role.CONSUMER) for w in _WEIGHTS),
            *(Slot(self.parameter(b), 0, self.units, Role.BIAS, tile=tile) for b in _BIASES),
        ]

    def silencers(self) -> tuple[Slot, ...]:
        """The cell's inputs and biases: where they are zero, a unit stays at zero."""
        return tuple(
            Slot(self.parameter(leaf), 0, self.units, Role.PRODUCER, part=_CELL)
            for leaf in (*_WEIGHTS, *_BIASES)
        )

    def matrix(self) -> Matrix:
        """What is multiplied: the weights over `[x, h]`, for all gates at once or for each."""
        weights = tuple(self.parameter(leaf) for leaf in _WEIGHTS)
        return Matrix(f"lstm{self.number}", weights, parts=_GATES)


def language_layout(network: nn.Module) -> Layout:
    """Describe a language model.

    >>> model = LanguageModel(words=50, embedding=8, hidden=[12, 9])
    >>> [(space.name, space.size) for space in language_layout(model).spaces]
    [('embedding', 8), ('layer1', 12), ('layer2', 9), ('words', 50)]
    """
    if type(network) is not LanguageModel:  # a subclass may compute otherwise
        raise InputError(f"the language layout describes a LanguageModel, not {type(network)}")
    units = [f"layer{number}" for number in range(1, len(network.layers) + 1)]
    embedded = units[-1] if network.shared else "embedding"
    decoder = _TABLE if network.shared else "decoder.weight"
    layers = [
        _Layer(number, below, own)
        for number, (below, own) in enumerate(zip([embedded, *units], units, strict=False), 1)
    ]
    tables = (
        Slot(_TABLE, 0, "words", Role.CONSUMER),
        Slot(_TABLE, 1, embedded, Role.PRODUCER),
        Slot(decoder, 1, units[-1], Role.CONSUMER),
        Slot(decoder, 0, "words", Role.PRODUCER),
        Slot("decoder.bias", 0, "words", Role.BIAS),
    )
    layout = Layout(
        _spaces(network, layers, column=tables[1]),
        (*tables[:2], *(slot for layer in layers for slot in layer.slots()), *tables[2:]),
        (*(layer.matrix() for layer in layers), Matrix("softmax", (decoder,))),
        name="language",
    )
    layout.check(dict(network.named_parameters()))
    return layout


def _spaces(network: LanguageModel, layers: Sequence[_Layer], column: Slot) -> tuple[Space, ...]:
    """Embedding columns, units of every layer, words.

    A shared embedding has no space of its own: a unit of the last layer then has two values, its
    hidden state and its embedding `column`, and is silent only if both are zero.
    """
    spaces = []
    if not network.shared:
        spaces.append(Space("embedding", network.embedding.embedding_dim, silencers=(column,)))
    for layer, lstm in zip(layers, network.lstms, strict=True):
        also = (column,) if layer.units == column.space else ()
        spaces.append(Space(layer.units, lstm.hidden_size, silencers=(*layer.silencers(), *also)))
    return (*spaces, Space("words", network.embedding.num_embeddings, SpaceKind.OUTPUT))
