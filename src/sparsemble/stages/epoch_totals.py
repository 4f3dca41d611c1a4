"""What adds up over the steps of an epoch, and goes into its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class EpochTotals:
    """Of the epoch under way: the losses of its steps, the time, the FLOPs and the examples."""

    loss: float = 0.0
    seconds: float = 0.0
    flops: float = 0.0
    examples: int = 0

    def count(self, examples: int, flops_each: float) -> None:
        """A step on so many examples was paid for."""
        self.examples += examples
        self.flops += examples * flops_each

    @property
    def spent(self) -> dict[str, Any]:
        """All but the loss, as records have it."""
        return {"seconds": self.seconds, "flops": self.flops, "examples": self.examples}

    def numbers(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {f"epoch_{name}": value for name, value in asdict(self).items()}

    @classmethod
    def restored(cls, numbers: Mapping[str, Any]) -> EpochTotals:
        """From a checkpoint; older ones have no FLOPs and examples."""
        known = {name: numbers.get(f"epoch_{name}") for name in asdict(cls())}
        return cls(**{name: value for name, value in known.items() if value is not None})
