"""What it takes to begin: importing the package, help on the command line, a first fit."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from timing import report

from sparsemble.sklearn import SparseEnsembleClassifier

_ROUNDS = 7
_IMPORT, _HELP = 0.3, 0.5
"""Seconds that are aimed at."""


def measure() -> None:
    bare = _seconds("-c", "pass")
    for label, arguments, aim in (
        ("import sparsemble", ("-c", "import sparsemble"), _IMPORT),
        ("sparsemble --help", ("-m", "sparsemble", "--help"), _HELP),
    ):
        taken = _seconds(*arguments)
        report(f"{label} ({taken:.2f} s) ÷ Python alone", (taken, 1), (bare, 1), aim / bare)
    fitting()


def fitting() -> None:
    """On digits, with settings to be found and with known ones, ÷ scikit-learn's network."""
    inputs, digits = load_digits(return_X_y=True)
    hidden = (128, 64)
    theirs = _timed(lambda: MLPClassifier(hidden, random_state=0).fit(inputs, digits))
    first = SparseEnsembleClassifier(hidden, random_state=0)
    report(
        "fit on digits, settings to be found ÷ MLPClassifier",
        (_timed(lambda: first.fit(inputs, digits)), 1),
        (theirs, 1),
    )
    known = SparseEnsembleClassifier(hidden, recipe=first.recipe_, random_state=0)
    report(
        "fit on digits, settings known ÷ MLPClassifier",
        (_timed(lambda: known.fit(inputs, digits)), 1),
        (theirs, 1),
    )


def _seconds(*arguments: str) -> float:
    """The median time of a process."""
    command = [sys.executable, *arguments]
    return statistics.median(
        _timed(lambda: subprocess.run(command, check=True, capture_output=True))
        for _ in range(_ROUNDS)
    )


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
