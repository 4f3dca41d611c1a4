"""Tables from files: CSV and Parquet as Arrow reads them, NPZ as NumPy does.

Several files are one table, their columns matched by name. In a CSV file the first line names the
columns, types are found in all rows, and a cell that is empty, NA, NaN or null is missing. Nothing
in these files can run code: pickled arrays are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsemble.data.opening import Opened
from sparsemble.data.rows import is_number
from sparsemble.errors import InputError
from sparsemble.paths import named_in_utf8
from sparsemble.tables.frames import as_frame, needed
from sparsemble.tables.headers import read_header

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame

ENDINGS = (".csv", ".tsv", ".parquet", ".npz")
"""Of files that hold tables."""
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"]
"""Cells of CSV files that hold nothing."""
_BLOCK = 1 << 20
_MOST = (1 << 31) - 1
"""Bytes that Arrow takes at once, at most."""


def read_frame(paths: Sequence[Path], texts: Collection[str] = ()) -> Frame:
    """The rows of all files as one table.

    Args:
        paths: Files, each by its ending.
        texts: Columns of CSV files that hold texts, whatever they look like.
    """
    if not paths:
        raise InputError("no files: a table is read from at least one")
    first, *others = [(path, _read(path, texts)) for path in paths]
    path, table = first
    for other, own in others:
        table = _joined(table, _matching(own, table.column_names, other, path), other, path)
    if table.num_rows == 0:
        raise InputError(f"{' and '.join(map(str, paths))}: no rows")
    return as_frame(table, str(path))


def _read(path: Path, texts: Collection[str]) -> Any:
    readers = {
        ".csv": lambda: _read_csv(path, texts),
        ".tsv": lambda: _read_csv(path, texts),
        ".parquet": lambda: (
            needed("pyarrow.parquet").ParquetFile(named_in_utf8(path, "Arrow")).read()
        ),
        ".npz": lambda: _read_npz(path),
    }
    chosen = readers.get(path.suffix.lower())
    if chosen is None:
        raise InputError(f"{path}: tables are read from {', '.join(readers)} files")
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    needed("pyarrow")
    try:
        table = chosen()
    except InputError:
        raise
    except Exception as error:  # damaged or foreign files raise what their layer raises
        kind = path.suffix[1:].upper()
        raise InputError(f"{path} cannot be read as {kind}: {in_a_line(error)}") from None
    check_different(table.column_names, path)
    return table


def check_different(names: list[str], path: Path) -> None:
    """Refuse two columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: two columns are called {twice!r}: give each its own name")


def _read_csv(path: Path, texts: Collection[str]) -> Any:
    arrow, csv = needed("pyarrow"), needed("pyarrow.csv")
    with Opened(path) as file:
        header = read_header(file)
    parse = csv.ParseOptions(delimiter=header.mark, newlines_in_values=True)
    # Arrow finds types in the first block, which therefore is the whole file.
    block = min(max(path.stat().st_size + 1, _BLOCK), _MOST)
    read = csv.ReadOptions(block_size=block, use_threads=False)
    convert = csv.ConvertOptions(
        null_values=MISSING,
        strings_can_be_null=True,
        column_types={name: arrow.string() for name in header.cells if name.strip() in texts},
    )
    table = csv.read_csv(named_in_utf8(path, "Arrow"), read, parse, convert)
    names = names_in(table.column_names, path)
    for name, field in zip(names, table.schema, strict=True):
        if arrow.types.is_binary(field.type):
            raise InputError(f"{path}: column {name!r} is not UTF-8: save the file as that")
    return table.rename_columns(names)


def names_in(header: Sequence[str], path: Path) -> list[str]:
    """What the columns of a CSV file are called, by its first line."""
    names = [name.strip() for name in header]
    if all(map(is_number, names)) and names != [str(place) for place in range(len(names))]:
        raise InputError(
            f"{path}: the first line holds numbers ({', '.join(names[:3])}, …): it must name the "
            "columns, which are matched by their names"
        )
    return [name or f"column {place}" for place, name in enumerate(names, start=1)]


def _read_npz(path: Path) -> Any:
    """Every array is a column; of one with two dimensions each column is."""
    found: dict[str, np.ndarray] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays:
            array = arrays[name]
            if array.ndim not in (1, 2):
                raise InputError(f"{path}: {name!r} of shape {array.shape} is not a column")
            own = {name: array}
            if array.ndim == 2:
                own = {f"{name} {k}": array[:, k] for k in range(array.shape[1])}
            check_different([*found, *own], path)
            found |= own
    lengths = {name: len(array) for name, array in found.items()}
    if len(set(lengths.values())) > 1:
        odd = ", ".join(f"{length} of {name!r}" for name, length in lengths.items())
        raise InputError(f"{path}: columns of different lengths ({odd})")
    return needed("pyarrow").table(found)


def _matching(table: Any, wanted: list[str], path: Path, first: Path) -> Any:
    """The same columns as the first file's, in its order."""
    for what, strange in (
        ("is missing, which {} has", [n for n in wanted if n not in table.column_names]),
        ("is one that {} does not have", [n for n in table.column_names if n not in wanted]),
    ):
        if strange:
            raise InputError(
                f"{path}: column {strange[0]!r} {what.format(first)} ({len(strange)} in all)"
            )
    return table.select(wanted)


def _joined(table: Any, other: Any, path: Path, first: Path) -> Any:
    """Both below each other, if each column holds the same in both."""
    arrow = needed("pyarrow")
    for mine, theirs in zip(table.schema, other.schema, strict=True):
        try:
            arrow.unify_schemas(
                [arrow.schema([mine]), arrow.schema([theirs])], promote_options="permissive"
            )
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            raise InputError(
                f"{path}: column {mine.name!r} holds {theirs.type}, and {mine.type} in {first}: "
                f"correct one of them, or name it in categories"
            ) from None
    return arrow.concat_tables([table, other], promote_options="permissive")


def in_a_line(error: Exception) -> str:
    """What an error says, without breaks."""
    return " ".join(str(error).split())
