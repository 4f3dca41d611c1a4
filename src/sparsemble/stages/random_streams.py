"""The global random streams, held by a chain for a step at a time.

Dropout, augmentations and samplers of the user's draw from PyTorch's global generators. A chain
seeds states of its own, puts them there for every step, and gives the caller's back after it: its
numbers are the same whatever callbacks and other threads draw, and chains of several threads take
turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from sparsemble.streams import LENT


class RandomStream:
    """The states of the global generators that computing on `device` may draw from."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        self._states = self._seeded(seed)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the global generators go on from here, then give the caller's states back."""
        with LENT:
            outer = self._current()
            self._set(self._states)
            try:
                yield
            finally:
                self._states = self._current()
                self._set(outer)

    def reseed(self, seed: int) -> None:
        """Begin anew from `seed`; not while held."""
        self._states = self._seeded(seed)

    def draw_from(self, seed: int) -> None:
        """Let the global generators go on from `seed`, while held."""
        self._set(self._seeded(seed))

    def state(self) -> dict[str, Tensor]:
        """What `restore` takes; valid while not held."""
        return self._states

    def restore(self, states: Mapping[str, Tensor]) -> None:
        """Go on from `state()`, among other tensors; a state that is missing is a `KeyError`."""
        self._states = {key: states[key] for key in self._states}

    @property
    def _own(self) -> str:
        """What the state of a device other than the CPU is called."""
        return f"random on {self._device.type}"

    def _seeded(self, seed: int) -> dict[str, Tensor]:
        states = {"random": torch.Generator().manual_seed(seed).get_state()}
        if self._device.type != "cpu":
            states[self._own] = torch.Generator(self._device).manual_seed(seed).get_state()
        return states

    def _current(self) -> dict[str, Tensor]:
        states = {"random": torch.default_generator.get_state()}
        if self._device.type != "cpu":
            own: Tensor = torch.get_device_module(self._device).get_rng_state(self._device)
            states[self._own] = own
        return states

    def _set(self, states: Mapping[str, Tensor]) -> None:
        torch.default_generator.set_state(states["random"])
        if self._device.type != "cpu":
            torch.get_device_module(self._device).set_rng_state(states[self._own], self._device)
