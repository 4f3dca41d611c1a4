"""The data sets that can be named: on the command line, and in a recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparsemble.data.dataset import Dataset
from sparsemble.data.diabetes import diabetes
from sparsemble.data.digits import digits
from sparsemble.data.grammar import grammar
from sparsemble.data.mnist import mnist
from sparsemble.data.ptb import ptb
from sparsemble.data.text import Corpus
from sparsemble.errors import InputError

EXAMPLES: dict[str, Callable[[Path | None], tuple[Dataset, Dataset]]] = {
    "diabetes": lambda folder: diabetes(),
    "digits": lambda folder: digits(),
    "mnist": mnist,
}
"""Training and test set of each."""
TEXTS: dict[str, Callable[[Path | None], Corpus]] = {
    "grammar": lambda folder: grammar(),
    "ptb": ptb,
}


def open_examples(name: str, part: str, folder: Path | None) -> Dataset:
    """One part of a named data set."""
    if part not in ("train", "test"):
        raise InputError(f"{name!r} has no part {part!r}, only train and test")
    train, test = EXAMPLES[name](folder)
    return train if part == "train" else test
