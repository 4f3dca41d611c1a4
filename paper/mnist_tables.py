"""Tables 1 and 2 from result files, beside the paper's figures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from paper.mnist import ROWS, Row
from sparsemble.results import Result
from sparsemble.results.tables import Table, mean_and_deviation


def table1(results: Mapping[str, Sequence[Result]]) -> Table:
    """Test errors and costs of the seven rows; `±` is the standard deviation over seeds."""
    return Table(
        "Table 1: MNIST, FNN-784-300-100-10",
        (
            "Method",
            "Models",
            "Parameters",
            "FLOPs",
            "Test error %",
            "Seeds",
            "Paper: parameters",
            "Paper: FLOPs",
            "Paper: error %",
        ),
        tuple(_row1(row, results[row.recipe]) for row in ROWS),
    )


def table2(results: Mapping[str, Sequence[Result]]) -> Table:
    """Structure of one member of each ensemble: the first of seed 0, as arbitrary as any."""
    return Table(
        "Table 2: structure of one member",
        ("Model", "Sparsity", "Parameters", "Structure", "FLOPs", "Paper: structure"),
        tuple(
            _row2(row, results[row.recipe][0])
            for row in ROWS
            if row.paper_structure and results[row.recipe] and row.recipe != "mnist-sgd"
        ),
    )


def _row1(row: Row, results: Sequence[Result]) -> tuple[str, ...]:
    paper = (row.paper_parameters, row.paper_flops, f"{row.paper_error:.2f}")
    if not results:
        return (row.method, row.models, "not run", "", "", "0", *paper)
    errors = [100 * result.score["error"] for result in results]
    return (
        row.method,
        row.models,
        f"{statistics.mean(r.parameters_ratio for r in results):.2f}×",
        f"{statistics.mean(r.flops_ratio for r in results):.2f}×",
        mean_and_deviation(errors),
        str(len(results)),
        *paper,
    )


def _row2(row: Row, result: Result) -> tuple[str, ...]:
    recipe = result.recipe
    dense = result.flops / result.flops_ratio
    return (
        f"{row.method}, {row.models.split(',')[0]}",
        recipe.prune.target if recipe.prune else "–",
        f"{result.member_parameters[0] / 1000:.0f}K",
        "-".join(map(str, result.structures[0])),
        f"{result.member_flops[0] / 1000:.0f}K ({100 * result.member_flops[0] / dense:.0f} %)",
        row.paper_structure,
    )
