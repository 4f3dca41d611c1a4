"""`sparsemble`: learn, reproduce, search, sample, demo.

Heavy imports stay inside the commands, so that `--help` answers at once. Exit codes: 0 done,
1 failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(
    help="Learn sparse structured ensembles: many small networks for the price of one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data sets; default: SPARSEMBLE_DATA or a cache."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads; default: PyTorch's choice.")
]
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, help="Processes at a time; more than one use 1 thread each.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, as chain.epochs=20."),
]


def main() -> None:
    """Run the command line; errors made for the user become one line and an exit code."""
    from sparsemble.errors import InputError, SparsembleError

    try:
        app()
    except InputError as error:
        _fail(str(error), 2)
    except SparsembleError as error:
        _fail(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", 1)
    except SystemExit as stop:
        # Typer has already turned an interrupt into its exit code, without a word.
        if stop.code == 130:
            _fail("interrupted; a run that has a folder goes on when the command is repeated", 130)
        raise


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
) -> None:
    """Learn an ensemble by RECIPE; the same command again goes on where it stopped.

    Example: sparsemble learn digits --out runs/digits
    """
    from sparsemble.experiments.results import run_recipe
    from sparsemble.experiments.summary import summary
    from sparsemble.recipes import load_recipe
    from sparsemble.runs.progress import TerminalProgress

    _use_threads(threads)
    console = _console()
    resolved = load_recipe(recipe, _parsed(changes or []))
    folder = out or Path("runs") / resolved.name
    runs = {resolved: folder}
    if baseline and resolved.baseline is not None:
        compared = load_recipe(resolved.baseline, {"seed": resolved.seed})
        runs = {compared: folder / "baseline", resolved: folder}
    results = []
    for each, place in runs.items():
        progress = TerminalProgress(_progress(), each.name)
        try:
            results.append(run_recipe(each, place, data_folder=data, observer=progress))
        finally:
            progress.close()
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

    Example: sparsemble reproduce mnist --seeds 5 --jobs 2
    """
    from sparsemble.errors import InputError
    from sparsemble.experiments import mnist, mnist_tables, ptb, ptb_tables
    from sparsemble.experiments.figure4b import figure_sheet
    from sparsemble.experiments.search import told
    from sparsemble.experiments.sheets import put_into

    if experiment not in ("mnist", "ptb"):
        raise InputError(f"experiment {experiment!r} is not known; there are mnist and ptb")
    _use_threads(threads)
    console = _console()
    results_folder = out or Path("results") / experiment
    settings: Any = {
        "seeds": seeds,
        "out": results_folder,
        "work": work or Path("runs") / experiment,
        "rows": rows or (),
        "processes": jobs,
        "data_folder": data,
        "console": _progress(),
    }
    chosen = ptb.checked_size(size)
    if figure4b:
        if experiment != "ptb":
            raise InputError("--figure4b is a figure of ptb")
        curves = ptb.figure4b(
            size=size,
            out=results_folder,
            work=settings["work"],
            data_folder=data,
            console=_progress(),
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
    if experiment == "mnist":
        found = mnist.results_in(results_folder)
        sheets = [mnist_tables.table1(found), mnist_tables.table2(found)]
    else:
        found = ptb.results_in(results_folder, chosen)
        sheets = ptb_tables.sheets(found, chosen)
    if not any(found.values()):
        raise InputError(f"there are no result files of {experiment} in {results_folder}")
    for sheet in sheets:
        console.print(sheet.rich())
    if into is not None:
        put_into(into, experiment, sheets)


@app.command()
def sample(
    folder: Annotated[
        Path, typer.Argument(help="A saved ensemble of language models, or its run.")
    ],
    start: Annotated[str, typer.Option("--start", help="Words to go on from.")] = "",
    words: Annotated[int, typer.Option("--words", min=1, help="How many to draw.")] = 60,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Below 1 the probable words are preferred.")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
) -> None:
    """Draw text from an ensemble of language models.

    Example: sparsemble sample runs/grammar --words 40
    """
    from sparsemble.data.vocabulary import END
    from sparsemble.ensemble import LanguageEnsemble

    saved = folder / "ensemble" if (folder / "ensemble").is_dir() else folder
    ensemble = LanguageEnsemble.load(saved)
    line = start.split()
    for word in ensemble.generate(words, start=line, temperature=temperature, seed=seed):
        if word == END:
            print(" ".join(line))
            line = []
        else:
            line.append(word)
    if line:
        print(" ".join(line))


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

    Example: sparsemble search searches/mnist-gsp.toml --out results/mnist/search-gsp.json
    """
    from sparsemble.experiments.search import (
        read_search,
        run_search,
        search_sheet,
        told,
        write_search,
    )

    _use_threads(threads)
    console = _console()
    plan = read_search(file)
    found = []
    for changes, result in run_search(
        plan, work=work, processes=jobs, data_folder=data, console=_progress()
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
    _use_threads(threads or 1)
    console = _console()
    console.print(demonstrate(_progress()).rich())


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe.")] = None,
) -> None:
    """List the built-in recipes, or print one.

    Example: sparsemble recipes digits
    """
    from sparsemble.recipes import builtin_names, load_recipe, recipe_toml

    if name is not None:
        print(recipe_toml(name))
        return
    for known in builtin_names():
        print(f"{known:22} {load_recipe(known).description}")


def _parsed(changes: list[str]) -> dict[str, Any]:
    """`KEY=VALUE` pairs with TOML values; anything that is not TOML is taken as text."""
    import tomllib

    from sparsemble.errors import InputError

    parsed = {}
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator or not key:
            raise InputError(f"--set {change!r}: write KEY=VALUE, as chain.epochs=20")
        try:
            parsed[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key] = text
    return parsed


def _use_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _console() -> Any:
    """Where results go."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def _progress() -> Any:
    """Where progress goes: out of the way of results that are piped on."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, stderr=True)


def _fail(message: str, code: int) -> NoReturn:
    print(f"sparsemble: {message}", file=sys.stderr)
    raise SystemExit(code)
