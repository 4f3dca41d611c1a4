"""Commands that compute: learn, resume, search, demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsemble.cli.app import app
from sparsemble.cli.options import (
    AsJson,
    Changes,
    Code,
    DataFolder,
    Device,
    Jobs,
    On,
    Quiet,
    Read,
    Threads,
    Unseen,
    check_alone,
    check_not_read,
    device_from,
    engine_from,
    parsed_budget,
    parsed_changes,
    print_json,
    progress_console,
    results_console,
    threads_for,
    train_with,
)
from sparsemble.errors import InputError, InterruptedRunError

if TYPE_CHECKING:
    from rich.console import Console

    from sparsemble.engines import Engine
    from sparsemble.recipes import Recipe
    from sparsemble.results.beside import Compared
    from sparsemble.runs import RunFolder

_KEPT_FOR_A_BUDGET = (
    "data",
    "network",
    "task",
    "grouping",
    "seed",
    "name",
    "baseline",
    "chain.augment",
)
"""Settings of a recipe that are not found by trials."""


@app.command()
def learn(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A built-in recipe or a TOML file; of a table its settings alone."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Run folder; default runs/NAME.")
    ] = None,
    changes: Changes = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="LIMITS",
            help="Find all settings for a budget, as flops=1.0,parameters=0.7; the recipe only "
            "says data and network. Of a table without a recipe: flops=1.0.",
        ),
    ] = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            "--table",
            "--csv",
            metavar="FILE",
            help="Learn from a table: CSV, Parquet or NPZ; several files are one table.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Of a table: the column to be predicted."),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Of a table: rows to measure on; default: a fifth of all."
        ),
    ] = None,
    hidden: Annotated[
        str | None, typer.Option(metavar="SIZES", help="Of a table: hidden layers, as 64,64.")
    ] = None,
    predict: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="Of a table: classes or numbers; default: found out."),
    ] = None,
    unseen: Unseen = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Also train to compare with: a number of dense networks (by default 1), small "
            "(small ones of the ensemble's cost, too), or none.",
        ),
    ] = None,
    jobs: Jobs = None,
    on: On = None,
    data: DataFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write scalars for TensorBoard.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn an ensemble by RECIPE; the same command again goes on where it stopped.

    From a table: sparsemble learn --csv examples/people.csv --target income

    Example: sparsemble learn digits-budget --out runs/digits
    """
    from sparsemble.cli.tables import show_columns, table_or_recipe
    from sparsemble.recipes.baselines import baseline_of

    train_with(threads_for(jobs, on, threads))
    device = device_from(device)
    wanted, epochs = parsed_changes(changes), None
    if tables and recipe is None:
        budget = budget or "flops=1.0"
    if baseline is not None:
        wanted["baseline"] = baseline
    if budget is not None:
        epochs = _taken_epochs(wanted)
    resolved = table_or_recipe(
        recipe,
        wanted,
        files=tables,
        targets=target,
        test=test,
        hidden=hidden,
        predict=predict,
        unseen=unseen,
    )
    folder = out or Path("runs") / resolved.name
    console = progress_console(quiet=quiet)
    show_columns(resolved, console)
    baseline_of(resolved)  # before anything is computed
    if budget is not None:
        found = _planned(resolved, budget, folder, console, data, device, epochs)
        resolved = found.model_copy(update={"baseline": resolved.baseline})
    with engine_from(jobs, on) as engine:
        _run(
            resolved,
            folder,
            console,
            data,
            device,
            compared=True,
            tensorboard=tensorboard,
            as_json=as_json,
            engine=engine,
        )


def _taken_epochs(wanted: dict[str, Any]) -> int | None:
    """How long a chain may be, if that is set, which is taken out; what trials find cannot be."""
    epochs: int | None = wanted.pop("chain.epochs", None)
    for key in wanted:
        if not key.startswith(_KEPT_FOR_A_BUDGET):
            raise InputError(
                f"--set {key}: for a budget that is found by trials; leave it out, or name a "
                "recipe without --budget"
            )
    return epochs


