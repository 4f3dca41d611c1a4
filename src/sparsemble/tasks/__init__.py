"""Tasks: what is predicted and how good it is; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparsemble.extensions import described, open_union
from sparsemble.tasks.classification import Classification
from sparsemble.tasks.examples import ExampleTask
from sparsemble.tasks.generating import generate, next_words
from sparsemble.tasks.language import LanguageModelling
from sparsemble.tasks.regression import Regression
from sparsemble.tasks.scoring import Score, Scorer
from sparsemble.tasks.task import (
    Evaluation,
    Forward,
    Metric,
    Predictor,
    Task,
    Training,
    takes_examples,
)
from sparsemble.tasks.uncertainty import Uncertainty

TASKS: tuple[type[Task], ...] = (LanguageModelling, Regression, Classification)
"""The library's own, the most particular first."""

if TYPE_CHECKING:
    AnyTask = Task
else:
    AnyTask = open_union(Task, Classification, Regression, LanguageModelling)


def task_for(data: Any) -> Task:
    """The task that data are for, if the user names none."""
    return next(task() for task in TASKS if task.accepts(data))


def described_task(task: Task) -> dict[str, Any]:
    """A task as files hold it: one of the library's by its kind, another by where it is."""
    return task.model_dump(mode="json") if type(task) in TASKS else described(task)


__all__ = [
    "TASKS",
    "AnyTask",
    "Classification",
    "Evaluation",
    "ExampleTask",
    "Forward",
    "LanguageModelling",
    "Metric",
    "Predictor",
    "Regression",
    "Score",
    "Scorer",
    "Task",
    "Training",
    "Uncertainty",
    "described_task",
    "generate",
    "next_words",
    "takes_examples",
    "task_for",
]
