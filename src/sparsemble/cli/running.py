"""Commands that compute: learn, resume, demo, search, reproduce."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsemble.cli.application import app
from sparsemble.cli.options import (
    AsJson,
    Changes,
    Code,
    DataFolder,
    Jobs,
    Quiet,
    Threads,
    parsed_changes,
    print_json,
    progress_console,
    results_console,
    use_threads,
)

if TYPE_CHECKING:
    from sparsemble.recipes import Recipe


@app.command()
def learn(
    recipe: Annotated[str, typer.Argument(help="A built-in recipe or a TOML file.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Run folder; default runs/NAME.")
    ] = None,
    changes: Changes = None,
    baseline: Annotated[
        bool, typer.Option(help="Also train what the recipe is compared with, if it names that.")
    ] = True,
    data: DataFolder = None,
    threads: Threads = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write scalars for TensorBoard.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn an ensemble by RECIPE; the same command again goes on where it stopped.

    Example: sparsemble learn digits --out runs/digits
    """
    from sparsemble.recipes import load_recipe

    use_threads(threads)
    resolved = load_recipe(recipe, parsed_changes(changes))
    folder = out or Path("runs") / resolved.name
    how = _How(data, quiet=quiet, as_json=as_json, tensorboard=tensorboard)
    _run(resolved, folder, how, baseline=baseline)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    code: Code = None,
    data: DataFolder = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was stopped or killed; nothing but its folder is needed.

    Only code of your own, if the recipe names some, must be named again with --code.

    Example: sparsemble resume runs/digits
    """
    from sparsemble.recipes.code import check_named
    from sparsemble.runs.folder import RunFolder

    run = RunFolder(folder)
    recipe = run.recipe()
    check_named(recipe.code, code or (), str(folder))
    if run.result.exists() and not quiet:
        progress_console().print(f"{folder} is complete: nothing is left to do")
    board = (folder / "tensorboard").is_dir()
    how = _How(data, quiet=quiet, as_json=as_json, tensorboard=board)
    _run(recipe, folder, how, baseline=(folder / "baseline").is_dir())


@dataclass(frozen=True)
class _How:
    """Where a run's data lie, and what is shown of it."""

    data: Path | None
    quiet: bool
    as_json: bool
    tensorboard: bool


def _run(recipe: Recipe, folder: Path, how: _How, *, baseline: bool) -> None:
    """Run a recipe, and before it the one it is compared with; print what came out."""
    from sparsemble.errors import InterruptedRunError
    from sparsemble.recipes.files import baseline_of
    from sparsemble.runs.progress import TerminalProgress
    from sparsemble.runs.results import run_recipe
    from sparsemble.runs.summary import summary
    from sparsemble.runs.tensorboard import TensorBoard
    from sparsemble.stages.observer import Observers

    runs = [(recipe, folder)]
    if baseline and (compared := baseline_of(recipe)) is not None:
        runs.insert(0, (compared, folder / "baseline"))
    results = []
    for each, place in runs:
        progress = TerminalProgress(progress_console(quiet=how.quiet), each.name)
        board = TensorBoard(place / "tensorboard") if how.tensorboard else None
        observer = progress if board is None else Observers(progress, board)
        try:
            results.append(run_recipe(each, place, data_folder=how.data, observer=observer))
        except KeyboardInterrupt:
            begun = f"stopped and saved; go on with: sparsemble resume {folder}"
            told = begun if (folder / "run.json").exists() else "stopped; repeat the command"
            raise InterruptedRunError(told) from None
        finally:
            progress.close()
            if board is not None:
                board.close()
    if how.as_json:
        print_json({"folder": str(folder), "results": [r.model_dump(mode="json") for r in results]})
        return
    console = results_console()
    console.print(summary(results).rich())
    for part, count in results[-1].unknown.items():
        console.print(f"{count} words of the {part} text are not in the vocabulary: read as <unk>")
    for finding in results[-1].findings:
        console.print(
            f"{finding.question}: {finding.text}",
            style="yellow" if finding.verdict == "attention" else None,
        )
    console.print(f"saved in {folder / 'ensemble'}")


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="Which experiment: mnist or ptb.")],
    size: Annotated[
        str, typer.Option("--size", help="Of the ptb networks: small, medium or large.")
    ] = "small",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0, 1, … for each row.")] = 1,
    ensemble_seeds: Annotated[
        int, typer.Option("--ensemble-seeds", min=0, help="Seeds for the 18 dense networks.")
    ] = 2,
    rows: Annotated[
        list[str] | None, typer.Option("--row", help="Only this row (may be repeated).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for result files; default results/NAME.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option("--work", help="Folder for runs under way; default runs/NAME.")
    ] = None,
    jobs: Jobs = 1,
    figure4b: Annotated[
        bool, typer.Option("--figure4b", help="Of ptb: run and measure Figure 4b instead.")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Only print the tables of the result files.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option("--into", help="Put the tables between this file's marks.")
    ] = None,
    data: DataFolder = None,
    threads: Threads = None,
) -> None:
    """Run an experiment of the paper and print its tables beside the paper's figures.

    It takes hours; what is finished stays, and the same command goes on. With --tables it only
    prints what the result files hold.

    Example: sparsemble reproduce mnist --tables
    """
    from sparsemble.errors import InputError
    from sparsemble.experiments import mnist, ptb
    from sparsemble.experiments.figure4b import figure_sheet
    from sparsemble.experiments.search import told

    if experiment not in ("mnist", "ptb"):
        raise InputError(f"experiment {experiment!r} is not known; there are mnist and ptb")
    use_threads(threads)
    console = results_console()
    results_folder = out or Path("results") / experiment
    settings: Any = {
        "seeds": seeds,
        "out": results_folder,
        "work": work or Path("runs") / experiment,
        "rows": rows or (),
        "processes": jobs,
        "data_folder": data,
        "console": progress_console(),
    }
    ptb.checked_size(size)
    if figure4b:
        if experiment != "ptb":
            raise InputError("--figure4b is a figure of ptb")
        curves = ptb.figure4b(
            size=size,
            out=results_folder,
            work=settings["work"],
            data_folder=data,
            console=progress_console(),
        )
        console.print(figure_sheet(curves).rich())
        return
    if not tables:
        running = (
            mnist.reproduce(ensemble_seeds=ensemble_seeds, **settings)
            if experiment == "mnist"
            else ptb.reproduce(size=size, **settings)
        )
        for job, result in running:
            console.print(
                f"{job.recipe.name} seed {job.recipe.seed}: {told(result)}, "
                f"parameters {result.parameters_ratio:.2f}×, FLOPs {result.flops_ratio:.2f}×"
            )
    _show_tables(experiment, size, results_folder, into)


