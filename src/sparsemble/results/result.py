"""Result files: what one recipe with one seed gave, with everything needed to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from sparsemble.ensemble.loading import is_whole
from sparsemble.errors import CorruptFileError
from sparsemble.extensions import permitted
from sparsemble.learning.candidates import Candidate, stage_prefix
from sparsemble.learning.findings import Finding
from sparsemble.learning.spending import TrainingCost
from sparsemble.recipes import Recipe
from sparsemble.recipes.upgrade import is_old, upgraded
from sparsemble.runs.folder import RunFolder
from sparsemble.settings import Settings
from sparsemble.stages import SampleRecord
from sparsemble.store import read_json, write_json
from sparsemble.tasks import Metric, Score
from sparsemble.tasks.legacy import scores_of_result


class Result(Settings):
    """Scores, costs, and where they come from."""

    recipe: Recipe
    metrics: list[Metric] = Field(min_length=1)
    """The task's table of them, the one that decides first."""
    log_score: str = "nll"
    """Which of them settings are chosen by, if it is among them."""
    scores: dict[str, Score]
    """Of every part of the data that was measured on: validation, test."""
    training_notes: list[str] = Field(default_factory=list)
    """What is to be known about the data that were learned from."""
    parameters: int
    flops: int
    parameters_ratio: float
    flops_ratio: float
    disk_bytes: int
    member_parameters: list[int]
    member_flops: list[int]
    member_shapes: list[dict[str, tuple[int, int]]]
    """Rows and columns of what every multiplication needs."""
    structures: list[tuple[int, ...]] = Field(min_length=1)
    rollbacks: int
    findings: list[Finding]
    seconds: dict[str, float]
    training: TrainingCost | None = None
    """What every stage cost; results of older versions do not say."""
    learning: list[SampleRecord] = Field(default_factory=list)
    """How the networks of every stage did on what was watched, each alone and with those before."""
    candidates: list[Candidate] = Field(default_factory=list)
    """What was compared on validation data, if members were chosen."""
    chosen: int | None = None
    """Which of them is the ensemble."""
    provenance: dict[str, Any]

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Whoever reads figures finds them."""
        if not {"test", "validation"} & set(self.scores):
            raise ValueError("there are scores on neither test nor validation data")
        known, shown = ({metric.key for metric in own} for own in (self.metrics, self.shown))
        for score in self.scores.values():
            together, alone = (
                {key for key, values in own.items() if values}
                for own in (score.curve, score.members)
            )
            if not (known <= together and shown <= alone):
                raise ValueError("a score lacks a metric")
        costs = (self.member_parameters, self.member_flops, self.member_shapes)
        if any(len(own) != len(self.structures) for own in costs):
            raise ValueError("the members' costs are not those of all members")
        if self.chosen is not None and not 0 <= self.chosen < len(self.candidates):
            raise ValueError("the chosen candidate is none of those compared")
        return self

    @property
    def shown(self) -> list[Metric]:
        """The metrics that tables show."""
        return [
            metric for metric in self.metrics if metric.shown and metric.key in self.score.curve
        ]

    @property
    def is_retrained(self) -> bool:
        """Are the members of the ensemble retrained?"""
        if self.chosen is not None:
            return self.candidates[self.chosen].retrained
        return self.recipe.retrain is not None and not self.recipe.choose

    def stage(self, name: str) -> str:
        """What a stage is called that made the ensemble, where several numbers of members were
        tried: that of the number which was chosen."""
        chosen = None if self.chosen is None else self.candidates[self.chosen]
        return name if chosen is None else f"{stage_prefix(chosen.members)}{name}"

    @property
    def notes(self) -> list[str]:
        """What is to be known about all data."""
        measured = [note for score in self.scores.values() for note in score.notes]
        return [*self.training_notes, *measured]

    @property
    def score(self) -> Score:
        """On the part that counts: test, or else validation."""
        return self.scores.get("test") or self.scores["validation"]


def known_result(folder: Path, recipe: Recipe) -> Result | None:
    """What this recipe gave, if it has been run here to its end and its ensemble is whole."""
    run = RunFolder(folder)
    if not run.result.exists() or not is_whole(run.ensemble):
        return None
    result = read_result(run.result, recipe.code)
    return result if result.recipe.is_same_run(recipe) else None


def read_result(path: Path, code: Sequence[str] = ()) -> Result:
    """A result file that `write_result` or a run left; `code` names what it may import."""
    fields = read_json(path)
    if is_old(fields.get("recipe", {})):
        try:
            fields = _of_version_0_1(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"{path} is no result of an older version ({error!r})") from None
    with permitted(code, str(path)):
        result: Result = Result.read_back(fields, path)
    return result


def write_result(result: Result, path: Path) -> None:
    """Keep a result."""
    write_json(path, result.model_dump(mode="json"))


def _of_version_0_1(fields: dict[str, Any]) -> dict[str, Any]:
    """A result whose figures stood in one flat table, today's way."""
    result = {**fields, "recipe": upgraded(fields["recipe"])}
    result.pop("unknown", None)
    result["findings"] = [{"figure": None, **finding} for finding in result["findings"]]
    result["metrics"], result["scores"] = scores_of_result(
        result.pop("metrics"),
        result.pop("curves", {}),
        validation=bool(result["recipe"]["data"].get("validation")),
    )
    return result
