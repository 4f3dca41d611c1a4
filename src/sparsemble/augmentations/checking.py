"""One try of an augmentation before anything is learned with it.

What would break a run, or spoil it in silence, is refused with the name of the augmentation: other
shapes or dtypes, numbers that are not finite, inputs changed in place (a window of a text is a view
of that text), and random numbers that a resumed run would not repeat.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsemble.augmentations.augmentation import Augmentation, FunctionAugmentation
from sparsemble.augmentations.several import Several
from sparsemble.errors import InputError
from sparsemble.streams import borrowed_streams


def checked(augmentation: Augmentation, inputs: Tensor) -> None:
    """Raise `InputError` unless it gives inputs that a network can be trained on.

    Nobody's random numbers are used, and the inputs are left as they are.
    """
    _tried(augmentation, inputs.clone())


def _tried(augmentation: Augmentation, inputs: Tensor) -> Tensor:
    """What it makes of the inputs; several are tried one by one, so that the right one is named."""
    if isinstance(augmentation, Several):
        for part in augmentation.parts:
            inputs = _tried(part, inputs)
        return inputs
    name, given = _name(augmentation), inputs.clone()
    found = _drawn(augmentation, inputs)
    _check_kind(name, found, given)
    if not torch.equal(inputs, given):
        raise InputError(f"{name} changes its inputs in place: let it return new ones")
    if not torch.equal(found, _drawn(augmentation, inputs)):
        raise InputError(
            f"{name} gives other inputs for the same state of PyTorch's generator, so that a "
            "resumed run would not be the same: draw from torch.rand, torch.randn and the like"
        )
    return found


def _drawn(augmentation: Augmentation, inputs: Tensor) -> Tensor:
    """One draw, after which the global generator is where it was."""
    try:
        with torch.no_grad(), borrowed_streams():
            return augmentation(inputs)
    except InputError:
        raise
    except Exception as error:  # whatever code of the user's raises
        raise InputError(
            f"{_name(augmentation)} cannot take inputs {_kind(inputs)}: "
            f"{type(error).__name__}: {error}"
        ) from None


def _check_kind(name: str, found: object, given: Tensor) -> None:
    if not isinstance(found, Tensor):
        raise InputError(f"{name} must return a tensor, not {type(found).__name__}")
    same = (found.shape, found.dtype, found.device) == (given.shape, given.dtype, given.device)
    if not same:
        raise InputError(
            f"{name} must return inputs of the same kind, {_kind(given)}, not {_kind(found)}"
        )
    if not found.isfinite().all():
        raise InputError(f"{name} returns numbers that are not finite")


def _kind(inputs: Tensor) -> str:
    where = "" if inputs.device.type == "cpu" else f" on {inputs.device}"
    return f"{tuple(inputs.shape)} of {inputs.dtype}{where}"


def _name(augmentation: Augmentation) -> str:
    if isinstance(augmentation, FunctionAugmentation):
        return getattr(augmentation.function, "__qualname__", repr(augmentation.function))
    return type(augmentation).__name__
