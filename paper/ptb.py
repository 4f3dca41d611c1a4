"""The paper's language models on Penn Treebank: the rows of Tables 3 and 5, the runs of Figure 4b.

The paper has Table 3 for the medium network and Table 5 for the large one; every row can be run at
every size. Rows that differ only in what comes after the chain share its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from paper.figure4b import Curves, measure_curves, write_curves
from paper.recipes import paper_recipe, ptb_names
from sparsemble.data import ptb
from sparsemble.errors import InputError
from sparsemble.results import Result
from sparsemble.runs import RunFolder
from sparsemble.search.jobs import (
    Job,
    Workplace,
    chosen_rows,
    run_jobs,
    seeded_jobs,
    seeded_results,
)

SizeName = Literal["small", "medium", "large"]
TABLE_SIZE: dict[int, SizeName] = {3: "medium", 5: "large"}
"""The size for which the paper prints each table."""

INDEPENDENT: dict[SizeName, str] = {"small": "sgd-4", "medium": "sgd-10", "large": "sgd-38"}
"""The row of dense networks, trained independently, that Figure 4b compares with."""


@dataclass(frozen=True)
class Figures:
    """What the paper prints of a row; perplexities are `None` where it prints a dash."""

    parameters: str
    flops: str
    single_dev: float | None = None
    single_test: float | None = None
    dev: float | None = None
    test: float | None = None


@dataclass(frozen=True)
class Row:
    """A row of Table 3 or 5: the end of our recipe's name, and what the paper prints.

    `models` is how many the paper has; of small networks ours may be fewer.
    """

    recipe: str
    table: int
    method: str
    models: int
    paper: Figures | None = None
    short: str = ""
    """In pictures."""


ROWS = (
    Row("sgd", 3, "SGD (Zaremba et al. 2014)", 1, Figures("1 (19.8M)", "1 (26.5M)", 86.2, 82.1)),
    Row("sgd-dropout", 3, "SGD, with dropout", 1),
    Row("sgd-4", 3, "SGD, with dropout", 4, short="dense"),
    Row("sgd-10", 3, "SGD", 10, Figures("10×", "10×", dev=75.2, test=72.0), short="dense"),
    Row("sgld", 3, "SGLD", 10, Figures("10×", "10×", 87.0, 83.7, 80.5, 78.9)),
    Row(
        "sgld-pr",
        3,
        "SGLD+PR",
        10,
        Figures("1×", "10×", 103.8, 100.2, 91.1, 89.4),
        short="no prior",
    ),
    Row("sgld-gsp", 3, "SGLD+GSP", 10, Figures("10×", "10×", 98.8, 97.0, 88.0, 86.9)),
    Row("sgld-gsp-r", 3, "SGLD+GSP+R", 10, Figures("10×", "10×", 80.0, 76.3, 70.8, 69.1)),
    Row("sgld-gsp-p", 3, "SGLD+GSP+P", 10, Figures("1×", "4×", 103.8, 101.9, 96.1, 94.7)),
    Row(
        "sgld-gsp-pr",
        3,
        "SGLD+GSP+PR",
        10,
        Figures("1×", "4×", 79.8, 76.6, 71.5, 69.5),
        short="untied",
    ),
    Row(
        "sgld-gsp-pr-tied",
        3,
        "SGLD+GSP+PR (tied W)",
        10,
        Figures("1×", "4×", 79.7, 76.6, 70.9, 69.2),
        short="tied",
    ),
    Row("sgld-gsp-pr-iss", 3, "SGLD+GSP+PR (ISS)", 10, Figures("1×", "3×", 80.9, 77.4, 71.8, 69.9)),
    Row("sgld-gsp-pr-iss-4", 3, "SGLD+GSP+PR (ISS)", 4, short="ISS"),
    Row("whole", 3, "means, strong penalty (ISS)", 1),
    Row("shedding", 3, "means, strong penalty (ISS), shedding", 1),
    Row("budget", 3, "means, for the FLOPs of one network (ISS)", 2, short="budget"),
    Row(
        "beyond",
        3,
        "means, for the FLOPs of one network, regularised (SE, ISS)",
        1,
        short="beyond",
    ),
    Row(
        "beyond-40",
        3,
        "means, for the FLOPs of one network, regularised (SE, ISS), pruned and retrained",
        1,
        short="beyond, pruned",
    ),
    Row("sgd", 5, "SGD (Zaremba et al. 2014)", 1, Figures("1 (66M)", "1 (102M)", 82.2, 78.4)),
    Row("sgd-38", 5, "SGD (Zaremba et al. 2014)", 38, Figures("38×", "38×", dev=71.9, test=68.7)),
    Row("sgd-gsp-pr", 5, "SGD+GSP+PR", 1, Figures("0.1×", "0.2×", dev=81.9, test=77.8)),
    Row("sgd-gsp-pr-4", 5, "SGD+GSP+PR", 4, Figures("0.4×", "0.9×", dev=69.9, test=66.7)),
    Row("sgld-gsp-pr-20", 5, "SGLD+GSP+PR", 20, Figures("2.0×", "4.5×", dev=68.6, test=66.4)),
    Row("sgld-gsp-pr-4", 5, "SGLD+GSP+PR", 4, Figures("0.4×", "0.9×", dev=70.9, test=68.7)),
    Row("sgld-gsp-pr-iss-4", 5, "SGLD+GSP+PR (ISS)", 4, short="ISS"),
    Row("sgld-gsp-pr-iss-4-80", 5, "SGLD+GSP+PR (ISS), 80 %", 4, short="ISS, 80 %"),
    Row(
        "sgld-gsp-pr-se-iss-4",
        5,
        "SGLD+GSP+PR+SE (ISS)",
        4,
        Figures("0.3×", "0.7×", dev=64.4, test=62.1),
    ),
)
STRUCTURES = {
    "sgd": "36M + 36M + 30M = 102M",
    "sgld-gsp-pr": "4.3M + 6.1M + 12.2M = 22.7M (22 %)",
    "sgld-gsp-pr-tied": "4.9M + 6.1M + 12.4M = 23.5M (23 %)",
    "sgld-gsp-pr-iss-4": "1.7M + 2.5M + 8.4M = 12.6M (12 %)",
    "sgld-gsp-pr-se-iss-4": "2.3M + 2.9M + 9.1M = 14.4M (14 %)",
}
"""FLOPs of the LSTM layers and the softmax of one large network, from the paper's Table 4."""
CITED = (
    ("VD (Gal 2016), 10 large", "10×", "–", "–", "68.7"),
    ("VD-LSTM+SE+AL (Inan 2016)", "51M", "–", "71.1", "68.5"),
    ("AWD-LSTM (Merity 2017)", "24M", "–", "60.0", "57.3"),
    ("AWD-LSTM-MoS (Yang 2017)", "22M", "–", "56.5", "54.4"),
)
"""Rows of Table 5 by other authors, as the paper cites them: parameters, FLOPs, dev, test."""


