"""Commands that look at what there is: recipes, inspect, compare, curves, report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sparsemble.cli.app import app
from sparsemble.cli.options import (
    AsJson,
    Code,
    DataFolder,
    Read,
    Saved,
    Threads,
    print_json,
    results_console,
    use_threads,
)


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe, or this file.")] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting that a recipe can have.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option("--into", help="Put that list between this file's marks.")
    ] = None,
) -> None:
    """List the built-in recipes, print one, or list all settings.

    Example: sparsemble recipes digits
    """
    from sparsemble.recipes import builtin_names, load_recipe, recipe_toml

    if settings:
        _show_settings(into)
        return
    if name is not None:
        print(recipe_toml(name))
        return
    names = builtin_names()
    for known in names:
        print(f"{known:{max(map(len, names))}}  {load_recipe(known).description}")


def _show_settings(into: Path | None) -> None:
    from sparsemble.recipes.reference import settings_reference
    from sparsemble.results.tables import Table, put_into

    rows = tuple((s.key, s.only, s.values, s.default, s.meaning) for s in settings_reference())
    table = Table("Settings", ("Setting", "Only for", "Values", "Default", "Meaning"), rows)
    if into is None:
        results_console().print(table)
    else:
        put_into(into, "settings", [table])


@app.command()
def inspect(saved: Saved, code: Code = None, as_json: AsJson = False) -> None:
    """Show what a run or a saved ensemble holds: members, their structure, what they cost.

    Example: sparsemble inspect runs/digits
    """
    from sparsemble.ensemble.loading import ensemble_folder
    from sparsemble.errors import InputError
    from sparsemble.results.inspection import (
        inspect_ensemble,
        inspect_run,
        layers_table,
        members_table,
    )
    from sparsemble.runs.opening import open_ensemble

    run = inspect_run(saved, code or ())
    ensemble = None
    if ensemble_folder(saved) is not None:
        ensemble = inspect_ensemble(open_ensemble(saved, code or ()))
    if run is None and ensemble is None:
        raise InputError(f"{saved} holds neither a run nor an ensemble")
    if as_json:
        print_json(
            {
                "run": None if run is None else asdict(run),
                "ensemble": None if ensemble is None else asdict(ensemble),
            }
        )
        return
    console = results_console()
    if run is not None:
        for line in run.lines():
            console.print(line)
    if ensemble is not None:
        console.print(members_table(ensemble))
        console.print(layers_table(ensemble))


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Finished run folders, or result files.")],
    code: Code = None,
    as_json: AsJson = False,
) -> None:
    """Show several finished runs in one table, with the verdicts of those that have one.

    Example: sparsemble compare runs/digits runs/digits-sgd-ensemble
    """
    from sparsemble.ensemble.verdict import read_verdict
    from sparsemble.results.result import read_result
    from sparsemble.results.summary import summary
    from sparsemble.runs.folder import RunFolder

    files = [RunFolder(run).finished() if run.is_dir() else run for run in runs]
    results = [read_result(file, code or ()) for file in files]
    if as_json:
        print_json([result.model_dump(mode="json") for result in results])
    else:
        names = [result.recipe.name for result in results]
        heads = names if len(set(names)) == len(names) else [str(run) for run in runs]
        console = results_console()
        console.print(summary(results, heads))
        for head, run in zip(heads, runs, strict=True):
            if run.is_dir() and (verdict := read_verdict(RunFolder(run).verdict)) is not None:
                console.print(f"{head}: {verdict.text}", style=verdict.style)


@app.command()
def curves(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, also of runs under way, or result files.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="SVG or HTML file to write, by its ending.")
    ] = Path("curves.svg"),
    code: Code = None,
) -> None:
    """Draw how runs went: their score along the learning, and against the number of members.

    Of one run single samples, pruned and retrained networks are drawn, and the averages of the
    first ones; of several runs, each by its recipe's name, only what it has come to. All of it was
    measured while they ran, on validation data where there are some. An SGD ensemble is a run like
    any other.

    Example: sparsemble curves runs/digits --out digits.svg
    """
    from sparsemble.errors import InputError
    from sparsemble.results.curves import courses_of, write_courses

    if out.suffix not in (".svg", ".html"):
        raise InputError(f"--out {out}: the file's name must end in .svg or .html")
    write_courses(courses_of(runs, code or ()), out)
    print(out)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="HTML file to write; default RUN/report.html.")
    ] = None,
    data: DataFolder = None,
    samples: Annotated[
        Path | None, typer.Option("--samples", help="Where the samples lie, if runs share them.")
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", help="Folder for its charts as SVG files, too.")
    ] = None,
    code: Code = None,
    read: Read = None,
    threads: Threads = None,
) -> None:
    """Explain a finished run in one HTML file: figures, structure, doubts, what to change.

    Example: sparsemble report runs/digits
    """
    from sparsemble.reports import write_report

    use_threads(threads)
    print(
        write_report(
            run,
            out,
            data,
            samples_folder=samples,
            code=code or (),
            files=read or (),
            pictures=pictures,
        )
    )
