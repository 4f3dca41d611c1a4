"""Where chains start: the caller's network, or fresh ones of its kind."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from sparsemble.errors import InputError
from sparsemble.members import filled, tensors_of
from sparsemble.programs import Program
from sparsemble.seeds import derive
from sparsemble.streams import borrowed_streams
from sparsemble.tracing.refused_layers import check_layers

Maker = nn.Module | Callable[[], nn.Module]
"""A network, or a function that makes freshly initialised ones."""


@dataclass(frozen=True)
class TracedSource:
    """Networks that are computed as the program that one of them was traced to."""

    made_by: Maker
    program: Program
    prepare: Callable[[nn.Module], nn.Module]
    """What was done to a network before it was traced."""

    def traced(self, network: nn.Module) -> nn.Module:
        """A network of theirs as a program."""
        prepared = tensors_of(self.prepare(network))
        own = tensors_of(self.program)
        return filled(self.program, own | {n: t for n, t in prepared.items() if n in own})


NetworkSource = Maker | TracedSource


def initial_network(source: NetworkSource, number: int, seed: int) -> nn.Module:
    """A network for a chain: made by the caller's function, or a copy of the caller's network.

    The first chain starts from the given weights, the others from freshly initialised ones.
    """
    if isinstance(source, TracedSource):
        return source.traced(initial_network(source.made_by, number, seed))
    with borrowed_streams(derive(seed, "weights")):
        # What a function gives may be a network of the caller's, too.
        network = _copied(source if isinstance(source, nn.Module) else _made_by(source))
        if number > 0 and isinstance(source, nn.Module):
            _initialise_what_learns(network)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InputError(
            "the network has no parameter that learns: all are frozen, or there is none"
        )
    return network


def _made_by(source: Callable[[], nn.Module]) -> nn.Module:
    """What a function makes; of a class that needs arguments, say so."""
    if isinstance(source, type):
        try:
            inspect.signature(source).bind()
        except TypeError as error:
            raise InputError(
                f"{source.__name__} cannot make a network without arguments ({error}): give a "
                f"network, or a function, as lambda: {source.__name__}(…)"
            ) from None
        except ValueError:  # of something without a signature
            pass
    return source()


def _copied(network: nn.Module) -> nn.Module:
    """A copy, if it can be one."""
    if not isinstance(network, nn.Module):
        raise InputError(f"a network is needed, not {type(network).__name__}")
    check_layers(network)
    for name, parameter in network.named_parameters():
        if is_lazy(parameter):
            raise InputError(
                f"parameter {name!r} has no shape yet, as it is of a lazy layer: call the network "
                "with some inputs first"
            )
    return copy.deepcopy(network)


def is_plain(network: nn.Module) -> bool:
    """Has it only parameters that learn?"""
    return all(p.requires_grad for p in network.parameters()) and not any(
        True for _ in network.buffers()
    )


def check_plain(network: nn.Module) -> None:
    """A layout written by hand says nothing of what does not learn: a traced network's does."""
    if isinstance(network, Program) or is_plain(network):
        return
    frozen = [name for name, p in network.named_parameters() if not p.requires_grad]
    names = ", ".join([*frozen, *(name for name, _ in network.named_buffers())])
    raise InputError(
        f"the network has buffers or frozen parameters ({names}), of which a layout written by "
        "hand says nothing: leave the layout out, and the network is traced"
    )


def _initialise_what_learns(network: nn.Module) -> None:
    """Draw new weights, but for what is frozen, which was learned elsewhere."""
    frozen = {p: p.detach().clone() for p in network.parameters() if not p.requires_grad}
    _initialise(network)
    with torch.no_grad():
        for parameter, before in frozen.items():
            parameter.copy_(before)


def _initialise(module: nn.Module, name: str = "") -> None:
    """Draw new weights; a module that resets itself as a whole does, any other its parts."""
    own = list(module.parameters())
    if own and not any(parameter.requires_grad for parameter in own):
        return
    if is_parametrized(module):
        raise InputError(f"module {_called(module, name)} is parametrised: {_MAKE_IT}")
    reset: Callable[[], None] | None = getattr(module, "reset_parameters", None)
    if reset is not None:
        before = [parameter.detach().clone() for parameter in own]
        reset()
        if any(map(_is_left, own, before)):  # it resets what is its own, but not its parts
            for part, child in module.named_children():
                _initialise(child, f"{name}.{part}" if name else part)
            reset()
        return
    reset = getattr(module, "_reset_parameters", None)
    if reset is not None:  # of PyTorch's attention, which leaves some of its parts out
        for part, child in module.named_children():
            _initialise(child, f"{name}.{part}" if name else part)
        reset()
        return
    if any(parameter.requires_grad for parameter in module.parameters(recurse=False)):
        raise InputError(
            f"module {_called(module, name)} has parameters but no reset_parameters(): {_MAKE_IT}"
        )
    for part, child in module.named_children():
        _initialise(child, f"{name}.{part}" if name else part)


_MAKE_IT = (
    "give a function that makes a fresh network, so that every chain can start from its own weights"
)


def _called(module: nn.Module, name: str) -> str:
    return repr(name or type(module).__name__)


def _is_left(parameter: nn.Parameter, before: Tensor) -> bool:
    """Has it stayed as it was, and is it nothing that weights are set to, as zeros are?"""
    if not parameter.requires_grad or not torch.equal(parameter, before):
        return False
    return bool((before != before.flatten()[:1]).any())