def _planned(
    recipe: Recipe,
    budget: str,
    folder: Path,
    console: Console,
    data: Path | None,
    device: str,
    epochs: int | None,
) -> Recipe:
    """The recipe that trials find for a budget."""
    from sparsemble.progress.showing import shown
    from sparsemble.results.running import planned

    limits = parsed_budget(budget)
    with shown(console, f"{recipe.name}, trials") as callback:
        found = planned(
            recipe,
            limits,
            folder,
            epochs=epochs,
            data_folder=data,
            device=device,
            callback=callback,
        )
    console.print(f"settings for {limits.text}: {found.in_short}")
    return found


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    code: Code = None,
    read: Read = None,
    jobs: Jobs = None,
    on: On = None,
    data: DataFolder = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Where to compute; default: as it began."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was stopped or killed; its folder holds all that is needed.

    Code and files of your own, if the recipe names some, are named again, with --code and --read: a
    run folder may come from anybody.

    Example: sparsemble resume runs/digits
    """
    from sparsemble.recipes.trust import check_named
    from sparsemble.runs.folder import RunFolder

    train_with(None)  # as many threads as it was begun with
    run = RunFolder(folder, code=code or ())
    recipe = run.recipe()
    check_named(recipe, str(folder), code=code or (), files=read or ())
    with engine_from(jobs, on) as engine:
        _run(
            recipe,
            folder,
            progress_console(quiet=quiet),
            data,
            device_from(device or run.device()),
            compared=run.baseline.is_dir(),
            tensorboard=run.tensorboard.is_dir(),
            as_json=as_json,
            engine=engine,
        )


def _run(
    recipe: Recipe,
    folder: Path,
    console: Console,
    data: Path | None,
    device: str,
    *,
    compared: bool,
    tensorboard: bool,
    as_json: bool,
    engine: Engine | None,
) -> None:
    """Run a recipe and what it is compared with; print what came out."""
    from sparsemble.progress.showing import shown
    from sparsemble.recipes.baselines import baseline_of
    from sparsemble.results.beside import is_complete, run_compared
    from sparsemble.runs.folder import RunFolder
    from sparsemble.team import is_first

    run, baseline = RunFolder(folder), baseline_of(recipe) if compared else None
    if is_complete(recipe, baseline, folder):
        console.print(f"{folder} is complete: nothing is left to do")
    try:
        with shown(console, recipe.name, run.tensorboard if tensorboard else None) as callback:
            found = run_compared(
                recipe,
                baseline,
                folder,
                console=console,
                data_folder=data,
                device=device,
                callback=callback,
                engine=engine,
            )
    except KeyboardInterrupt:
        raise _interrupted(recipe, run) from None
    if is_first():
        _print(found, run, as_json=as_json)


def _interrupted(recipe: Recipe, run: RunFolder) -> InterruptedRunError:
    """How to go on."""
    if not run.is_begun:
        return InterruptedRunError("stopped; repeat the command")
    named = [f"--code {path}" for path in recipe.code]
    named += [f"--read {path}" for path in recipe.files]
    again = " ".join([str(run.path), *named])
    return InterruptedRunError(f"stopped and saved; go on with: sparsemble resume {again}")


def _print(found: Compared, run: RunFolder, *, as_json: bool) -> None:
    """What came out of a run: its figures, the verdict, notes, and advice."""
    from sparsemble.results.summary import summary

    if as_json:
        print_json(
            {
                "folder": str(run.path),
                "results": [result.model_dump(mode="json") for result in found.results],
                "verdict": found.verdict and found.verdict.model_dump(mode="json"),
            }
        )
        return
    output = results_console()
    output.print(summary(found.results, dense=found.own))
    if found.verdict is not None:
        output.print(found.verdict.text, style=found.verdict.style)
    for note in found.own.notes:
        output.print(note)
    for finding in found.own.findings:
        output.print(
            f"{finding.question}: {finding.text}",
            style="yellow" if finding.verdict == "attention" else None,
        )
        if finding.changes:
            output.print(f"  {finding.options}")
    output.print(f"saved in {run.ensemble}")


@app.command()
def search(
    file: Annotated[Path, typer.Argument(help="A TOML file that says what to try.")],
    out: Annotated[Path, typer.Option("--out", help="Result file.")] = Path("search.json"),
    work: Annotated[Path, typer.Option("--work", help="Folder for runs under way.")] = Path(
        "runs/search"
    ),
    jobs: Jobs = None,
    on: On = None,
    data: DataFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Search for hyper-parameters on validation data: of a grid, or by Optuna in a space.

    The same command again goes on where it stopped.

    Example: sparsemble search examples/search.toml --out digits.json
    """
    from sparsemble.cli.searching import show_exploration
    from sparsemble.errors import DivergedError
    from sparsemble.search.jobs import Workplace
    from sparsemble.search.search import (
        in_words,
        read_search,
        run_search,
        search_table,
        write_search,
    )
    from sparsemble.search.space import SpaceSearch

    check_alone("search")
    if out.suffix.lower() != ".json":
        raise InputError(f"--out {out}: results are written as JSON: call the file {out.stem}.json")
    check_not_read(out, file)
    train_with(threads_for(jobs, on, threads))
    console = results_console()
    plan = read_search(file)
    with engine_from(jobs, on) as engine:
        place = Workplace(work, engine, data, progress_console(), device_from(device, on))
        if isinstance(plan, SpaceSearch):
            show_exploration(plan, place, out, console)
            return
        found, diverged = [], []
        for changes, outcome in run_search(plan, place):
            if isinstance(outcome, DivergedError):
                diverged.append(changes)
                console.print(f"{changes}: {outcome}")
                continue
            found.append((changes, outcome))
            write_search(plan, found, out, diverged)
            console.print(f"{changes}: {in_words(outcome)}, FLOPs {outcome.flops_ratio:.2f}×")
        if not found:
            raise DivergedError("every point of the search diverged")
        write_search(plan, found, out, diverged)
        console.print(search_table(found))


@app.command()
def demo(threads: Threads = None) -> None:
    """Learn on the embedded digits, ten times, beside dense networks, and print one table.

    Example: sparsemble demo
    """
    from sparsemble.results.demo import demonstrate

    # Networks this small only lose by sharing their work between threads.
    train_with(threads or 1)
    console = results_console()
    table, sentence = demonstrate(progress_console())
    console.print(table)
    console.print(sentence)
