"""Several inputs of every example, as one value: what a network is called with.

Data given as `((a, b), targets)` are for a network that is called `network(a, b)`, data given as
`({"tokens": t, "mask": m}, targets)` for one that is called `network(tokens=t, mask=m)`. What goes
over examples (batches, chain, prediction) takes `Arguments` as it takes a tensor: it has a length,
rows can be picked, it can be moved. Only what is floating takes part in a change of precision:
indices, masks and lengths stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Arguments:
    """Tensors of equally many examples; named ones are held in the order of their names.

    >>> pair = Arguments((torch.zeros(3, 2),), {"mask": torch.ones(3, dtype=torch.bool)})
    >>> len(pair), len(pair[:2]), pair.to(torch.float64).named["mask"].dtype
    (3, 2, torch.bool)
    """

    positional: tuple[Tensor, ...] = ()
    named: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = {name: self.named[name] for name in sorted(self.named)}
        object.__setattr__(self, "named", ordered)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them, the named ones last."""
        return (*self.positional, *self.named.values())

    @property
    def names(self) -> tuple[str | None, ...]:
        """What each is called; `None` where that is its place."""
        return (*[None] * len(self.positional), *self.named)

    @property
    def shape(self) -> tuple[tuple[int, ...], ...]:
        """Of each."""
        return tuple(tuple(tensor.shape) for tensor in self.tensors)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.tensors[0].device

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, rows: slice | Tensor) -> Arguments:
        """Some of the examples."""
        return self.map(lambda tensor: tensor[rows])

    def index_select(self, dim: int, rows: Tensor) -> Arguments:
        """Some of the examples, as tensors give them; `dim` is 0."""
        return self.map(lambda tensor: tensor.index_select(dim, rows))

    def split(self, size: int) -> Iterator[Arguments]:
        """All examples, so many at a time."""
        return (self[start : start + size] for start in range(0, len(self), size))

    def to(self, wanted: torch.device | torch.dtype) -> Arguments:
        """On another device; in another precision, what is floating."""
        is_kept = isinstance(wanted, torch.dtype)
        return self.map(
            lambda own: own if is_kept and not own.is_floating_point() else own.to(wanted)
        )

    def given_to(self, network: Callable[..., Any]) -> Any:
        """What a network returns for them."""
        return network(*self.positional, **self.named)

    def map(self, function: Callable[[Tensor], Tensor]) -> Arguments:
        """A function of each."""
        return Arguments(
            tuple(map(function, self.positional)),
            {name: function(tensor) for name, tensor in self.named.items()},
        )


Inputs = Tensor | Arguments
"""Examples as a network takes them."""


def tensors_given(inputs: Inputs) -> tuple[Tensor, ...]:
    """The one, or the several."""
    return inputs.tensors if isinstance(inputs, Arguments) else (inputs,)
