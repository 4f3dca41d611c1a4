"""MNIST: from a data directory, or downloaded once into it; checksums verified either way.

The directory is the `folder` argument, or `SPARSEMBLE_DATA`, or a cache folder of the user's. The
checksums are of the uncompressed files, so any mirror's compression is accepted.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import urllib.request
import zlib
from pathlib import Path

import numpy as np

from sparsemble.data.dataset import Dataset, as_dataset
from sparsemble.data.scaling import Scaling
from sparsemble.errors import CorruptFileError, InputError

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def data_folder(folder: str | Path | None = None) -> Path:
    """Where data files are looked for."""
    if folder is not None:
        return Path(folder)
    if named := os.environ.get("SPARSEMBLE_DATA"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sparsemble"


def mnist(folder: str | Path | None = None) -> tuple[Dataset, Dataset]:
    """The 60,000 training and the 10,000 test images, as bytes of 784 pixels."""
    place = data_folder(folder) / "mnist"
    return _read(place, "train"), _read(place, "t10k")


def _read(place: Path, part: str) -> Dataset:
    images = _idx(_content(place, f"{part}-images-idx3-ubyte"))
    labels = _idx(_content(place, f"{part}-labels-idx1-ubyte"))
    return as_dataset(
        images.reshape(len(images), -1),
        labels,
        num_classes=10,
        feature_names=[f"pixel_{row}_{column}" for row in range(28) for column in range(28)],
        scaling=Scaling.by(1 / 255),
        source=f"MNIST in {place}",
    )


def _content(place: Path, name: str) -> bytes:
    """The uncompressed bytes of one file, from the folder or a mirror."""
    for path in (place / f"{name}.gz", place / name):
        if path.exists():
            return _verified(path.read_bytes(), name, str(path))
    for mirror in _MIRRORS:
        try:
            with urllib.request.urlopen(f"{mirror}{name}.gz", timeout=30) as response:
                packed = response.read()
        except OSError:
            continue
        content = _verified(packed, name, mirror)
        place.mkdir(parents=True, exist_ok=True)
        partial = place / f".{name}.{os.getpid()}"
        partial.write_bytes(packed)
        partial.replace(place / f"{name}.gz")
        return content
    raise InputError(
        f"MNIST is not in {place} and could not be downloaded: put {name}.gz (and the three other "
        "files of the data set) there, or name the folder above it with SPARSEMBLE_DATA"
    )


def _verified(content: bytes, name: str, source: str) -> bytes:
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise CorruptFileError(f"{source} is damaged ({error}): delete it") from None
    if hashlib.sha256(content).hexdigest() != _SHA256[name]:
        raise CorruptFileError(
            f"{source} is not the {name} it should be: wrong checksum; delete it"
        )
    return content


def _idx(content: bytes) -> np.ndarray:
    """Read the IDX format: two zero bytes, type, number of dimensions, dimensions, data."""
    dimensions = content[3]
    shape = np.frombuffer(content, ">u4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()
