"""Data: what a network learns from, where it comes from, and in which order it is seen."""

from sparsemble.data.arguments import Arguments, Inputs
from sparsemble.data.batches import ArrayBatches, Batches, LoaderBatches
from sparsemble.data.dataset import Dataset, as_dataset
from sparsemble.data.diabetes import diabetes
from sparsemble.data.digits import digits
from sparsemble.data.grammar import grammar
from sparsemble.data.mnist import mnist
from sparsemble.data.ptb import ptb
from sparsemble.data.scaling import Scaling
from sparsemble.data.split import HasParts, Part, Split
from sparsemble.data.text import Corpus, Text, read_corpus
from sparsemble.data.vocabulary import Vocabulary
from sparsemble.data.windows import TextBatches

__all__ = [
    "Arguments",
    "ArrayBatches",
    "Batches",
    "Corpus",
    "Dataset",
    "HasParts",
    "Inputs",
    "LoaderBatches",
    "Part",
    "Scaling",
    "Split",
    "Text",
    "TextBatches",
    "Vocabulary",
    "as_dataset",
    "diabetes",
    "digits",
    "grammar",
    "mnist",
    "ptb",
    "read_corpus",
]
