"""Predictions are numbers: every way to ask for one refuses what is not."""

import math

import numpy as np
import pytest
import torch

from small_ensembles import classifiers, language_models, regressors
from sparsemble.errors import InputError, NotFiniteError
from sparsemble.tasks.finite import finite

HUGE = np.array([[1, 2, 3], [3e38, -3e38, 3e38]], np.float32)


@pytest.mark.parametrize("make", [classifiers, regressors])
@pytest.mark.parametrize("way", ["evidence", "predictive", "predict", "uncertainty"])
def test_what_is_too_large_is_refused_with_its_row(make, way):
    with pytest.raises(NotFiniteError, match="for row 2 is not finite") as error:
        getattr(make(), way)(HUGE)
    assert error.value.row == 1
    assert isinstance(error.value, InputError)


def test_so_it_is_when_the_ensemble_is_called_as_a_module():
    with pytest.raises(NotFiniteError):
        classifiers()(torch.from_numpy(HUGE))


def test_numbers_whose_sum_is_too_large_are_fine():
    evidence = torch.full((2, 3, 4), 3e38)
    assert finite(evidence, classifiers().task) is evidence


def test_a_word_that_cannot_come_has_the_logarithm_of_nothing():
    task = language_models().task
    logs = torch.tensor([[[0.0, -math.inf]]])
    assert finite(logs, task) is logs
    with pytest.raises(NotFiniteError):
        finite(torch.tensor([[[0.0, math.nan]]]), task)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_unsigned_numbers_that_would_wrap_around_are_refused(number):
    labels = np.array([0, 1, number], np.uint64)
    with pytest.raises(InputError, match=f"{number} is too large for a 64-bit integer"):
        classifiers().evaluate((np.zeros((3, 3)), labels))
