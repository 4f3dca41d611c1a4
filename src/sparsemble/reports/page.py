"""The report of a run: its sections, in the order they are read, in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from sparsemble.pages.blocks import Section
from sparsemble.pages.document import document
from sparsemble.reports.facts import Facts, collect
from sparsemble.reports.pictures import write_pictures
from sparsemble.reports.sections.background import repeating
from sparsemble.reports.sections.beside import beside
from sparsemble.reports.sections.learning import stages, traces
from sparsemble.reports.sections.overview import advice, overview
from sparsemble.reports.sections.spending import spending
from sparsemble.reports.sections.structure import costs, patterns, spreads
from sparsemble.runs import RunFolder
from sparsemble.store import write_text


def write_report(
    run: Path,
    out: Path | None = None,
    data_folder: Path | None = None,
    *,
    samples_folder: Path | None = None,
    code: Sequence[str] = (),
    files: Sequence[Path] = (),
    pictures: Path | None = None,
) -> Path:
    """Explain a finished run in one HTML file.

    Args:
        run: Its folder.
        out: The file; by default `report.html` in that folder.
        data_folder: Where data sets lie.
        samples_folder: Where the samples lie, if runs share them.
        code: The user's own functions that the recipe may call.
        files: Files, or folders that hold them, which the recipe may read data from.
        pictures: A folder for the charts as files of their own.
    """
    target = out or RunFolder(run).report
    facts = collect(
        run,
        samples_folder=samples_folder,
        data_folder=data_folder,
        code=code,
        files=files,
        without=target,
    )
    write_text(target, page(facts))
    if pictures is not None:
        write_pictures(_sections(facts), pictures)
    return target


def page(facts: Facts) -> str:
    """The whole file."""
    summary, known = facts.summary, facts.background
    written_by = Markup("Written by sparsemble {} from <code>{}</code>")
    return document(
        f"{summary.recipe}, seed {summary.seed}: a sparse ensemble",
        _sections(facts),
        heading=summary.recipe,
        lead=summary.description,
        chips=[
            f"{summary.members} {summary.kind}" if summary.members > 1 else "one network",
            f"measured on {summary.measured_on}",
            f"seed {summary.seed}",
        ],
        footer=written_by.format(known.environment.get("sparsemble", ""), known.folder),
    )


def _sections(facts: Facts) -> list[Section]:
    found = [overview(facts)]
    if (compared := beside(facts.verdict, facts.result)) is not None:
        found.append(compared)
    found += [advice(facts), stages(facts), traces(facts), *facts.predictions]
    found.append(patterns(facts))
    if facts.spreads is not None:
        found.append(spreads(facts.spreads))
    found.append(costs(facts))
    if facts.training is not None:
        found.append(spending(facts.training, facts.summary.members))
    return [*found, repeating(facts)]
