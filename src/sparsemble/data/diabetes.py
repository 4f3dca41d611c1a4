"""Diabetes: how far the disease of 442 patients went in a year, shipped with the library.

B. Efron et al., "Least Angle Regression", Annals of Statistics 32, 2004.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

from sparsemble.data.dataset import Dataset, as_dataset
from sparsemble.data.embedded import arrays
from sparsemble.data.scaling import Scaling

FEATURES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
"""Age in years, sex (1 or 2), body mass index, mean blood pressure, six measures of the serum."""


_TEST_SIZE = 110


@lru_cache(maxsize=1)
def diabetes() -> tuple[Dataset, Dataset]:
    """The training set (332 patients) and the test set (110), split once and for all.

    >>> train, test = diabetes()
    >>> train.inputs.shape, len(test)
    (torch.Size([332, 10]), 110)
    """
    inputs, targets = arrays("diabetes")
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0)).numpy()
    data = as_dataset(
        inputs[order],
        targets[order],
        numeric=True,
        feature_names=FEATURES,
        target_names=("progression",),
        source="diabetes",
    )
    train, test = data.split(_TEST_SIZE)
    assert isinstance(train.inputs, torch.Tensor)
    scaling = Scaling.standard(train.inputs)
    return replace(train, scaling=scaling), replace(test, scaling=scaling)
