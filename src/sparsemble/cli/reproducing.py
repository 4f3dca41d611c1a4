"""The paper's experiments: `reproduce mnist`, `reproduce ptb`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsemble.cli.application import app
from sparsemble.cli.options import (
    DataFolder,
    Jobs,
    Threads,
    progress_console,
    results_console,
    train_with,
)

if TYPE_CHECKING:
    from sparsemble.experiments.jobs import Job, Workplace
    from sparsemble.runs.sheets import Sheet

reproduce = typer.Typer(
    help="Run an experiment of the paper and print its tables beside the paper's figures.",
    no_args_is_help=True,
)
app.add_typer(reproduce, name="reproduce")

Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0, 1, … for each row.")]
Rows = Annotated[list[str] | None, typer.Option("--row", help="Only this row (may be repeated).")]
Out = Annotated[Path, typer.Option("--out", help="Folder for result files.")]
Work = Annotated[Path, typer.Option("--work", help="Folder for runs under way.")]
OnlyTables = Annotated[
    bool, typer.Option("--tables", help="Only print the tables of the result files.")
]
Into = Annotated[
    Path | None, typer.Option("--into", help="Put the tables between this file's marks.")
]


@reproduce.command()
def mnist(
    seeds: Seeds = 1,
    ensemble_seeds: Annotated[
        int, typer.Option("--ensemble-seeds", min=0, help="Seeds for the 18 dense networks.")
    ] = 2,
    rows: Rows = None,
    out: Out = Path("results/mnist"),
    work: Work = Path("runs/mnist"),
    jobs: Jobs = 1,
    tables: OnlyTables = False,
    into: Into = None,
    data: DataFolder = None,
    threads: Threads = None,
) -> None:
    """Tables 1 and 2: feed-forward networks on MNIST.

    It takes hours; what is finished stays, and the same command goes on. With --tables it only
    prints what the result files hold.

    Example: sparsemble reproduce mnist --tables
    """
    from sparsemble.experiments import mnist, mnist_tables

    train_with(threads)
    if not tables:
        planned = mnist.jobs(rows or (), seeds=seeds, ensemble_seeds=ensemble_seeds, out=out)
        _run(planned, _workplace(work, jobs, data))
    found = mnist.results_in(out)
    _tell_count(found.values(), out)
    _show([mnist_tables.table1(found), mnist_tables.table2(found)], "mnist", into)


@reproduce.command()
def ptb(
    size: Annotated[
        str, typer.Option("--size", help="Of the networks: small, medium or large.")
    ] = "small",
    seeds: Seeds = 1,
    rows: Rows = None,
    out: Out = Path("results/ptb"),
    work: Work = Path("runs/ptb"),
    jobs: Jobs = 1,
    figure4b: Annotated[
        bool, typer.Option("--figure4b", help="Run and measure Figure 4b instead.")
    ] = False,
    tables: OnlyTables = False,
    into: Into = None,
    data: DataFolder = None,
    threads: Threads = None,
) -> None:
    """Tables 3 to 5 and Figure 4b: LSTM language models on Penn Treebank.

    It takes hours at size small and days at size large; what is finished stays, and the same
    command goes on. With --tables it only prints what the result files hold.

    Example: sparsemble reproduce ptb --size small --tables
    """
    from sparsemble.errors import InputError
    from sparsemble.experiments import ptb, ptb_tables
    from sparsemble.experiments.figure4b import figure_sheet, read_curves

    train_with(threads)
    chosen = ptb.checked_size(size)
    place = _workplace(work, jobs, data)
    if figure4b:
        if rows or seeds > 1:
            raise InputError(
                "--figure4b has rows of its own, for one seed: leave --row and --seeds"
            )
        known = ptb.curves_file(chosen, out)
        curves = read_curves(known) if tables else ptb.figure4b(chosen, out, place)
        _show([figure_sheet(curves)], f"figure4b {chosen}", into)
        return
    if not tables:
        _run(ptb.jobs(rows or (), size=chosen, seeds=seeds, out=out), place)
    found = ptb.results_in(out, chosen)
    _tell_count(found.values(), out)
    _show(ptb_tables.sheets(found, chosen), f"ptb {chosen}", into)


def _workplace(work: Path, processes: int, data: Path | None) -> Workplace:
    from sparsemble.experiments.jobs import Workplace

    return Workplace(work, processes, data, progress_console())


def _run(jobs: Sequence[Job], place: Workplace) -> None:
    """Run what has no result yet, and tell every result."""
    from sparsemble.experiments.jobs import run_jobs
    from sparsemble.experiments.search import told

    for job, result in run_jobs(jobs, place):
        results_console().print(
            f"{job.recipe.name} seed {job.recipe.seed}: {told(result)}, "
            f"parameters {result.parameters_ratio:.2f}×, FLOPs {result.flops_ratio:.2f}×"
        )


def _tell_count(results: Iterable[Sequence[object]], folder: Path) -> None:
    """So that a wrong folder is noticed: its tables only say what was not run."""
    count = sum(len(of_row) for of_row in results)
    progress_console().print(f"{count} result files of these tables in {folder}")


def _show(sheets: Sequence[Sheet], name: str, into: Path | None) -> None:
    """Print tables; put them into a Markdown file as well."""
    from sparsemble.runs.sheets import put_into

    for sheet in sheets:
        results_console().print(sheet)
    if into is not None:
        put_into(into, name, sheets)
