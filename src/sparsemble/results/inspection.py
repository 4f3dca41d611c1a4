"""What a run folder or a saved ensemble holds, as values to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemble.ensemble import Ensemble
from sparsemble.pages.layers import LayerUnits
from sparsemble.pages.numbers import counted, size
from sparsemble.progress.terminal import stage_in_words
from sparsemble.results.layers import layers_of
from sparsemble.results.tables import Table
from sparsemble.runs.folder import RunFolder, is_run

_COLUMNS = 8
"""Layers whose units a table names side by side,"""
_WIDTH = 48
"""if their names are no longer than this together."""


@dataclass(frozen=True)
class MemberView:
    """One member: units of each space, non-zeros, FLOPs, and the matrices it multiplies."""

    units: dict[str, int]
    parameters: int
    flops: int
    matrices: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class EnsembleView:
    """An ensemble: what it predicts, its members, and what they cost beside one dense network."""

    kind: str
    outputs: int
    layout: str
    members: list[MemberView]
    layers: list[LayerUnits]
    parameters_ratio: float
    flops_ratio: float
    bytes: int


@dataclass(frozen=True)
class RunView:
    """A run: its recipe, how far it is, and the space it takes."""

    recipe: str
    description: str
    seed: int
    finished: bool
    samples: int
    epochs: dict[str, int]
    """Of every stage, by name."""
    rollbacks: int
    bytes: int

    def lines(self) -> list[str]:
        """A few lines to print."""
        state = "finished" if self.finished else "not finished"
        epochs = [f"{count} of {stage_in_words(stage)}" for stage, count in self.epochs.items()]
        return [
            f"{self.recipe}, seed {self.seed}: {self.description}",
            f"{state}; {self.samples} samples, {self.rollbacks} rollbacks; {size(self.bytes)}",
            f"epochs: {'; '.join(epochs)}",
        ]


def inspect_run(folder: Path, code: Sequence[str] = ()) -> RunView | None:
    """What a run folder holds; `None` if it is something else."""
    if not is_run(folder):
        return None
    run = RunFolder(folder, code=code)
    recipe = run.recipe()
    histories = {name: stage.history() for name, stage in run.stages().items()}
    return RunView(
        recipe.name,
        recipe.description,
        recipe.seed,
        run.result.exists(),
        sum(len(part.sample_files()) for part in run.chain.parts()),
        {name: len(history.epochs) for name, history in histories.items()},
        sum(len(history.rollbacks) for history in histories.values()),
        sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
    )


def inspect_ensemble(ensemble: Ensemble) -> EnsembleView:
    """What an ensemble holds."""
    cost = ensemble.cost
    members = []
    for member in ensemble:
        own = member.cost
        members.append(MemberView(member.layout.structure, own.parameters, own.flops, own.shapes))
    return EnsembleView(
        ensemble.task.noun,
        ensemble[0].layout.outputs.size,
        f"{ensemble[0].layout.name}/{ensemble[0].layout.grouping}",
        members,
        layers_of(list(ensemble)),
        cost.parameters_ratio,
        cost.flops_ratio,
        cost.bytes,
    )


def members_table(view: EnsembleView) -> Table:
    """The members as a table."""
    rows = [
        (
            str(number),
            "-".join(map(str, member.units.values())),
            f"{member.parameters:,}",
            f"{member.flops:,}",
        )
        for number, member in enumerate(view.members, 1)
    ]
    totals = f"{view.parameters_ratio:.2f}×", f"{view.flops_ratio:.2f}×"
    rows.append(("all, ÷ one dense network", "", *totals))
    names = "-".join(view.members[0].units)
    if len(view.members[0].units) > _COLUMNS or len(names) > _WIDTH:
        rows = [(row[0], "see below" if row[1] else "", row[2], row[3]) for row in rows]
        names = f"{len(view.members[0].units)} layers"
    title = f"{counted(len(view.members), view.kind)}, {view.layout}, {size(view.bytes)} of weights"
    return Table(title, ("Member", f"Units: {names}", "Parameters", "FLOPs"), tuple(rows))


def layers_table(view: EnsembleView) -> Table:
    """The units of every layer: how many are left, and why others have to stay."""
    rows = [
        (layer.name, layer.noun, f"{layer.left:g}", str(layer.of), layer.reason or "may go")
        for layer in view.layers
    ]
    header = ("Layer", "Units", "Left, mean", "Of", "May they go?")
    return Table("Units by layer", header, tuple(rows))
