"""Commands that use saved ensembles: evaluate, predict, export, merge, sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsemble.cli.app import app
from sparsemble.cli.options import (
    AsJson,
    Code,
    DataFolder,
    Device,
    Read,
    Saved,
    Threads,
    Unseen,
    as_text,
    check_not_read,
    given,
    parsed_budget,
    print_json,
    print_pieces,
    progress_console,
    results_console,
    use_threads,
)

if TYPE_CHECKING:
    from sparsemble.tasks.task import Answer


@app.command()
def evaluate(
    saved: Saved,
    on: Annotated[
        str,
        typer.Option("--on", help="digits, mnist, diabetes, grammar, ptb; or a file or folder."),
    ],
    part: Annotated[str, typer.Option(help="Which part: train, validation or test.")] = "test",
    streams: Annotated[
        int | None, typer.Option(min=1, help="Of a text: pieces read side by side.")
    ] = None,
    unseen: Unseen = None,
    code: Code = None,
    data: DataFolder = None,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure an ensemble on data with known answers.

    Example: sparsemble evaluate runs/digits --on digits
    """
    from sparsemble.errors import InputError
    from sparsemble.pages.numbers import counted
    from sparsemble.results.tables import Table
    from sparsemble.runs.opening import open_ensemble

    use_threads(threads)
    ensemble = open_ensemble(saved, code or (), device)
    options = given({"streams": streams, "unseen": unseen})
    score = ensemble.evaluate(ensemble.task.evaluation_from(on, part, data, **options))
    if not all(map(math.isfinite, score.metrics.values())):
        raise InputError(f"{on}: what the members predict is not finite: values are too large")
    if as_json:
        print_json(score.model_dump(mode="json"))
        return
    rows = []
    for metric in ensemble.task.metrics:
        figures = (score[metric.key], score.of_a_member(metric.key))
        reference = score.reference.get(metric.key)
        rows.append((metric.title, *map(metric.text, (*figures, reference))))
    header = ("", "Together", "One member, on average", "The source itself")
    title = f"{counted(len(ensemble), ensemble.task.noun)} on {score.count:,}"
    known = 4 if score.reference else 3
    results_console().print(Table(title, header[:known], tuple(row[:known] for row in rows)))
    for note in score.notes:
        results_console().print(note)


@app.command()
def predict(
    saved: Saved,
    inputs: Annotated[Path, typer.Argument(help="Rows (CSV, NPY, NPZ, Parquet) or a text file.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: the terminal.")
    ] = None,
    words: Annotated[
        int | None, typer.Option(min=1, help="After a text: how many next words.")
    ] = None,
    unseen: Unseen = None,
    code: Code = None,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Predict: classes, numbers or next words, with how uncertain they are.

    Example: sparsemble predict runs/digits examples/digits.csv
    """
    from sparsemble.runs.opening import open_ensemble
    from sparsemble.store import write_pieces

    use_threads(threads)
    if out is not None:
        check_not_read(out, inputs)
    ensemble = open_ensemble(saved, code or (), device)
    options = given({"words": words, "unseen": unseen})
    answers = ensemble.task.predict_file(ensemble, inputs, **options)
    pieces = _as_json(answers) if as_json else (answer.text for answer in answers)
    # Bad input mostly shows at the beginning: nothing is made before that is read.
    pieces = chain([next(pieces)], pieces)
    if out is None:
        print_pieces(pieces)
    else:
        write_pieces(out, (piece.encode() for piece in pieces))


def _as_json(answers: Iterator[Answer]) -> Iterator[str]:
    """Answers as one value: lists as one list, as long as it may be."""
    first = next(answers)
    if not isinstance(first.value, list):
        yield as_text(first.value)
        return
    begun = "[\n"
    for answer in chain([first], answers):
        yield begun + as_text(answer.value).removeprefix("[\n").removesuffix("\n]\n")
        begun = ",\n"
    yield "\n]\n"


@app.command()
def export(
    saved: Saved,
    out: Annotated[Path, typer.Option("--out", help="The ONNX file to write.")],
    members: Annotated[
        bool, typer.Option("--members", help="Also what every member predicts.")
    ] = False,
    code: Code = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Write an ensemble as an ONNX file, and check that it predicts the same.

    Example: sparsemble export runs/digits --out digits.onnx
    """
    from sparsemble.runs.opening import open_ensemble

    use_threads(threads)
    ensemble = open_ensemble(saved, code or ())
    difference = ensemble.export(out, members=members)
    if as_json:
        print_json({"file": str(out), "bytes": out.stat().st_size, "difference": difference})
        return
    size = out.stat().st_size / 1e6
    results_console().print(
        f"{out}: {size:.2f} MB; in ONNX Runtime its predictions differ by at most {difference:.1g} "
        "of the largest"
    )


@app.command()
def merge(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or saved ensembles.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the merged ensemble.")],
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="LIMITS",
            help="Keep the members that do best for it on validation data, as "
            "flops=1.0,parameters=0.7; default: all.",
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", help="Data to choose by; default: what the runs set aside for it."),
    ] = None,
    code: Code = None,
    read: Read = None,
    data: DataFolder = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Make one ensemble of the members of several runs, or of the best for a budget.

    Example: sparsemble merge runs/a runs/b --out runs/both --budget flops=1.0
    """
    from sparsemble.errors import InputError
    from sparsemble.results.merging import merge_runs
    from sparsemble.runs.folder import is_run

    use_threads(threads)
    if is_run(out):
        raise InputError(f"{out} holds a run and its own ensemble; use another folder (--out)")
    limits = None if budget is None else parsed_budget(budget)
    merged = merge_runs(runs, limits, on=on, data_folder=data, code=code or (), files=read or ())
    table = merged.table()
    merged.ensemble.save(out)
    if as_json:
        rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
        print_json({"folder": str(out), "kept": merged.origins, "rows": rows})
        return
    console = results_console()
    console.print(table)
    for run, numbers in merged.origins.items():
        console.print(f"{run}: kept {_members(numbers, len(merged.runs[run]))}")
    console.print(f"saved in {out}")


def _members(numbers: list[int], of: int) -> str:
    """Which members, in words."""
    if len(numbers) == of:
        return f"all {of} members"
    which = ", ".join(map(str, numbers)) or "none"
    return f"{len(numbers)} of {of} members ({which})"


@app.command()
def sample(
    saved: Saved,
    start: Annotated[str, typer.Option("--start", help="Words to go on from.")] = "",
    words: Annotated[int, typer.Option("--words", min=1, help="How many to draw.")] = 60,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Below 1 the probable words are preferred.")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    code: Code = None,
    device: Device = "cpu",
) -> None:
    """Draw text from an ensemble of language models.

    Example: sparsemble sample runs/grammar --words 40
    """
    from sparsemble.data.vocabulary import END
    from sparsemble.runs.opening import open_ensemble
    from sparsemble.tasks import generate
    from sparsemble.tasks.generating import unknown_words

    ensemble = open_ensemble(saved, code or (), device)
    line = start.split()
    drawn = generate(ensemble, words, start=line, temperature=temperature, seed=seed)
    if unknown := unknown_words(ensemble, line):
        progress_console().print(f"{unknown} words of --start are unknown: read as <unk>")
    for word in drawn:
        if word == END:
            print_pieces([" ".join(line), "\n"])
            line = []
        else:
            line.append(word)
    if line:
        print_pieces([" ".join(line), "\n"])
