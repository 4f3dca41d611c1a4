"""What is done before and after the steps of an optimiser, whoever calls them.

A step that is skipped (of a `GradScaler`, while gradients are accumulated) is none. Gradients are
complete before a step unless a closure computes them in it: then that is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from sparsemble.errors import InputError

Action = Callable[[], None]


def unwrapped(optimizer: Optimizer) -> Optimizer:
    """The optimiser itself, which frameworks put into one of their own."""
    while isinstance(inside := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inside
    return optimizer


def before_update(optimizer: Optimizer, act: Action) -> RemovableHandle:
    """Act before every step, once its gradients are there."""

    def hook(own: Optimizer, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if getattr(own, "grad_scale", None) is not None:
            raise InputError(
                "a fused optimiser unscales gradients by itself, after a prior would have added "
                "its own: make it without fused=True, or do without a GradScaler"
            )
        _, *others = given
        closure = named["closure"] if "closure" in named else next(iter(others), None)
        if closure is None:
            _quietly(act)
            return None

        def acting() -> Any:
            loss = closure()
            _quietly(act)
            return loss

        rest = {name: value for name, value in named.items() if name != "closure"}
        return (own, acting, *others[1:]), rest

    return optimizer.register_step_pre_hook(hook)


def before_step(optimizer: Optimizer, act: Action) -> RemovableHandle:
    """Act before every step, with the weights as the last one left them."""
    return optimizer.register_step_pre_hook(lambda *_: _quietly(act))


def after_step(optimizer: Optimizer, act: Action) -> RemovableHandle:
    """Act after every step."""
    return optimizer.register_step_post_hook(lambda *_: _quietly(act))


@torch.no_grad()
def _quietly(act: Action) -> None:
    act()
