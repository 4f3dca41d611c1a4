"""Networks of torch's own attention: MultiheadAttention, TransformerEncoder, Transformer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, beside, numbers, padded_words, words


class SeriesClassifier(nn.Module):
    def __init__(self, norm_first: bool, activation: str, layers: int) -> None:
        super().__init__()
        self.project = nn.Linear(5, 12)
        layer = nn.TransformerEncoderLayer(
            d_model=12,
            nhead=3,
            dim_feedforward=17,
            dropout=0.1,
            activation=activation,
            batch_first=True,
            norm_first=norm_first,
        )
        norm = nn.LayerNorm(12) if norm_first else None
        self.encoder = nn.TransformerEncoder(layer, layers, norm=norm, enable_nested_tensor=False)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.project(x)).mean(dim=1))


class TimeMajorEncoder(nn.Module):
    """torch's default puts time first: the batch is moved there and back."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 15, dropout=0.0)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.layer(self.embedding(tokens).permute(1, 0, 2))
        return self.head(x[0])


class PaddedEncoder(nn.Module):
    """Which words are missing is a second input; the mean is over the others."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        layer = nn.TransformerEncoderLayer(12, 4, 19, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.head = nn.Linear(12, 3)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        x = self.encoder(self.embedding(tokens), src_key_padding_mask=padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.head(x.sum(dim=1) / (~padding).sum(dim=1, keepdim=True))


class SelfAttention(nn.Module):
    """No norm anywhere: the stream itself may shrink."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 12)
        self.attention = nn.MultiheadAttention(12, 3, dropout=0.1, batch_first=True)
        self.fc1 = nn.Linear(12, 9)
        self.fc2 = nn.Linear(9, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.embed(x))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.fc2(torch.relu(self.fc1(x.amax(dim=1))))


class CrossAttention(nn.Module):
    """Queries from one input; keys and values, of another width, from the other."""

    def __init__(self) -> None:
        super().__init__()
        self.ask = nn.Linear(4, 12)
        self.attention = nn.MultiheadAttention(12, 4, kdim=5, vdim=5, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, queries: Tensor, context: Tensor) -> Tensor:
        asked = F.gelu(self.ask(queries))
        answer, _ = self.attention(asked, context, context)
        return self.head((asked + answer).mean(1))


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 12), nn.Embedding(18, 12)
        self.transformer = nn.Transformer(
            d_model=12,
            nhead=4,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dim_feedforward=20,
            dropout=0.1,
            batch_first=True,
        )
        self.generator = nn.Linear(12, 18)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        steps = target.size(1)
        mask = torch.triu(torch.full((steps, steps), float("-inf")), diagonal=1)
        mask = mask.to(self.generator.weight)
        x, y = self.source(source), self.target(target)
        return self.generator(self.transformer(x, y, tgt_mask=mask, tgt_is_causal=True))


class Perceiver(nn.Module):
    """Learned latents ask the input, then each other."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(4, 10) * 0.5)
        self.norm_latents, self.norm_inputs = nn.LayerNorm(10), nn.LayerNorm(6)
        self.cross = nn.MultiheadAttention(10, 2, kdim=6, vdim=6, batch_first=True)
        self.norm_self = nn.LayerNorm(10)
        self.own = nn.MultiheadAttention(10, 5, batch_first=True)
        self.norm_mlp = nn.LayerNorm(10)
        self.mlp = nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 10))
        self.head = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        x = self.norm_inputs(x)
        z = z + self.cross(self.norm_latents(z), x, x, need_weights=False)[0]
        asked = self.norm_self(z)
        z = z + self.own(asked, asked, asked)[0]
        z = z + self.mlp(self.norm_mlp(z))
        return self.head(z.mean(dim=1))


class SetPooling(nn.Module):
    """A learned query sums a set up; nothing is normed, so the query follows the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.seed = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, bias=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.embed(x))
        seed = self.seed.expand(x.size(0), -1, -1)
        pooled = seed + self.attention(seed, x, x, need_weights=False)[0]
        return self.head(pooled.squeeze(1))


class Conformer(nn.Module):
    """Half-step feed-forward layers around attention and a gated depthwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(8) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(8, 18), nn.SiLU(), nn.Dropout(0.1), nn.Linear(18, 8))
        self.attention = nn.MultiheadAttention(8, 4, batch_first=True)
        self.conv = nn.Sequential(
            nn.Conv1d(8, 2 * 11, 1),
            nn.GLU(dim=1),
            nn.Conv1d(11, 11, 3, padding=1, groups=11),
            nn.BatchNorm1d(11),
            nn.SiLU(),
            nn.Conv1d(11, 8, 1),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.ff(self.norm1(x))
        y = self.norm2(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.conv(self.norm3(x).transpose(1, 2)).transpose(1, 2)
        return self.head(x)


SERIES = numbers((6, 5), (7, 5))
TORCH_TRANSFORMERS = (
    Case("torch_encoder_post", lambda: SeriesClassifier(False, "relu", 1), SERIES, (3, 17)),
    Case("torch_encoder_pre", lambda: SeriesClassifier(True, "gelu", 2), SERIES, (3, 3, 17, 17)),
    Case("torch_encoder_time_major", TimeMajorEncoder, words(20, 7, 5), (2, 15)),
    Case("torch_encoder_padded", PaddedEncoder, padded_words(20, 7, 6), (4, 19)),
    Case("mha_self", SelfAttention, SERIES, (3, 9, 12), "the stream is not normed"),
    Case("mha_cross", CrossAttention, beside(numbers((3, 4)), SERIES), (4, 12)),
    Case(
        "torch_transformer",
        Translator,
        beside(words(20, 6, 7), words(18, 5)),
        (4, 4, 4, 20, 20),
        "heads of the encoder, of the decoder, and of the decoder's look at the encoder",
    ),
    Case("perceiver", Perceiver, numbers((7, 6), (5, 6)), (2, 5, 16)),
    Case(
        "set_pooling", SetPooling, numbers((6, 4), (5, 4)), (2, 8), "one weight reads both streams"
    ),
    Case("conformer", Conformer, numbers((7, 8), (6, 8)), (4, 11, 18), "the input is the stream"),
)
