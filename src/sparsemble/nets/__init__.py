"""Networks the library brings along, and the layer kinds that saved ones may be built of."""

from sparsemble.nets.feedforward import feedforward
from sparsemble.nets.gaussian_noise import GaussianNoise
from sparsemble.nets.language_model import LanguageModel

__all__ = ["GaussianNoise", "LanguageModel", "feedforward"]
