"""Programs as JSON, and back: what is read is checked, and can only name what is in the table.

A value stands for itself, but for those that JSON has not: `{"value": …}` is an input or a step's
result, `{"tensor": …}` a parameter or buffer, `{"size": [fixed, {space: each}]}` a size,
`{"own": …}` the network's own dtype or device, `{"torch": …}` one of torch's constants,
`{"number": "inf"}` what is not finite, and `{"dict": {…}}` a dictionary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

import torch

from sparsemble.errors import CorruptFileError
from sparsemble.programs.blueprint import Blueprint, InputRange
from sparsemble.programs.bounded import MOST_NUMBERS
from sparsemble.programs.graph import Constant, Graph, Held, Own, Ref, Step, leaves
from sparsemble.programs.lengths import OPERATIONS, Expression
from sparsemble.programs.operations import operation
from sparsemble.settings import LARGEST
from sparsemble.structure import Size

_MOST_STEPS = 100_000
_LARGEST = 2**31
_END = 2**63 - 1
"""What slices are written with that go to the end."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = r"[^.'\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_TENSOR = re.compile(rf"{_PART}(\.{_PART})*")
_GROWING_WORDS = """
    zeros ones full empty rand randn randint eye arange linspace new_zeros new_ones new_full
    new_empty expand broadcast_to repeat repeat_interleave tile
"""
_GROWING = frozenset(_GROWING_WORDS.split())
"""Operations that can make much of nothing."""
_SCALING_WORDS = """
    leaky_relu elu celu selu softplus softshrink hardshrink threshold rrelu dropout feature_dropout
    alpha_dropout feature_alpha_dropout native_dropout batch_norm instance_norm group_norm
    layer_norm rms_norm local_response_norm scaled_dot_product_attention linear addmm baddbmm
    addcmul addcdiv lerp cosine_similarity avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d
"""
_SCALING = frozenset(_SCALING_WORDS.split())
"""Operations that infinities make infinite, or no number."""
_TORCH = {
    name
    for name in dir(torch)
    if isinstance(getattr(torch, name), torch.dtype | torch.layout | torch.memory_format)
}


def is_name(name: str) -> bool:
    """Can a tensor of a program be called so, in a file?

    >>> is_name("blocks.first one.weight"), is_name("it's.weight")
    (True, False)
    """
    return _TENSOR.fullmatch(name) is not None


def blueprint_to_json(blueprint: Blueprint) -> dict[str, Any]:
    """A blueprint as plain JSON."""
    return {
        "training": _graph_to_json(blueprint.training),
        "evaluating": _graph_to_json(blueprint.evaluating),
        "tensors": list(blueprint.tensors),
        "parameters": sorted(blueprint.parameters),
        "frozen": sorted(blueprint.frozen),
        "aliases": [list(pair) for pair in blueprint.aliases],
        "inputs": [asdict(own) for own in blueprint.inputs],
        "named": list(blueprint.named),
        "conditions": [_to_json(own) for own in blueprint.conditions],
        "paths": list(blueprint.paths),
    }


def blueprint_from_json(fields: Mapping[str, Any], spaces: Collection[str]) -> Blueprint:
    """The blueprint that `blueprint_to_json` wrote.

    Args:
        fields: As they were written; anything else is a `CorruptFileError`.
        spaces: The names of the spaces that sizes may depend on.
    """
    try:
        names = [
            *fields["tensors"],
            *fields["parameters"],
            *(name for pair in fields["aliases"] for name in pair),
        ]
        if not all(map(is_name, names)):
            raise CorruptFileError("a program has a tensor of an impossible name")
        return Blueprint(
            training=_graph_from_json(fields["training"], spaces),
            evaluating=_graph_from_json(fields["evaluating"], spaces),
            tensors=tuple(fields["tensors"]),
            parameters=frozenset(fields["parameters"]),
            frozen=frozenset(fields["frozen"]),
            aliases=tuple((str(first), str(other)) for first, other in fields["aliases"]),
            inputs=tuple(_input_from_json(own) for own in fields["inputs"]),
            named=tuple(str(name) for name in fields["named"]),
            conditions=_conditions_from_json(fields),
            paths=tuple(str(path) for path in fields.get("paths", ())),
        )
    except CorruptFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"the program cannot be read: {error!r}") from None


def _input_from_json(fields: Mapping[str, Any]) -> InputRange:
    shape = tuple(int(length) for length in fields["shape"])
    if fields["dtype"] not in _TORCH or not all(0 <= n < _LARGEST for n in shape):
        raise CorruptFileError(f"a program's input is described by {dict(fields)}")
    if math.prod(shape) > MOST_NUMBERS:
        raise CorruptFileError(f"a program's input of shape {shape} is too large")
    fixed = tuple((int(dim), int(length)) for dim, length in fields["fixed"])
    free = tuple((int(dim), str(name)) for dim, name in fields["free"])
    low, high = float(fields["low"]), float(fields["high"])
    columns = tuple(float(most) for most in fields.get("columns", ()))
    if not all(map(math.isfinite, (low, high, *columns))):
        raise CorruptFileError(f"a program's input lies between {low} and {high}, or {columns}")
    return InputRange(shape, fields["dtype"], low, high, fixed, free, columns)


