"""What `learn` gives: an ensemble, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparsemble.ensemble import Ensemble, Verdict, judge
from sparsemble.errors import InputError
from sparsemble.learning.candidates import Candidate
from sparsemble.learning.findings import Finding
from sparsemble.learning.spending import StageCost, TrainingCost, stage_cost, training_cost
from sparsemble.pages.numbers import counted
from sparsemble.recipes import Recipe
from sparsemble.stages import History


@dataclass(frozen=True, repr=False)
class Learned:
    """An ensemble and how it came about; `seconds` counts every epoch of each stage once."""

    ensemble: Ensemble
    recipe: Recipe
    """What was run; without one given, what was found."""
    history: History
    findings: list[Finding]
    candidates: list[Candidate] = field(default_factory=list)
    """What was compared on validation data, if members were chosen."""
    chosen: int | None = None
    """Which of them is the ensemble."""
    dense: Learned | None = None
    """The dense networks that were trained beside, unless they diverged."""
    trials: StageCost | None = None
    """What finding the recipe took, as far as the run's folder tells."""

    def __repr__(self) -> str:
        cost = self.ensemble.cost
        return (
            f"<{counted(len(self.ensemble), self.ensemble.task.noun)} with "
            f"{cost.parameters_ratio:.2f}× the parameters and {cost.flops_ratio:.2f}× the FLOPs of "
            "one dense network: .ensemble, .recipe, .history, .findings, .verdict(data)>"
        )

    @property
    def seconds(self) -> dict[str, float]:
        """Training time over all sessions of the run: of the chain, of all that comes after, and of
        trials before, if there were some; also of what a divergence undid."""
        spent = {"chain": 0.0, "retrain": 0.0}
        for stage in dict.fromkeys(record.stage for record in self.history.epochs):
            taken = stage_cost(stage, self.history).seconds
            if taken is None:  # in an older trace, of what was undone
                taken = sum(r.seconds for r in self.history.epochs if r.stage == stage)
            spent["chain" if stage == "chain" else "retrain"] += taken
        if self.trials is not None and self.trials.seconds is not None:
            spent["trials"] = self.trials.seconds
        return spent

    @property
    def training(self) -> TrainingCost:
        """Epochs, FLOPs and seconds of every stage, beside those of one dense network."""
        return training_cost(self.history, self.recipe, self.ensemble.cost.dense_flops, self.trials)

    def verdict(self, data: Any) -> Verdict:
        """Is the ensemble better than the dense network beside it, and at which cost?

        Args:
            data: What neither was trained on, nor chosen by.
        """
        if self.dense is None:
            raise InputError("no dense network was trained beside: learn(…, baseline=1)")
        own, other = (sum(learned.seconds.values()) for learned in (self, self.dense))
        dense = self.dense.ensemble
        return judge(self.ensemble, dense[:1], data, seconds=(own, other / len(dense)))
