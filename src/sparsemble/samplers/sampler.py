"""What the samplers share: explicit `num_data` and `temperature`, and noise that can be resumed.

The generators are the sampler's own, one per device, seeded by `seed` and saved in `state_dict`, so
a resumed chain draws the noise the uninterrupted one would have drawn.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Required, TypedDict

import torch
from torch import Tensor
from torch.optim import Optimizer

from sparsemble.errors import InputError
from sparsemble.samplers.noise import NoiseKind, NoiseSource
from sparsemble.settings import NotNegative, Settings

# As they are written: as they are called they import PyTorch's compiler, which takes two seconds.
_add_param_group = inspect.unwrap(Optimizer.add_param_group)
_state_dict = inspect.unwrap(Optimizer.state_dict)
_load_state_dict = inspect.unwrap(Optimizer.load_state_dict)


class Common(TypedDict, total=False):
    """What every sampler can be given besides its parameters and rate; `num_data` must be."""

    num_data: Required[int]
    temperature: float
    noise: NoiseKind
    seed: int


class Sampler(Optimizer, ABC):
    """Base of the SG-MCMC samplers; subclasses define one step in `update`.

    Args:
        params: The tensors that are sampled.
        lr: The learning rate η of the mean loss.
        num_data: The N of the posterior: how many examples the mean loss stands for.
        temperature: 1 samples the posterior, 0 is plain optimisation.
        noise: `gaussian`, or `rademacher` (±1), which is faster.
        seed: Of the noise.
        defaults: Numbers of a subclass, which find them in each parameter group.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        *,
        num_data: int | None = None,
        temperature: float = 1.0,
        noise: NoiseKind = "gaussian",
        seed: int = 0,
        **defaults: float,
    ) -> None:
        if not (lr >= 0 and math.isfinite(lr)):
            raise InputError(f"lr = {lr}: the learning rate must be a finite number, 0 or more")
        if num_data is None or not num_data >= 1:
            raise InputError(f"num_data = {num_data}: the number of training examples is needed")
        if not (temperature >= 0 and math.isfinite(temperature)):
            raise InputError(
                f"temperature = {temperature}: must be finite and not negative "
                "(1 samples the posterior, 0 is plain optimisation)"
            )
        self.num_data = num_data
        self._noise = noise
        self._seed = seed
        self._sources: dict[tuple[torch.device, torch.dtype], NoiseSource] = {}
        super().__init__(params, {"lr": lr, "temperature": temperature, **defaults})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; each device and precision among them gets noise of its own."""
        _add_param_group(self, param_group)
        self._make_sources(self.param_groups[-1])

    def _make_sources(self, param_group: dict[str, Any]) -> None:
        for param in param_group["params"]:
            key = (param.device, param.dtype)
            if key not in self._sources:
                generator = torch.Generator(param.device)
                generator.manual_seed(self._seed + len(self._sources))
                self._sources[key] = NoiseSource(self._noise, generator, param.dtype)

    def reseed(self, seed: int) -> None:
        """Start the noise anew from `seed`."""
        self._seed = seed
        for offset, source in enumerate(self._sources.values()):
            source.generator.manual_seed(seed + offset)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update from the gradients in `.grad`."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alike: dict[tuple[torch.device, torch.dtype], tuple[list[Tensor], list[Tensor]]] = {}
            for param in group["params"]:
                if param.grad is not None:
                    params, grads = alike.setdefault((param.device, param.dtype), ([], []))
                    params.append(param)
                    grads.append(param.grad)
            for key, (params, grads) in alike.items():
                if key not in self._sources:
                    raise InputError(
                        f"a parameter is now {key[1]} on {key[0]}: make the sampler after the "
                        "network has been moved or cast"
                    )
                self.update(group, params, grads, self._sources[key])
        return loss

    @abstractmethod
    def update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], source: NoiseSource
    ) -> None:
        """Move `params` in place by `grads`, and by what `source` draws.

        Args:
            group: The settings of this parameter group: `lr`, `temperature` and a subclass's own.
            params: Tensors of one device and dtype.
            grads: Their gradients, prior included.
            source: Noise of mean 0 and variance 1 for them.
        """

    def drift(self, group: dict[str, Any]) -> float | None:
        """How far a gradient of 1 that stays moves a parameter in a step, if it moves all alike.

        A proximal step of the prior goes as far; samplers that do not say have none.
        """
        return None

    def noise_scale(self, group: dict[str, Any]) -> float:
        """Standard deviation of the noise one step adds (before any preconditioning): √(2ηT/N)."""
        return math.sqrt(2 * group["lr"] * group["temperature"] / self.num_data)

    @torch.no_grad()
    def noise_to_drift(self) -> float:
        """Size of the noise that a step adds over the size of its gradient part, by `.grad`."""
        drift = noise = 0.0
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    speed = self._preconditioner(group, param)
                    drift += float((speed * param.grad).mul(group["lr"]).double().square().sum())
                    size = param.numel() if isinstance(speed, float) else float(speed.sum())
                    noise += self.noise_scale(group) ** 2 * size
        return math.sqrt(noise / drift) if drift > 0 else math.inf

    def _preconditioner(self, group: dict[str, Any], param: Tensor) -> Tensor | float:
        """`G`, by which the gradient is multiplied, and the variance of the noise."""
        return 1.0

    def _buffers(self, params: list[Tensor], name: str) -> list[Tensor]:
        """One buffer shaped like each parameter, made of zeros when first asked for."""
        buffers = []
        for param in params:
            state = self.state[param]
            if name not in state:
                state[name] = torch.zeros_like(param)
            buffers.append(state[name])
        return buffers

    def __getstate__(self) -> dict[str, Any]:
        own = {name: vars(self)[name] for name in ("num_data", "_noise", "_seed")}
        return super().__getstate__() | own | {"noise": self._generator_states()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        plain = dict(state)
        noise = plain.pop("noise", None)
        super().__setstate__(plain)
        if noise is None:  # a state that is loaded, not a copy that is made
            return
        self._sources = {}
        for group in self.param_groups:
            self._make_sources(group)
        self._restore_generators(noise)

    def _generator_states(self) -> list[Tensor]:
        return [source.generator.get_state() for source in self._sources.values()]

    def _restore_generators(self, states: Iterable[Tensor]) -> None:
        for source, state in zip(self._sources.values(), states, strict=True):
            source.generator.set_state(state.cpu())  # wherever the generator draws

    def state_dict(self) -> dict[str, Any]:
        """The optimiser's state and the states of the noise generators."""
        state: dict[str, Any] = _state_dict(self)
        state["noise"] = self._generator_states()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` saved."""
        state = dict(state_dict)
        saved = state.pop("noise")
        _load_state_dict(self, state)
        self._restore_generators(saved)


class SamplerSettings(Settings, ABC):
    """A sampler in a recipe: its fields are the keywords of the class in `sampler`."""

    sampler: ClassVar[type[Sampler]]
    temperature: NotNegative = 1.0
    """1 samples the posterior, 0 is plain optimisation."""
    noise: NoiseKind = "gaussian"
    """Gaussian, or ±1, which is faster."""

    def build(self, params: Iterable[Tensor], *, lr: float, num_data: int, seed: int) -> Sampler:
        """The sampler on `params`."""
        fields = {name: value for name, value in self if name != "kind"}
        return self.sampler(params, lr, num_data=num_data, seed=seed, **fields)
