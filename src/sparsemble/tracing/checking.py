"""The self-check: a wrong rule becomes a clear error before anything is learned.

Units are taken away at random, by zeros in the weights that make them and in those that read them;
the network is made smaller; outputs must be those of the masked one, in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.modes import in_mode
from sparsemble.programs import Program
from sparsemble.programs.tensors import tensors_of
from sparsemble.streams import borrowed_streams
from sparsemble.structure import Layout, Role
from sparsemble.structure.compaction import compacted

_MASKINGS = 3
_TOLERATED = 1e-9
"""Of the largest output, by which two ways to compute it may differ in double precision."""


def check_compaction(program: Program, layout: Layout, *, seed: int = 0) -> None:
    """Raise `InputError` if the network without some units computes something else."""
    generator = torch.Generator().manual_seed(seed)
    tensors = _in_double(program)
    for number in range(_MASKINGS):
        masks = random_masks(layout, tensors, generator)
        pruned = tensors | {name: tensors[name] * mask for name, mask in masks.items()}
        whole = Program(program.blueprint_, pruned, layout.sizes).eval()
        with _fault_of_a_rule():
            small = compacted(layout, pruned, masks, whole.seen_(layout))
            less = Program(program.blueprint_, small.tensors, small.layout.sizes).eval()
        others = () if number else program.blueprint_.other_lengths()
        for lengths in ({}, *others):
            inputs = program.blueprint_.made_up(seed=seed + 1, dtype=torch.float64, lengths=lengths)
            picked = inputs
            if layout.inputs is not None:
                picked = [inputs[0].flatten(1).index_select(1, small.kept[layout.inputs.name])]
            with torch.no_grad():
                try:
                    expected = whole(*inputs)
                except (RuntimeError, IndexError) as error:
                    if not lengths:
                        raise InputError(_FAULT.format(f"it cannot be run: {error}")) from error
                    continue  # a length that the network itself cannot read
                _check_numbers(expected, "without some weights")
                with _fault_of_a_rule():
                    wrong = difference(expected, less(*picked))
            if not wrong <= _TOLERATED:
                what = f"without some of its units its outputs differ by {wrong:.2g}"
                raise InputError(_FAULT.format(what))


_FAULT = (
    "the network was traced, but {}: this is a fault of a rule, not of yours; write a Layout by "
    "hand, and please report the network"
)


@contextmanager
def _fault_of_a_rule() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, IndexError) as error:
        raise InputError(_FAULT.format(f"what was traced cannot be run: {error}")) from error


def check_program(
    program: Program, network: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> None:
    """Raise `InputError` if a program computes something else than the network it was traced of."""
    with torch.no_grad(), as_traced(network), as_traced(program):
        expected = network(*inputs, **named)
        with _fault_of_a_rule():
            wrong = difference(expected, program(*inputs, **named))
    if not wrong <= precision(network)[1]:
        raise InputError(
            f"{type(network).__name__} computes something else than its trace, by {wrong:.2g}: "
            "does it depend on chance in evaluation, or on something that is no tensor?"
        )


def check_examples(program: Program, along: int) -> None:
    """Raise `InputError` if what comes out for an example depends on another one of its batch.

    Args:
        program: Of a network.
        along: The dimension that counts examples, of what goes in and of what comes out.
    """
    whole = Program(program.blueprint_, _in_double(program), program.sizes_).eval()
    inputs = program.blueprint_.made_up(dtype=torch.float64)
    others = program.blueprint_.made_up(seed=1, dtype=torch.float64)
    changed = [
        torch.cat([new.narrow(along, 0, 1), own.narrow(along, 1, own.shape[along] - 1)], along)
        if own.ndim > along
        else own
        for own, new in zip(inputs, others, strict=True)
    ]
    examples = next((own.shape[along] for own in inputs if own.ndim > along), 1)
    with torch.no_grad(), _fault_of_a_rule():
        before, after = (_first_output(whole(*own)) for own in (inputs, changed))
    if before is None or after is None or before.ndim <= along or before.shape[along] % examples:
        return  # of examples nothing is said
    _check_numbers(before, "as it is")
    largest = before[before.isfinite()].abs().max()
    apart = ((before - after).abs() > _TOLERATED * largest).movedim(along, 0)
    # Each may have several places: side by side, or one in every part.
    side_by_side, in_parts = apart.unflatten(0, (examples, -1)), apart.unflatten(0, (-1, examples))
    if side_by_side[1:].any() and in_parts[:, 1:].any():
        raise InputError(
            "what the network returns for an example depends on the others of its batch, also in "
            f"evaluation: dimension {along} of its inputs must count examples, in all its layers"
            + (" (batch_first=True in those for recurrence and attention)" if along == 0 else "")
            + ", and batch normalisation must keep statistics (track_running_stats=True)"
        )


def _first_output(outputs: Any) -> Tensor | None:
    return next((out for out in pytree.tree_leaves(outputs) if isinstance(out, Tensor)), None)


def is_number(outputs: Any) -> bool:
    """Is some of the outputs one? Of nan and inf alone nothing can be compared."""
    found = [out for out in pytree.tree_leaves(outputs) if isinstance(out, Tensor)]
    return not found or any(bool(out.isfinite().any()) for out in found)


def _check_numbers(outputs: Any, when: str) -> None:
    """Raise `InputError` if none of the outputs is a number."""
    if not is_number(outputs):
        raise InputError(
            f"{when} the network returns no numbers, only nan or inf, for inputs like those it was "
            "traced with: does it divide by something that can be zero?"
        )


@contextmanager
def as_traced(network: nn.Module, *, training: bool = False) -> Iterator[None]:
    """The network is in a mode, and without torch's fast path for attention, as it is traced.

    That leaves padded places at zero.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with in_mode(network, training=training):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def precision(network: nn.Module) -> tuple[torch.dtype, float]:
    """A network's type of numbers, and by how much equal outputs may differ in it."""
    floating = (p.dtype for p in network.parameters() if p.is_floating_point())
    dtype = next(floating, torch.float32)
    return dtype, 100 * torch.finfo(dtype).eps


