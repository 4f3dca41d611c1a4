"""Digits: 1,797 handwritten images of 8×8 from UCI, shipped with the library."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from sparsemble.data.dataset import Dataset, as_dataset
from sparsemble.data.embedded import arrays
from sparsemble.data.scaling import Scaling

_TEST_SIZE = 897


@lru_cache(maxsize=1)
def digits(seed: int = 0) -> tuple[Dataset, Dataset]:
    """The training set (900 images) and the test set (897), split by a seed.

    >>> train, test = digits()
    >>> train.inputs.shape, len(test)
    (torch.Size([900, 64]), 897)
    """
    images, labels = arrays("digits")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).numpy()
    data = as_dataset(
        images[order].astype(np.float32),
        labels[order],
        num_classes=10,
        feature_names=[f"pixel_{row}_{column}" for row in range(8) for column in range(8)],
        scaling=Scaling.by(1 / 16),
        source="digits",
    )
    return data.split(_TEST_SIZE)
