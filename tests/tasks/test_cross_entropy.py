"""The cross-entropy of large vocabularies, against PyTorch's."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sparsemble.tasks.cross_entropy import summed_cross_entropy


def both(logits: Tensor, targets: Tensor, scale: float = 0.05) -> list[tuple[Tensor, Tensor]]:
    """Loss and gradient, ours and PyTorch's."""
    found = []
    for loss_of in (
        summed_cross_entropy,
        lambda z, y: F.cross_entropy(z.flatten(0, -2), y.flatten(), reduction="sum"),
    ):
        own = logits.clone().requires_grad_()
        loss = loss_of(own, targets)
        (loss * scale).backward()
        found.append((loss.detach(), own.grad))
    return found


def some(*shape: int, spread: float = 3.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(*shape, generator=generator, dtype=torch.float64) * spread
    return logits, torch.randint(shape[-1], shape[:-1], generator=generator)


@pytest.mark.parametrize("shape", [(7, 5), (4, 3, 50), (1, 1, 2)])
def test_loss_and_gradient_are_those_of_pytorch(shape):
    (loss, gradient), (expected, wanted) = both(*some(*shape))
    torch.testing.assert_close(loss, expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(gradient, wanted, rtol=1e-12, atol=1e-15)


def test_a_target_that_is_practically_impossible_has_a_finite_loss():
    logits, targets = some(6, 20, spread=1e3)
    (loss, gradient), (expected, wanted) = both(logits.float(), targets)
    assert 1e3 < loss < math.inf
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, wanted)


def test_short_formats_are_summed_in_single_precision():
    logits, targets = some(40, 1000)
    loss = summed_cross_entropy(logits.bfloat16(), targets)
    assert loss.dtype is torch.float32
    expected = F.cross_entropy(logits.bfloat16().double(), targets, reduction="sum")
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)


def test_it_leaves_the_logits_alone():
    logits, targets = some(5, 9)
    before = logits.clone()
    summed_cross_entropy(logits.requires_grad_(), targets).backward()
    assert torch.equal(logits, before)


def test_the_gradient_of_short_formats_is_theirs_to_their_last_digits():
    logits, targets = some(6, 4, 500)
    (loss, gradient), _ = both(logits.bfloat16(), targets)
    (expected, wanted), _ = both(logits.bfloat16().float(), targets)
    assert loss == expected
    assert gradient.dtype is torch.bfloat16
    torch.testing.assert_close(gradient.float(), wanted, rtol=2**-7, atol=0)
