"""Rows of training data as a set: equal ones once, with the sum of their weights, in one order.

What is learned then depends neither on the order of the rows nor on whether a row stands there
twice or counts twice.
"""

from __future__ import annotations

import numpy as np


def distinct_rows(
    inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Every example once, those of no weight left out; no weights if all are the same.

    >>> inputs, targets = np.array([[2.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> distinct_rows(inputs, targets, np.array([1.0, 1.0, 2.0, 0.0]))[1:]
    (array([0, 1]), array([3., 1.]))
    """
    if weights is not None:
        counted = weights > 0
        inputs, targets, weights = inputs[counted], targets[counted], weights[counted]
    columns = [inputs.reshape(len(inputs), -1), targets.reshape(len(targets), -1)]
    rows = np.ascontiguousarray(np.concatenate(columns, 1, dtype=np.float64)) + 0.0  # no -0.0
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    summed = np.bincount(inverse.ravel(), weights, len(first))
    alike = bool((summed == summed[0]).all())
    return inputs[first], targets[first], None if alike else summed
