"""Which chain it is, and what it needs to go on: values that records and checkpoints hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class ChainIdentity:
    """Which chain of which stage this is, for traces and seeds."""

    stage: str
    number: int
    seed: int

    def __str__(self) -> str:
        return f"{self.stage} {self.number}"


@dataclass(frozen=True)
class ChainState:
    """Tensors, named `part/name`, and numbers that fit into JSON."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part."""
        prefix = f"{name}/"
        return {k.removeprefix(prefix): t for k, t in self.tensors.items() if k.startswith(prefix)}

    def inner(self, name: str) -> ChainState:
        """A state that is kept within this one."""
        return ChainState(self.part(name), self.numbers[name])
