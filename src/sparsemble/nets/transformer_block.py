"""The block that Transformers are made of: attention, then two layers at every position.

    x ← x + Attention(LayerNorm(x))
    x ← x + W₂·gelu(W₁·LayerNorm(x))

Attention is softmax(QKᵀ/√d)·V for every head (Vaswani et al. 2017). It is normalised before the
branches, not after them, so that it can be trained without a warm-up (Xiong et al. 2020). Queries,
keys and values are layers of their own: a head then is the same rows in each of the three.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets.arguments import check_shares, check_sizes

_STD = 0.02
"""Of fresh embeddings, as in GPT-2: small beside what the blocks add."""


class SelfAttention(nn.Module):
    """Every position reads the others, by several heads.

    Args:
        width: Of what is read and returned; a head has a share of it.
        heads: How many.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries = nn.Linear(width, width)
        self.keys = nn.Linear(width, width)
        self.values = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """`(batch, time, width)` to the same.

        Args:
            inputs: What is read.
            mask: What may be read, `(…, time, time)` or what broadcasts to it; by default all.
            angles: By which `rotated` turns queries and keys; by default they are not turned.
        """
        layers = (self.queries, self.keys, self.values)
        queries, keys, values = (self._by_head(layer(inputs)) for layer in layers)
        if angles is not None:
            queries, keys = rotated(queries, angles), rotated(keys, angles)
        read = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        mixed: Tensor = self.output(read.transpose(1, 2).flatten(2))
        return mixed

    def _by_head(self, values: Tensor) -> Tensor:
        """`(batch, heads, time, width of a head)`."""
        apart: Tensor = values.unflatten(2, (self.heads, -1))
        return apart.transpose(1, 2)


class TransformerBlock(nn.Module):
    """Attention and two layers, each of which adds to what it reads.

    Args:
        width: Of what is read and returned.
        heads: Of the attention.
        inner: Units between the two layers.
        dropout: The share that is dropped of what is added.
    """

    def __init__(self, width: int, heads: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.inner_norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, values: Tensor, mask: Tensor | None = None, angles: Tensor | None = None
    ) -> Tensor:
        """`(batch, time, width)` to the same; `mask` and `angles` as of `SelfAttention`."""
        read = self.attention(self.attention_norm(values), mask, angles)
        values = values + self.dropout(read)
        added: Tensor = self.dropout(self.inner(self.inner_norm(values)))
        return values + added


def blocks(width: int, layers: int, heads: int, inner: int | None, dropout: float) -> nn.ModuleList:
    """So many blocks, of which each has `inner` units, by default four times its width."""
    check_sizes(
        width=width, layers=layers, heads=heads, inner=4 * width if inner is None else inner
    )
    check_shares(dropout=dropout)
    if width % heads:
        raise InputError(
            f"width = {width} cannot be divided among heads = {heads}: give a multiple of it"
        )
    made = (TransformerBlock(width, heads, inner or 4 * width, dropout) for _ in range(layers))
    return nn.ModuleList(made)


def initialise(network: nn.Module) -> None:
    """Draw fresh weights: of embeddings small ones, of layers as PyTorch does."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm):
            module.reset_parameters()
    for module in network.modules():  # last, for a layer may have an embedding's weights
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=_STD)


def rotary_angles(time: int, size: int, like: Tensor) -> Tensor:
    """Of every position and every pair of a head's numbers, `(time, size/2)`: `t·10000^(−2i/size)`.

    Args:
        time: How many positions.
        size: Numbers of a head, an even number.
        like: Says device and type.
    """
    positions = torch.arange(time, device=like.device, dtype=like.dtype)
    pairs = torch.arange(0, size, 2, device=like.device, dtype=like.dtype)
    return positions.unsqueeze(1) * 10_000 ** (-pairs / size)


def rotated(values: Tensor, angles: Tensor) -> Tensor:
    """Pairs of numbers turned by angles that grow with the position (Su et al. 2021).

    The product of a turned query and a turned key depends on where they stand only by how far they
    are apart.

    Args:
        values: `(…, time, size)`.
        angles: `(time, size/2)`.
    """
    first, second = values.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
