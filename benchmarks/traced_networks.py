"""The networks that tracing is measured on, and members of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from sparsemble.members import Member, compact, tensors_of
from sparsemble.nets import ResNet, TransformerClassifier
from sparsemble.programs import Program
from sparsemble.structure import Layout, Role
from sparsemble.structure.groupings import grouped
from sparsemble.tracing import describe

sys.path.append(str(Path(__file__).parent.parent / "tests"))

WORDS, LENGTH, CLASSES = 1000, 64, 10


@dataclass(frozen=True)
class Network:
    """A network, and examples of what it reads."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]


def pictures(name: str, side: int, channels: list[int], blocks: int) -> Network:
    return Network(
        name,
        lambda: ResNet((3, side, side), channels, CLASSES, blocks=blocks),
        lambda batch: torch.randn(batch, 3, side, side),
    )


def sequences(name: str, length: int, width: int, layers: int) -> Network:
    return Network(
        name,
        lambda: TransformerClassifier(
            length, width, CLASSES, words=WORDS, layers=layers, heads=8, dropout=0.1
        ),
        lambda batch: torch.randint(WORDS, (batch, length)),
    )


RESNET = pictures("ResNet-14 32×32", 32, [32, 64, 128], 2)
TRANSFORMER = sequences("Transformer 4×128", 32, 128, 4)
LARGE = (
    pictures("ResNet-18 32×32", 32, [64, 128, 256, 512], 2),
    sequences("Transformer 12×256", LENGTH, 256, 12),
)
ZOO = (
    "plain_cnn",
    "vgg_bn",
    "resnet",
    "densenet",
    "mobilenet",
    "unet",
    "convnext",
    "encoder_sdpa",
    "llama",
    "torch_encoder_post",
    "bilstm_stacked_mean",
    "mlp",
)
"""Small ones of many kinds, of the tests."""


def halved(layout: Layout, tensors: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Masks without half of the units in every space that may lose some."""
    generator = torch.Generator().manual_seed(seed)
    masks = {name: torch.ones_like(tensors[name], dtype=torch.bool) for name in layout.weights}
    for space in layout.spaces:
        if space.kind.may_go:
            gone = torch.randperm(space.size, generator=generator)[: space.size // 2]
            for role in (Role.PRODUCER, Role.CONSUMER):
                for slot in filter(layout.is_weight, layout.slots_of(space.name, role)):
                    owned = slot.indices(space.size)[gone].flatten()
                    masks[slot.parameter].index_fill_(slot.dim, owned, False)
    return masks


def members_of(network: Network, count: int) -> tuple[Member, list[Member]]:
    """A dense member, and such with half of the units."""
    traced = describe(network.make(), network.inputs(4))
    tensors = {name: tensor.detach() for name, tensor in tensors_of(traced.program).items()}
    layout = grouped(traced.layout, "outgoing")
    program = Program(traced.program.blueprint_, tensors, layout.sizes)
    halves = [compact(program, layout, halved(layout, tensors, seed)) for seed in range(count)]
    return Member.dense(program, layout), halves
