"""Commands that compute: learn, resume, search, demo."""

from __future__ import annotations

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
    from sparsemble.runs.results import Result
    from sparsemble.runs.watching import Watch


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
    from sparsemble.runs.watching import Watch

    train_with(threads)
    resolved = load_recipe(recipe, parsed_changes(changes))
    folder = out or Path("runs") / resolved.name
    watch = Watch(progress_console(quiet=quiet), data, tensorboard)
    _run(resolved, folder, watch, baseline=baseline, as_json=as_json)


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
    from sparsemble.runs.watching import Watch

    train_with(None)  # as many threads as it was begun with
    run = RunFolder(folder)
    recipe = run.recipe()
    check_named(recipe.code, code or (), str(folder))
    watch = Watch(progress_console(quiet=quiet), data, run.tensorboard.is_dir())
    _run(recipe, folder, watch, baseline=run.baseline.is_dir(), as_json=as_json)


def _run(recipe: Recipe, folder: Path, watch: Watch, *, baseline: bool, as_json: bool) -> None:
    """Run a recipe and the one it is compared with; print what came out."""
    from sparsemble.errors import InterruptedRunError
    from sparsemble.recipes.files import baseline_of
    from sparsemble.runs.folder import RunFolder
    from sparsemble.runs.results import known_result
    from sparsemble.runs.summary import summary
    from sparsemble.runs.watching import watch_recipe

    compared = baseline_of(recipe) if baseline else None
    wanted = {folder: recipe} | ({RunFolder(folder).baseline: compared} if compared else {})
    if all(known_result(place, each) for place, each in wanted.items()):
        watch.console.print(f"{folder} is complete: nothing is left to do")
    try:
        if compared is not None:
            results = _compared(recipe, compared, folder, watch)
        else:
            results = [watch_recipe(recipe, folder, watch)]
    except KeyboardInterrupt:
        begun = f"stopped and saved; go on with: sparsemble resume {folder}"
        told = begun if (folder / "run.json").exists() else "stopped; repeat the command"
        raise InterruptedRunError(told) from None
    if as_json:
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


def _compared(recipe: Recipe, baseline: Recipe, folder: Path, watch: Watch) -> list[Result]:
    """Run a recipe and its baseline, each on half of the threads; in turn if there is only one."""
    import torch

    from sparsemble.runs.folder import RunFolder
    from sparsemble.runs.results import check_recipe, known_result
    from sparsemble.runs.watching import watch_beside, watch_recipe

    place = RunFolder(folder).baseline
    half = torch.get_num_threads() // 2
    if not (folder / "run.json").exists():
        check_recipe(recipe, watch.data_folder)  # before the baseline is trained
    torch.set_num_threads(max(half, 1))
    with RunFolder(folder).locked() as run:
        run.claim(recipe)  # so that resume finds it even while the baseline is trained
        place.mkdir(exist_ok=True)
    if half == 0 or known_result(place, baseline):
        return [watch_recipe(baseline, place, watch), watch_recipe(recipe, folder, watch)]
    with watch_beside(baseline, place, watch, threads=half) as beside:
        ours = watch_recipe(recipe, folder, watch)
        return [beside.result(), ours]


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
