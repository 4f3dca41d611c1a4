"""Devices: where to compute, checked where the user says it."""

from __future__ import annotations

import torch

from sparsemble.errors import InputError


def usable_device(device: str | torch.device) -> torch.device:
    """The device, if numbers can be put there and read back.

    >>> usable_device("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).item()
    except Exception as error:  # what is missing decides what PyTorch raises
        why = str(error).partition("\n")[0]
        raise InputError(f"device = {str(device)!r} cannot be used: {why}") from None
    return found
