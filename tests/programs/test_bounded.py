"""Operations that would make absurdly much of little are refused before they allocate it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sparsemble.errors import CorruptFileError
from sparsemble.programs.bounded import Bounded


def doubled(x: Tensor) -> Tensor:
    for _ in range(60):
        x = torch.cat([x, x])
    return x


GROWING: dict[str, Callable[[Tensor], Tensor]] = {
    "pad": lambda x: F.pad(x, (0, 2**40)),
    "interpolate": lambda x: F.interpolate(x, size=2**40),
    "tril_indices": lambda _: torch.tril_indices(2**20, 2**20),
    "zeros": lambda _: torch.zeros(2**40),
    "rfft": lambda x: torch.fft.rfft(x, 2**40),
    "one_hot": lambda x: F.one_hot(x.long().abs(), 2**40),
    "outer": lambda x: torch.outer(x.flatten().repeat(2**12), x.flatten().repeat(2**12)),
    "doubled": doubled,
}


@pytest.mark.parametrize("name", GROWING)
def test_much_of_little_is_refused(name: str) -> None:
    with pytest.raises(CorruptFileError, match=r"would make a tensor of [\d,]+ numbers"), Bounded():
        GROWING[name](torch.ones(2, 3, 4))


def test_everything_else_is_computed_as_ever() -> None:
    x = torch.randn(3, 4)
    with Bounded():
        found = [x @ x.T, x.add(1).relu_(), torch.zeros(5), x[x > 0].sum(), x.unbind(1)[2]]
    expected = [x @ x.T, x.add(1).relu(), torch.zeros(5), x[x > 0].sum(), x[:, 2]]
    assert all(torch.equal(own, other) for own, other in zip(found, expected, strict=True))
