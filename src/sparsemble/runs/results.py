"""Result files: what one recipe with one seed gave, with everything needed to repeat it."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field

from sparsemble.data import Corpus, Dataset
from sparsemble.ensemble import BaseEnsemble, Ensemble, LanguageEnsemble
from sparsemble.recipes import Recipe
from sparsemble.recipes.models import CustomData, TextData
from sparsemble.runs import Learned, learn, provenance
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.learning import fitted
from sparsemble.runs.materials import materials_of
from sparsemble.settings import Settings
from sparsemble.stages import Observer
from sparsemble.stages.diagnostics import Verdict
from sparsemble.store import read_json, write_json

VALID_STREAMS = 20
"""Streams the validation text is read in; the test text is read as one."""


class FindingEntry(Settings):
    """A diagnostic finding, as a result file keeps it."""

    question: str
    verdict: Verdict
    text: str


class Result(Settings):
    """Metrics on the test (or held-out) set, costs, and where they come from."""

    recipe: Recipe
    metrics: dict[str, float]
    curves: dict[str, list[float]] = Field(default_factory=dict)
    """Of language models: perplexities over the number of members, and each member's own."""
    unknown: dict[str, int] = Field(default_factory=dict)
    """Tokens of each part of a text whose word the vocabulary lacks: they count as `<unk>`."""
    parameters: int
    flops: int
    parameters_ratio: float
    flops_ratio: float
    disk_bytes: int
    member_parameters: list[int]
    member_flops: list[int]
    member_shapes: list[dict[str, tuple[int, int]]]
    """Rows and columns of what every multiplication needs."""
    structures: list[tuple[int, ...]]
    rollbacks: int
    findings: list[FindingEntry]
    seconds: dict[str, float]
    provenance: dict[str, Any]


def run_recipe(
    recipe: Recipe,
    folder: Path,
    *,
    samples_folder: Path | None = None,
    data_folder: Path | None = None,
    observer: Observer | None = None,
) -> Result:
    """Run a recipe that names its data and network, in a folder; measure the ensemble.

    A run that is already complete is only read.
    """
    if (known := known_result(folder, recipe)) is not None:
        return known
    materials = materials_of(recipe, data_folder)
    learned = learn(
        materials.network,
        materials.training,
        recipe,
        layout=materials.layout,
        folder=folder,
        samples_folder=samples_folder,
        validation=materials.validation,
        observer=observer,
    )
    data = materials.data
    if isinstance(data, Corpus):
        measure = recipe.data.measure if isinstance(recipe.data, TextData | CustomData) else "test"
        metrics, curves = _text_metrics(learned.ensemble, data, measure)
        unknown = {part: count for part, count in data.unknown.items() if count}
    else:
        metrics, curves, unknown = _class_metrics(learned.ensemble, data[1]), {}, {}
    result = _measured(recipe, learned, metrics, curves, unknown, folder)
    write_result(result, RunFolder(folder).result)
    return result


def known_result(folder: Path, recipe: Recipe) -> Result | None:
    """What this recipe gave, if it has been run here to its end."""
    done = RunFolder(folder).result
    result = read_result(done) if done.exists() else None
    return result if result is not None and result.recipe == recipe else None


def check_recipe(recipe: Recipe, data_folder: Path | None = None) -> None:
    """Is what a recipe names there, and does it fit together?"""
    materials = materials_of(recipe, data_folder)
    fitted(materials.network, materials.training, recipe, materials.layout)


def read_result(path: Path) -> Result:
    """A result file that `write_result` or a run left."""
    result: Result = Result.read_back(read_json(path), path)
    return result


def write_result(result: Result, path: Path) -> None:
    """Keep a result."""
    write_json(path, result.model_dump(mode="json"))


def _class_metrics(ensemble: BaseEnsemble, test: Dataset) -> dict[str, float]:
    assert isinstance(ensemble, Ensemble)
    return asdict(ensemble.evaluate(test))


def _text_metrics(
    ensemble: BaseEnsemble, corpus: Corpus, measure: str
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Perplexities; the single model is the best one on the validation text."""
    assert isinstance(ensemble, LanguageEnsemble)
    streams = min(VALID_STREAMS, len(corpus.valid))
    scores = {"valid": ensemble.score(corpus.valid, streams=streams)}
    if measure == "test":
        scores["test"] = ensemble.score(corpus.test)
    own = scores["valid"].members
    best = own.index(min(own))
    metrics, curves = {}, {}
    for part, score in scores.items():
        metrics[f"{part}_perplexity"] = score.perplexity
        metrics[f"{part}_single_perplexity"] = score.members[best]
        curves[f"{part}_ensemble"] = list(score.curve)
        curves[f"{part}_members"] = list(score.members)
        if corpus.true_nll is not None:
            metrics[f"{part}_true_perplexity"] = math.exp(corpus.true_nll[part])
    if corpus.entropy is not None:
        metrics["entropy_perplexity"] = math.exp(corpus.entropy)
    return metrics, curves


def _measured(
    recipe: Recipe,
    learned: Learned[BaseEnsemble],
    metrics: dict[str, float],
    curves: dict[str, list[float]],
    unknown: dict[str, int],
    folder: Path,
) -> Result:
    ensemble = learned.ensemble
    saved = RunFolder(folder).ensemble
    costs = [member.cost for member in ensemble]
    total = ensemble.cost
    return Result(
        recipe=recipe,
        metrics=metrics,
        curves=curves,
        unknown=unknown,
        parameters=total.parameters,
        flops=total.flops,
        parameters_ratio=total.parameters_ratio,
        flops_ratio=total.flops_ratio,
        disk_bytes=sum(file.stat().st_size for file in saved.iterdir() if file.is_file()),
        member_parameters=[cost.parameters for cost in costs],
        member_flops=[cost.flops for cost in costs],
        member_shapes=[cost.shapes for cost in costs],
        structures=[cost.structure for cost in costs],
        rollbacks=len(learned.history.rollbacks),
        findings=[
            FindingEntry(question=f.question, verdict=f.verdict, text=f.text)
            for f in learned.findings
        ],
        seconds=learned.seconds,
        provenance=RunFolder(folder).begun() | {"finished by": provenance()["commit"]},
    )
