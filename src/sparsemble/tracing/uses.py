"""How a traced run uses weights: the products, and what else costs time."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, fx


@dataclass(frozen=True)
class Stretch:
    """Positions `start` to `stop` along dimension `dim` of the tensor `name`."""

    name: str
    dim: int
    start: int
    stop: int


@dataclass(frozen=True)
class Use:
    """A product with a weight: it reads the units of one dimension and makes those of another."""

    node: fx.Node
    makes: Stretch
    reads: Stretch
    bias: Stretch | None
    operand: fx.Node | None
    """What is read; `None` where it is not seen, inside a recurrent layer."""
    feature: int
    """The dimension of it that runs over the units."""
    pads: bool
    """Does it read zeros beside the units' values?"""
    positions: int
    """How often the matrix is multiplied for one example."""
    kind: str

    @property
    def weight(self) -> str:
        """The name of the parameter."""
        return self.makes.name


@dataclass(frozen=True)
class Grouped:
    """A convolution in groups: a unit is a group."""

    node: fx.Node
    weight: str
    rows: Tensor
    """Labels of its rows, `(groups, rows each)`."""
    positions: int


@dataclass(frozen=True)
class Need:
    """An operation that needs all units along some dimensions, if they change there."""

    labels: Tensor
    dims: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Meeting:
    """An operand that is broadcast over what may be several units, or one when all is known."""

    labels: Tensor
    """Of the operand, and"""
    units: Tensor
    """of what it meets."""
    dims: tuple[int, ...]
    """Those along which it is not broadcast."""
    reason: str
    """Why it stays if they are several."""


@dataclass(frozen=True)
class ActivationProduct:
    """A product of two activations: FLOPs of all elements of what comes out, by their labels."""

    node: fx.Node
    labels: Tensor
    flops: int
    """For one element."""
