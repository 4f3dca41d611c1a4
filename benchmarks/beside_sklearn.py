"""The estimators beside scikit-learn's networks, with nothing tuned on either side.

`python benchmarks/beside_sklearn.py --splits 3 --keep` fits both on the data sets that come with
scikit-learn, each split into halves several times, and writes `results/sklearn.json` and the table
in docs/scikit-learn.md. Theirs see standardised columns, as their documentation asks for. The log
loss of numbers is that of a normal law: theirs has the deviation of its training residuals.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsemble.results.tables import Table, put_into
from sparsemble.runs import provenance
from sparsemble.sklearn import SparseEnsembleClassifier, SparseEnsembleRegressor
from sparsemble.store import write_json

ROOT = Path(__file__).parents[1]
CLASSES = ("iris", "wine", "breast_cancer", "digits")
NUMBERS = ("diabetes",)
HIDDEN = (128, 64)


@dataclass(frozen=True)
class Row:
    """Means over splits; `worse` counts those in which the log loss was higher than theirs."""

    data: str
    rows: int
    loss: float
    their_loss: float
    score: float
    their_score: float
    worse: int
    splits: int
    members: list[int]
    seconds: float
    their_seconds: float


def normal_loss(truth: np.ndarray, mean: np.ndarray, deviation: Any) -> float:
    return float(
        np.mean(0.5 * ((truth - mean) / deviation) ** 2 + np.log(deviation))
        + 0.5 * np.log(2 * np.pi)
    )


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return fit(), time.perf_counter() - began


def measured(name: str, splits: int) -> Row:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    is_class = name in CLASSES
    found = []
    for seed in range(splits):
        train, test, known, truth = train_test_split(X, y, test_size=0.5, random_state=seed)
        kind, theirs = (
            (SparseEnsembleClassifier, MLPClassifier)
            if is_class
            else (SparseEnsembleRegressor, MLPRegressor)
        )
        own = kind(HIDDEN, random_state=seed)
        other = make_pipeline(
            StandardScaler(),
            theirs(hidden_layer_sizes=HIDDEN, random_state=seed, max_iter=1000),
        )
        _, seconds = timed(lambda own=own, train=train, known=known: own.fit(train, known))
        _, their_seconds = timed(lambda own=other, train=train, known=known: own.fit(train, known))
        if is_class:
            losses = [log_loss(truth, each.predict_proba(test)) for each in (own, other)]
        else:
            losses = [normal_loss(truth, *own.predict(test, return_std=True))]
            spread = np.std(known - other.predict(train))
            losses.append(normal_loss(truth, other.predict(test), spread))
        scores = [each.score(test, truth) for each in (own, other)]
        found.append((*losses, *scores, len(own.ensemble_), seconds, their_seconds))
    columns = list(zip(*found, strict=True))
    return Row(
        name.replace("_", " "),
        len(X),
        *(fmean(column) for column in columns[:4]),
        sum(a > b for a, b in zip(columns[0], columns[1], strict=True)),
        splits,
        list(columns[4]),
        fmean(columns[5]),
        fmean(columns[6]),
    )


def table(rows: list[Row]) -> Table:
    header = (
        "Data",
        "Rows",
        "Log loss",
        "MLP's",
        "Accuracy, R²",
        "MLP's",
        "Better log loss",
        "Members",
        "Seconds",
        "MLP's",
    )
    return Table(
        "Beside scikit-learn's MLP, half of the rows to learn from",
        header,
        tuple(
            (
                row.data,
                str(row.rows),
                f"{row.loss:.3f}",
                f"{row.their_loss:.3f}",
                f"{row.score:.3f}",
                f"{row.their_score:.3f}",
                f"{row.splits - row.worse} of {row.splits}",
                ", ".join(map(str, row.members)),
                f"{row.seconds:.0f}",
                f"{row.their_seconds:.1f}",
            )
            for row in rows
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Estimators beside scikit-learn's networks.")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write them into results and docs")
    chosen = parser.parse_args()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for name in (*CLASSES, *NUMBERS):
        rows.append(measured(name, chosen.splits))
        print(rows[-1], flush=True)
    from rich.console import Console

    Console(width=200).print(table(rows))
    if chosen.keep:
        kept = {"provenance": provenance(), "rows": [asdict(row) for row in rows]}
        write_json(ROOT / "results" / "sklearn.json", kept)
        put_into(ROOT / "docs" / "scikit-learn.md", "sklearn", [table(rows)])


if __name__ == "__main__":
    main()
