"""What is known of each test network: how it is made, what it is given, which units could go.

A set of units is a *space* of the layout: units that stand in the same dimensions of the same
tensors. `removable` follows the rules of the derivation (products with a parameter separate units,
norms over units and reductions over them pin, attention unites a head); where those leave it open,
it is None and the note says what would be best.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Inputs = Callable[[int, int], tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A test network.

    `make` gives it with fresh weights and `inputs(batch, variant)` its positional inputs, both by
    torch's global generator. Variant 0 is what is traced; other variants have other lengths or
    picture sizes where the network allows it. `removable` has the sizes of the sets of units that
    a perfect derivation finds, sorted, with `features` among them: a single input of which every
    number of an example is a unit of its own, only read by weights that learn. `without_gradient`
    names the parameters that get none: unused or frozen. A network that `is_unrolled` steps itself
    along a dimension: its trace is good for one length only.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Inputs
    removable: tuple[int, ...] | None
    note: str = ""
    features: tuple[int, ...] = ()
    without_gradient: tuple[str, ...] = ()
    is_unrolled: bool = False

    def example(self, batch: int, variant: int = 0, dtype: torch.dtype = torch.float32) -> Any:
        """The inputs, what is floating in them as `dtype`."""
        return pytree.tree_map_only(
            Tensor,
            lambda x: x.to(dtype) if x.is_floating_point() else x,
            self.inputs(batch, variant),
        )


def numbers(*shapes: tuple[int, ...]) -> Inputs:
    """Normal numbers; a shape (without the batch) for each variant, the last for all beyond."""
    return lambda batch, variant: (torch.randn(batch, *shapes[min(variant, len(shapes) - 1)]),)


def words(vocabulary: int, *lengths: int) -> Inputs:
    """Numbers of words; a length for each variant, the last for all beyond."""
    return lambda batch, variant: (
        torch.randint(vocabulary, (batch, lengths[min(variant, len(lengths) - 1)])),
    )


def beside(*parts: Inputs) -> Inputs:
    """Several inputs, one after the other."""
    return lambda batch, variant: tuple(x for part in parts for x in part(batch, variant))


def padded_words(vocabulary: int, *lengths: int) -> Inputs:
    """Words, and True where an example has none: at least one word is left of each."""

    def make(batch: int, variant: int) -> tuple[Tensor, Tensor]:
        (text,) = words(vocabulary, *lengths)(batch, variant)
        steps = torch.arange(text.shape[1])
        return text, steps >= torch.randint(1, text.shape[1] + 1, (batch, 1))

    return make


def words_and_lengths(vocabulary: int, *lengths: int) -> Inputs:
    """Words, and how many of them count, at least one."""

    def make(batch: int, variant: int) -> tuple[Tensor, Tensor]:
        (text,) = words(vocabulary, *lengths)(batch, variant)
        return text, torch.randint(1, text.shape[1] + 1, (batch,))

    return make
