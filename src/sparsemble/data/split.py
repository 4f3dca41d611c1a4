"""Data in parts: what is learned from, what may be watched, what figures are measured on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Part:
    """Data with known answers, and what they are called."""

    data: Any
    name: str


@dataclass(frozen=True)
class Split:
    """`train` is whatever a task learns from; `measured` holds the parts that figures come from.

    `validation` may be watched while an ensemble grows; a test set never is. `notes` are what the
    user should know about the data that are learned from.
    """

    train: Any
    measured: Mapping[str, Part]
    validation: Any = None
    notes: tuple[str, ...] = ()


@runtime_checkable
class HasParts(Protocol):
    """Data that know their own parts."""

    def split(self, measure: str) -> Split:
        """The parts; with `measure` "validation" figures come from that part alone."""
        ...
