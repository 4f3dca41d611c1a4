"""What a run folder or a saved ensemble holds, as values to print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemble.ensemble import Ensemble
from sparsemble.results.tables import Table
from sparsemble.runs.folder import RunFolder


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
    rollbacks: int
    bytes: int

    def lines(self) -> list[str]:
        """A few lines to print."""
        state = "finished" if self.finished else "not finished"
        return [
            f"{self.recipe}, seed {self.seed}: {self.description}",
            f"{state}; epochs of the chain {self.epochs['chain']}, of retraining "
            f"{self.epochs['retrain']}; {self.samples} samples, {self.rollbacks} rollbacks; "
            f"{self.bytes / 1e6:.1f} MB",
        ]


def inspect_run(folder: Path, code: Sequence[str] = ()) -> RunView | None:
    """What a run folder holds; `None` if it is something else."""
    if not (folder / "run.json").is_file():
        return None
    run = RunFolder(folder, code=code)
    recipe = run.recipe()
    stages = {"chain": run.chain, "retrain": run.retrain}
    histories = {name: stage.history() for name, stage in stages.items()}
    return RunView(
        recipe.name,
        recipe.description,
        recipe.seed,
        run.result.exists(),
        len(list(run.chain.path.glob("sample-*.safetensors"))),
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
        units = {space.name: space.size for space in member.layout.spaces}
        members.append(MemberView(units, own.parameters, own.flops, own.shapes))
    return EnsembleView(
        ensemble.task.noun,
        ensemble[0].layout.outputs.size,
        f"{ensemble[0].layout.name}/{ensemble[0].layout.grouping}",
        members,
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
    title = f"{len(view.members)} {view.kind}, {view.layout}, {view.bytes / 1e6:.2f} MB of weights"
    return Table(title, ("Member", f"Units: {names}", "Parameters", "FLOPs"), tuple(rows))
