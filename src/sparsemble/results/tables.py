"""Tables before they have a form: printed on a terminal, or put into a Markdown file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from sparsemble.errors import InputError
from sparsemble.store import read_text, write_text
from sparsemble.store.limits import JSON_BYTES

_ANY_WIDTH = 10_000


@dataclass(frozen=True)
class Table:
    """A table before it has a form."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As a Markdown table."""
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """For the terminal: a table, or one row after the other where that would be squeezed."""
        table = self._table()
        needed = Measurement.get(console, options.update(width=_ANY_WIDTH), table).minimum
        if needed <= options.max_width:
            yield table
            return
        yield Text(self.title, style="italic")
        for row in self.rows:
            yield Text(row[0], style="bold")
            record = RichTable.grid(padding=(0, 2))
            for name, cell in zip(self.header[1:], row[1:], strict=True):
                if cell.strip("–/ "):
                    record.add_row(name, cell)
            yield Padding(record, (0, 0, 0, 2), expand=False)

    def _table(self) -> RichTable:
        table = RichTable(title=self.title)
        for place, name in enumerate(self.header):
            texts = [row[place] for row in self.rows]
            # A number broken in two reads as another number.
            table.add_column(name, overflow="fold", no_wrap=all(len(text) < 12 for text in texts))
        for cells in self.rows:
            table.add_row(*cells)
        return table


def put_into(path: Path, name: str, tables: Sequence[Table]) -> None:
    """Replace what stands between the marks of a Markdown file by the tables."""
    text = read_text(path, JSON_BYTES)
    opening, closing = marks(name)
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise InputError(f"{path} lacks the marks {opening!r} and {closing!r}")
    write_text(path, f"{before}{begin}\n{block(tables)}\n{end}{after}")


def marks(name: str) -> tuple[str, str]:
    """Where the tables of an experiment begin and end in a Markdown file."""
    return f"<!-- results of {name} -->", f"<!-- end of results of {name} -->"


def block(tables: Sequence[Table]) -> str:
    """Tables with their titles, in Markdown."""
    return "\n".join(f"{table.title}\n\n{table.markdown()}\n" for table in tables)


def mean_and_deviation(values: Sequence[float], digits: int = 2) -> str:
    """`mean ± standard deviation`, the latter only if there is one."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"
