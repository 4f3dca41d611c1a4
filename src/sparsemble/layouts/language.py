"""LSTM language models: embedding, LSTM layers, decoder; three ways to group their weights.

Text runs time-major, `(steps, streams)`, and the state is carried from one call to the next. The
words are one space: they index the rows of the embedding and of the decoder, and are never removed.

With PyTorch's orientation a layer computes `[x, h]·[W_ih W_hh]ᵀ`; its 4n rows are the gates'
dimensions, its columns the units it reads. The groupings (Section 4.2):

- *untied*: every gate dimension's weights, and every read unit's weights into each single gate;
- *tied*: every gate dimension's weights, and every read unit's weights into all four gates;
- *iss* (Wen et al. 2018): all weights of a hidden unit, those of its four gate dimensions and those
  that read it; embedding columns are groups of their own, unless the embedding is shared with the
  decoder: then they belong to the last layer's units.

In untied and tied also the rows and columns of embedding and decoder are groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.structure import Family, Layout, Matrix, Part, Role, Slot, Space, SpaceKind

LanguageGrouping = Literal["untied", "tied", "iss"]
State = tuple[tuple[Tensor, Tensor], ...]
"""Hidden and cell state of every layer, each `(1, streams, units)`."""

_GATES = ("input", "forget", "cell", "output")
_CELL = Part(_GATES.index("cell"), len(_GATES))


class LanguageModel(nn.Module):
    """Predicts the next word at every position of a text.

    Dropout stands before every layer and before the decoder, never on the recurrent path
    (Zaremba et al. 2014). With `shared` the decoder's weights are the embedding's.

    >>> import torch
    >>> model = LanguageModel(words=50, embedding=8, hidden=[12, 8], shared=True)
    >>> logits, state = model(torch.zeros(35, 20, dtype=torch.long))
    >>> logits.shape
    torch.Size([35, 20, 50])
    """

    def __init__(
        self,
        words: int,
        embedding: int,
        hidden: Sequence[int],
        *,
        dropout: float = 0.0,
        shared: bool = False,
        spread: float = 0.1,
    ) -> None:
        super().__init__()
        if not hidden or not all(isinstance(n, int) and n > 0 for n in (words, embedding, *hidden)):
            raise InputError(
                f"sizes {words}, {embedding}, {list(hidden)} must be positive integers"
            )
        if not 0 <= dropout < 1:
            raise InputError(f"dropout = {dropout}: must be at least 0 and below 1")
        if not spread > 0:
            raise InputError(f"spread = {spread}: weights start within ±spread, above 0")
        if shared and embedding != hidden[-1]:
            raise InputError(
                f"a shared embedding of {embedding} needs a last layer of as many units, "
                f"not {hidden[-1]}"
            )
        self.embedding = nn.Embedding(words, embedding)
        widths = [embedding, *hidden]
        self.layers = nn.ModuleList(map(nn.LSTM, widths[:-1], widths[1:]))
        self.decoder = nn.Linear(hidden[-1], words)
        self.dropout = nn.Dropout(dropout)
        if shared:
            self.decoder.weight = self.embedding.weight
        self.spread = spread
        self.reset_parameters()

    @property
    def lstms(self) -> list[nn.LSTM]:
        """The layers, as what they are."""
        return list(self.layers)  # type: ignore[arg-type]

    @property
    def shared(self) -> bool:
        """Does the decoder use the embedding's weights?"""
        return self.decoder.weight is self.embedding.weight

    def reset_parameters(self) -> None:
        """Draw every weight uniformly from ±`spread`; biases start at zero."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.uniform_(parameter, -self.spread, self.spread)
            else:
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits `(steps, streams, words)`, and the state after the last step."""
        hidden, after = self.hidden(tokens, state)
        return self.decoder(hidden), after

    def hidden(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What the decoder reads, and the state after the last step."""
        values = self.dropout(self.embedding(tokens))
        after = []
        for number, layer in enumerate(self.layers):
            values, carried = layer(values, None if state is None else state[number])
            values = self.dropout(values)
            after.append(carried)
        return values, tuple(after)


@dataclass(frozen=True)
class _Layer:
    """The names one LSTM layer's description is made of."""

    number: int
    inputs: str
    units: str

    def parameter(self, leaf: str) -> str:
        return f"layers.{self.number - 1}.{leaf}_l0"

    def weight(self, leaf: str, dim: int, role: Role, **where: object) -> Slot:
        """A slot of `weight_ih` or `weight_hh`: its rows are gates, its columns what it reads."""
        read = self.inputs if leaf == "weight_ih" else self.units
        space = self.units if dim == 0 else read
        return Slot(self.parameter(leaf), dim, space, role, **where)  # type: ignore[arg-type]

    @property
    def slots(self) -> list[Slot]:
        """Where the layer's units stand in its parameters."""
        weights = ("weight_ih", "weight_hh")
        return [
            *(self.weight(leaf, 0, Role.PRODUCER, tile=4) for leaf in weights),
            *(self.weight(leaf, 1, Role.CONSUMER) for leaf in weights),
            *(
                Slot(self.parameter(leaf), 0, self.units, Role.BIAS, tile=4)
                for leaf in ("bias_ih", "bias_hh")
            ),
        ]

    @property
    def cell_inputs(self) -> tuple[Slot, ...]:
        """What must be zero for a unit to stay at zero."""
        leaves = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return tuple(
            Slot(self.parameter(leaf), 0, self.units, Role.PRODUCER, part=_CELL) for leaf in leaves
        )

    @property
    def gate_families(self) -> list[Family]:
        """A group for every dimension of every gate."""
        return [
            Family(
                f"{self.units} {gate} gate",
                tuple(
                    self.weight(leaf, 0, Role.PRODUCER, part=Part(number, len(_GATES)))
                    for leaf in ("weight_ih", "weight_hh")
                ),
            )
            for number, gate in enumerate(_GATES)
        ]

    def reading_families(self, parts: Sequence[Part]) -> list[Family]:
        """A group for every unit the layer reads, in every one of `parts`."""
        return [
            Family(
                f"{self.units} {what} {part.number}" if part.count > 1 else f"{self.units} {what}",
                (self.weight(leaf, 1, Role.CONSUMER, part=part),),
            )
            for leaf, what in (("weight_ih", "reads below"), ("weight_hh", "reads itself"))
            for part in parts
        ]

    def matrices(self, parts: Sequence[Part]) -> list[Matrix]:
        weights = (self.parameter("weight_ih"), self.parameter("weight_hh"))
        return [
            Matrix(
                f"lstm{self.number}" + (f" {_GATES[part.number]}" if part.count > 1 else ""),
                weights,
                part,
            )
            for part in parts
        ]


def language_layout(network: nn.Module, grouping: LanguageGrouping = "iss") -> Layout:
    """Describe a language model.

    >>> model = LanguageModel(words=50, embedding=8, hidden=[12, 9])
    >>> [(space.name, space.size) for space in language_layout(model).spaces]
    [('embedding', 8), ('layer1', 12), ('layer2', 9), ('words', 50)]
    """
    if not isinstance(network, LanguageModel):
        raise InputError(f"the language layout describes a LanguageModel, not {type(network)}")
    if grouping not in ("untied", "tied", "iss"):
        raise InputError(f"grouping {grouping!r} is not 'untied', 'tied' or 'iss'")
    sizes = [layer.hidden_size for layer in network.lstms]
    units = [f"layer{number}" for number in range(1, len(sizes) + 1)]
    embedded = units[-1] if network.shared else "embedding"
    layers = [
        _Layer(number, below, own)
        for number, (below, own) in enumerate(zip([embedded, *units], units, strict=False), 1)
    ]
    table = "embedding.weight"
    decoder = table if network.shared else "decoder.weight"
    slots = [
        Slot(table, 0, "words", Role.CONSUMER),
        Slot(table, 1, embedded, Role.PRODUCER),
        *(slot for layer in layers for slot in layer.slots),
        Slot(decoder, 1, units[-1], Role.CONSUMER),
        Slot(decoder, 0, "words", Role.PRODUCER),
        Slot("decoder.bias", 0, "words", Role.BIAS),
    ]
    column = Slot(table, 1, embedded, Role.PRODUCER)
    spaces = (
        []
        if network.shared
        else [Space("embedding", network.embedding.embedding_dim, silencers=(column,))]
    )
    for layer, size in zip(layers, sizes, strict=True):
        also = (column,) if layer.units == embedded else ()
        spaces.append(Space(layer.units, size, silencers=(*layer.cell_inputs, *also)))
    spaces.append(Space("words", network.embedding.num_embeddings, SpaceKind.OUTPUT))
    parts = [Part(k, len(_GATES)) for k in range(len(_GATES))] if grouping == "untied" else [Part()]
    layout = Layout(
        tuple(spaces),
        tuple(slots),
        tuple(
            _unit_families(slots, [space.name for space in spaces[:-1]])
            if grouping == "iss"
            else _matrix_families(layers, parts, embedded, decoder)
        ),
        (
            *(matrix for layer in layers for matrix in layer.matrices(parts)),
            Matrix("softmax", (decoder,)),
        ),
        name=f"language/{grouping}",
    )
    layout.check(dict(network.named_parameters()))
    return layout


def _unit_families(slots: Sequence[Slot], spaces: Sequence[str]) -> list[Family]:
    """All weights of a unit; of an embedding column only the embedding."""
    families = []
    for name in spaces:
        own = [slot for slot in slots if slot.space == name and slot.role is not Role.BIAS]
        if name == "embedding":
            own = [slot for slot in own if slot.role is Role.PRODUCER]
        # A shared embedding's column is owned both as what it emits and as what reads the unit.
        places = {(slot.parameter, slot.dim): slot for slot in own}
        families.append(Family(name, tuple(places.values())))
    return families


def _matrix_families(
    layers: Sequence[_Layer], parts: Sequence[Part], embedded: str, decoder: str
) -> list[Family]:
    """Rows and columns of every matrix."""
    table = "embedding.weight"
    tables = {
        "embedding rows": Slot(table, 0, "words", Role.CONSUMER),
        "embedding columns": Slot(table, 1, embedded, Role.PRODUCER),
    }
    if decoder != table:
        tables |= {
            "softmax rows": Slot(decoder, 0, "words", Role.PRODUCER),
            "softmax columns": Slot(decoder, 1, layers[-1].units, Role.CONSUMER),
        }
    families = [Family(name, (slot,)) for name, slot in tables.items()]
    for layer in layers:
        families += [*layer.gate_families, *layer.reading_families(parts)]
    return families
