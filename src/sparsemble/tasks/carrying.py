"""What language models remember between stretches of a text: a state, or the last words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsemble.tasks.task import Forward


class Carrying(Forward):
    """A recurrent network on its way through a text."""

    def __init__(self, network: Callable[..., Any]) -> None:
        super().__init__(network)
        self._state: tuple[tuple[Tensor, Tensor], ...] | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """The outputs for a stretch that follows the one before."""
        logits: Tensor
        logits, state = self.network(inputs, self._state)
        # Autocast may have computed in a shorter format; the state is kept in the weights' own.
        dtype = next(self.network.parameters()).dtype  # type: ignore[attr-defined]
        self._state = tuple((h.detach().to(dtype), c.detach().to(dtype)) for h, c in state)
        return logits

    def reset(self) -> None:
        """Forget it."""
        self._state = None

    def beginning(self, inputs: Tensor) -> dict[str, Tensor]:
        """What is remembered before anything was read."""
        self.reset()
        self(inputs)
        after = self.state()
        self.reset()
        return {name: torch.zeros_like(tensor) for name, tensor in after.items()}

    def state(self) -> dict[str, Tensor]:
        """What is remembered now."""
        layers = enumerate(self._state or ())
        return {
            f"{number}/{name}": tensor
            for number, pair in layers
            for name, tensor in zip("hc", pair, strict=True)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember this."""
        layers = range(len(tensors) // 2)
        state = tuple((tensors[f"{k}/h"].clone(), tensors[f"{k}/c"].clone()) for k in layers)
        self._state = state or None


class Rereading(Forward):
    """A network without a state: the last words are read again, before those that follow."""

    shares_state: ClassVar[bool] = True

    def __init__(self, network: Callable[..., Any], context: int) -> None:
        super().__init__(network)
        self._context = context
        self._last: Tensor | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """The outputs for a stretch that follows the one before."""
        read = inputs if self._last is None else torch.cat([self._last, inputs])
        self._last = read[-self._context :]
        found = self.network(read)
        logits: Tensor = found[0] if isinstance(found, tuple) else found
        return logits[-inputs.shape[0] :]  # whose length may be open

    def reset(self) -> None:
        """Forget it."""
        self._last = None

    def beginning(self, inputs: Tensor) -> dict[str, Tensor]:
        """What is remembered before anything was read."""
        return {"last": inputs[:0]}

    def state(self) -> dict[str, Tensor]:
        """What is remembered now."""
        return {} if self._last is None else {"last": self._last}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember this."""
        self._last = tensors["last"].clone() if tensors else None
