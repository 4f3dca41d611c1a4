"""A network of the user's and its description, found to go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.layouts.known import is_known
from sparsemble.members import Member, filled, tensors_of
from sparsemble.stages import Sample
from sparsemble.stages.starting import check_plain
from sparsemble.structure import Layout
from sparsemble.structure.groupings import grouped
from sparsemble.tracing import Traced

Description = Layout | Traced
"""What `layout_of` or `describe` say of a network."""


@dataclass(frozen=True)
class LaidOut:
    """A network that moves, its layout, and one of its kind to put samples into."""

    network: nn.Module
    layout: Layout
    blank: nn.Module

    @classmethod
    def of(cls, network: nn.Module, description: Description) -> Self:
        """A network with its description; weights that have no groups yet get the usual ones."""
        blank: nn.Module
        if isinstance(description, Traced):
            layout, blank = description.layout, description.program
            _check_traced(tensors_of(network), tensors_of(blank))
        elif isinstance(description, Layout):
            layout, blank = description, network
            layout.check(tensors_of(network))
            check_plain(network)
            _check_sizes(network, layout)
        else:
            raise InputError(
                f"a {type(description).__name__} does not describe a network: give what "
                "sparsemble.describe(network, inputs) returns"
            )
        return cls(network, layout if layout.families else grouped(layout, "outgoing"), blank)

    def held(self) -> dict[str, Tensor]:
        """A copy of all that the network holds now, in main memory."""
        own = tensors_of(self.blank)
        now = own | {n: t for n, t in tensors_of(self.network).items() if n in own}
        return {name: tensor.detach().cpu().clone() for name, tensor in now.items()}

    def dense(self, sample: Sample) -> Member:
        """A sample as it is."""
        return Member.dense(filled(self.blank, sample.parameters), self.layout).eval()


def _check_traced(own: Mapping[str, Tensor], traced: Mapping[str, Tensor]) -> None:
    parameters = {name: t for name, t in traced.items() if isinstance(t, nn.Parameter)}
    for name, tensor in parameters.items():
        if name not in own:
            raise InputError(
                f"the network lacks {name!r}, which its description names (it has {next(iter(own))}"
                ", …): describe this one or, if it has been wrapped since, give the one inside"
            )
        if (found := _kind(own[name])) != (known := _kind(tensor)):
            raise InputError(f"{name!r} is {found}, in the description {known}: describe this one")
        if own[name].requires_grad != tensor.requires_grad:
            raise InputError(
                f"{name!r} has been frozen, or set free, since the network was described: describe "
                "it again"
            )


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _check_sizes(network: nn.Module, layout: Layout) -> None:
    """Of a network that is known: a layout may be of a smaller one, which fits into it."""
    if is_known(network) and (sizes := layout_of(network).sizes) != layout.sizes:
        raise InputError(f"the layout has {layout.sizes}, the network {sizes}: describe this one")
