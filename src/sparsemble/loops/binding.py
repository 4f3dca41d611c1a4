"""Parameters that something was bound to: still those of the network, and still in their place?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer

from sparsemble.errors import InputError


@dataclass(frozen=True)
class _Place:
    """Where a network holds a parameter, and where its numbers are."""

    layer: nn.Module
    leaf: str
    parameter: Tensor
    address: int

    def holds(self) -> bool:
        own = self.layer._parameters.get(self.leaf)
        return own is self.parameter and self.parameter.data_ptr() == self.address


class Binding:
    """A network's learning parameters, as they were found.

    Args:
        network: Whose they are.
        bound: What is bound to them, for messages.
    """

    def __init__(self, network: nn.Module, bound: str) -> None:
        self.parameters: dict[str, Tensor] = {
            name: parameter
            for name, parameter in network.named_parameters()
            if parameter.requires_grad
        }
        self._bound = bound
        self._places = {
            name: _place(network, name, parameter) for name, parameter in self.parameters.items()
        }

    def check(self) -> None:
        """Raise `InputError` if the network has been moved, cast or rebuilt since."""
        for name, place in self._places.items():
            if not place.holds():
                raise InputError(
                    f"the network's {name!r} is no longer the tensor that {self._bound} was made "
                    f"with: make {self._bound} after the network has been moved, cast or wrapped"
                )

    def check_moved_by(self, optimizer: Optimizer, names: Iterable[str]) -> None:
        """Raise `InputError` if an optimiser does not move some of the parameters."""
        moved = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        for name in names:
            if id(self.parameters[name]) not in moved:
                raise InputError(
                    f"the {type(optimizer).__name__} does not move {name!r}, on which "
                    f"{self._bound} depends: make it of this network's parameters"
                )


def _place(network: nn.Module, name: str, parameter: Tensor) -> _Place:
    path, _, leaf = name.rpartition(".")
    return _Place(network.get_submodule(path), leaf, parameter, parameter.data_ptr())
