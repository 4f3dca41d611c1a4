"""Convolutional networks without residual connections: one stage after the other."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers


class PlainCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 10, 3)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(10 * 2 * 2, 14)
        self.fc2 = nn.Linear(14, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 10 * 2 * 2)
        return self.fc2(F.relu(self.fc1(x)))


class DigitsNet(nn.Module):
    """As in torch's first example: logarithms of probabilities, which are logits as well."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 5, 3, 1)
        self.conv2 = nn.Conv2d(5, 9, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(36, 13)
        self.fc2 = nn.Linear(13, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


class VGG(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for step in (5, "M", 8, 11, "M"):
            if isinstance(step, str):
                layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            else:
                conv = nn.Conv2d(channels, step, kernel_size=3, padding=1)
                layers += [conv, nn.BatchNorm2d(step), nn.ReLU(inplace=True)]
                channels = step
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(
            nn.Linear(11 * 2 * 2, 16),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(16, 12),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(12, 5),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


class FlatBatchNorm(nn.Module):
    """A channel has nine positions of its own in the normalisation after the flattening."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2)
        self.bn1 = nn.BatchNorm1d(5 * 3 * 3)
        self.fc1 = nn.Linear(5 * 3 * 3, 12, bias=False)
        self.bn2 = nn.BatchNorm1d(12)
        self.fc2 = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x).relu().flatten(1)
        x = torch.tanh(self.bn2(self.fc1(self.bn1(x))))
        return self.fc2(x)


class GlobalPools(nn.Module):
    """The largest and the mean value of each channel side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 7, 3, padding="same", padding_mode="reflect"),
            nn.LeakyReLU(0.1),
            nn.Conv2d(7, 9, 3, stride=2, padding=1, dilation=1),
            nn.ELU(),
        )
        self.head = nn.Linear(18, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        return self.head(torch.cat([x.amax(dim=(2, 3)), x.mean(dim=(2, 3))], dim=1))


class CoordConv(nn.Module):
    """Colours are standardised by fixed numbers, and every pixel knows where it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.2, 0.3, 0.25]).view(1, 3, 1, 1))
        line = torch.linspace(-1, 1, 8)
        self.register_buffer("grid", torch.stack(torch.meshgrid(line, line, indexing="ij"))[None])
        self.conv1 = nn.Conv2d(5, 6, 3)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.mean) / self.std
        x = torch.cat((x, self.grid.expand(x.size(0), -1, -1, -1)), dim=1)
        x = F.silu(self.conv2(F.silu(self.conv1(x))))
        return self.fc(x.mean([-2, -1]))


class SpatialGate(nn.Module):
    """One number a pixel says how much of all its channels is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.gate = nn.Conv2d(8, 1, 1)
        self.conv2 = nn.Conv2d(8, 10, 3, padding=1)
        self.fc = nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.conv1(x))
        x = x * self.gate(x).sigmoid()
        x = F.adaptive_avg_pool2d(F.gelu(self.conv2(x)), 1)
        return self.fc(x.squeeze(-1).squeeze(-1))


def normalised(*norms: nn.Module) -> nn.Sequential:
    """Two convolutions, to 8 and 12 channels, each followed by a norm."""
    first, second = norms
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        first,
        nn.ReLU(),
        nn.Conv2d(8, 12, 3, stride=2, padding=1),
        second,
        nn.Mish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 5),
    )


def conv_prelu() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 6, 5, padding=2),
        nn.PReLU(6),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 9, 3),
        nn.PReLU(),
        nn.Dropout2d(0.2),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(9, 4),
    )


def conv1d() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(4, 8, 3, padding=1),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(8, 11, 3, padding=2, dilation=2),
        nn.Hardswish(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(11, 3),
    )


def conv3d() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(2, 5, 3, padding=1, bias=False),
        nn.BatchNorm3d(5),
        nn.ReLU(),
        nn.MaxPool3d(2),
        nn.Conv3d(5, 7, 2),
        nn.Softplus(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(7, 3),
    )


PICTURE = numbers((3, 8, 8), (3, 10, 10))
IMAGES = (
    Case("plain_cnn", PlainCNN, numbers((3, 12, 12)), (6, 10, 14)),
    Case("digits_log_softmax", DigitsNet, numbers((1, 8, 8)), (5, 9, 13), "log_softmax at the end"),
    Case("vgg_bn", VGG, numbers((3, 8, 8), (3, 12, 12)), (5, 8, 11, 12, 16)),
    Case("flat_batch_norm", FlatBatchNorm, numbers((3, 8, 8)), (5, 12)),
    Case("global_pools", GlobalPools, PICTURE, (7, 9)),
    Case("coord_conv", CoordConv, numbers((3, 8, 8)), (6, 8), "constant channels are read too"),
    Case("spatial_gate", SpatialGate, PICTURE, (8, 10), "the gate itself scales several units"),
    Case(
        "group_norm",
        lambda: normalised(nn.GroupNorm(4, 8), nn.GroupNorm(3, 12, affine=False)),
        PICTURE,
        (3, 4),
        "a unit is a group of two channels, or of four",
    ),
    Case(
        "instance_norm",
        lambda: normalised(
            nn.InstanceNorm2d(8, affine=True, track_running_stats=True), nn.InstanceNorm2d(12)
        ),
        PICTURE,
        (8, 12),
    ),
    Case("conv_prelu", conv_prelu, PICTURE, (6, 9)),
    Case("conv1d", conv1d, numbers((4, 12), (4, 9)), (8, 11)),
    Case("conv3d", conv3d, numbers((2, 4, 6, 6), (2, 5, 6, 8)), (5, 7)),
)
