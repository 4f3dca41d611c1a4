"""Tables of any library as one: pandas, polars, Arrow, narwhals, or a dict of columns.

All of them become a narwhals `DataFrame`, so that there is one way to look at them. Narwhals and
pyarrow are imported when the first table comes; arrays and files of numbers need neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparsemble.errors import InputError

if TYPE_CHECKING:
    from narwhals import DataFrame

    Frame = DataFrame[Any]


def needed(module: str) -> Any:
    """A module that comes with the extra `tables`."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise InputError(
            f"tables need {package}, which is not installed: pip install 'sparsemble[tables]'"
        ) from None


def is_table(values: Any) -> bool:
    """Has it columns with names, as the tables of pandas, polars and Arrow do?

    >>> is_table([[1.0, 2.0]])
    False
    """
    kind = type(values)
    has_columns = hasattr(kind, "columns") or hasattr(kind, "column_names")
    interfaces = ("__arrow_c_stream__", "__dataframe__", "collect")
    return has_columns and any(hasattr(kind, name) for name in interfaces)


def as_frame(values: Any, source: str) -> Frame:
    """A table of any library as a narwhals one, its columns with different names.

    Args:
        values: The table, or a dict of columns.
        source: Where it comes from, for messages.
    """
    narwhals = needed("narwhals")
    if isinstance(values, Mapping):
        values = _from_columns(values, source)
    if not is_table(values):
        raise InputError(
            f"{source}: {type(values).__name__} is no table: give one of pandas, polars or Arrow, "
            "or a dict of columns"
        )
    try:
        frame = narwhals.from_native(values, pass_through=True)
        if isinstance(frame, narwhals.LazyFrame):
            frame = frame.collect()
        if not isinstance(frame, narwhals.DataFrame) and hasattr(values, "__arrow_c_stream__"):
            needed("pyarrow")
            frame = narwhals.from_arrow(values, backend="pyarrow")
        names = list(map(str, frame.columns))
    except InputError:
        raise
    except Exception as error:  # whatever a table of someone else's raises
        kind = type(values).__name__
        raise InputError(f"{source}: {kind} cannot be read as a table: {error}") from None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{source}: two columns are called {twice!r}: give each its own name")
    changed = {own: name for own, name in zip(frame.columns, names, strict=True) if own != name}
    found: Frame = frame.rename(changed) if changed else frame
    if list(found.columns) != names:
        raise InputError(f"{source}: columns are called {frame.columns}: give each a text as name")
    return found


def _from_columns(columns: Mapping[Any, Any], source: str) -> Any:
    """A dict of lists or arrays as an Arrow table."""
    try:
        return needed("pyarrow").table({str(name): own for name, own in columns.items()})
    except InputError:
        raise
    except Exception as error:  # columns of different lengths, values of several kinds, scalars
        raise InputError(
            f"{source}: not a table of columns ({error}): give every column as many values, all "
            "of one kind"
        ) from None
