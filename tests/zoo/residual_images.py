"""Convolutional networks with residual streams, dense connections and skips."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers


def conv_bn(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.first = conv_bn(inputs, outputs, 3, stride)
        self.second = conv_bn(outputs, outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = conv_bn(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.second(F.relu(self.first(x), inplace=True))
        out += identity
        return F.relu(out)


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.reduce = conv_bn(inputs, width, 1)
        self.conv = conv_bn(width, width)
        self.expand = conv_bn(width, outputs, 1)
        self.shortcut = nn.Identity() if inputs == outputs else conv_bn(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.reduce(x))
        out = torch.relu(self.conv(out))
        return torch.relu(self.expand(out) + self.shortcut(x))


class PreactivationBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(x))
        shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
        out = self.conv1(out)
        return self.conv2(F.relu(self.bn2(out))) + shortcut


class ResNet(nn.Module):
    """A stem, blocks, the mean over the picture, a linear layer."""

    def __init__(self, stem: nn.Module, blocks: list[nn.Module], width: int) -> None:
        super().__init__()
        self.stem = stem
        self.layers = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def basic_resnet() -> ResNet:
    stem = nn.Sequential(*conv_bn(3, 6), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    return ResNet(stem, [BasicBlock(6, 6), BasicBlock(6, 10, 2), BasicBlock(10, 10)], 10)


def bottleneck_resnet() -> ResNet:
    return ResNet(conv_bn(3, 7), [Bottleneck(7, 4, 12), Bottleneck(12, 5, 12)], 12)


def preactivation_resnet() -> ResNet:
    blocks = [PreactivationBlock(7, 7), PreactivationBlock(7, 9, 2)]
    tail = [nn.BatchNorm2d(9), nn.ReLU()]
    return ResNet(nn.Conv2d(3, 7, 3, padding=1, bias=False), [*blocks, *tail], 9)


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, width: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, width, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        out = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(out)))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 6, 3, padding=1)
        self.block = nn.ModuleList([DenseLayer(6, 8, 4), DenseLayer(10, 9, 4)])
        self.transition = nn.Sequential(
            nn.BatchNorm2d(14), nn.ReLU(), nn.Conv2d(14, 7, 1), nn.AvgPool2d(2)
        )
        self.last = DenseLayer(7, 10, 5)
        self.classifier = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.conv0(x)]
        for layer in self.block:
            features.append(layer(features))
        x = self.transition(torch.cat(features, 1))
        x = torch.cat([x, self.last([x])], 1)
        return self.classifier(F.relu(x).mean((2, 3)))


class ChannelsFirstNorm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, hidden)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(hidden, channels)
        self.gamma = nn.Parameter(0.1 * torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        return shortcut + (self.gamma * x).permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 2, stride=2), ChannelsFirstNorm(8))
        self.stage1 = ConvNeXtBlock(8, 20)
        self.down = nn.Sequential(ChannelsFirstNorm(8), nn.Conv2d(8, 10, 2, stride=2))
        self.stage2 = ConvNeXtBlock(10, 24)
        self.norm = nn.LayerNorm(10)
        self.head = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage2(self.down(self.stage1(self.stem(x))))
        return self.head(self.norm(x.mean([-2, -1])))


class WaveNet(nn.Module):
    """Gated, dilated, causal convolutions; what is skipped ahead is summed."""

    def __init__(self) -> None:
        super().__init__()
        gated = (7, 8, 9)
        self.start = nn.Conv1d(1, 6, 1)
        self.filters = nn.ModuleList(nn.Conv1d(6, n, 2, dilation=2**i) for i, n in enumerate(gated))
        self.gates = nn.ModuleList(nn.Conv1d(6, n, 2, dilation=2**i) for i, n in enumerate(gated))
        self.residual = nn.ModuleList(nn.Conv1d(n, 6, 1) for n in gated[:-1])
        self.skip = nn.ModuleList(nn.Conv1d(n, 10, 1) for n in gated)
        self.end1 = nn.Conv1d(10, 11, 1)
        self.end2 = nn.Conv1d(11, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        skips = []
        for i, (filters, gates) in enumerate(zip(self.filters, self.gates, strict=True)):
            past = F.pad(x, (2**i, 0))
            z = torch.tanh(filters(past)) * torch.sigmoid(gates(past))
            skips.append(self.skip[i](z))
            if i < len(self.residual):
                x = x + self.residual[i](z)
        return self.end2(F.relu(self.end1(F.relu(sum(skips)))))


PICTURE = numbers((3, 8, 8), (3, 10, 10))
RESIDUAL_IMAGES = (
    Case("resnet", basic_resnet, PICTURE, (6, 6, 10, 10, 10), "two streams, three inner layers"),
    Case("bottleneck_resnet", bottleneck_resnet, PICTURE, (4, 4, 5, 5, 7, 12)),
    Case("preactivation_resnet", preactivation_resnet, PICTURE, (7, 7, 9, 9)),
    Case("densenet", DenseNet, PICTURE, (4, 4, 5, 6, 7, 8, 9, 10)),
    Case("convnext", ConvNeXt, numbers((3, 8, 8), (3, 12, 12)), (20, 24), "streams are normed"),
    Case("wavenet", WaveNet, numbers((1, 9), (1, 12)), (6, 7, 8, 9, 10, 11), "an output a step"),
)
