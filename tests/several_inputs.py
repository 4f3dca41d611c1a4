"""Networks that take several inputs, by place and by name."""

from __future__ import annotations

from torch import Tensor, nn


class Siamese(nn.Module):
    """Two rows of four numbers, read by the same layers and compared."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.read = nn.Sequential(nn.Linear(4, 12), nn.ReLU())
        self.head = nn.Linear(12, outputs)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.head(self.read(left) * self.read(right))


class Reader(nn.Module):
    """Words that a Transformer reads; where the mask is True there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        read = self.layer(self.embed(tokens), src_key_padding_mask=mask)
        kept = read.masked_fill(mask.unsqueeze(-1), 0).sum(1)
        return self.head(kept / (~mask).sum(1, keepdim=True))
