"""Encoders whose attention their authors wrote themselves, in the ways people do."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, Inputs, numbers, padded_words, words


class SDPAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (
            layer(x).view(b, t, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, d))


class FusedAttention(nn.Module):
    """One layer for queries, keys and values, and the softmax by hand."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.drop, self.proj = nn.Dropout(0.1), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attention = (q * self.scale) @ k.transpose(-2, -1)
        attention = self.drop(attention.softmax(dim=-1))
        return self.proj((attention @ v).transpose(1, 2).reshape(b, n, c))


class EinsumAttention(nn.Module):
    """Heads of another width than their share of the stream."""

    def __init__(self, dim: int, heads: int, width: int) -> None:
        super().__init__()
        self.shape = (heads, width)
        self.q, self.k = nn.Linear(dim, heads * width), nn.Linear(dim, heads * width)
        self.v, self.o = nn.Linear(dim, heads * width), nn.Linear(heads * width, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, self.shape) for layer in (self.q, self.k, self.v))
        energy = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.shape[1])
        y = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(energy, -1), v)
        return self.o(y.flatten(-2))


class LinearAttention(nn.Module):
    """Katharopoulos et al. 2020: a feature map in place of the softmax, sums over positions."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.to_qkv(x).chunk(3, -1)
        )
        q, k = F.elu(q) + 1, F.elu(k) + 1
        context = torch.einsum("bhnd,bhne->bhde", k, v)
        norm = torch.einsum("bhnd,bhd->bhn", q, k.sum(dim=2))
        y = torch.einsum("bhnd,bhde->bhne", q, context) / norm.unsqueeze(-1)
        return self.to_out(y.transpose(1, 2).flatten(2))


class RelativeAttention(nn.Module):
    """As T5: every head learns a number for every distance."""

    def __init__(self, dim: int, heads: int, reach: int) -> None:
        super().__init__()
        self.heads, self.reach = heads, reach
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.distances = nn.Embedding(2 * reach + 1, heads)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        steps = torch.arange(t, device=x.device)
        gap = (steps[None, :] - steps[:, None]).clamp(-self.reach, self.reach) + self.reach
        scores = torch.matmul(q, k.mT) + self.distances(gap).permute(2, 0, 1).unsqueeze(0)
        y = torch.matmul(scores.softmax(-1), v)
        return self.out(y.permute(0, 2, 1, 3).reshape(b, t, d))


class FourierMixing(nn.Module):
    """As FNet: no weights, a Fourier transform over positions and features."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class FeedForward(nn.Sequential):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, dim))


class PreNorm(nn.Module):
    def __init__(self, dim: int, inner: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(dim), inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.norm(x)) + x


class TextEncoder(nn.Module):
    """Words and learned positions through layers, classified by their mean."""

    def __init__(self, dim: int, *layers: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, dim)
        self.positions = nn.Parameter(torch.randn(1, 9, dim) * 0.1)
        self.layers = nn.Sequential(*(PreNorm(dim, layer) for layer in layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions[:, : tokens.shape[1]]
        return self.head(self.norm(self.layers(x)).mean(dim=1))


class Tagger(TextEncoder):
    """A class for every word."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.head(self.norm(self.layers(x + self.positions[:, : x.size(1)])))


class BertClassifier(nn.Module):
    """Norms after the sums, a mask that is added to the scores, a pooler on the first word."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(20, 12, padding_idx=0)
        self.position_embeddings = nn.Embedding(9, 12)
        self.register_buffer("position_ids", torch.arange(9).expand((1, -1)), persistent=False)
        self.norm0, self.norm1, self.norm2 = (nn.LayerNorm(12, eps=1e-12) for _ in range(3))
        self.query, self.key, self.value = (nn.Linear(12, 12) for _ in range(3))
        self.dense = nn.Linear(12, 12)
        self.intermediate, self.output = nn.Linear(12, 19), nn.Linear(19, 12)
        self.pooler, self.classifier = nn.Linear(12, 10), nn.Linear(10, 3)
        self.dropout = nn.Dropout(0.1)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.size()[:-1], 3, 4).permute(0, 2, 1, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = self.position_ids[:, : input_ids.size(1)]
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        x = self.dropout(self.norm0(x))
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -1e4
        probabilities = F.softmax(q @ k.transpose(-1, -2) / math.sqrt(4) + mask, dim=-1)
        context = (probabilities @ v).permute(0, 2, 1, 3).contiguous()
        context = context.view(*context.size()[:-2], 12)
        x = self.norm1(x + self.dropout(self.dense(context)))
        x = self.norm2(x + self.dropout(self.output(F.gelu(self.intermediate(x)))))
        return self.classifier(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


class PooledContext(nn.Module):
    """Every element is told the mean of all; nothing is normed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Linear(4, 9), nn.Linear(18, 11)
        self.back, self.head = nn.Linear(11, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.embed(x))
        pooled = x.mean(dim=1, keepdim=True).expand_as(x)
        x = x + self.back(F.relu(self.mix(torch.cat([x, pooled], dim=-1))))
        return self.head(x)


def masked(inputs: Inputs) -> Inputs:
    """Words and an attention mask that is 1 where there is a word."""

    def make(batch: int, variant: int) -> tuple[Tensor, Tensor]:
        tokens, padding = inputs(batch, variant)
        return tokens, (~padding).long()

    return make


TEXT = words(20, 7, 6)
TRANSFORMERS = (
    Case(
        "encoder_sdpa",
        lambda: TextEncoder(12, SDPAttention(12, 3), FeedForward(12, 20)),
        TEXT,
        (3, 20),
    ),
    Case(
        "encoder_by_hand",
        lambda: TextEncoder(12, FusedAttention(12, 4), FeedForward(12, 22)),
        TEXT,
        (4, 22),
    ),
    Case(
        "encoder_einsum",
        lambda: TextEncoder(10, EinsumAttention(10, 3, 4), FeedForward(10, 19)),
        TEXT,
        (3, 19),
    ),
    Case(
        "linear_attention",
        lambda: TextEncoder(12, LinearAttention(12, 3), FeedForward(12, 17)),
        TEXT,
        (3, 17),
        "the sum over positions is divided by another",
    ),
    Case(
        "relative_positions",
        lambda: TextEncoder(12, RelativeAttention(12, 4, 3), FeedForward(12, 16)),
        TEXT,
        (4, 16),
        "a column of the table of distances belongs to a head",
    ),
    Case(
        "fourier_mixing",
        lambda: TextEncoder(8, FourierMixing(), FeedForward(8, 15)),
        TEXT,
        (15,),
    ),
    Case("tagger", lambda: Tagger(12, SDPAttention(12, 4), FeedForward(12, 21)), TEXT, (4, 21)),
    Case("bert", BertClassifier, masked(padded_words(20, 7, 6)), (3, 10, 19)),
    Case("pooled_context", PooledContext, numbers((6, 4), (5, 4)), (9, 11)),
)
