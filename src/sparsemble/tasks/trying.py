"""What a network takes, found by trying: nothing of it stays in the network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparsemble.data import Inputs
from sparsemble.errors import InputError
from sparsemble.modes import in_mode
from sparsemble.streams import borrowed_streams
from sparsemble.tasks.task import Forward


def outputs_of(network: nn.Module, inputs: Inputs) -> Tensor:
    """What a network returns in evaluation, without a trace of the call."""
    try:
        with torch.no_grad(), borrowed_streams(), in_mode(network):
            return Forward(network)(inputs)
    except Exception as error:  # whatever code of the user's raises
        raise InputError(
            f"the network cannot take inputs of shape {tuple(inputs.shape)}: {error}"
        ) from error


def refusal(network: nn.Module, inputs: Inputs) -> str | None:
    """Why a network cannot take inputs; `None` if it can."""
    try:
        outputs_of(network, inputs)
    except InputError as error:
        return str(error.__cause__).partition("\n")[0]
    return None


def notices_fractions(network: nn.Module, numbers: Tensor) -> bool:
    """Do outputs change with a fraction of a whole input?"""
    plain, other = (outputs_of(network, values) for values in (numbers, numbers + 0.25))
    return not torch.equal(plain, other)
