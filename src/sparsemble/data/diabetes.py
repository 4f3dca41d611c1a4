"""Diabetes: how far the disease of 442 patients went in a year, shipped with the library.

B. Efron et al., "Least Angle Regression", Annals of Statistics 32, 2004.
"""

from __future__ import annotations

import numpy as np

from sparsemble.data.embedded import arrays

FEATURES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
"""Age in years, sex (1 or 2), body mass index, mean blood pressure, six measures of the serum."""


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """The patients' raw features, (442, 10), and the progression of their disease, (442,).

    >>> inputs, targets = diabetes()
    >>> inputs[0, FEATURES.index("age")], targets[0]
    (np.float32(59.0), np.float32(151.0))
    """
    return arrays("diabetes")
