"""The paper's MNIST experiment: the seven rows of Table 1 and the structures of Table 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paper.recipes import paper_recipe
from sparsemble.results import Result
from sparsemble.search.jobs import Job, chosen_rows, seeded_jobs, seeded_results


@dataclass(frozen=True)
class Row:
    """A row of Table 1: our recipe, and what the paper prints."""

    recipe: str
    method: str
    models: str
    paper_parameters: str
    paper_flops: str
    paper_error: float
    paper_structure: str = ""


ROWS = (
    Row("mnist-sgd", "SGD (baseline)", "1 model", "1", "1", 1.66, "784-300-100-10"),
    Row("mnist-sgd-ensemble", "SGD", "18 models", "18×", "18×", 1.49),
    Row("mnist-sgld", "SGLD", "18 models", "18×", "18×", 1.53, "784-300-100-10"),
    Row("mnist-sgld-l1-90", "SGLD+L1+PR", "18 models, 90 %", "1.8×", "3.4×", 1.26),
    Row("mnist-sgld-l1-96", "SGLD+L1+PR", "18 models, 96 %", "0.7×", "3.0×", 1.39),
    Row(
        "mnist-sgld-gsp-90", "SGLD+GSP+PR", "18 models, 90 %", "1.8×", "2.5×", 1.26, "380-128-24-10"
    ),
    Row(
        "mnist-sgld-gsp-96", "SGLD+GSP+PR", "18 models, 96 %", "0.7×", "2.2×", 1.29, "364-82-22-10"
    ),
)
_ORDER = ("gsp", "l1", "sgld", "sgd")
"""Our rows first: what the paper is about should be ready before the baselines."""


def jobs(rows: Sequence[str] = (), *, seeds: int, ensemble_seeds: int, out: Path) -> list[Job]:
    """The rows for seeds 0, 1, …; the 18 dense networks only for `ensemble_seeds` of them."""
    chosen = chosen_rows(rows, [row.recipe for row in ROWS], "Table 1")
    planned = []
    for name in sorted(chosen, key=_rank):
        count = min(seeds, ensemble_seeds) if name == "mnist-sgd-ensemble" else seeds
        planned += seeded_jobs(paper_recipe(name), count, out)
    return planned


def results_in(folder: Path) -> dict[str, list[Result]]:
    """The result files in `folder`, by row, in the order of seeds."""
    found = {}
    for row in ROWS:
        found[row.recipe] = seeded_results(paper_recipe(row.recipe), folder)
    return found


def _rank(name: str) -> int:
    return next(place for place, part in enumerate(_ORDER) if part in name)
