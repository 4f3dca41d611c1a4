"""An LSTM language model: embedding, LSTM layers, decoder.

Text runs time-major, `(steps, streams)`, and the state is carried from one call to the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.networks.dropout import Dropout

State = tuple[tuple[Tensor, Tensor], ...]
"""Hidden and cell state of every layer, each `(1, streams, units)`."""


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
        init_range: float = 0.1,
    ) -> None:
        super().__init__()
        if not hidden or not all(isinstance(n, int) and n > 0 for n in (words, embedding, *hidden)):
            raise InputError(
                f"sizes {words}, {embedding}, {list(hidden)} must be positive integers"
            )
        if not 0 <= dropout < 1:
            raise InputError(f"dropout = {dropout}: must be at least 0 and below 1")
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
        self.dropout = Dropout(dropout)
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
        values = self.dropout(self.embedding(tokens))
        after = []
        for number, layer in enumerate(self.layers):
            values, carried = layer(values, None if state is None else state[number])
            values = self.dropout(values)
            after.append(carried)
        return values, tuple(after)