def _conditions_from_json(fields: Mapping[str, Any]) -> tuple[Expression, ...]:
    lengths = {str(name) for own in fields["inputs"] for _, name in own["free"]}

    def read(expression: Any) -> Expression:
        if isinstance(expression, list) and expression and expression[0] in OPERATIONS:
            return (expression[0], *map(read, expression[1:]))
        if isinstance(expression, int):
            return expression
        if isinstance(expression, str) and expression in lengths:
            return expression
        raise CorruptFileError(f"a program has the condition {expression}, which is none")

    return tuple(map(read, fields["conditions"]))


def _graph_to_json(graph: Graph) -> dict[str, Any]:
    return {
        "inputs": list(graph.inputs),
        "steps": [
            [
                step.name,
                step.operation,
                [_to_json(own) for own in step.arguments],
                {key: _to_json(own) for key, own in step.keywords},
                step.layer,
            ]
            for step in graph.steps
        ],
        "outputs": _to_json(graph.outputs),
    }


def _graph_from_json(fields: Mapping[str, Any], spaces: Collection[str]) -> Graph:
    if len(fields["steps"]) > _MOST_STEPS:
        raise CorruptFileError(f"a program of {len(fields['steps'])} steps is too long")
    known: set[str] = set()

    def define(name: Any) -> str:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in known:
            raise CorruptFileError(f"a program has a value {name!r}, twice or of no possible name")
        known.add(name)
        return name

    inputs = tuple(define(name) for name in fields["inputs"])
    steps = []
    for name, what, arguments, keywords, layer in fields["steps"]:
        operation(what)  # is it in the table?
        # A step can only use what was computed before it: there are no cycles.
        own = tuple(_from_json(argument, known, spaces) for argument in arguments)
        named = tuple((str(k), _from_json(a, known, spaces)) for k, a in keywords.items())
        kind = what.removeprefix("aten.").partition(".")[0].removesuffix("_")
        if kind in _GROWING:
            _check_sizes(what, own)
        if kind in _SCALING:
            _check_numbers(what, [*own, *(value for _, value in named)])
        steps.append(Step(define(name), what, own, named, str(layer)))
    return Graph(inputs, tuple(steps), _from_json(fields["outputs"], known, spaces))


def _check_numbers(what: str, arguments: list[Any]) -> None:
    """Slopes, probabilities and small constants of layers, which are all finite."""
    numbers = [n for n in leaves(arguments) if type(n) in (int, float)]
    if not all(abs(n) <= LARGEST or n == _END for n in numbers):
        raise CorruptFileError(f"a program calls {what} with {numbers}: one is no possible number")
    if what.startswith("aten.softplus") and len(arguments) > 1 and arguments[1] == 0:
        raise CorruptFileError(f"a program calls {what} with a beta of 0")


def _check_sizes(what: str, arguments: tuple[Any, ...]) -> None:
    for own in arguments:
        lengths = [n for n in leaves(own) if type(n) is int and 0 < n < _END]
        if math.prod(lengths) > MOST_NUMBERS:
            raise CorruptFileError(f"a program calls {what} with the absurd sizes {own}")


def _to_json(argument: Any) -> Any:
    match argument:
        case tuple() | list():
            return [_to_json(own) for own in argument]
        case dict():
            return {"dict": {key: _to_json(own) for key, own in argument.items()}}
        case Ref(name):
            return {"value": name}
        case Held(name):
            return {"tensor": name}
        case Own(what):
            return {"own": what}
        case Constant(name):
            return {"torch": name}
        case Size(fixed, each):
            return {"size": [fixed, dict(each)]}
        case float() if not math.isfinite(argument):
            return {"number": str(argument)}
        case _:
            return argument


def _from_json(argument: Any, known: Collection[str], spaces: Collection[str]) -> Any:
    if isinstance(argument, list):
        return tuple(_from_json(own, known, spaces) for own in argument)
    if isinstance(argument, int) and abs(argument) > _END + 1:
        raise CorruptFileError(f"a program has the absurd size {argument}")
    if isinstance(argument, float) and not math.isfinite(argument):
        raise CorruptFileError(f"a program has {argument} where a number should be")
    if argument is None or isinstance(argument, bool | int | float | str):
        return argument
    ((kind, value),) = argument.items()
    match kind:
        case "value" if value in known:
            return Ref(value)
        case "tensor" if is_name(value):
            return Held(value)
        case "own" if value in ("dtype", "device"):
            return Own(value)
        case "torch" if value in _TORCH:
            return Constant(value)
        case "number":
            return float(value)
        case "dict":
            return {str(key): _from_json(own, known, spaces) for key, own in value.items()}
        case "size":
            fixed, each = value
            counts = tuple((str(space), int(count)) for space, count in each.items())
            numbers = [int(fixed), *(count for _, count in counts)]
            if all(space in spaces for space, _ in counts) and max(map(abs, numbers)) < _LARGEST:
                return Size(int(fixed), counts)
    raise CorruptFileError(f"a program has the argument {argument}, which is none")
