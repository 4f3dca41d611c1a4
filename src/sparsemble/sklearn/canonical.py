"""Rows of training data in one order, whatever order they came in.

Whole weights are how often a row stands there: what is learned then does not depend on whether it
stands there twice or counts twice. Other weights stay what they are.
"""

from __future__ import annotations

import numpy as np

_OFTEN = 20
"""Whole weights above this are no counts: data would become too long."""


def canonical_rows(
    inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The examples in order, those of no weight left out, and weights that are no counts.

    >>> inputs, targets = np.array([[2.0], [1.0], [3.0]]), np.array([0, 1, 1])
    >>> canonical_rows(inputs, targets, np.array([2.0, 1.0, 0.0]))[1:]
    (array([0, 0, 1]), None)
    >>> canonical_rows(inputs, targets, np.array([0.5, 1.0, 2.0]))[2]
    array([0.5, 2. , 1. ])
    """
    if weights is not None:
        counted = weights > 0
        inputs, targets, weights = inputs[counted], targets[counted], weights[counted]
    columns = [inputs.reshape(len(inputs), -1), targets.reshape(len(targets), -1)]
    rows = np.ascontiguousarray(np.concatenate(columns, 1, dtype=np.float64)) + 0.0  # no -0.0
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    order = np.argsort(keys, kind="stable")
    if weights is None:
        return inputs[order], targets[order], None
    weights = weights[order]
    if bool((weights == np.round(weights)).all()) and weights.max() <= _OFTEN:
        order = np.repeat(order, weights.astype(int))
        return inputs[order], targets[order], None
    return inputs[order], targets[order], weights
