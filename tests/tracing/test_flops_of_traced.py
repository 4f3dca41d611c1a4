"""FLOPs of traced networks are those that torch counts, before and after units have gone.

torch does not count attention on a CPU: its own formula for other devices is given to it.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sparsemble.members import Member, compact
from sparsemble.members.compaction import filled
from sparsemble.structure import Layout, Role
from zoo import CASES, Case
from zoo.traced import in_double, seeded, traced

pytestmark = pytest.mark.slow

SOME = (
    "plain_cnn",
    "vgg_bn",
    "flat_batch_norm",
    "conv3d",
    "mobilenet",
    "unet",
    "encoder_sdpa",
    "encoder_by_hand",
    "encoder_einsum",
    "linear_attention",
    "llama",
    "torch_encoder_post",
    "bilstm_stacked_mean",
    "gru_max",
    "rnn_tanh",
    "mlp",
    "own_parameters",
    "low_rank",
    "fourier_features",
)
MORE = (
    "resnet",
    "self_attention_gan",
    "torch_encoder_time_major",
    "torch_transformer",
    "perceiver",
    "video_gru",
)
"""Of the same products as those."""
some = pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(CASES[n], id=n) for n in SOME),
        *(pytest.param(CASES[n], id=n, marks=pytest.mark.thorough) for n in MORE),
    ],
)
BATCH = 3


def attention_flops(
    q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any
) -> int:
    """Two products for every pair of a query and a key, of the width of keys and of values."""
    batch, heads, queries, width = q
    return 2 * batch * heads * queries * k[2] * (width + v[3])


@pytest.fixture(autouse=True)
def _plain_attention() -> Any:
    """torch's fused encoder layers are counted by no formula at all."""
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


def counted(network: nn.Module, case: Case) -> float:
    """What torch counts for one example."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    counter = FlopCounterMode(display=False, custom_mapping={attention: attention_flops})
    inputs = case.example(BATCH, dtype=torch.float64)
    with counter, torch.no_grad():
        network.eval()(*inputs)
    return counter.get_total_flops() / BATCH


def double(found: Any) -> Any:
    return filled(found.program, in_double(found.program))


@some
def test_a_dense_network_costs_what_torch_counts(case: Case) -> None:
    _, found = traced(case)
    with seeded(0):
        own = case.make().double()
    assert Member.dense(double(found), found.layout).cost.flops == counted(own, case)


def without_readers(layout: Layout, member: Member) -> dict[str, Tensor]:
    """Masks by which nothing reads a third of every space's units, one at least of which stays."""
    masks = {name: torch.ones_like(mask) for name, mask in member.masks.items()}
    for space in layout.spaces:
        if space.kind.may_go:
            gone = torch.arange(space.size) % 3 == 1
            for slot in filter(layout.is_weight, layout.slots_of(space.name, Role.CONSUMER)):
                owned = slot.indices(space.size)[gone].flatten()
                masks[slot.parameter].index_fill_(slot.dim, owned, False)
    return masks


@some
def test_a_smaller_network_costs_what_torch_counts_for_it(case: Case) -> None:
    _, found = traced(case)
    program = double(found)
    masks = without_readers(found.layout, Member.dense(program, found.layout))
    member = compact(program, found.layout, masks)
    assert member.cost.structure < member.dense_cost.structure
    assert member.cost.flops == counted(member, case)
    assert member.cost.flops < member.dense_cost.flops


def test_flops_of_a_convolution_by_hand() -> None:
    _, found = traced(CASES["plain_cnn"])
    flops = Member.dense(found.program, found.layout).cost.matrices
    # Pictures of 12 x 12, pooled to 6 x 6, then a kernel of 3 without padding: 4 x 4.
    assert flops["conv1"] == 2 * 6 * (3 * 3 * 3) * 12 * 12
    assert flops["conv2"] == 2 * 10 * (6 * 3 * 3) * 4 * 4
    assert flops["fc1"] == 2 * 14 * 40


def test_flops_of_attention_by_hand() -> None:
    _, found = traced(CASES["encoder_sdpa"])
    cost = Member.dense(found.program, found.layout).cost
    # Seven words; three heads of width 4, for scores and for values.
    assert list(cost.products.values()) == [2 * 3 * 49 * (4 + 4)]
