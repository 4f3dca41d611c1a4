"""What `manifest.json` of a saved ensemble holds, and how its tensors are called."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, TypeAdapter

from sparsemble.layouts.known import Description
from sparsemble.settings import Settings
from sparsemble.structure import Layout

MANIFEST = "manifest.json"
LAYOUTS = TypeAdapter(Layout)
"""Layouts as JSON."""


class MemberEntry(Settings):
    """How one member is rebuilt: its network (`None` for the caller's own kind) and sizes."""

    network: Description | None
    shapes: dict[str, list[int]]
    units: dict[str, int]


class Manifest(Settings):
    """What `manifest.json` holds."""

    format: Literal["sparsemble-ensemble"] = "sparsemble-ensemble"
    version: Literal[2, 3] = 2
    tensors: str
    tensors_sha256: str
    layout: str
    grouping: str
    sizes: dict[str, int]
    group_sizes: dict[str, int]
    pruned: list[str]
    task: dict[str, Any]
    program: dict[str, Any] | None = None
    """Of traced networks: their program and its layout, common to all members."""
    buffers: dict[str, str] = Field(default_factory=dict)
    """Of traced networks: names and types of what is no parameter."""
    members: list[MemberEntry] = Field(min_length=1)


def buffer_stream(dtype: str) -> str:
    """The stream of buffers of one type; they may hold infinity, as masks of attention do."""
    return f"buffers {dtype}"
