"""A prior that hangs on an optimiser: its gradient is added before every step."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sparsemble.errors import InputError
from sparsemble.loops.binding import Binding
from sparsemble.loops.hooks import before_update, unwrapped
from sparsemble.loops.laid_out import Description, LaidOut
from sparsemble.priors import Prior
from sparsemble.structure import Layout

_ATTACHED: WeakKeyDictionary[Optimizer, list[AttachedPrior]] = WeakKeyDictionary()
"""The priors that hang on optimisers."""


class AttachedPrior:
    """A prior on the weights that an optimiser moves.

    Args:
        prior: Over the weights.
        network: Whose they are.
        layout: Its layout.
        optimizer: Moves them.
        sizes: The groups' original dimensions, of a network that was made smaller.
    """

    def __init__(
        self,
        prior: Prior,
        network: nn.Module,
        layout: Layout,
        optimizer: Optimizer,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        optimizer = unwrapped(optimizer)
        self._binding = Binding(network, "the prior")
        if frozen := [name for name in layout.weights if name not in self._binding.parameters]:
            raise InputError(
                f"the prior is over {frozen[0]!r}, which is frozen (requires_grad = False): let it "
                "learn, or describe the network with it frozen, which leaves it out"
            )
        self._weights = {name: self._binding.parameters[name] for name in layout.weights}
        self._binding.check_moved_by(optimizer, layout.weights)
        self._prior = prior
        self._check_new(optimizer)
        self._bound = prior.bind(layout, self._binding.parameters, sizes=sizes)
        self._handle = before_update(optimizer, self._add_gradient)
        self._others = _ATTACHED.setdefault(optimizer, [])
        self._others.append(self)

    @torch.no_grad()
    def value(self) -> float:
        """What the prior adds to the mean loss now: `−log p(θ)/N` up to a constant."""
        self._binding.check()
        return float(self._bound.value())

    def remove(self) -> None:
        """Add nothing any more."""
        self._handle.remove()
        if self in self._others:
            self._others.remove(self)

    def _check_new(self, optimizer: Optimizer) -> None:
        """The same prior twice would be twice as strong: a cell of a notebook was run again."""
        own = set(map(id, self._weights.values()))
        for other in _ATTACHED.get(optimizer, ()):
            if other._prior == self._prior and own & set(map(id, other._weights.values())):
                raise InputError(
                    "this prior is attached to the optimizer already and would count twice: "
                    "remove() the other one first, or make the optimizer anew"
                )

    def _add_gradient(self) -> None:
        self._binding.check()
        gradients: dict[str, Tensor] = {}
        for name, weight in self._weights.items():
            if weight.grad is None:  # not used in this step: only prior and noise move it
                weight.grad = torch.zeros_like(weight)
            gradients[name] = weight.grad
        self._bound.add_gradient(gradients)


def attach_prior(
    prior: Prior, network: nn.Module, description: Description, optimizer: Optimizer
) -> AttachedPrior:
    """Add a prior's gradient before every step of an optimiser.

    It comes last: after gradients have been accumulated, unscaled and clipped, and never to a step
    that is skipped. The loss must be a mean over examples.

    Args:
        prior: Over the weights, as `GroupSparse(penalty=1e-4)`.
        network: Whose weights the optimiser moves.
        description: What `describe(network, inputs)` returned, or `layout_of(network)`.
        optimizer: Usually a sampler; any other samples nothing, but finds the mode.

    >>> from sparsemble.layouts import layout_of
    >>> from sparsemble.priors import Gaussian
    >>> net = nn.Sequential(nn.Linear(2, 1, bias=False))
    >>> _ = nn.init.ones_(net[0].weight)
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    >>> prior = attach_prior(Gaussian(penalty=1.0), net, layout_of(net), optimizer)
    >>> optimizer.step()  # of ½‖θ‖² alone
    >>> net[0].weight.tolist(), prior.value()
    ([[0.5, 0.5]], 0.25)
    """
    return AttachedPrior(prior, network, LaidOut.of(network, description).layout, optimizer)
