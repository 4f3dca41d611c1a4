"""An ensemble captured by `torch.export`, with every length left open that may be."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from sparsemble.data.arguments import tensors_given
from sparsemble.errors import InputError
from sparsemble.export.checking import first_line
from sparsemble.export.deployed import NEXT, Deployed
from sparsemble.export.examples import Examples

COUNT = 3
"""Examples that are captured with: neither none nor one, which torch takes for special."""


def example_call(
    deployed: Deployed, examples: Examples
) -> tuple[dict[str, Tensor], dict[str, set[int]]]:
    """What is captured with, by name, and the dimensions whose lengths may be others.

    They are seen where other examples, or more of them, have other shapes.
    """
    inputs = examples.of(COUNT)
    more = examples.of(COUNT + 1)
    names = examples.names
    given = dict(zip(names, tensors_given(inputs), strict=True))
    others = [own for own in (more, examples.longer(COUNT)) if own is not None]
    shapes = [dict(zip(names, tensors_given(own), strict=True)) for own in others]
    if begun := deployed.beginning(inputs):
        with torch.no_grad():
            after = deployed(*given.values(), *begun.values())
        shapes += [deployed.beginning(more), begun]
        given |= {name: after[NEXT + name] for name in begun}
    free = {
        name: {
            dim
            for other in shapes
            if name in other
            for dim in range(own.ndim)
            if other[name].shape[dim] != own.shape[dim]
        }
        for name, own in given.items()
    }
    return given, free


def captured_with(
    deployed: Deployed, given: Mapping[str, Tensor], free: Mapping[str, set[int]]
) -> ExportedProgram:
    """The computation, for any number of examples."""
    from sparsemble.export.recurrent import StandingIn

    shapes = tuple(dict.fromkeys(free[name], Dim.AUTO) for name in given)
    try:
        with torch.no_grad(), warnings.catch_warnings(), StandingIn():
            warnings.simplefilter("ignore")
            return torch.export.export(
                deployed, tuple(given.values()), dynamic_shapes=(shapes,), strict=False
            )
    except Exception as error:  # whatever torch says of a network
        raise InputError(f"the ensemble cannot be captured: {first_line(error)}") from error


def named_lengths(captured: ExportedProgram, batch_dim: int) -> dict[str, str]:
    """What the lengths that are left open are called: of the examples, and others."""
    own = set(captured.graph_signature.user_inputs)
    values = [
        node.meta["val"]
        for node in captured.graph.nodes
        if node.op == "placeholder" and node.name in own
    ]
    batch = str(values[0].shape[batch_dim])
    if batch.isdigit():
        raise InputError(
            "the ensemble cannot be exported: what it computes depends on how many examples there "
            "are"
        )
    others = dict.fromkeys(str(n) for value in values for n in value.shape if str(n) != batch)
    symbols = [symbol for symbol in others if symbol.isidentifier()]
    numbered = [f"length_{k}" for k in range(1, len(symbols) + 1)]
    return {batch: "examples"} | dict(
        zip(symbols, numbered if len(symbols) > 1 else ["length"], strict=False)
    )
