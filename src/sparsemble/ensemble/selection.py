"""Selection: from many members to the few that are worth their cost, by validation data."""

from __future__ import annotations

import math
from typing import Any

from sparsemble.ensemble.budget import Budget
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.ensemble.cost import ensemble_cost
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.tasks.scoring import figures_of


def selected(ensemble: Ensemble, validation: Any, budget: Budget) -> list[int]:
    """The numbers of members that do best together: each in turn the one that helps most."""
    if budget.latency is not None:
        raise InputError(
            f"latency = {budget.latency:g}: to measure it takes a dense network, as learn() has; "
            "select members by flops, parameters or bytes"
        )
    task = ensemble.task
    held = task.held(validation)
    everything, truth = evidence_of(ensemble, held)
    chosen: list[int] = []
    best = math.inf
    while True:
        figures = {
            index: figures_of(task, everything[[*chosen, index]], truth, held.weights)[
                task.log_score
            ]
            for index in range(len(ensemble))
            if index not in chosen
            and not budget.exceeded_by(ensemble_cost([ensemble[i] for i in (*chosen, index)]))
        }
        if not chosen and not figures:
            cheapest = min((ensemble_cost([member]) for member in ensemble), key=lambda c: c.flops)
            raise InputError(
                f"no member is within the budget of {budget.text}: the smallest takes "
                f"{cheapest.flops_ratio:.3g}× FLOPs, {cheapest.parameters_ratio:.3g}× parameters "
                f"and {cheapest.bytes:,} bytes"
            )
        least = min(figures, key=lambda index: figures[index], default=None)
        if least is None or not figures[least] < best:
            return chosen
        chosen.append(least)
        best = figures[least]
