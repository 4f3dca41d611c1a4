"""Which network a recipe trains, as settings; `build` makes one for a task's numbers of in- and
outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsemble.extensions import open_union
from sparsemble.recipes.networks.custom import CustomNetwork
from sparsemble.recipes.networks.feedforward import FeedForwardSettings
from sparsemble.recipes.networks.language import LSTMSettings, TransformerLanguageSettings
from sparsemble.recipes.networks.pictures import CNNSettings, ResNetSettings
from sparsemble.recipes.networks.sequences import RecurrentSettings, TransformerSettings
from sparsemble.recipes.networks.settings import NetworkSettings

if TYPE_CHECKING:
    AnyNetwork = NetworkSettings
else:
    AnyNetwork = open_union(
        NetworkSettings,
        FeedForwardSettings,
        CNNSettings,
        ResNetSettings,
        RecurrentSettings,
        TransformerSettings,
        LSTMSettings,
        TransformerLanguageSettings,
        CustomNetwork,
        default="feedforward",
    )

__all__ = [
    "AnyNetwork",
    "CNNSettings",
    "CustomNetwork",
    "FeedForwardSettings",
    "LSTMSettings",
    "NetworkSettings",
    "RecurrentSettings",
    "ResNetSettings",
    "TransformerLanguageSettings",
    "TransformerSettings",
]
