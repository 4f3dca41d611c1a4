"""Networks the library brings along, and the layer kinds that saved ones may be built of."""

from sparsemble.networks.feedforward import feedforward
from sparsemble.networks.gaussian_noise import GaussianNoise
from sparsemble.networks.language_model import LanguageModel

__all__ = ["GaussianNoise", "LanguageModel", "feedforward"]
