"""Objectives: the mean loss a chain descends, and what it carries from batch to batch.

A classifier's loss is the mean over the batch. A language model's is summed over the steps of a
window and averaged over the parallel streams, so the paper's rates, clipping and λ apply as
printed; it carries the LSTM state through an epoch, cut off from the gradient (truncated
back-propagation).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from sparsemble.data import Batches, TextBatches
from sparsemble.errors import InputError
from sparsemble.layouts import LanguageModel
from sparsemble.layouts.language_model import State
from sparsemble.stages.cross_entropy import summed_cross_entropy


class Objective(ABC):
    """A loss; `guessing` is what it is when every class is equally probable.

    Most carry nothing from batch to batch.
    """

    guessing: float

    @abstractmethod
    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of one batch."""

    def begin_epoch(self) -> None:
        """Forget what was carried."""
        return

    def carried(self) -> dict[str, Tensor]:
        """What the next batch depends on besides the weights."""
        return {}

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from `carried()`."""
        return

    def perplexity(self, loss: float) -> float:
        """The perplexity that a loss means; NaN where that is no word for it."""
        return math.nan

    def watched(self, loss: float) -> float:
        """What is watched for divergence: the last batch's loss."""
        return loss


class Classification(Objective):
    """Mean cross-entropy."""

    def __init__(self, logits: Callable[[Tensor], Tensor], classes: int) -> None:
        self.guessing = math.log(classes)
        self._logits = logits

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the batch."""
        return F.cross_entropy(self._logits(inputs), targets)


class SummedClassification(Objective):
    """Sum over members of each one's mean cross-entropy, from `(members, batch, classes)`.

    It is the worst member that is watched for divergence, and that guessing is compared with.
    """

    def __init__(self, logits: Callable[[Tensor], Tensor], classes: int) -> None:
        self.guessing = math.log(classes)
        self._logits = logits
        self._worst = 0.0

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Members do not share weights: each gets the gradient of its own loss."""
        logits = self._logits(inputs)
        members, batch, _ = logits.shape
        wanted = targets.expand(members, batch)
        losses = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none").mean(1)
        self._worst = float(losses.detach().max())
        return losses.sum()

    def watched(self, loss: float) -> float:
        """The worst member's loss on the last batch."""
        return self._worst


class LanguageModelling(Objective):
    """Cross-entropy summed over a window's steps, averaged over the streams."""

    def __init__(self, network: LanguageModel, window: float) -> None:
        """`window` is the mean number of steps in a batch."""
        self.guessing = window * math.log(network.embedding.num_embeddings)
        self._network = network
        self._window = window
        self._state: State | None = None

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of one window, from the state the last one left."""
        logits, state = self._network(inputs, self._state)
        # Autocast may have computed in a shorter format; the state is kept in the weights' own.
        dtype = self._network.decoder.bias.dtype
        self._state = tuple((h.detach().to(dtype), c.detach().to(dtype)) for h, c in state)
        return summed_cross_entropy(logits, targets) / inputs.shape[1]

    def begin_epoch(self) -> None:
        """A new epoch starts from the zero state."""
        self._state = None

    def carried(self) -> dict[str, Tensor]:
        """The state, layer by layer."""
        layers = enumerate(self._state or ())
        return {
            f"{number}/{name}": t
            for number, pair in layers
            for name, t in zip("hc", pair, strict=True)
        }

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from `carried()`."""
        layers = range(len(tensors) // 2)
        state = tuple((tensors[f"{k}/h"].clone(), tensors[f"{k}/c"].clone()) for k in layers)
        self._state = state or None

    def perplexity(self, loss: float) -> float:
        """`exp` of the loss a token."""
        return math.exp(min(loss / self._window, 700.0))


def objective_of(network: nn.Module, classes: int, batches: Batches) -> Objective:
    """What a single network is trained on."""
    if isinstance(network, LanguageModel):
        return LanguageModelling(network, window_of(batches))
    return Classification(network, classes)


def window_of(batches: Batches) -> float:
    """The steps a language model is unrolled for, on average."""
    if not isinstance(batches, TextBatches):
        raise InputError("a language model learns from a text: give TextBatches")
    return batches.mean_window