def recipe_name(row: str, size: SizeName) -> str:
    """The name of a row's recipe at a size."""
    return f"ptb-{size}-{row}"


def rows_at(size: SizeName) -> list[Row]:
    """The rows that have a recipe at a size."""
    known = ptb_names()
    return [row for row in ROWS if recipe_name(row.recipe, size) in known]


def jobs(rows: Sequence[str] = (), *, size: SizeName, seeds: int, out: Path) -> list[Job]:
    """Rows at a size for seeds 0, 1, …; all of them if none is named."""
    known = list(dict.fromkeys(row.recipe for row in rows_at(size)))
    chosen = chosen_rows(rows, known, f"the tables at size {size}")
    recipes = [paper_recipe(recipe_name(name, size)) for name in chosen]
    return [job for recipe in recipes for job in seeded_jobs(recipe, seeds, out)]


def figure4b(size: SizeName, out: Path, place: Workplace) -> Curves:
    """Run what Figure 4b needs, measure its curves and keep them in `out`."""
    chain, independent = (
        Job(paper_recipe(name, {"data.measure": "validation"}), out / f"{name}-validation.json")
        for name in (recipe_name("figure4b", size), recipe_name(INDEPENDENT[size], size))
    )
    found = dict(run_jobs([chain, independent], place))
    corpus = ptb(place.data_folder)
    curves = measure_curves(chain, found[chain], corpus, place, found[independent])
    write_curves(curves, curves_file(size, out))
    return curves


def curves_file(size: SizeName, out: Path) -> Path:
    """Where `figure4b` keeps its curves."""
    return out / f"figure4b-{size}.json"


def run_folders(row: str, size: SizeName, work: Path) -> list[Path]:
    """The runs of a row, those that are finished first."""
    folders = sorted(work.glob(f"{recipe_name(row, size)}-seed*"))
    begun = [folder for folder in folders if RunFolder(folder).is_begun]
    return sorted(begun, key=lambda folder: not RunFolder(folder).result.exists())


def checked_size(size: str) -> SizeName:
    """`size`, if it is one."""
    if size not in get_args(SizeName):
        raise InputError(f"size {size!r} is not one of {', '.join(get_args(SizeName))}")
    return size  # type: ignore[return-value]


def results_in(folder: Path, size: SizeName) -> dict[str, list[Result]]:
    """The result files in `folder`, by row, in the order of seeds."""
    found = {}
    for row in rows_at(size):
        found[row.recipe] = seeded_results(paper_recipe(recipe_name(row.recipe, size)), folder)
    return found
