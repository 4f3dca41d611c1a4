"""`sparsemble`: learn, reproduce, search, demo.

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
    data: DataFolder = None,
    threads: Threads = None,
) -> None:
    """Learn an ensemble by RECIPE; the same command again goes on where it stopped.

    Example: sparsemble learn digits --out runs/digits
    """
    from sparsemble.experiments.results import run_recipe
    from sparsemble.recipes import load_recipe
    from sparsemble.runs.progress import TerminalProgress

    _use_threads(threads)
    console = _console()
    resolved = load_recipe(recipe, _parsed(changes or []))
    folder = out or Path("runs") / resolved.name
    progress = TerminalProgress(_progress(), resolved.name)
    try:
        result = run_recipe(resolved, folder, data_folder=data, observer=progress)
    finally:
        progress.close()
    metrics = result.metrics
    console.print(
        f"{len(result.structures)} members: error {100 * metrics['error']:.2f} % "
        f"(a member alone {100 * metrics['member_error']:.2f} %), NLL {metrics['nll']:.4f}, "
        f"ECE {metrics['ece']:.4f}"
    )
    console.print(
        f"parameters {result.parameters_ratio:.2f}×, FLOPs {result.flops_ratio:.2f}× one dense "
        f"network; first member {'-'.join(map(str, result.structures[0]))}"
    )
    for finding in result.findings:
        console.print(
            f"{finding.question}: {finding.text}",
            style="yellow" if finding.verdict == "attention" else None,
        )
    console.print(f"saved in {folder / 'ensemble'}")


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="Which experiment of the paper: mnist.")],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0, 1, … for each row.")] = 1,
    ensemble_seeds: Annotated[
        int, typer.Option("--ensemble-seeds", min=0, help="Seeds for the 18 dense networks.")
    ] = 2,
    rows: Annotated[
        list[str] | None, typer.Option("--row", help="Only this row (may be repeated).")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for result files.")] = Path(
        "results/mnist"
    ),
    work: Annotated[Path, typer.Option("--work", help="Folder for runs under way.")] = Path(
        "runs/mnist"
    ),
    jobs: Jobs = 1,
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
    from sparsemble.experiments import mnist
    from sparsemble.experiments.tables import put_into, table1, table2

    if experiment != "mnist":
        raise InputError(f"experiment {experiment!r} is not known; there is mnist")
    _use_threads(threads)
    console = _console()
    if not tables:
        for job, result in mnist.reproduce(
            seeds=seeds,
            ensemble_seeds=ensemble_seeds,
            out=out,
            work=work,
            rows=rows or (),
            processes=jobs,
            data_folder=data,
            console=_progress(),
        ):
            console.print(
                f"{job.recipe.name} seed {job.recipe.seed}: "
                f"error {100 * result.metrics['error']:.2f} %, "
                f"parameters {result.parameters_ratio:.2f}×, FLOPs {result.flops_ratio:.2f}×"
            )
    results = mnist.results_in(out)
    if not any(results.values()):
        raise InputError(f"there are no result files of the mnist experiment in {out}")
    sheets = (table1(results), table2(results))
    for sheet in sheets:
        console.print(sheet.rich())
    if into is not None:
        put_into(into, sheets)


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
    """Search for hyper-parameters on held-out training data.

    Example: sparsemble search searches/mnist-gsp.toml --out results/mnist/search-gsp.json
    """
    from sparsemble.experiments.search import read_search, run_search, search_sheet, write_search

    _use_threads(threads)
    console = _console()
    plan = read_search(file)
    found = []
    for changes, result in run_search(
        plan, work=work, processes=jobs, data_folder=data, console=_progress()
    ):
        found.append((changes, result))
        write_search(plan, found, out)
        console.print(
            f"{changes}: error {100 * result.metrics['error']:.2f} %, "
            f"NLL {result.metrics['nll']:.4f}, FLOPs {result.flops_ratio:.2f}×"
        )
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
