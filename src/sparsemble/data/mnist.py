"""MNIST: 28×28 images of handwritten digits, from the data directory or downloaded into it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsemble.data.dataset import Dataset, as_dataset
from sparsemble.data.downloads import PublishedFiles
from sparsemble.data.scaling import Scaling

_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_FILES = PublishedFiles(
    title="MNIST",
    subfolder="mnist",
    sha256=_SHA256,
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz",
        "https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz",
    ),
)


def mnist(folder: str | Path | None = None) -> tuple[Dataset, Dataset]:
    """The 60,000 training and the 10,000 test images, as bytes of 784 pixels."""
    return _read("train", folder), _read("t10k", folder)


def _read(part: str, folder: str | Path | None) -> Dataset:
    images = _idx(_FILES.read(f"{part}-images-idx3-ubyte", folder))
    labels = _idx(_FILES.read(f"{part}-labels-idx1-ubyte", folder))
    return as_dataset(
        images.reshape(len(images), -1),
        labels,
        num_classes=10,
        feature_names=[f"pixel_{row}_{column}" for row in range(28) for column in range(28)],
        scaling=Scaling.by(1 / 255),
        source=f"MNIST in {_FILES.place(folder)}",
    )


def _idx(content: bytes) -> np.ndarray:
    """Read the IDX format: two zero bytes, type, number of dimensions, dimensions, data."""
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()
