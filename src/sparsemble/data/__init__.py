"""Data: what a network learns from, where it comes from, and in which order it is seen."""

from sparsemble.data.batches import ArrayBatches, Batches, LoaderBatches
from sparsemble.data.dataset import Dataset, as_dataset
from sparsemble.data.digits import digits
from sparsemble.data.mnist import mnist
from sparsemble.data.scaling import Scaling

__all__ = [
    "ArrayBatches",
    "Batches",
    "Dataset",
    "LoaderBatches",
    "Scaling",
    "as_dataset",
    "digits",
    "mnist",
]
