"""Result files: what one recipe with one seed gave, with everything needed to repeat it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparsemble.data import Dataset
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.recipes import Recipe
from sparsemble.runs import Learned, learn, provenance
from sparsemble.settings import Settings
from sparsemble.stages import Observer
from sparsemble.store import read_json, write_json


class FindingEntry(Settings):
    """A diagnostic finding, as a result file keeps it."""

    question: str
    verdict: str
    text: str


class Result(Settings):
    """Metrics on the test (or held-out) set, costs, and where they come from."""

    recipe: Recipe
    metrics: dict[str, float]
    parameters: int
    flops: int
    parameters_ratio: float
    flops_ratio: float
    disk_bytes: int
    member_parameters: list[int]
    member_flops: list[int]
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
    done = folder / "result.json"
    if done.exists() and (result := read_result(done)).recipe == recipe:
        return result
    if recipe.data is None or recipe.network is None:
        raise InputError(f"recipe {recipe.name!r} has no [data] or no [network] section")
    train, test = recipe.data.load(data_folder)
    network = recipe.network
    learned = learn(
        lambda: network.build(train),
        train,
        recipe,
        folder=folder,
        samples_folder=samples_folder,
        observer=observer,
    )
    result = _measured(recipe, learned, test, folder / "ensemble")
    write_result(result, done)
    return result


def read_result(path: Path) -> Result:
    """A result file that `write_result` or a run left."""
    try:
        result: Result = Result.read(read_json(path), source=str(path))
    except CorruptFileError:
        raise
    except InputError as error:
        raise CorruptFileError(str(error)) from None
    return result


def write_result(result: Result, path: Path) -> None:
    """Keep a result."""
    write_json(path, result.model_dump(mode="json"))


def _measured(recipe: Recipe, learned: Learned, test: Dataset, saved: Path) -> Result:
    ensemble = learned.ensemble
    costs = [member.cost for member in ensemble]
    total = ensemble.cost
    return Result(
        recipe=recipe,
        metrics=asdict(ensemble.evaluate(test)),
        parameters=total.parameters,
        flops=total.flops,
        parameters_ratio=total.parameters_ratio,
        flops_ratio=total.flops_ratio,
        disk_bytes=sum(file.stat().st_size for file in saved.iterdir() if file.is_file()),
        member_parameters=[cost.parameters for cost in costs],
        member_flops=[cost.flops for cost in costs],
        structures=[cost.structure for cost in costs],
        rollbacks=len(learned.rollbacks),
        findings=[
            FindingEntry(question=f.question, verdict=f.verdict, text=f.text)
            for f in learned.findings
        ],
        seconds=learned.seconds,
        provenance=provenance(),
    )
