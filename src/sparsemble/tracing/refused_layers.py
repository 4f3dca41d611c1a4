"""Layers that no trace can follow, told by name before anything is tried."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from sparsemble.errors import InputError


def check_layers(network: nn.Module) -> None:
    """Raise `InputError` if a layer is among them."""
    for name, layer in network.named_modules():
        if why := _why(layer):
            raise InputError(f"layer {name or type(layer).__name__!r} {why}")


def _why(layer: nn.Module) -> str | None:
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm):
            return (
                "has the weight_norm of torch.nn.utils, which can neither be copied nor traced: "
                "use torch.nn.utils.parametrizations.weight_norm"
            )
        if isinstance(hook, SpectralNorm):
            return _SPECTRAL
    if parametrize.is_parametrized(layer):
        lists = layer.parametrizations.values()  # type: ignore[operator]
        if any(isinstance(own, parametrizations._SpectralNorm) for each in lists for own in each):
            return _SPECTRAL
    if isinstance(layer, _NormBase) and layer.momentum is None and layer.track_running_stats:
        return (
            "has momentum=None: its statistics depend on how many batches it has seen, which "
            "cannot be traced; give it a momentum, such as 0.1"
        )
    return None


_SPECTRAL = (
    "has a spectral_norm, which changes its estimate whenever it is computed and cannot be traced: "
    "bake it in by torch.nn.utils.parametrize.remove_parametrizations, or remove_spectral_norm"
)
