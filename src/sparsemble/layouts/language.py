"""The layout of an LSTM language model, with three ways to group its weights.

The words are one space: they index the rows of the embedding and of the decoder, and are never
removed. With PyTorch's orientation a layer computes `[x, h]·[W_ih W_hh]ᵀ`; its 4n rows are the
gates' dimensions, its columns the units it reads. The groupings (Section 4.2):

- *untied*: every gate dimension's weights, and every read unit's weights into each single gate;
- *tied*: every gate dimension's weights, and every read unit's weights into all four gates;
- *iss* (Wen et al. 2018): all weights of a hidden unit, those of its four gate dimensions and those
  that read it; embedding columns are groups of their own, unless the embedding is shared with the
  decoder: then they belong to the last layer's units.

In untied and tied also the rows and columns of embedding and decoder are groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts.language_model import LanguageModel
from sparsemble.structure import Family, Layout, Matrix, Part, Role, Slot, Space, SpaceKind

LanguageGrouping = Literal["untied", "tied", "iss"]

_GATES = {name: Part(k, 4) for k, name in enumerate(("input", "forget", "cell", "output"))}
_ALL_GATES = {"": Part()}
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

    def rows(self, leaf: str, role: Role, *, tile: int = 1, part: Part = _ALL_GATES[""]) -> Slot:
        """The gates' dimensions: four tiles of the layer's units, or one as a part."""
        return Slot(self.parameter(leaf), 0, self.units, role, tile=tile, part=part)

    def columns(self, leaf: str, part: Part = _ALL_GATES[""]) -> Slot:
        """The units a weight reads."""
        read = self.inputs if leaf == "weight_ih" else self.units
        return Slot(self.parameter(leaf), 1, read, Role.CONSUMER, part=part)

    def slots(self) -> list[Slot]:
        """Where the layer's units and those it reads stand in its parameters."""
        return [
            *(self.rows(leaf, Role.PRODUCER, tile=4) for leaf in _WEIGHTS),
            *(self.columns(leaf) for leaf in _WEIGHTS),
            *(self.rows(leaf, Role.BIAS, tile=4) for leaf in _BIASES),
        ]

    def silencers(self) -> tuple[Slot, ...]:
        """The cell's inputs and biases: where they are zero, a unit stays at zero."""
        cell = _GATES["cell"]
        return tuple(self.rows(leaf, Role.PRODUCER, part=cell) for leaf in (*_WEIGHTS, *_BIASES))

    def families(self, gates: Mapping[str, Part]) -> list[Family]:
        """A group for every gate dimension, and for every unit read, into each of `gates`."""
        dimensions = [
            Family(
                f"{self.units} {gate} gate",
                tuple(self.rows(leaf, Role.PRODUCER, part=part) for leaf in _WEIGHTS),
            )
            for gate, part in _GATES.items()
        ]
        reads = [
            Family(" ".join((self.units, *gate.split(), what)), (self.columns(leaf, part),))
            for leaf, what in (("weight_ih", "reads below"), ("weight_hh", "reads itself"))
            for gate, part in gates.items()
        ]
        return dimensions + reads

    def matrices(self, gates: Mapping[str, Part]) -> list[Matrix]:
        """What is multiplied: the weights over `[x, h]` into each of `gates`."""
        weights = tuple(self.parameter(leaf) for leaf in _WEIGHTS)
        return [Matrix(f"lstm{self.number} {g}".strip(), weights, p) for g, p in gates.items()]


def language_layout(network: nn.Module, grouping: LanguageGrouping = "iss") -> Layout:
    """Describe a language model.

    >>> model = LanguageModel(words=50, embedding=8, hidden=[12, 9])
    >>> [(space.name, space.size) for space in language_layout(model).spaces]
    [('embedding', 8), ('layer1', 12), ('layer2', 9), ('words', 50)]
    """
    if type(network) is not LanguageModel:  # a subclass may compute otherwise
        raise InputError(f"the language layout describes a LanguageModel, not {type(network)}")
    if grouping not in ("untied", "tied", "iss"):
        raise InputError(f"grouping {grouping!r} is not 'untied', 'tied' or 'iss'")
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
    slots = (*tables[:2], *(slot for layer in layers for slot in layer.slots()), *tables[2:])
    gates = _GATES if grouping == "untied" else _ALL_GATES
    layout = Layout(
        _spaces(network, layers, column=tables[1]),
        slots,
        _unit_families(slots, [embedded, *units])
        if grouping == "iss"
        else _matrix_families(tables, layers, gates),
        (
            *(matrix for layer in layers for matrix in layer.matrices(gates)),
            Matrix("softmax", (decoder,)),
        ),
        name=f"language/{grouping}",
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


def _unit_families(slots: Sequence[Slot], spaces: Sequence[str]) -> tuple[Family, ...]:
    """All weights of a unit; of an embedding column only the embedding."""
    families = []
    for name in dict.fromkeys(spaces):
        own = [slot for slot in slots if slot.space == name and slot.role is not Role.BIAS]
        if name == "embedding":
            own = [slot for slot in own if slot.role is Role.PRODUCER]
        # A shared embedding's column is owned both as what it emits and as what reads the unit.
        places = {(slot.parameter, slot.dim): slot for slot in own}
        families.append(Family(name, tuple(places.values())))
    return tuple(families)


def _matrix_families(
    tables: Sequence[Slot], layers: Sequence[_Layer], gates: Mapping[str, Part]
) -> tuple[Family, ...]:
    """Rows and columns of embedding, decoder and every layer's matrices."""
    weights = [slot for slot in tables if slot.role is not Role.BIAS]
    places = {(slot.parameter, slot.dim): slot for slot in weights}
    families = [
        Family(f"{parameter.partition('.')[0]} {'columns' if dim else 'rows'}", (slot,))
        for (parameter, dim), slot in places.items()
    ]
    for layer in layers:
        families += layer.families(gates)
    return tuple(families)
