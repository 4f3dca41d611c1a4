"""Beyond the paper: MNIST for the price of one network, beside dense networks trained likewise."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from paper import mnist
from paper.recipes import paper_recipe
from sparsemble.pages.spots import Spot, spot_chart
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.results import Result
from sparsemble.results.tables import Table, mean_and_deviation
from sparsemble.search.jobs import Job, seeded_jobs, seeded_results


@dataclass(frozen=True)
class Row:
    """A recipe for a budget, and how its inputs are perturbed."""

    recipe: str
    perturbed: str
    short: str

    @property
    def dense(self) -> str:
        """What its dense networks are called."""
        return f"{self.recipe}-dense"


ROWS = (
    Row("mnist-budget", "input dropout", "dropout"),
    Row("mnist-warps", "input dropout and warps", "warps"),
)


def jobs(*, seeds: int, out: Path) -> list[Job]:
    """Every row and its dense networks, for seeds 0, 1, …"""
    planned = []
    for row in ROWS:
        recipe = paper_recipe(row.recipe)
        planned += seeded_jobs(recipe, seeds, out)
        planned += seeded_jobs(dense_recipe(recipe), seeds, out, row.dense)
    return planned


def results_in(folder: Path) -> dict[str, list[Result]]:
    """The result files in `folder`, by name, in the order of seeds."""
    found = {}
    for row in ROWS:
        recipe = paper_recipe(row.recipe)
        found[row.dense] = seeded_results(dense_recipe(recipe), folder, row.dense)
        found[row.recipe] = seeded_results(recipe, folder)
    return found


def table(results: Mapping[str, Sequence[Result]]) -> Table:
    """Test figures and costs; `±` is the standard deviation over seeds."""
    header = (
        "Inputs",
        "Networks",
        "Members",
        "Parameters",
        "FLOPs",
        "Test error %",
        "NLL",
        "Calibration error",
        "Training s",
        "Seeds",
    )
    rows = [
        _row(row.perturbed, what, results[name])
        for row in ROWS
        for what, name in (("dense", row.dense), ("for its price", row.recipe))
    ]
    return Table("Beyond the paper: MNIST, FNN-784-300-100-10", header, tuple(rows))


def _row(perturbed: str, what: str, results: Sequence[Result]) -> tuple[str, ...]:
    if not results:
        return (perturbed, what, "not run", *[""] * 6, "0")
    return (
        perturbed,
        what,
        ", ".join(dict.fromkeys(str(len(result.structures)) for result in results)),
        f"{statistics.mean(result.parameters_ratio for result in results):.2f}×",
        f"{statistics.mean(result.flops_ratio for result in results):.2f}×",
        mean_and_deviation([100 * result.score["error"] for result in results]),
        mean_and_deviation([result.score["nll"] for result in results], 4),
        mean_and_deviation([result.score["ece"] for result in results], 4),
        f"{statistics.mean(sum(result.seconds.values()) for result in results):.0f}",
        str(len(results)),
    )


def picture(own: Mapping[str, Sequence[Result]], paper: Mapping[str, Sequence[Result]]) -> Markup:
    """Test error against FLOPs, over seeds on average: these rows, and those by the paper."""
    dense = [(row.dense, f"dense, {row.short}", 1) for row in ROWS]
    ours = [(row.recipe, f"ours, {row.short}", 0) for row in ROWS]
    theirs = [(row.recipe, row.recipe.removeprefix("mnist-"), 5) for row in mnist.ROWS]
    results = {**paper, **own}
    spots = []
    for name, label, tone in (*dense, *ours, *theirs):
        if not results[name]:
            continue
        flops = statistics.mean(result.flops_ratio for result in results[name])
        error = statistics.mean(100 * result.score["error"] for result in results[name])
        tip = f"{label}: error {error:.2f} % at {flops:.2f}× the FLOPs of one dense network"
        spots.append(Spot(label, flops, error, tone, tip))
    return spot_chart(
        "MNIST: quality against cost",
        "; ".join(spot.tip for spot in spots),
        spots,
        x_label="FLOPs of one dense network = 1",
        y_label="Test error %",
    )
