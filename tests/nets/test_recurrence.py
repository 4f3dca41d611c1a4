"""An LSTM layer by few products, against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sparsemble.devices import has_bfloat16
from sparsemble.nets import LanguageModel, recurrence
from sparsemble.nets.recurrence import recur, run_layer

needs_bfloat16 = pytest.mark.skipif(not has_bfloat16(), reason="this CPU has no bfloat16")


def scene(steps: int = 6, dtype: torch.dtype = torch.float64) -> tuple[nn.LSTM, Tensor, tuple]:
    """A layer of 5 units, what it reads in 3 streams, and a state; all of it has gradients."""
    torch.manual_seed(0)
    layer = nn.LSTM(7, 5).to(dtype)
    values = torch.randn(steps, 3, 7, dtype=dtype, requires_grad=True)
    state = tuple(torch.randn(1, 3, 5, dtype=dtype, requires_grad=True) for _ in "hc")
    return layer, values, state


def some_loss(outputs: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
    """Weighs every output and the state after the last differently."""
    parts = [outputs, *state]
    weights = [torch.linspace(-1, k + 2, part.numel()) for k, part in enumerate(parts)]
    return sum((part.flatten() * own).sum() for part, own in zip(parts, weights, strict=True))


@pytest.mark.parametrize("steps", [1, 6])
def test_outputs_state_and_all_gradients_are_those_of_pytorch(steps):
    layer, values, state = scene(steps)
    leaves = [*layer.parameters(), values, *state]
    expected = layer(values, state)
    found = recur(values, state, list(layer.parameters()))
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    wanted = torch.autograd.grad(some_loss(*expected), leaves)
    torch.testing.assert_close(torch.autograd.grad(some_loss(*found), leaves), wanted)


def test_it_starts_at_zero():
    layer, values, _ = scene()
    found, expected = recur(values, None, list(layer.parameters())), layer(values)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


@needs_bfloat16
def test_a_wide_layer_under_autocast_keeps_its_cells_precise(monkeypatch):
    monkeypatch.setattr(recurrence, "_WIDE", 5)
    layer, values, state = scene(dtype=torch.float32)
    leaves = [*layer.parameters(), values]
    wanted = torch.autograd.grad(some_loss(*layer(values, state)), leaves)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, (hidden, cell) = run_layer(layer, values, state)
    assert (outputs.dtype, hidden.dtype, cell.dtype) == (torch.bfloat16,) * 2 + (torch.float32,)
    gradients = torch.autograd.grad(some_loss(outputs, (hidden, cell)), leaves)
    for gradient, expected in zip(gradients, wanted, strict=True):
        assert gradient.dtype is torch.float32
        assert (gradient - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize(
    ("autocast", "wide", "learning"),
    [(False, 5, True), (True, 6, True), (True, 5, False)],
    ids=["without autocast", "narrow", "without gradients"],
)
@needs_bfloat16
def test_other_layers_are_pytorchs_own(autocast, wide, learning, monkeypatch):
    monkeypatch.setattr(recurrence, "_WIDE", wide)
    layer, values, state = scene(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), torch.set_grad_enabled(learning):
        found, expected = run_layer(layer, values, state), layer(values, state)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_doubles_are_left_to_pytorch_under_autocast():
    model = LanguageModel(7, 460, [460]).double()
    with torch.autocast("cpu", torch.bfloat16):
        logits, _ = model(torch.zeros(3, 2, dtype=torch.long))
        logits.sum().backward()
    assert model.lstms[0].weight_hh_l0.grad.dtype is torch.float64
