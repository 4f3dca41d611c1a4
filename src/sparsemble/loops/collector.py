"""Samples of a network that a loop of the user's moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from sparsemble.errors import DivergedError, InputError
from sparsemble.loops.binding import Binding
from sparsemble.loops.cycles import CycleWatch
from sparsemble.loops.hooks import after_step, before_step, unwrapped
from sparsemble.loops.laid_out import Description, LaidOut
from sparsemble.members import tensors_of
from sparsemble.stages import Sample
from sparsemble.stages.averaging import WindowMean, spacing

Collection = Literal["means", "thinned", "cycles"]


class Collector:
    """Takes samples of a network while an optimiser moves it.

    It counts the optimiser's steps by itself; skipped ones do not count.

    Args:
        network: What moves.
        description: What `describe(network, inputs)` returned, or `layout_of(network)`.
        optimizer: Moves it: a sampler.
        interval: Steps from one sample to the next; cycles have none.
        burn_in: Steps before the first interval begins.
        collection: `means` of the weights over every interval, the iterates at its end (`thinned`),
            or those at the end of every cycle of the learning rate (`cycles`).
        average_every: Steps between the iterates that a mean is made of.
        keep: How many samples are kept, the last ones; by default all.

    >>> import torch
    >>> from sparsemble.layouts import layout_of
    >>> net = nn.Sequential(nn.Linear(2, 1))
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    >>> collector = Collector(net, layout_of(net), optimizer, interval=2, burn_in=1)
    >>> for _ in range(5):
    ...     optimizer.step()
    >>> [sample.step for sample in collector.samples]
    [3, 5]
    """

    def __init__(
        self,
        network: nn.Module,
        description: Description,
        optimizer: Optimizer,
        *,
        interval: int | None = None,
        burn_in: int = 0,
        collection: Collection = "means",
        average_every: int = 5,
        keep: int | None = None,
    ) -> None:
        _check(collection, interval, burn_in, average_every, keep)
        optimizer = unwrapped(optimizer)
        self.laid_out = LaidOut.of(network, description)
        self.steps = 0
        """The optimiser's, since the beginning."""
        self.samples: list[Sample] = []
        """What was taken, in order."""
        self._interval = interval
        self._burn_in = burn_in
        self._keep = keep
        self._binding = Binding(network, "the collector")
        self._binding.check_moved_by(optimizer, self.laid_out.layout.weights)
        self._mean: WindowMean | None = None
        self._cycle: CycleWatch | None = None
        if collection == "means":
            every = average_every if interval is None else spacing(average_every, interval)
            self._mean = WindowMean(list(self._binding.parameters.values()), every)
            self._mean.begin(burn_in)
        if collection == "cycles":
            self._cycle = CycleWatch()
            before_step(optimizer, lambda: self._before(optimizer.param_groups[0]["lr"]))
        after_step(optimizer, self._after)

    def _before(self, lr: float) -> None:
        assert self._cycle is not None
        if self._cycle.has_ended(lr) and self.steps > self._burn_in:
            self.take()

    def _after(self) -> None:
        self._binding.check()
        self.steps += 1
        if self._mean is not None:
            self._mean.stepped(self.steps)
        since = self.steps - self._burn_in
        if self._interval is not None and since > 0 and since % self._interval == 0:
            self.take()

    def take(self) -> Sample:
        """Take a sample now: the mean since the last one, or the network as it is."""
        self._binding.check()
        tensors = self.laid_out.held()
        if self._mean is not None:
            means = zip(self._binding.parameters, self._mean.value(), strict=True)
            tensors |= {name: mean.cpu() for name, mean in means if name in tensors}
            self._mean.begin(max(self.steps, self._burn_in))
        for name in self._binding.parameters:  # buffers may hold infinities
            if name in tensors and not bool(tensors[name].isfinite().all()):
                raise DivergedError(
                    f"step {self.steps}: {name!r} is not finite any more; lower the learning rate "
                    "or the temperature, or clip the gradients"
                )
        sample = Sample(0, self.steps, tensors)
        self.samples.append(sample)
        if self._keep is not None:
            del self.samples[: -self._keep]
        return sample

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed loop needs: tensors, numbers and names."""
        state: dict[str, Any] = {
            "steps": self.steps,
            "samples": [
                {"step": sample.step, "parameters": dict(sample.parameters)}
                for sample in self.samples
            ],
        }
        if self._mean is not None:
            tensors, numbers = self._mean.state()
            state["mean"] = {"tensors": tensors, "numbers": numbers}
        if self._cycle is not None:
            state["cycle"] = {"lr": self._cycle.lr, "falling": self._cycle.falling}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`, of a collector that was made in the same way."""
        try:
            steps = int(state["steps"])
            samples = [self._restored(**sample) for sample in state["samples"]]
            if self._mean is not None:
                self._mean.restore(**state["mean"])
            if self._cycle is not None:
                self._cycle = CycleWatch(**state["cycle"])
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(
                f"the state is not one of such a collector ({error}): load it into one that was "
                "made in the same way"
            ) from None
        self.steps, self.samples = steps, samples

    def _restored(self, step: int, parameters: Mapping[str, Tensor]) -> Sample:
        for name, own in tensors_of(self.laid_out.blank).items():
            if parameters[name].shape != own.shape:
                raise ValueError(f"{name!r} has the shape {tuple(parameters[name].shape)}")
        return Sample(0, step, dict(parameters))


def _check(
    collection: str, interval: int | None, burn_in: int, average_every: int, keep: int | None
) -> None:
    if collection not in ("means", "thinned", "cycles"):
        raise InputError(f"collection {collection!r} is not 'means', 'thinned' or 'cycles'")
    if (interval is None) != (collection == "cycles"):
        raise InputError(
            f"interval = {interval} with collection = {collection!r}: means and thinned samples "
            "need the number of steps between them, cycles have none"
        )
    if burn_in < 0:
        raise InputError(f"burn_in = {burn_in}: a number of steps cannot be below 0")
    for name, value in (("interval", interval), ("average_every", average_every), ("keep", keep)):
        if value is not None and value < 1:
            raise InputError(f"{name} = {value}: must be at least 1")
