"""Measures that are kept: a result file, and the table in docs/results.md made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from timing import Measure

from sparsemble.results.tables import Table, put_into
from sparsemble.runs.provenance import provenance
from sparsemble.store import read_json, write_json

FILE = Path("results") / "benchmarks.json"


def keep(root: Path, part: str, measures: Sequence[Measure]) -> None:
    """Replace the figures of one part, in the file and in docs/results.md."""
    path = root / FILE
    known: dict[str, Any] = read_json(path) if path.exists() else {}
    # Every side ran at its better number of threads, not at the one that is set now.
    origin = {key: value for key, value in provenance().items() if key != "threads"}
    known[part] = {"measures": list(map(asdict, measures)), "provenance": origin}
    write_json(path, known)
    put_into(root / "docs" / "results.md", "benchmarks", [table(known)])


def table(known: dict[str, Any]) -> Table:
    """The table of all that is kept."""
    rows = [
        (
            measure["label"],
            f"{measure['ours'] / measure['reference']:.2f}",
            "–" if measure["bound"] is None else f"{measure['bound']:.2f}",
        )
        for part in known.values()
        for measure in part["measures"]
    ]
    return Table("Ratios, on two cores", ("Measure", "Ratio", "Aim"), tuple(rows))