def _show_tables(experiment: str, size: str, folder: Path, into: Path | None) -> None:
    """Print the tables of an experiment's result files; put them into a Markdown file as well."""
    from sparsemble.errors import InputError
    from sparsemble.experiments import mnist, mnist_tables, ptb, ptb_tables
    from sparsemble.runs.sheets import put_into

    if experiment == "mnist":
        found = mnist.results_in(folder)
        sheets = [mnist_tables.table1(found), mnist_tables.table2(found)]
    else:
        chosen = ptb.checked_size(size)
        found = ptb.results_in(folder, chosen)
        sheets = ptb_tables.sheets(found, chosen)
    if not any(found.values()):
        raise InputError(f"there are no result files of {experiment} in {folder}")
    for sheet in sheets:
        results_console().print(sheet.rich())
    if into is not None:
        put_into(into, experiment, sheets)


@app.command()
def search(
    file: Annotated[Path, typer.Argument(help="A TOML file that says what to try.")],
    out: Annotated[Path, typer.Option("--out", help="Result file.")] = Path("search.json"),
    work: Annotated[Path, typer.Option("--work", help="Folder for runs under way.")] = Path(
        "runs/search"
    ),
    jobs: Jobs = 1,
    data: DataFolder = None,
    threads: Threads = None,
) -> None:
    """Search for hyper-parameters on validation data.

    Example: sparsemble search searches/digits.toml --out digits.json
    """
    from sparsemble.experiments.search import (
        read_search,
        run_search,
        search_sheet,
        told,
        write_search,
    )

    use_threads(threads)
    console = results_console()
    plan = read_search(file)
    found = []
    for changes, result in run_search(
        plan, work=work, processes=jobs, data_folder=data, console=progress_console()
    ):
        found.append((changes, result))
        write_search(plan, found, out)
        console.print(f"{changes}: {told(result)}, FLOPs {result.flops_ratio:.2f}×")
    console.print(search_sheet(found).rich())


@app.command()
def demo(threads: Threads = None) -> None:
    """Learn on the embedded digits, beside dense baselines, and print one table.

    Example: sparsemble demo
    """
    from sparsemble.experiments.demo import demonstrate

    # Networks this small only lose by sharing their work between threads.
    use_threads(threads or 1)
    console = results_console()
    console.print(demonstrate(progress_console()).rich())