def check_training(program: Program) -> None:
    """Raise `InputError` if a program cannot learn."""
    copied = {name: tensor.detach().clone() for name, tensor in tensors_of(program).items()}
    own, _ = precision(program)
    learner = Program(program.blueprint_, copied, program.sizes_).train()
    try:
        with torch.enable_grad(), borrowed_streams():
            outputs = pytree.tree_leaves(learner(*program.blueprint_.made_up(dtype=own)))
            learned = [
                out.sum() for out in outputs if isinstance(out, Tensor) and out.requires_grad
            ]
            if learned:
                torch.stack([one.real for one in learned]).sum().backward()
            elif any(weight.requires_grad for weight in learner.parameters()):
                raise InputError("no output of the network depends on a weight that can learn")
    except RuntimeError as error:
        raise InputError(
            f"the network was traced, but cannot be trained as it was: {error}"
        ) from error


def random_masks(
    layout: Layout, tensors: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    """Masks without some single weights, and without all that makes or reads some units."""
    masks = {
        name: torch.rand(tensors[name].shape, generator=generator) > 0.1 for name in layout.weights
    }
    for space in layout.spaces:
        if space.kind.may_go:
            for role in (Role.PRODUCER, Role.CONSUMER):
                gone = torch.rand(space.size, generator=generator) < 0.3
                for slot in filter(layout.is_weight, layout.slots_of(space.name, role)):
                    owned = slot.indices(space.size)[gone].flatten()
                    masks[slot.parameter].index_fill_(slot.dim, owned, False)
    return masks


def difference(first: object, second: object) -> float:
    """The largest difference of outputs, relative to the largest of them.

    Infinite where only one is no number, or they have other shapes.

    >>> difference(torch.ones(2), torch.tensor([1.0, torch.nan]))
    inf
    """
    worst = 0.0
    pairs = zip(pytree.tree_leaves(first), pytree.tree_leaves(second), strict=True)
    for one, other in pairs:
        if isinstance(one, Tensor) and (one.is_floating_point() or one.is_complex()):
            if one.shape != other.shape:
                return math.inf
            same = (one == other) | (one.isnan() & other.isnan())
            apart = torch.where(same, 0.0, (one - other).abs()).detach().nan_to_num(nan=math.inf)
            finite = one.detach().abs()[one.isfinite()]
            scale = max(float(finite.max()) if finite.numel() else 1.0, 1.0)
            worst = max(worst, float(apart.max()) / scale if apart.numel() else 0.0)
    return worst


def _in_double(network: nn.Module) -> dict[str, Tensor]:
    return {
        name: tensor.detach().double() if tensor.is_floating_point() else tensor.detach()
        for name, tensor in tensors_of(network).items()
    }
