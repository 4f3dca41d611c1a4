"""A budget: what an ensemble may cost, beside one dense network of its kind."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from sparsemble.ensemble.cost import EnsembleCost
from sparsemble.settings import Positive, Settings


class Budget(Settings):
    """Limits for all members together; what is not given is not limited.

    >>> Budget(flops=1.0, parameters=0.7)
    Budget(flops=1.0, parameters=0.7, bytes=None, latency=None)
    """

    flops: Positive | None = None
    """FLOPs of a prediction, as a share of the dense network's."""
    parameters: Positive | None = None
    """Weights, as a share of the dense network's."""
    bytes: Annotated[int, Field(ge=1)] | None = None
    """Size of the weights and biases that are left, as 32-bit floats."""
    latency: Positive | None = None
    """Measured time of a prediction, as a multiple of the dense network's, of one and of up to 1000
    examples, with the threads that are learned with."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.flops is self.parameters is self.bytes is self.latency is None:
            raise ValueError("a budget needs a limit: flops, parameters, bytes or latency")
        return self

    @property
    def text(self) -> str:
        """In words.

        >>> Budget(flops=1.0, bytes=20_000).text
        'flops = 1.0, bytes = 20000'
        """
        given = self.model_dump(exclude_none=True)
        return ", ".join(f"{name} = {limit}" for name, limit in given.items())

    @property
    def share_of_flops(self) -> float | None:
        """FLOPs that may be left: those given, or as many as the time of a prediction lets hope."""
        return self.latency if self.flops is None else self.flops

    def exceeded_by(self, cost: EnsembleCost) -> list[str]:
        """What costs more than it may, in words; nothing if all is within the budget."""
        limits = [
            ("FLOPs", cost.flops_ratio, self.flops, "×"),
            ("parameters", cost.parameters_ratio, self.parameters, "×"),
            ("bytes", cost.bytes, self.bytes, ""),
        ]
        return [
            f"{what} {found:,.4g}{unit}, allowed {limit:,.4g}{unit}"
            for what, found, limit, unit in limits
            if limit is not None and found > limit
        ]
