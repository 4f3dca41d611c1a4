"""Tables from files some rows at a time, whose columns are known: as long as one likes.

Only the columns that are asked for are kept. Types are found in each stretch of a CSV file by
itself, as Arrow finds them in a whole one; what a column has to hold is known, so that they come to
the same: a text among numbers is refused wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsemble.data.arrays import AT_ONCE, Archive
from sparsemble.data.opening import MOST_LINE, Opened, check_ending, seekable
from sparsemble.errors import InputError
from sparsemble.paths import named_in_utf8
from sparsemble.tables.encoding import TableEncoding
from sparsemble.tables.files import (
    ENDINGS,
    MISSING,
    check_different,
    in_a_line,
    names_in,
)
from sparsemble.tables.frames import as_frame, needed
from sparsemble.tables.headers import read_header

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame

Wanted = Callable[[list[str]], list[str]]
"""Which columns are kept, of those that a file has."""
_BLOCK = 1 << 20
"""Bytes of a CSV file that are looked at together, at least; a row may have as many."""
_HEADERS = 16
"""Rows as long as the first line that fit into a block, at least."""
_PARQUET_BUFFER = 1 << 18
_CELLS, _MOST_ROWS = 1 << 17, 1 << 13
"""That are looked at together: about so many, in no more rows."""
_MOST_COLUMNS = 1 << 20
"""Of an array."""


def read_frames(path: Path, columns: TableEncoding, *, targets: bool) -> Iterator[Frame]:
    """A table in a file or a pipe, some rows at a time.

    Args:
        path: What is read by its ending; a pipe without one by how it begins.
        columns: Those that were learned from: they must be there, and no unknown ones.
        targets: Are those of what is to be predicted wanted, too, as far as they are there?
    """
    check_ending(path, ENDINGS, "tables")
    needed("pyarrow")
    asked = {own.name for own in (*columns.columns, *(columns.targets if targets else ()))}

    def wanted(names: list[str]) -> list[str]:
        check_different(names, path)
        columns.check_names(names, str(path))
        return [name for name in names if name in asked]

    def from_csv(file: Opened, wanted: Wanted) -> Iterator[Any]:
        return _from_csv(file, wanted, columns.texts)

    readers = {".parquet": _from_parquet, ".npz": _from_npz}
    rows = 0
    with Opened(path) as file:
        ending = file.ending(ENDINGS, "tables")
        try:
            for table in readers.get(ending, from_csv)(file, wanted):
                if table.num_rows:
                    rows += table.num_rows
                    yield as_frame(table, str(path))
                    # Arrow keeps what it needed for one stretch, and takes more for the next.
                    needed("pyarrow").default_memory_pool().release_unused()
        except InputError:
            raise
        except Exception as error:  # damaged or foreign files raise what their layer raises
            kind = ending[1:].upper()
            raise InputError(f"{path} cannot be read as {kind}: {in_a_line(error)}") from None
    if not rows:
        raise InputError(f"{path}: no rows")


def _from_csv(file: Opened, wanted: Wanted, texts: Collection[str]) -> Iterator[Any]:
    arrow, csv, path = needed("pyarrow"), needed("pyarrow.csv"), file.path
    header = read_header(file)
    names = names_in(header.cells, path)
    kept = wanted(names)
    if not file.peek(1):
        return
    block = min(max(_HEADERS * header.length, _BLOCK), MOST_LINE)
    file.limit_lines(block)
    ragged: list[Any] = []

    def refused(row: Any) -> str:
        ragged.append(row)
        return "error"

    rows = 0
    try:
        for batch in csv.open_csv(
            arrow.PythonFile(file, mode="r"),
            csv.ReadOptions(column_names=names, block_size=block, use_threads=False),
            csv.ParseOptions(
                delimiter=header.mark, newlines_in_values=True, invalid_row_handler=refused
            ),
            csv.ConvertOptions(
                include_columns=kept,
                column_types=dict.fromkeys(names, arrow.binary()),
                null_values=MISSING,
                strings_can_be_null=True,
            ),
            memory_pool=arrow.system_memory_pool(),  # which gives back what is not needed
        ):
            for start in range(0, batch.num_rows, _MOST_ROWS):
                some = arrow.Table.from_batches([batch.slice(start, _MOST_ROWS)])
                yield _inferred(some, texts, path)
            rows += batch.num_rows
    except arrow.ArrowInvalid as error:
        raise _explained(error, ragged, rows, block, path) from None


def _explained(error: Exception, ragged: list[Any], rows: int, block: int, path: Path) -> Exception:
    """What Arrow says of a file, with the row."""
    if ragged:
        row = ragged[0]
        return InputError(
            f"{path} cannot be read as CSV: row {row.number} has {row.actual_columns} columns, not "
            f"{row.expected_columns}"
        )
    if "straddling" in str(error):
        return InputError(
            f"{path}: a row after row {rows} is longer than {block / (1 << 20):g} MiB, the most "
            "that one may have: is a quotation mark missing?"
        )
    return error


def _inferred(table: Any, texts: Collection[str], path: Path) -> Any:
    """Cells as what they are: texts where that is known, else whatever Arrow finds them to be."""
    arrow, csv = needed("pyarrow"), needed("pyarrow.csv")
    written = {}
    for name, cells in zip(table.column_names, table.columns, strict=True):
        try:
            written[name] = cells.cast(arrow.string())
        except arrow.ArrowInvalid:
            where = f"{path}: column {name!r}"
            raise InputError(f"{where} is not UTF-8: save the file as that") from None
    open_ = arrow.table({name: cells for name, cells in written.items() if name not in texts})
    if open_.num_columns:
        sink, pool = arrow.BufferOutputStream(), arrow.system_memory_pool()
        csv.write_csv(open_, sink, csv.WriteOptions(include_header=False), memory_pool=pool)
        content = sink.getvalue()
        found = csv.read_csv(
            arrow.BufferReader(content),
            csv.ReadOptions(
                column_names=open_.column_names, block_size=content.size + 1, use_threads=False
            ),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True),
            memory_pool=pool,
        )
        written |= {name: found[name] for name in open_.column_names}
    return arrow.table(written)


def _from_parquet(file: Opened, wanted: Wanted) -> Iterator[Any]:
    arrow = needed("pyarrow")
    seekable(file, file.path, "a Parquet file")
    given = needed("pyarrow.parquet").ParquetFile(
        named_in_utf8(file.path, "Arrow"), buffer_size=_PARQUET_BUFFER
    )
    kept = wanted(given.schema_arrow.names)
    many = min(max(_CELLS // max(len(kept), 1), AT_ONCE), _MOST_ROWS)
    for batch in given.iter_batches(many, columns=kept, use_threads=False):
        yield arrow.Table.from_batches([batch])


def _from_npz(file: Opened, wanted: Wanted) -> Iterator[Any]:
    """Every array is a column; of one with two dimensions each column is."""
    arrow, path = needed("pyarrow"), file.path
    file.limit_lines(None)
    archive = Archive(seekable(file, path, "an NPZ file"), str(path))
    arrays = {name: archive.array(name) for name in archive.names}
    for name, array in arrays.items():
        if len(array.shape) not in (1, 2) or max(array.shape[1:], default=0) > _MOST_COLUMNS:
            raise InputError(f"{path}: {name!r} of shape {array.shape} is not a column")
    if len({len(array) for array in arrays.values()}) > 1:
        odd = ", ".join(f"{len(array)} of {name!r}" for name, array in arrays.items())
        raise InputError(f"{path}: columns of different lengths ({odd})")
    named = [
        (own, (name, place))
        for name, array in arrays.items()
        for own, place in _columns_of(name, array.shape)
    ]
    check_different([own for own, _ in named], path)
    columns = dict(named)
    kept = wanted(list(columns))
    used = {columns[own][0]: arrays[columns[own][0]] for own in kept}
    streams = (array.parts(AT_ONCE) for array in used.values())
    for parts in zip(*streams, strict=True):
        found = dict(zip(used, parts, strict=True))
        places = {own: columns[own] for own in kept}
        yield arrow.table(
            {
                own: found[name] if place is None else found[name][:, place]
                for own, (name, place) in places.items()
            }
        )


def _columns_of(name: str, shape: tuple[int, ...]) -> list[tuple[str, int | None]]:
    """What the columns of an array are called, and which of its own they are."""
    if len(shape) == 1:
        return [(name, None)]
    return [(f"{name} {place}", place) for place in range(shape[1])]
