"""Ensembles with weights at random: enough to be asked, and made in a moment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

import sparsemble
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification, LanguageModelling, Regression, Task

FEATURES = ("left", "middle", "right")
WORDS = ("<eos>", "<unk>", "the", "dog", "sees", "cat")


def made(task: Task, network: Callable[[], nn.Module], members: int = 3) -> Ensemble:
    """Members that differ, whatever they predict."""
    torch.manual_seed(3)
    networks = [network() for _ in range(members)]
    for parameter in (own for network in networks for own in network.parameters()):
        parameter.data *= 4  # so that members are sure of what they say, and disagree
    return Ensemble([Member.dense(own, layout_of(own)) for own in networks], task)


def classifiers(*names: str) -> Ensemble:
    """Of three numbers, by default as one of three letters."""
    known = names or ("a", "b", "c")
    task = Classification(class_names=known, feature_names=FEATURES)
    return made(task, lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, len(known))))


def regressors() -> Ensemble:
    """Of three numbers, as two."""
    task = Regression(target_names=("up", "down"), num_targets=2, feature_names=FEATURES)
    return made(task, lambda: task.prepared(nn.Sequential(nn.Linear(3, 8), nn.Linear(8, 2))))


def language_models() -> Ensemble:
    """Of a few words."""
    return made(
        LanguageModelling(words=WORDS), lambda: sparsemble.LanguageModel(len(WORDS), 6, [5])
    )


def table(rows: int) -> dict[str, np.ndarray]:
    """Columns of numbers with gaps, dates, truths and categories, and a target of two classes."""
    chance = np.random.default_rng(rows)
    age = chance.integers(20, 70, rows).astype(float)
    age[chance.random(rows) < 0.1] = np.nan
    return {
        "age": age,
        "since": np.datetime64("2020-01-01") + chance.integers(0, 900, rows),
        "owner": chance.random(rows) < 0.5,
        "region": np.array(["north", "south", "east"])[chance.integers(0, 3, rows)],
        "income": np.array(["low", "high"])[chance.integers(0, 2, rows)],
    }


def table_classifiers() -> Ensemble:
    """Of the columns of such a table."""
    data = sparsemble.table(table(200), target="income")
    task = Classification().training(data, outputs=2).task
    width = len(data.feature_names or ())
    return made(task, lambda: nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 2)))
