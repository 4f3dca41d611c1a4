"""Commands that compute: learn, resume, search, demo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    train_with,
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

    train_with(threads)
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

    train_with(None)  # as many threads as it was begun with
    run = RunFolder(folder)
    recipe = run.recipe()
    check_named(recipe.code, code or (), str(folder))
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
    from sparsemble.runs.folder import RunFolder
    from sparsemble.runs.progress import TerminalProgress
    from sparsemble.runs.results import check_recipe, run_recipe
    from sparsemble.runs.summary import summary
    from sparsemble.runs.tensorboard import TensorBoard
    from sparsemble.stages.observer import Observers

    runs = [(recipe, folder)]
    if baseline and (compared := baseline_of(recipe)) is not None:
        runs.insert(0, (compared, folder / "baseline"))
        if not (folder / "run.json").exists():
            check_recipe(recipe, how.data)  # not only once the baseline is trained
        with RunFolder(folder).locked() as run:
            run.claim(recipe)  # so that resume finds it even while the baseline is trained
            (folder / "baseline").mkdir(exist_ok=True)
    if RunFolder(folder).result.exists():
        progress_console(quiet=how.quiet).print(f"{folder} is complete: nothing is left to do")
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
    console.print(summary(results))
    for part, count in results[-1].unknown.items():
        console.print(f"{count} words of the {part} text are not in the vocabulary: read as <unk>")
    for finding in results[-1].findings:
        console.print(
            f"{finding.question}: {finding.text}",
            style="yellow" if finding.verdict == "attention" else None,
        )
    console.print(f"saved in {folder / 'ensemble'}")


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
    from sparsemble.errors import DivergedError
    from sparsemble.experiments.jobs import Workplace
    from sparsemble.experiments.search import (
        read_search,
        run_search,
        search_sheet,
        told,
        write_search,
    )

    train_with(threads)
    console = results_console()
    plan = read_search(file)
    found, diverged = [], []
    for changes, outcome in run_search(plan, Workplace(work, jobs, data, progress_console())):
        if isinstance(outcome, DivergedError):
            diverged.append(changes)
            console.print(f"{changes}: {outcome}")
            continue
        found.append((changes, outcome))
        write_search(plan, found, out, diverged)
        console.print(f"{changes}: {told(outcome)}, FLOPs {outcome.flops_ratio:.2f}×")
    if not found:
        raise DivergedError("every point of the search diverged")
    write_search(plan, found, out, diverged)
    console.print(search_sheet(found))


@app.command()
def demo(threads: Threads = None) -> None:
    """Learn on the embedded digits, beside dense baselines, and print one table.

    Example: sparsemble demo
    """
    from sparsemble.experiments.demo import demonstrate

    # Networks this small only lose by sharing their work between threads.
    train_with(threads or 1)
    console = results_console()
    console.print(demonstrate(progress_console()))
