"""Networks the library brings along, and the layer kinds that saved ones may be built of."""

from sparsemble.nets.feedforward import feedforward
from sparsemble.nets.gaussian_noise import GaussianNoise
from sparsemble.nets.language_model import LanguageModel
from sparsemble.nets.recurrent_classifier import RecurrentClassifier
from sparsemble.nets.resnet import ResNet
from sparsemble.nets.small_cnn import SmallCNN
from sparsemble.nets.transformer_classifier import TransformerClassifier
from sparsemble.nets.transformer_language_model import TransformerLanguageModel

__all__ = [
    "GaussianNoise",
    "LanguageModel",
    "RecurrentClassifier",
    "ResNet",
    "SmallCNN",
    "TransformerClassifier",
    "TransformerLanguageModel",
    "feedforward",
]
