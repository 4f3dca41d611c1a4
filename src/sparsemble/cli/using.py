"""Commands that use a saved ensemble: evaluate, predict, sample."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sparsemble.cli.application import app
from sparsemble.cli.options import (
    AsJson,
    DataFolder,
    Factory,
    Saved,
    Threads,
    as_text,
    print_json,
    progress_console,
    results_console,
    use_threads,
)


@app.command()
def evaluate(
    saved: Saved,
    on: Annotated[
        str,
        typer.Option("--on", help="digits, mnist, grammar, ptb; or a file or folder."),
    ],
    part: Annotated[str, typer.Option(help="Which part: train, valid or test.")] = "test",
    streams: Annotated[int, typer.Option(min=1, help="Of a text: pieces read side by side.")] = 1,
    code: Factory = None,
    data: DataFolder = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure an ensemble on data with known answers.

    Example: sparsemble evaluate runs/digits --on digits
    """
    from sparsemble.runs.opening import open_ensemble
    from sparsemble.runs.prediction import evaluate_on

    use_threads(threads)
    figures = evaluate_on(
        open_ensemble(saved, code), on, part=part, streams=streams, data_folder=data
    )
    if as_json:
        print_json(figures)
    else:
        console = results_console()
        for name, value in figures.items():
            shown = f"{value:.4f}" if isinstance(value, float) else str(value)
            console.print(f"{name}: {shown}")


@app.command()
def predict(
    saved: Saved,
    inputs: Annotated[Path, typer.Argument(help="Rows as CSV, NPY or NPZ, or a text file.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: the terminal.")
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="After a text: how many next words.")] = 10,
    code: Factory = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Predict: probabilities and uncertainty of rows; perplexity and next words of a text.

    Example: sparsemble predict runs/digits examples/digits.csv
    """
    from sparsemble.ensemble import LanguageEnsemble
    from sparsemble.runs.opening import open_ensemble
    from sparsemble.runs.prediction import predict_rows, predict_text, rows_as_csv
    from sparsemble.store import write_atomically

    use_threads(threads)
    ensemble = open_ensemble(saved, code)
    if isinstance(ensemble, LanguageEnsemble):
        found = predict_text(ensemble, inputs, words)
        answer = as_text(asdict(found)) if as_json else f"{found.text()}\n"
    else:
        rows = predict_rows(ensemble, inputs)
        answer = as_text(rows) if as_json else rows_as_csv(rows)
    if out is None:
        print(answer, end="")
    else:
        write_atomically(out, answer.encode())


@app.command()
def sample(
    saved: Saved,
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
    from sparsemble.errors import InputError
    from sparsemble.runs.opening import open_ensemble

    ensemble = open_ensemble(saved)
    if not isinstance(ensemble, LanguageEnsemble):
        raise InputError(f"{saved} holds classifiers: text is drawn from language models")
    line = start.split()
    _, unknown = ensemble.vocabulary.encode(line, "--start")
    if unknown:
        progress_console().print(f"{unknown} words of --start are unknown: read as <unk>")
    for word in ensemble.generate(words, start=line, temperature=temperature, seed=seed):
        if word == END:
            print(" ".join(line))
            line = []
        else:
            line.append(word)
    if line:
        print(" ".join(line))
