"""Tables: columns with names, looked at, encoded as inputs, and matched by name ever after."""

from sparsemble.tables.columns import CategoryColumn, NumberColumn, TargetColumn
from sparsemble.tables.dataset import TableDataset
from sparsemble.tables.encoding import TableEncoding
from sparsemble.tables.files import read_frame
from sparsemble.tables.frames import as_frame, is_table
from sparsemble.tables.guessing import Choices
from sparsemble.tables.reading import made_of, read_table, table
from sparsemble.tables.streams import read_frames

__all__ = [
    "CategoryColumn",
    "Choices",
    "NumberColumn",
    "TableDataset",
    "TableEncoding",
    "TargetColumn",
    "as_frame",
    "is_table",
    "made_of",
    "read_frame",
    "read_frames",
    "read_table",
    "table",
]
