"""What a run folder or a saved ensemble holds, as values to print."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparsemble.ensemble import BaseEnsemble, LanguageEnsemble
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.sheets import Sheet


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
        """For people."""
        state = "finished" if self.finished else "not finished"
        return [
            f"{self.recipe}, seed {self.seed}: {self.description}",
            f"{state}; epochs of the chain {self.epochs['chain']}, of retraining "
            f"{self.epochs['retrain']}; {self.samples} samples, {self.rollbacks} rollbacks; "
            f"{self.bytes / 1e6:.1f} MB",
        ]


def inspect_run(folder: Path) -> RunView | None:
    """A look at a run folder; `None` if it is something else."""
    if not (folder / "run.json").is_file():
        return None
    run = RunFolder(folder)
    recipe = run.recipe()
    stages = {"chain": run.chain, "retrain": run.retrain}
    told = {name: stage.history() for name, stage in stages.items()}
    return RunView(
        recipe.name,
        recipe.description,
        recipe.seed,
        run.result.exists(),
        len(list(run.chain.path.glob("sample-*.safetensors"))),
        {name: len(history.epochs) for name, history in told.items()},
        sum(len(history.rollbacks) for history in told.values()),
        sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
    )


def inspect_ensemble(ensemble: BaseEnsemble) -> EnsembleView:
    """A look at an ensemble."""
    cost = ensemble.cost
    members = []
    for member in ensemble:
        own = member.cost
        units = {space.name: space.size for space in member.layout.spaces}
        members.append(MemberView(units, own.parameters, own.flops, own.shapes))
    return EnsembleView(
        "language models" if isinstance(ensemble, LanguageEnsemble) else "classifiers",
        ensemble[0].layout.outputs.size,
        ensemble[0].layout.name,
        members,
        cost.parameters_ratio,
        cost.flops_ratio,
        cost.bytes,
    )


def members_sheet(view: EnsembleView) -> Sheet:
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
    return Sheet(title, ("Member", f"Units: {names}", "Parameters", "FLOPs"), tuple(rows))
