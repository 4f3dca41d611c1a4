"""The paper's experiments: `reproduce mnist`, `reproduce ptb`.

They are no part of the package but of its repository, in the folder `paper`: beside the source this
runs from, or where `--paper` says. A folder is never taken because the command was called there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsemble.cli.app import app
from sparsemble.cli.options import (
    DataFolder,
    Device,
    Jobs,
    On,
    Threads,
    check_alone,
    device_from,
    engine_from,
    progress_console,
    results_console,
    threads_for,
    train_with,
)

if TYPE_CHECKING:
    from sparsemble.results.tables import Table
    from sparsemble.search.jobs import Job, Workplace

reproduce = typer.Typer(
    help="Run an experiment of the paper and print its tables beside the paper's figures.",
    no_args_is_help=True,
)
app.add_typer(reproduce, name="reproduce")

REPOSITORY = "https://github.com/sparsemble/sparsemble"
_BESIDE_SOURCE = Path(__file__).parents[3] / "paper"

Paper = Annotated[
    Path | None,
    typer.Option("--paper", help="The repository's folder `paper`; its code is run."),
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0, 1, … for each row.")]
Rows = Annotated[list[str] | None, typer.Option("--row", help="Only this row (may be repeated).")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for result files; default: that in the folder `paper`."),
]
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
    out: Out = None,
    work: Work = Path("runs/mnist"),
    jobs: Jobs = None,
    on: On = None,
    tables: OnlyTables = False,
    into: Into = None,
    data: DataFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
    paper: Paper = None,
) -> None:
    """Tables 1 and 2: feed-forward networks on MNIST.

    It takes hours; what is finished stays, and the same command goes on. With --tables it only
    prints what the result files hold.

    Example: sparsemble reproduce mnist --tables
    """
    folder = _paper_folder(paper)
    mnist, mnist_tables = _modules(folder, "mnist", "mnist_tables")
    out = out or folder / "results" / "mnist"
    check_alone("reproduce")
    train_with(threads_for(jobs, on, threads))
    if not tables:
        planned = mnist.jobs(rows or (), seeds=seeds, ensemble_seeds=ensemble_seeds, out=out)
        with _workplace(work, jobs, on, data, device) as place:
            _run(planned, place)
    found = mnist.results_in(out)
    _tell_count(found.values(), out)
    _show([mnist_tables.table1(found), mnist_tables.table2(found)], "mnist", into)


@reproduce.command()
def beyond(
    seeds: Seeds = 3,
    out: Out = None,
    work: Work = Path("runs/beyond"),
    jobs: Jobs = None,
    on: On = None,
    tables: OnlyTables = False,
    into: Into = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw quality against cost in this SVG file.")
    ] = None,
    data: DataFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
    paper: Paper = None,
) -> None:
    """Beyond the paper: MNIST for the price of one network, beside dense networks.

    It takes hours; what is finished stays, and the same command goes on.

    Example: sparsemble reproduce beyond --tables
    """
    from sparsemble.pages.document import chart_file
    from sparsemble.store import write_text

    folder = _paper_folder(paper)
    beyond, mnist = _modules(folder, "beyond", "mnist")
    out = out or folder / "results" / "mnist"
    check_alone("reproduce")
    train_with(threads_for(jobs, on, threads))
    if not tables:
        with _workplace(work, jobs, on, data, device) as place:
            _run(beyond.jobs(seeds=seeds, out=out), place)
    found = beyond.results_in(out)
    _tell_count(found.values(), out)
    _show([beyond.table(found)], "beyond", into)
    if picture is not None:
        drawn = beyond.picture(found, mnist.results_in(out))
        write_text(picture, chart_file(drawn))


@reproduce.command()
def ptb(
    size: Annotated[
        str, typer.Option("--size", help="Of the networks: small, medium or large.")
    ] = "small",
    seeds: Seeds = 1,
    rows: Rows = None,
    out: Out = None,
    work: Work = Path("runs/ptb"),
    jobs: Jobs = None,
    on: On = None,
    figure4b: Annotated[
        bool, typer.Option("--figure4b", help="Run and measure Figure 4b instead.")
    ] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Measure what all of it would take instead.")
    ] = False,
    tables: OnlyTables = False,
    into: Into = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            "--pictures",
            help="Draw Figures 4a, 4b and 5 in this folder, as SVG files, and what shedding saves.",
        ),
    ] = None,
    data: DataFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
    paper: Paper = None,
) -> None:
    """Tables 3 to 5 and Figures 4 and 5: LSTM language models on Penn Treebank.

    It takes hours at size small and days at size large; what is finished stays, and the same
    command goes on. With --tables it only prints what the result files hold. Figures are drawn of
    what has been run; what Figure 5 shows of runs (--work) is kept beside their results.

    Example: sparsemble reproduce ptb --size small --tables
    """
    from sparsemble.errors import InputError

    folder = _paper_folder(paper)
    ptb, ptb_tables = _modules(folder, "ptb", "ptb_tables")
    out = out or folder / "results" / "ptb"
    check_alone("reproduce")
    train_with(threads_for(jobs, on, threads))
    chosen = ptb.checked_size(size)
    if estimate:
        if rows or seeds > 1 or figure4b or device != "cpu":
            raise InputError(
                "--estimate is of all rows, for one seed, on the CPU: leave --row, --seeds, "
                "--figure4b and --device"
            )
        (estimating,) = _modules(folder, "ptb_estimate")
        known = estimating.estimate_file(chosen, out)
        if not tables:
            estimating.write_estimate(estimating.measure(chosen, data), known)
        _show([estimating.table(estimating.read_estimate(known))], f"estimate {chosen}", into)
    elif figure4b:
        if rows or seeds > 1:
            raise InputError(
                "--figure4b has rows of its own, for one seed: leave --row and --seeds"
            )
        (figure,) = _modules(folder, "figure4b")
        if not tables:
            with _workplace(work, jobs, on, data, device) as place:
                ptb.figure4b(chosen, out, place)
        curves = figure.read_curves(ptb.curves_file(chosen, out))
        _show([figure.figure_table(curves)], f"figure4b {chosen}", into)
    else:
        if not tables:
            with _workplace(work, jobs, on, data, device) as place:
                _run(ptb.jobs(rows or (), size=chosen, seeds=seeds, out=out), place)
        found = ptb.results_in(out, chosen)
        _tell_count(found.values(), out)
        _show(ptb_tables.tables(found, chosen), f"ptb {chosen}", into)
    if pictures is not None:
        drawing, figure5 = _modules(folder, "ptb_figures", "figure5")
        figure5.keep_patterns(chosen, out, work)
        _draw(drawing.figures(chosen, out, work), pictures)


def _draw(figures: Mapping[str, str | None], folder: Path) -> None:
    """Write figures; of those that nothing was run for, say so."""
    from sparsemble.store import write_text

    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in figures.items():
        if picture is not None:
            write_text(folder / name, picture)
        what = "drawn" if picture is not None else "not drawn, as nothing it shows was run here"
        progress_console().print(f"{folder / name}: {what}")


def _paper_folder(named: Path | None) -> Path:
    """The folder of the paper's experiments, if it is there."""
    from sparsemble.errors import InputError

    folder = named or _BESIDE_SOURCE
    if not (folder / "recipes.py").is_file():
        missing = "are not installed with the package" if named is None else f"are not in {named}"
        raise InputError(
            f"the paper's experiments {missing}: they are the folder paper of {REPOSITORY}; clone "
            "it, and name that folder with --paper"
        )
    return folder.absolute()


