"""An LSTM language model: embedding, LSTM layers, decoder.

Text runs time-major, `(steps, streams)`, and the state is carried from one call to the next. What
keeps it from learning a text by heart are settings that act in training only: dropout, dropout of
recurrent weights and penalties on activations, as Merity et al. (2018) bring them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets.activation_penalty import with_change_penalty, with_size_penalty
from sparsemble.nets.dropout import Dropout, drop
from sparsemble.nets.recurrence import LayerState, run_layer

State = tuple[LayerState, ...]
"""Of every layer."""


class LanguageModel(nn.Module):
    """Predicts the next word at every position of a text.

    Dropout stands before every layer and before the decoder, never on the recurrent path
    (Zaremba et al. 2014).

    Args:
        words: Size of the vocabulary.
        embedding: Width of the embedding.
        hidden: Units of the LSTM layers.
        dropout: The share that is dropped before every layer and before the decoder.
        input_dropout: Another share before the first layer.
        output_dropout: Another share before the decoder.
        variational: Drop the same at every step of a call.
        weight_dropout: The share of recurrent weights that is dropped, for all steps of a call.
        activation_penalty: What the squares of the decoder's inputs cost, per token.
        change_penalty: What their squared changes from step to step cost, per token.
        shared: Are the decoder's weights the embedding's?
        init_range: Weights start uniformly within ± this.

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
        input_dropout: float | None = None,
        output_dropout: float | None = None,
        variational: bool = False,
        weight_dropout: float = 0.0,
        activation_penalty: float = 0.0,
        change_penalty: float = 0.0,
        shared: bool = False,
        init_range: float = 0.1,
    ) -> None:
        super().__init__()
        if not hidden or not all(isinstance(n, int) and n > 0 for n in (words, embedding, *hidden)):
            raise InputError(
                f"sizes {words}, {embedding}, {list(hidden)} must be positive integers"
            )
        shares = {
            "dropout": dropout,
            "input_dropout": input_dropout,
            "output_dropout": output_dropout,
            "weight_dropout": weight_dropout,
        }
        for name, share in shares.items():
            if share is not None and not 0 <= share < 1:
                raise InputError(f"{name} = {share}: must be at least 0 and below 1")
        penalties = {"activation_penalty": activation_penalty, "change_penalty": change_penalty}
        for name, penalty in penalties.items():
            if not 0 <= penalty < math.inf:
                raise InputError(f"{name} = {penalty}: must be a finite number, at least 0")
        if not init_range > 0:
            raise InputError(f"init_range = {init_range}: weights start within ± it, above 0")
        if shared and embedding != hidden[-1]:
            raise InputError(
                f"a shared embedding of {embedding} needs a last layer of as many units, "
                f"not {hidden[-1]}"
            )
        self.embedding = nn.Embedding(words, embedding)
        widths = [embedding, *hidden]
        self.layers = nn.ModuleList(map(nn.LSTM, widths[:-1], widths[1:]))
        self.decoder = nn.Linear(hidden[-1], words)
        self.dropout = Dropout(dropout, variational=variational)
        self.input_dropout = input_dropout
        self.output_dropout = output_dropout
        self.weight_dropout = weight_dropout
        self.activation_penalty = activation_penalty
        self.change_penalty = change_penalty
        self._penalised = hidden[-1]  # also once units have gone
        if shared:
            self.decoder.weight = self.embedding.weight
        self.init_range = init_range
        self.reset_parameters()

    @property
    def lstms(self) -> list[nn.LSTM]:
        """The layers, as what they are."""
        return list(self.layers)  # type: ignore[arg-type]

    @property
    def shared(self) -> bool:
        """Does the decoder use the embedding's weights?"""
        return self.decoder.weight is self.embedding.weight

    @property
    def training_settings(self) -> dict[str, Any]:
        """What acts in training only, as the constructor takes it; what is off is left out."""
        chosen = {
            "input_dropout": self.input_dropout,
            "output_dropout": self.output_dropout,
            "variational": self.dropout.variational or None,
            "weight_dropout": self.weight_dropout or None,
            "activation_penalty": self.activation_penalty or None,
            "change_penalty": self.change_penalty or None,
        }
        others = {name: value for name, value in chosen.items() if value is not None}
        return {"dropout": self.dropout.p, **others}

    def extra_repr(self) -> str:
        """What acts in training only and is no layer."""
        settings = self.training_settings.items()
        shown = ("dropout", "variational")  # by the layer
        return ", ".join(f"{name}={value}" for name, value in settings if name not in shown)

    def reset_parameters(self) -> None:
        """Draw every weight uniformly from ±`init_range`; biases start at zero."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.uniform_(parameter, -self.init_range, self.init_range)
            else:
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits `(steps, streams, words)`, and the state after the last step."""
        hidden, after = self.hidden(tokens, state)
        return self.decoder(hidden), after

    def hidden(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """What the decoder reads, and the state after the last step."""
        values = self.dropout(self.embedding(tokens), self.input_dropout)
        after = []
        for number, layer in enumerate(self.layers):
            if number > 0:
                values = self.dropout(values)
            before = None if state is None else state[number]
            values, carried = run_layer(layer, values, before, self._recurrent(number))
            after.append(carried)
        if not self.training:
            return values, tuple(after)
        values = with_change_penalty(values, self.change_penalty, self._penalised)
        read = self.dropout(values, self.output_dropout)
        read = with_size_penalty(read, self.activation_penalty, self._penalised)
        return read, tuple(after)

    def _recurrent(self, number: int) -> Tensor | None:
        """A layer's recurrent weights less those that are left out, if some are."""
        if not (self.training and self.weight_dropout):
            return None
        return drop(self.lstms[number].get_parameter("weight_hh_l0"), self.weight_dropout)
