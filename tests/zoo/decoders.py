"""Language models, picture transformers, and attention to learned or other things."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers, words


class CausalAttention(nn.Module):
    def __init__(self, dim: int, heads: int, block: int) -> None:
        super().__init__()
        self.n_head, self.n_embd = heads, dim
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim)
        self.attn_dropout = nn.Dropout(0.1)
        mask = torch.tril(torch.ones(block, block)).view(1, 1, block, block)
        self.register_buffer("bias", mask)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPT(nn.Module):
    """The last layer is the table of words."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(20, 12), nn.Embedding(9, 12)
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(2))
        self.attention = CausalAttention(12, 4, 9)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(12, 22), "c_proj": nn.Linear(22, 12)})
        self.ln_f = nn.LayerNorm(12)
        self.lm_head = nn.Linear(12, 20, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx: Tensor) -> Tensor:
        pos = torch.arange(0, idx.shape[1], dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        x = x + self.attention(self.norms[0](x))
        hidden = F.gelu(self.mlp["c_fc"](self.norms[1](x)), approximate="tanh")
        x = x + self.mlp["c_proj"](hidden)
        return self.lm_head(self.ln_f(x))


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate_half(x: Tensor) -> Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


def repeat_kv(x: Tensor, times: int) -> Tensor:
    b, heads, t, d = x.shape
    return x[:, :, None, :, :].expand(b, heads, times, t, d).reshape(b, heads * times, t, d)


class Rotary(nn.Module):
    """The angles of rotary positions, computed in a block of their own without gradients."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 100.0 ** (-torch.arange(0, width, 2) / width))

    @torch.no_grad()
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps = torch.arange(x.shape[1], device=x.device)
        angles = torch.outer(steps.to(x.dtype), self.inv_freq.to(x.dtype)).repeat(1, 2)
        return angles.cos(), angles.sin()


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, width: int, by_torch: bool) -> None:
        super().__init__()
        self.times, self.width, self.by_torch = heads // kv_heads, width, by_torch
        self.q_proj = nn.Linear(dim, heads * width, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * width, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * width, bias=False)
        self.o_proj = nn.Linear(heads * width, dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        shape = (*x.shape[:-1], -1, self.width)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if not self.by_torch:
            k, v = repeat_kv(k, self.times), repeat_kv(v, self.times)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.by_torch)
        return self.o_proj(y.transpose(1, 2).reshape(*x.shape[:-1], -1))


class Llama(nn.Module):
    """Key heads shared by several query heads, rotary positions, gate and value in one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(20, 10)
        self.rotary = Rotary(4)
        self.attention = nn.ModuleList(
            [GroupedQueryAttention(10, 4, 2, 4, False), GroupedQueryAttention(10, 6, 3, 4, True)]
        )
        self.w12 = nn.ModuleList([nn.Linear(10, 2 * 14, bias=False), nn.Linear(10, 2 * 17)])
        self.w3 = nn.ModuleList([nn.Linear(14, 10, bias=False), nn.Linear(17, 10)])
        self.norms = nn.ModuleList(
            [RMSNorm(10), RMSNorm(10), nn.RMSNorm(10), nn.RMSNorm(10), RMSNorm(10)]
        )
        self.lm_head = nn.Linear(10, 20, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        cos, sin = self.rotary(x)
        for i, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * i](x), cos, sin)
            gate, value = self.w12[i](self.norms[2 * i + 1](x)).chunk(2, dim=-1)
            x = x + self.w3[i](F.silu(gate) * value)
        return self.lm_head(self.norms[-1](x))


class NormedHeads(nn.Module):
    """Queries and keys are normalised head by head; every head has a temperature of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 10)
        self.norm = RMSNorm(10)
        self.qkv, self.out = nn.Linear(10, 3 * 5 * 4), nn.Linear(5 * 4, 10)
        self.q_norm, self.k_norm = RMSNorm(4), RMSNorm(4)
        self.temperature = nn.Parameter(torch.rand(5, 1, 1) + 0.5)
        self.head = nn.Linear(10, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        read = self.qkv(self.norm(x)).unflatten(-1, (3, 5, 4)).permute(2, 0, 3, 1, 4)
        q, k, v = self.q_norm(read[0]), self.k_norm(read[1]), read[2]
        y = F.scaled_dot_product_attention(q * self.temperature, k, v)
        return self.head(x + self.out(y.transpose(1, 2).flatten(-2)))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 12, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 12) * 0.1)
        self.pos_embed = nn.Parameter(torch.randn(1, 5, 12) * 0.1)
        self.norm1, self.norm2, self.norm = (nn.LayerNorm(12) for _ in range(3))
        self.qkv, self.proj = nn.Linear(12, 36), nn.Linear(12, 12)
        self.fc1, self.fc2 = nn.Linear(12, 18), nn.Linear(18, 12)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, c))
        x = x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return self.head(self.norm(x)[:, 0])


class WindowAttention(nn.Module):
    """As Swin: attention within windows of 2 x 2, shifted, with a table of distances."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.table = nn.Parameter(torch.randn(9, heads) * 0.1)
        place = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij"))
        gap = (place.flatten(1)[:, :, None] - place.flatten(1)[:, None, :]) + 1
        self.register_buffer("index", gap[0] * 3 + gap[1])
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
        x = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        q, k, v = self.qkv(x).reshape(-1, 4, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(4, 4, -1).permute(2, 0, 1).contiguous()
        attention = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5 + bias).softmax(dim=-1)
        x = self.proj((attention @ v).transpose(1, 2).reshape(-1, 4, c))
        x = x.view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, shifts=(1, 1), dims=(1, 2))


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, stride=2)
        self.norm1, self.attention = nn.LayerNorm(8), WindowAttention(8, 4)
        self.norm2, self.mlp = nn.LayerNorm(8), nn.ModuleList([nn.Linear(8, 15), nn.Linear(15, 8)])
        self.merge_norm, self.merge = nn.LayerNorm(32), nn.Linear(32, 11, bias=False)
        self.head = nn.Linear(11, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).permute(0, 2, 3, 1)
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp[1](F.gelu(self.mlp[0](self.norm2(x))))
        corners = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        x = self.merge(self.merge_norm(torch.cat(corners, -1)))
        return self.head(F.relu(x).mean((1, 2)))


DECODERS = (
    Case("gpt_tied", GPT, words(20, 7, 6), (4, 22), "an output a step, tied to the input"),
    Case("llama", Llama, words(20, 6, 7), (2, 3, 14, 17), "2 and 3: key heads with their queries"),
    Case("normed_heads", NormedHeads, words(20, 6, 7), (5,), "norms written by hand, shared"),
    Case("vit", ViT, numbers((3, 8, 8)), (3, 18)),
    Case("swin", Swin, numbers((3, 8, 8), (3, 8, 12)), (4, 11, 15)),
)