def _modules(folder: Path, *names: str) -> list[Any]:
    """Modules of the paper's package, from that folder and no other place."""
    import sys
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    known = sys.modules.get("paper")
    if known is None or list(known.__path__) != [str(folder)]:
        for name in [name for name in sys.modules if name.partition(".")[0] == "paper"]:
            del sys.modules[name]
        spec = spec_from_file_location(
            "paper", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules["paper"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["paper"])
    return [import_module(f"paper.{name}") for name in names]


@contextmanager
def _workplace(
    work: Path, jobs: int | None, on: str | None, data: Path | None, device: str
) -> Iterator[Workplace]:
    from sparsemble.search.jobs import Workplace

    with engine_from(jobs, on) as engine:
        yield Workplace(work, engine, data, progress_console(), device_from(device, on))


def _run(jobs: Sequence[Job], place: Workplace) -> None:
    """Run what has no result yet, and tell every result."""
    from sparsemble.search.jobs import run_jobs
    from sparsemble.search.search import in_words

    for job, result in run_jobs(jobs, place):
        results_console().print(
            f"{job.result.stem}: {in_words(result)}, "
            f"parameters {result.parameters_ratio:.2f}×, FLOPs {result.flops_ratio:.2f}×"
        )


def _tell_count(results: Iterable[Sequence[object]], folder: Path) -> None:
    """So that a wrong folder is noticed: its tables only say what was not run."""
    count = sum(len(of_row) for of_row in results)
    progress_console().print(f"{count} result files of these tables in {folder}")


def _show(tables: Sequence[Table], name: str, into: Path | None) -> None:
    """Print tables; put them into a Markdown file as well."""
    from sparsemble.results.tables import put_into

    for table in tables:
        results_console().print(table)
    if into is not None:
        put_into(into, name, tables)
