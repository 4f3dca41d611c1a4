"""Convolutional networks with branches, groups, other resolutions and outputs for every pixel."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers


class ConvBlock(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int = 3) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs, eps=0.001),
            nn.ReLU(inplace=True),
        )


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBlock(3, 8)
        self.branch1 = ConvBlock(8, 4, 1)
        self.branch2 = nn.Sequential(ConvBlock(8, 3, 1), ConvBlock(3, 5))
        self.branch3 = nn.Sequential(ConvBlock(8, 2, 1), ConvBlock(2, 6), ConvBlock(6, 7))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), ConvBlock(8, 9, 1))
        self.fc = nn.Linear(25, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        branches = [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]
        x = torch.cat(branches, 1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.fc2(F.relu(self.fc1(self.avgpool(x))))
        return F.hardsigmoid(scale) * x


class MobileNet(nn.Module):
    """An inverted residual with squeeze and excitation, a concatenation, a grouped convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6))
        self.expand = nn.Sequential(nn.Conv2d(6, 14, 1, bias=False), nn.BatchNorm2d(14))
        self.depthwise = nn.Sequential(
            nn.Conv2d(14, 14, 3, padding=1, groups=14, bias=False), nn.BatchNorm2d(14)
        )
        self.excite = SqueezeExcitation(14, 5)
        self.project = nn.Sequential(nn.Conv2d(14, 6, 1, bias=False), nn.BatchNorm2d(6))
        self.side = nn.Conv2d(6, 7, 3, padding=1)
        self.mix = nn.Conv2d(13, 16, 1)
        self.grouped = nn.Conv2d(16, 8, 3, groups=4)
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.stem(x))
        out = F.relu6(self.depthwise(F.relu6(self.expand(x))))
        x = x + self.project(self.excite(out))
        x = torch.cat([x, F.silu(self.side(x))], 1)
        x = F.relu(self.grouped(F.relu(self.mix(x))))
        return self.classifier(x.mean([2, 3]))


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    def __init__(self, half: int, hidden: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(half, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.Conv2d(hidden, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((kept, self.branch(changed)), dim=1), 2)


def shufflenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        ShuffleUnit(4, 5),
        ShuffleUnit(4, 6),
        nn.Conv2d(8, 10, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(10, 4),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1 = ConvBlock(3, 5)
        self.down2 = ConvBlock(5, 8)
        self.middle = ConvBlock(8, 11)
        self.up2 = nn.ConvTranspose2d(11, 7, 2, stride=2)
        self.merge2 = ConvBlock(8 + 7, 9)
        self.up1 = nn.ConvTranspose2d(9, 6, 3, stride=2, padding=1, output_padding=1)
        self.merge1 = ConvBlock(5 + 6, 10)
        self.out = nn.Conv2d(10, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.middle(F.max_pool2d(second, 2))
        x = self.merge2(torch.cat([second, self.up2(x)], dim=1))
        x = self.merge1(torch.cat([first, self.up1(x)], dim=1))
        return self.out(x)


class BilinearDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc1 = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.enc2 = nn.Conv2d(6, 9, 3, stride=2, padding=1)
        self.dec1 = nn.Conv2d(9, 7, 3, padding=1)
        self.dec2 = nn.Conv2d(7, 2, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        out = F.relu(self.enc2(F.relu(self.enc1(x))))
        out = F.relu(self.dec1(self.up(out)))
        out = F.interpolate(out, size=(height, width), mode="bilinear", align_corners=False)
        return self.dec2(out)


def super_resolution() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(8, 6 * 2**2, 3, padding=1),
        nn.PixelShuffle(2),
        nn.ReLU(),
        nn.Conv2d(6, 1 * 2**2, 3, padding=1),
        nn.PixelShuffle(upscale_factor=2),
    )


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, channels: int, mixing: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.token_mix = nn.Sequential(
            nn.Linear(tokens, mixing), nn.GELU(), nn.Linear(mixing, tokens)
        )
        self.channel_mix = nn.Sequential(
            nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 6, kernel_size=4, stride=4)
        self.blocks = nn.Sequential(MixerBlock(9, 6, 14, 11), MixerBlock(9, 6, 13, 10))
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class SelfAttentionGAN(nn.Module):
    """Attention between all pixels, of one head, added to what it reads by a learned amount."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.query, self.key = nn.Conv2d(8, 3, 1), nn.Conv2d(8, 3, 1)
        self.value = nn.Conv2d(8, 8, 1)
        self.gamma = nn.Parameter(torch.full((1,), 0.5))
        self.last = nn.Conv2d(8, 6, 3)
        self.fc = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.conv(x), 0.2)
        b, c, h, w = x.size()
        query = self.query(x).view(b, -1, h * w).permute(0, 2, 1)
        energy = torch.bmm(query, self.key(x).view(b, -1, h * w))
        value = self.value(x).view(b, -1, h * w)
        out = torch.bmm(value, torch.softmax(energy, dim=-1).permute(0, 2, 1))
        x = self.gamma * out.view(b, c, h, w) + x
        return self.fc(F.leaky_relu(self.last(x), 0.2).sum(dim=(2, 3)))


PICTURE = numbers((3, 8, 8), (3, 12, 12))
BRANCHED_IMAGES = (
    Case("inception", Inception, PICTURE, (2, 3, 4, 5, 6, 7, 8, 9)),
    Case("mobilenet", MobileNet, PICTURE, (4, 5, 6, 7, 14), "4: groups of the grouped convolution"),
    Case("shufflenet", shufflenet, PICTURE, (4, 5, 6, 10), "4: never shuffled"),
    Case("unet", UNet, PICTURE, (5, 6, 7, 8, 9, 10, 11), "an output a pixel"),
    Case("bilinear_decoder", BilinearDecoder, PICTURE, (6, 7, 9), "an output a pixel"),
    Case("super_resolution", super_resolution, numbers((1, 6, 6), (1, 5, 8)), (6, 8)),
    Case("mixer", Mixer, numbers((3, 12, 12)), (10, 11, 13, 14)),
    Case("self_attention_gan", SelfAttentionGAN, PICTURE, None, "6, and 1 head or 3 and 8"),
)
