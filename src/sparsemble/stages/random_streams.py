"""The global random stream, held by a chain while it runs.

Dropout and augmentations take no generator of their own: they draw from PyTorch's global one, whose
state a chain therefore seeds, saves with its own, and gives back to the caller afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from sparsemble.devices import denormals_are_flushed


class RandomStream:
    """The states of the global generators that computing on `device` may draw from."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        self._held = False
        self._states = {"random": torch.Generator().manual_seed(seed).get_state()}
        if device.type != "cpu":
            own = torch.Generator(device).manual_seed(seed).get_state()
            self._states[f"random on {device.type}"] = own

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the global generators go on from here, then give the caller's state back.

        Denormal floats, which a sparse prior produces in plenty, are flushed meanwhile: they slow
        a CPU many times over. That holds for this thread and those it starts; the command line
        asks for it before there are any.
        """
        outer = self._current()
        self._set(self._states)
        flushed = denormals_are_flushed()
        torch.set_flush_denormal(True)
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self._states = self._current()
            self._set(outer)
            torch.set_flush_denormal(flushed)

    def reseed(self, seed: int) -> None:
        """Begin anew from `seed`, while held."""
        torch.manual_seed(seed)

    def state(self) -> dict[str, Tensor]:
        """What `restore` takes."""
        return self._current() if self._held else self._states

    def restore(self, states: Mapping[str, Tensor]) -> None:
        """Go on from `state()`, among other tensors; a state that is missing is a `KeyError`."""
        self._states = {key: states[key] for key in self._states}

    def _current(self) -> dict[str, Tensor]:
        states = {"random": torch.get_rng_state()}
        if self._device.type != "cpu":
            own: Tensor = torch.get_device_module(self._device).get_rng_state(self._device)
            states[f"random on {self._device.type}"] = own
        return states

    def _set(self, states: Mapping[str, Tensor]) -> None:
        torch.set_rng_state(states["random"])
        if self._device.type != "cpu":
            own = states[f"random on {self._device.type}"]
            torch.get_device_module(self._device).set_rng_state(own, self._device)
