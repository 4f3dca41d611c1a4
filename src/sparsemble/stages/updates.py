"""How gradient, prior and noise move the weights, each at its own pace.

With `every = 1` and the prior's gradient a step is the sampler's own. Prior and noise can also act
only at every k-th step, k times as strongly (multiple time steps, as in molecular dynamics):

    k − 1 times    θ ← θ − η·g̃                       g̃ the gradient of the loss alone
    then once      θ ← θ − η·g̃ + √(2kηT/N)·ξ
                   θ ← prox_{kη·R}(θ)                 or the gradient of R in g̃, k-fold

Both are passes over all weights that cost as much as a small network's gradient, and a k-th of them
is enough: per step drift and variance are the same. For a quadratic loss of curvature a and a
Gaussian prior λ the weights after the prior's step have variance

    (2kηT/N) / ((1 + kηλ)² − (1 − ηa)^2k),   which tends to T/(N(a + λ)) as η → 0.

The proximal step comes after the noise, so that groups which it takes to zero are exactly zero. It
goes as far as the prior's gradient would in k steps: for SGLD kη, for SGHMC kη/α. Preconditioned
samplers move every weight by a rate of its own, and have no such step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.priors import BoundPrior
from sparsemble.samplers import Sampler

PriorStep = Literal["gradient", "proximal"]


class Update:
    """Moves parameters by their gradients, the prior and noise.

    Args:
        sampler: Moves them by gradient and noise.
        prior: On the same parameters.
        every: Steps from one prior and noise to the next.
        prior_step: The prior by its gradient, or by its proximal map.
    """

    def __init__(
        self,
        sampler: Sampler,
        prior: BoundPrior,
        *,
        every: int = 1,
        prior_step: PriorStep = "gradient",
    ) -> None:
        self.sampler = sampler
        self.prior = prior
        self._every = every
        self._proximal = prior_step == "proximal"
        self._temperatures = [group["temperature"] for group in sampler.param_groups]
        if self._proximal:
            check_proximal(type(sampler))

    def set_lr(self, lr: float) -> None:
        """Use this learning rate from now on."""
        for group in self.sampler.param_groups:
            group["lr"] = lr

    @torch.no_grad()
    def __call__(self, step: int, gradients: Mapping[str, Tensor]) -> None:
        """Take step number `step`, counted from 1, with the gradients of the loss."""
        if step % self._every:
            self._move(0)
            return
        if not self._proximal:
            self._add_prior(gradients)
        self._move(self._every)
        if self._proximal:
            self.prior.shrink(step_of_prior(self.sampler, self._every))

    def _add_prior(self, gradients: Mapping[str, Tensor]) -> None:
        if self._every == 1:
            self.prior.add_gradient(gradients)
            return
        tensors = list(gradients.values())
        torch._foreach_div_(tensors, self._every)
        self.prior.add_gradient(gradients)
        torch._foreach_mul_(tensors, self._every)

    def _move(self, noise_steps: int) -> None:
        """One step of the sampler with the noise of so many."""
        for group, temperature in zip(self.sampler.param_groups, self._temperatures, strict=True):
            group["temperature"] = temperature * noise_steps
        self.sampler.step()
        for group, temperature in zip(self.sampler.param_groups, self._temperatures, strict=True):
            group["temperature"] = temperature

    @property
    def _lr(self) -> float:
        return float(self.sampler.param_groups[0]["lr"])

    def at_zero(self) -> dict[str, Tensor]:
        """Which groups of every family the prior holds near zero."""
        return self.prior.at_zero(**self._circumstances)

    def idle(self) -> dict[str, Tensor]:
        """Which of them nothing would miss."""
        return self.prior.idle(**self._circumstances)

    @property
    def _circumstances(self) -> dict[str, Any]:
        return {
            "temperature": self._temperatures[0],
            "num_data": self.sampler.num_data,
            "step": step_of_prior(self.sampler, self._every),
        }

    def figures(self) -> dict[str, Any]:
        """What a trace tells of the last step."""
        return {"lr": self._lr, "noise_to_drift": self.sampler.noise_to_drift()}


def step_of_prior(sampler: Sampler, every: int) -> float:
    """How far the prior's gradient moves a weight where it acts at every so many steps."""
    group = sampler.param_groups[0]
    drift = sampler.drift(group)
    return every * float(group["lr"] if drift is None else drift)


def check_proximal(sampler: type[Sampler]) -> None:
    """Raise `InputError` if the prior cannot act by proximal steps beside a sampler."""
    if sampler.drift is Sampler.drift:
        raise InputError(
            f"prior_step = 'proximal' is not for {sampler.__name__}, which does not say how far a "
            "gradient moves all parameters alike (drift); use 'gradient'"
        )
