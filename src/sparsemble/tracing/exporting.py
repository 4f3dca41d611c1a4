"""Networks through `torch.export`, and why some do not pass."""

from __future__ import annotations

import inspect
import logging
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.streams import borrowed_streams
from sparsemble.tracing.standins import PackedSequenceError, drawing, standing_in

_TALKATIVE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._export.non_strict_utils",
    "torch._subclasses.fake_tensor",
)
"""Logs of torch."""
_QUESTIONS = 150
"""About lengths, that a network may ask: networks that shift windows ask hundreds."""


def depends_on_data(network: nn.Module) -> str:
    """The message for a network that looks at its data."""
    return (
        f"{type(network).__name__} cannot be traced: its computation depends on the values of its "
        "data (an `if` on a tensor, or .item()): write it with torch.where or masks"
    )


def export(
    network: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], *, any_length: bool
) -> tuple[ExportedProgram, bool]:
    """A network as exported for batches of any size; and for inputs of any length?

    Args:
        network: In the mode that is wanted.
        inputs: Its positional arguments,
        named: and those by name.
        any_length: Shall it be? It is not if it asks too much about lengths.
    """

    def free(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return None
        others = Dim.AUTO if any_length else Dim.STATIC
        return {dim: Dim.DYNAMIC if dim == 0 else others for dim in range(leaf.ndim)}

    # Named as the network itself names them, which is how `torch.export` takes them.
    shapes = pytree.tree_map(free, _arguments(network, inputs, named))
    try:
        # What is put in torch's place is there for all threads: no chain may step meanwhile.
        with (
            borrowed_streams(),
            _slow_attention(),
            warnings.catch_warnings(),
            standing_in(),
            _quietly(),
            _few(any_length),
        ):
            warnings.simplefilter("ignore")
            program = _whatever_is_drawn(
                lambda: torch.export.export(
                    network, inputs, named, dynamic_shapes=shapes, strict=False
                )
            )
        return program, any_length
    except _ManyQuestionsError:
        return export(network, inputs, named, any_length=False)
    except PackedSequenceError as error:
        raise InputError(
            f"{type(network).__name__} packs sequences, which cannot be traced: give padded ones, "
            f"and their lengths or a mask as a further input{_at(error)}"
        ) from None
    except Exception as error:
        raise InputError(_why(network, error)) from error


@contextmanager
def _slow_attention() -> Iterator[None]:
    """Attention by operations that can be exported."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _arguments(
    network: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    signature = inspect.signature(network.forward)
    try:
        arguments = dict(signature.bind(*inputs, **named).arguments)
    except TypeError as error:
        raise InputError(f"{type(network).__name__} cannot be called like that: {error}") from None
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and name in arguments:
            raise InputError(
                f"{type(network).__name__}.forward takes {', '.join(arguments[name])} as **{name}, "
                "which cannot be traced: give it arguments of these names"
            )
    return arguments


def _whatever_is_drawn(exported: Callable[[], ExportedProgram]) -> ExportedProgram:
    """What is exported, even if it asks for a number drawn at random, if the answer is the same.

    Networks with LayerDrop draw one for every layer, also where no layer is ever left out.
    """
    before = random.getstate(), _numpy_state()
    try:
        program = exported()
        if (random.getstate(), _numpy_state()) != before:
            raise _OtherChanceError
        return program
    except Exception as error:
        if not _is_about_data(error):
            raise
        try:
            with drawing(0.0):
                low = exported()
            with drawing(1.0):
                high = exported()
        except Exception:
            raise error from None
        if low.graph_module.code != high.graph_module.code:
            raise _ChanceError from error
        return low


def _numpy_state() -> bytes:
    """Where NumPy's global stream of random numbers is."""
    _, keys, *place = np.random.get_state(legacy=True)  # noqa: NPY002 (the one networks use)
    return np.asarray(keys).tobytes() + repr(place).encode()


class _ChanceError(Exception):
    """Chance decides what is computed."""


class _OtherChanceError(Exception):
    """Numbers are drawn that no program can draw anew."""


class _ManyQuestionsError(BaseException):
    """A network asks too much about lengths. Not an `Exception`, which export would explain."""


@contextmanager
def _few(limited: bool) -> Iterator[None]:
    """Give up where each further question about lengths takes ever longer to answer."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # imports sympy: half a second

    real = ShapeEnv.evaluate_expr

    def asked(self: ShapeEnv, *arguments: Any, **named: Any) -> Any:
        if limited and len(self.guards) > _QUESTIONS:
            raise _ManyQuestionsError
        return real(self, *arguments, **named)

    environment: Any = ShapeEnv
    environment.evaluate_expr = asked
    try:
        yield
    finally:
        environment.evaluate_expr = real


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch writes of lengths, and of what it cannot trace: a graph of many lines."""
    logs = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _why(network: nn.Module, error: Exception) -> str:
    """A message for people, of what `torch.export` says."""
    name = type(network).__name__
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if isinstance(error, _OtherChanceError):
        return (
            f"{name} cannot be traced: it draws from Python's random or from NumPy, once for all "
            "that is learned: draw from torch instead"
        )
    if isinstance(error, _ChanceError):
        return (
            f"{name} cannot be traced: chance decides which of its layers are computed in "
            "training (LayerDrop); set its probability to 0"
        )
    if _is_about_data(error):
        return depends_on_data(network) + _at(error)
    if found := re.search(r"Found <class '(.*?)'> in output", text):
        what = f"it returns a {found.group(1).rpartition('.')[2]}: only tensors can be returned, "
        what += "and tuples, lists and dicts of them"
    elif "dynamic" in text or "specializ" in text or "Constraints violated" in text:
        what = (
            "it computes something else for another number of examples (a loop over them, len(x), "
            "or a batch dimension that is not the first of every input)"
        )
    else:
        what = first
    return f"{name} cannot be traced: {what}{_at(error)}"


def _is_about_data(error: Exception) -> bool:
    words = ("data-dependent", "GuardOnDataDependent", "Could not guard", "item()", "_local_scalar")
    return any(word in str(error) or word in type(error).__name__ for word in words)


def _at(error: BaseException) -> str:
    line = _line(error)
    return f"; at {line}" if line else ""


def _line(error: BaseException) -> str:
    """The last line of code outside torch on the way to an error."""
    found, step = "", error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if "/torch/" not in file and "/sparsemble/tracing/" not in file and "<" not in file:
            found = f"{file}:{step.tb_lineno}"
        step = step.tb_next
    return found
