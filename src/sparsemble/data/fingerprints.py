"""What identifies data, whatever they are called and wherever they lie."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch

from sparsemble.data.arguments import Inputs, tensors_given


def fingerprint(given: Iterable[Inputs], words: str = "") -> str:
    """A digest of inputs and targets, bit by bit, and of what else is to be said of them.

    >>> ones = fingerprint([torch.ones(2)])
    >>> ones == fingerprint([torch.ones(2)]), ones == fingerprint([torch.ones(2, 1)])
    (True, False)
    """
    digest = hashlib.sha256(words.encode())
    for inputs in given:
        for tensor in tensors_given(inputs):
            plain = tensor.detach().cpu().contiguous()
            digest.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
            digest.update(plain.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
