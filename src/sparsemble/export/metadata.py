"""What an exported file says about itself: entries of JSON, for programs without this library."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.export.deployed import NEXT, Deployable
from sparsemble.programs import Program
from sparsemble.programs.lengths import Expression, written
from sparsemble.tasks import described_task


def metadata_of(
    ensemble: Deployable, graph: Any, states: Mapping[str, Tensor], by_name: int
) -> dict[str, str]:
    """Entries by name.

    Args:
        ensemble: What was exported.
        graph: As what, in ONNX.
        states: Those before the first inputs.
        by_name: How many inputs the network is called with by name.
    """
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in graph.input
    }
    entries = {
        "task": described_task(ensemble.task),
        "states": _states(shapes, states),
        "conditions": _conditions(next(iter(ensemble)).network, shapes, by_name),
        "cost": dataclasses.asdict(ensemble.cost),
        "versions": {"sparsemble": version("sparsemble"), "torch": torch.__version__},
    }
    return {name: json.dumps(entry, ensure_ascii=False) for name, entry in entries.items()}


def _conditions(
    network: nn.Module, shapes: Mapping[str, Sequence[str | int]], by_name: int
) -> list[str]:
    """On lengths, in words: with others the network would compute something else."""
    if not isinstance(network, Program):
        return []
    blueprint = network.blueprint_
    places = list(shapes)[: len(blueprint.inputs) - by_name]
    ranges = zip((*places, *blueprint.named), blueprint.inputs, strict=False)
    known = {free: str(shapes[name][dim]) for name, own in ranges for dim, free in own.free}
    return [written(_renamed(condition, known)) for condition in blueprint.conditions]


def _renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    if isinstance(expression, tuple):
        return (expression[0], *(_renamed(own, names) for own in expression[1:]))
    return names.get(expression, expression) if isinstance(expression, str) else expression


def _states(
    shapes: Mapping[str, Sequence[str | int]], beginning: Mapping[str, Tensor]
) -> dict[str, Any]:
    """For every state: what it is called afterwards, its type, and the zeros that it begins as.

    A length that is left open stands there by its name, or as 0 where nothing was read yet.
    """
    return {
        name: {
            "next": NEXT + name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "begins": [
                0 if length == 0 else known
                for length, known in zip(tensor.shape, shapes[name], strict=True)
            ],
        }
        for name, tensor in beginning.items()
    }
